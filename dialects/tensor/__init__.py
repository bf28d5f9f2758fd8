"""The tensor level: pure ops on tensors, one class per op, all its facts on the class.

Nothing here knows how an op is compiled: no loops, no buffers, no machine. `registry.OPS` is the
only registration.
"""
