"""Python's control flow on traced values: rewritten syntax, and what it does when it is traced."""
