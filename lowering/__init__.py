"""
One level down: tensor to plan, plan to loops, loops to LLVM IR text for CPUs and GPUs; and tensor
to StableHLO text for other compilers.

Nothing here optimises a program that stays at its level (that is passes/), and nothing here
compiles, loads or runs the text it writes (that is runtime/).
"""
