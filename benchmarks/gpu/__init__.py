"""
mlc on a GPU beside cuBLAS and cuDNN through PyTorch, torch.compile and JAX, those of them that are
installed.

    python -m benchmarks.gpu [NAME …] [--peers torch,compile] [--rounds 15] [--json F] [--plot SVG]

Candidates take turns in random order within one process; between two calls 256 MiB are written, so
that level 2 holds nothing of theirs. Times are the device's (host's around a call that waits, for
JAX), medians. Results are compared with PyTorch's of float64 before anything is timed.
"""
