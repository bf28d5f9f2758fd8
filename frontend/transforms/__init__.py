"""Functions of functions: derivatives, batching, checks, rules of a user's own."""
