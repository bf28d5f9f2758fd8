"""
mlc on a GPU beside cuBLAS and cuDNN through PyTorch, torch.compile, JAX and Triton, those of them
that are installed.

    python -m benchmarks.gpu [--only REGEX] [--peers torch,graph,…] [--rounds 15] [--seconds 540]
                             [--json F] [--plot SVG]
    python -m benchmarks.gpu --list

Candidates take turns in random order within one process; between two calls 256 MiB are written, so
that level 2 holds nothing of theirs. Inputs are random, and those of one workload at a time are in
memory. Times are the device's (the host's around a call that waits, for JAX, and around a hundred
training steps of the digits), medians. Results are compared with PyTorch's of float64 before
anything is timed (attention: float32, whose scores are not held). What is wrong is marked `!`, and
counts nowhere.

    torch    eager                            cudnn, flash   attention by that backend of PyTorch
    graph    eager, replayed as a CUDA graph  jax            jax.jit
    compile  torch.compile, max-autotune      triton         kernels of `triton_kernels.py`

Where calls are many launches (gradients, the block, the digits), all but `torch` and `jax` are
replayed as graphs. That of `compile` is recorded here: PyTorch's own would copy every argument.
"""
