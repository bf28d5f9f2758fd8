"""What passes and lowering ask of a program: accesses, aliases, axes; nothing here rewrites."""
