"""
What can be said: the ops, types and attributes of every level, and the descriptions of machines.

Nothing here rewrites, lowers or runs a program: no passes, no LLVM, no device, no tracing.
"""
