"""
From Python to IR: compile, tracing, NumPy names, transformations, and the errors a user reads.

Nothing here generates code or knows a machine; below it the pipeline is the only door.
"""
