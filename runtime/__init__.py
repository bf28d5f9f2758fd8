"""
From text to numbers: LLVM text to object code, caches, buffers, threads, devices, the probe.

Nothing here knows an op, a pass or a level above LLVM IR text; it neither builds nor rewrites IR.
"""
