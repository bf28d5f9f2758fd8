"""
Block kernels: `mlc.block`, which programs written for Triton import in its place.

    import mlc.block as triton
    import mlc.block.language as tl

A kernel is traced once for all programs of its grid, whose axes stand before those of its blocks,
into the tensor level: no code is generated here, and no level is left out.
"""

from __future__ import annotations

from mlc.frontend.block import language
from mlc.frontend.block.language import cdiv
from mlc.frontend.block.launch import BlockKernel, block_kernel

jit = block_kernel
"""Triton's name."""


def next_power_of_2(n: int) -> int:
    """The smallest power of two that is not below n; blocks need none, they may have any length."""
    return 1 << max(n - 1, 0).bit_length()


__all__ = ["BlockKernel", "block_kernel", "cdiv", "jit", "language", "next_power_of_2"]
