"""
Kernels as Triton's users write them: a product with grouped tiles, rows in one block each, and
elementwise chains. Imported where Triton is installed, and nowhere else.
"""

# Triton reads the kernels' text, and has no types for what it finds there.
# pyright: basic, reportMissingImports=false, reportInvalidTypeForm=false, reportIndexIssue=false

import importlib
from typing import Any

import triton
import triton.language as tl
from triton.language.extra import libdevice

torch: Any = importlib.import_module("torch")

BLOCK = 1024  # elements of a block of an elementwise kernel
TILES = (
    (128, 256, 64, 3, 8), (128, 256, 64, 4, 8), (128, 128, 64, 4, 4), (128, 128, 64, 3, 8),
    (64, 256, 64, 4, 4), (64, 128, 64, 4, 4), (16, 128, 128, 5, 4), (16, 64, 256, 4, 4),
)  # fmt: skip
"""M, N, K, stages, warps: what `autotune` tries for each size."""


@triton.autotune(
    configs=[
        triton.Config(
            {"TILE_M": m, "TILE_N": n, "TILE_K": k}, num_stages=stages, num_warps=warps
        )
        for m, n, k, stages, warps in TILES
    ],
    key=["m", "n", "k"],
)  # fmt: skip
@triton.jit
def _product(
    a, b, out, m, n, k, a_m, a_k, b_k, b_n,
    TILE_M: tl.constexpr, TILE_N: tl.constexpr, TILE_K: tl.constexpr,
):  # fmt: skip
    """out[m, n] = sum_k a[m, k] b[k, n]; blocks take tiles in groups of eight rows of them."""
    block = tl.program_id(0)
    rows, columns = tl.cdiv(m, TILE_M), tl.cdiv(n, TILE_N)
    group = block // (8 * columns)
    height = min(rows - group * 8, 8)
    tile_m = group * 8 + (block % (8 * columns)) % height
    tile_n = (block % (8 * columns)) // height
    at_m = tile_m * TILE_M + tl.arange(0, TILE_M)
    at_n = tile_n * TILE_N + tl.arange(0, TILE_N)
    at_k = tl.arange(0, TILE_K)
    a_at = a + (at_m % m)[:, None] * a_m + at_k[None, :] * a_k
    b_at = b + at_k[:, None] * b_k + (at_n % n)[None, :] * b_n
    sums = tl.zeros((TILE_M, TILE_N), dtype=tl.float32)
    for step in range(tl.cdiv(k, TILE_K)):
        inside = at_k < k - step * TILE_K
        factor = tl.load(a_at, mask=inside[None, :], other=0.0)
        other = tl.load(b_at, mask=inside[:, None], other=0.0)
        sums = tl.dot(factor, other, sums)
        a_at += TILE_K * a_k
        b_at += TILE_K * b_k
    there = out + at_m[:, None] * n + at_n[None, :]
    inside = (at_m < m)[:, None] & (at_n < n)[None, :]
    tl.store(there, sums.to(out.dtype.element_ty), mask=inside)


def product(a: Any, b: Any) -> Any:
    """Of two matrices in any layout; sums in f32."""
    m, k, n = *a.shape, b.shape[1]
    out = torch.empty((m, n), dtype=a.dtype, device=a.device)

    def grid(tile: Any) -> tuple[int]:
        return (triton.cdiv(m, tile["TILE_M"]) * triton.cdiv(n, tile["TILE_N"]),)

    _product[grid](a, b, out, m, n, k, *a.stride(), *b.stride())
    return out


@triton.jit
def _softmax(x, out, n, BLOCK: tl.constexpr):
    """A block holds its row."""
    at = tl.arange(0, BLOCK)
    row = tl.program_id(0) * n
    values = tl.load(x + row + at, mask=at < n, other=-float("inf"))
    powers = tl.exp(values - tl.max(values, axis=0))
    tl.store(out + row + at, powers / tl.sum(powers, axis=0), mask=at < n)


def softmax(x: Any) -> Any:
    """Of rows of f32."""
    m, n = x.shape
    out = torch.empty_like(x)
    block = triton.next_power_of_2(n)
    _softmax[(m,)](x, out, n, BLOCK=block, num_warps=min(max(block // 512, 4), 32))
    return out


@triton.jit
def _add_multiply_add(a, b, c, d, out, n, BLOCK: tl.constexpr):
    """out = d + (a + b) c"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    added = tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside)
    value = tl.load(d + at, mask=inside) + added * tl.load(c + at, mask=inside)
    tl.store(out + at, value, mask=inside)


def add_multiply_add(a: Any, b: Any, c: Any, d: Any) -> Any:
    """d + (a + b) c of vectors."""
    out = torch.empty_like(a)
    n = a.numel()
    _add_multiply_add[(triton.cdiv(n, BLOCK),)](a, b, c, d, out, n, BLOCK=BLOCK)
    return out


@triton.jit
def _chain(x, out, n, BLOCK: tl.constexpr):
    """out = tanh(x) exp(-x²) + log1p(x²)"""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    value = tl.load(x + at, mask=inside)
    square = value * value
    result = libdevice.tanh(value) * tl.exp(-square) + libdevice.log1p(square)
    tl.store(out + at, result, mask=inside)


def chain(x: Any) -> Any:
    """tanh(x) exp(-x²) + log1p(x²) of a vector."""
    out = torch.empty_like(x)
    n = x.numel()
    _chain[(triton.cdiv(n, BLOCK),)](x, out, n, BLOCK=BLOCK)
    return out
