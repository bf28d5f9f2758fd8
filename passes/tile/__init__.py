"""The tile level: what a schedule says, what it moves and takes, and which one is chosen."""
