"""Block kernels that tests run: those of the lecture on Triton as they stand there, and others."""

# pyright: reportUnknownParameterType=false, reportMissingParameterType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false, reportOperatorIssue=false
# pyright: reportUnknownArgumentType=false, reportArgumentType=false

from __future__ import annotations

import mlc.block as triton
import mlc.block.language as tl


@triton.jit
def add_v1(z_ptr, x_ptr, y_ptr, N):
    # same as torch.arange
    offsets = tl.arange(0, 1024)
    # create 1024 pointers to X, Y, Z
    x_ptrs = x_ptr + offsets
    y_ptrs = y_ptr + offsets
    z_ptrs = z_ptr + offsets
    # load 1024 elements of X, Y, Z
    x = tl.load(x_ptrs)
    y = tl.load(y_ptrs)
    # do computations
    z = x + y
    # write-back 1024 elements of X, Y, Z
    tl.store(z_ptrs, z)


@triton.jit
def add_v2(z_ptr, x_ptr, y_ptr, N):
    # same as torch.arrange
    offsets = tl.arange(0, 1024)
    offsets += tl.program_id(0) * 1024
    # create 1024 pointers to X, Y, Z
    x_ptrs = x_ptr + offsets
    y_ptrs = y_ptr + offsets
    z_ptrs = z_ptr + offsets
    # load 1024 elements of X, Y, Z; the lecture's `offset` is a slip of the pen
    x = tl.load(x_ptrs, mask=offsets < N)
    y = tl.load(y_ptrs, mask=offsets < N)
    # do computations
    z = x + y
    # write-back 1024 elements of X, Y, Z
    tl.store(z_ptrs, z, mask=offsets < N)


@triton.jit
def softmax(z_ptr, x_ptr, stride, N, BLOCK: tl.constexpr):
    # Each program instance normalizes a row
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)

    # Load a row of row-major X to SRAM
    x_ptrs = x_ptr + row * stride + cols
    x = tl.load(x_ptrs, mask=cols < N, other=float("-inf"))

    # Normalization in SRAM, in FP32
    x = x.to(tl.float32)
    x = x - tl.max(x, axis=0)
    num = tl.exp(x)
    den = tl.sum(num, axis=0)
    z = num / den

    # Write-back to HBM
    tl.store(z_ptr + row * stride + cols, z, mask=cols < N)


@triton.jit
def scaled(z_ptr, x_ptr, n, alpha, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + at, mask=at < n, other=1.0)
    tl.store(z_ptr + at, tl.maximum(alpha * x, 0.0), mask=at < n)


@triton.jit
def layer_norm(z_ptr, x_ptr, w_ptr, b_ptr, n, eps, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    inside = cols < n
    x = tl.load(x_ptr + row * n + cols, mask=inside, other=0.0).to(tl.float32)
    mean = tl.sum(x, axis=0) / n
    d = tl.where(inside, x - mean, 0.0)
    var = tl.sum(d * d, axis=0) / n
    w = tl.load(w_ptr + cols, mask=inside)
    b = tl.load(b_ptr + cols, mask=inside)
    tl.store(z_ptr + row * n + cols, d * tl.rsqrt(var + eps) * w + b, mask=inside)


@triton.jit
def row_sums(z_ptr, x_ptr, n, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    total = tl.zeros((BLOCK,), dtype=tl.float32)
    for first in range(0, n, BLOCK):
        cols = first + tl.arange(0, BLOCK)
        total += tl.load(x_ptr + row * n + cols, mask=cols < n, other=0.0)
    tl.store(z_ptr + row, tl.sum(total, axis=0))


@triton.jit
def transposed(z_ptr, x_ptr, m, n, BM: tl.constexpr, BN: tl.constexpr):
    rows = tl.program_id(0) * BM + tl.arange(0, BM)
    cols = tl.program_id(1) * BN + tl.arange(0, BN)
    inside = (rows[:, None] < m) & (cols[None, :] < n)
    x = tl.load(x_ptr + rows[:, None] * n + cols[None, :], mask=inside)
    tl.store(z_ptr + cols[None, :] * m + rows[:, None], x, mask=inside)


@triton.jit
def product(
    a_ptr, b_ptr, c_ptr, M, N, K,
    stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
    BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr,
):  # fmt: skip
    pid = tl.program_id(axis=0)
    columns = tl.cdiv(N, BN)
    rm = (pid // columns) * BM + tl.arange(0, BM)
    rn = (pid % columns) * BN + tl.arange(0, BN)
    rk = tl.arange(0, BK)
    a_ptrs = a_ptr + (rm[:, None] * stride_am + rk[None, :] * stride_ak)
    b_ptrs = b_ptr + (rk[:, None] * stride_bk + rn[None, :] * stride_bn)
    acc = tl.zeros((BM, BN), dtype=tl.float32)
    for k in range(tl.cdiv(K, BK)):
        a_in = (rm[:, None] < M) & (rk[None, :] < K - k * BK)
        b_in = (rk[:, None] < K - k * BK) & (rn[None, :] < N)
        a = tl.load(a_ptrs, mask=a_in, other=0.0)
        b = tl.load(b_ptrs, mask=b_in, other=0.0)
        acc = tl.dot(a, b, acc)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    c = acc.to(c_ptr.dtype.element_ty)
    c_ptrs = c_ptr + stride_cm * rm[:, None] + stride_cn * rn[None, :]
    tl.store(c_ptrs, c, mask=(rm[:, None] < M) & (rn[None, :] < N))


@triton.jit
def gathered(z_ptr, table_ptr, index_ptr, n, width, BLOCK: tl.constexpr):
    at = tl.program_id(0)
    cols = tl.arange(0, BLOCK)
    row = tl.load(index_ptr + at)
    x = tl.load(table_ptr + row * width + cols, mask=cols < width, other=0.0)
    tl.store(z_ptr + at * width + cols, x, mask=(cols < width) & (at < n))


@triton.jit
def scattered(z_ptr, x_ptr, index_ptr, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    to = tl.load(index_ptr + at, mask=at < n)
    tl.store(z_ptr + to, tl.load(x_ptr + at, mask=at < n), mask=at < n)


@triton.jit
def positions(z_ptr, n, BLOCK: tl.constexpr):
    """Integers, comparisons, division, of positions and of numbers."""
    pid = tl.program_id(0)
    at = pid * BLOCK + tl.arange(0, BLOCK)
    odd = at % 2 == 1
    x = tl.where(odd, at * 3, -at) // 4 + (tl.num_programs(0) - pid)
    x = tl.where((at > 5) | (at == 3), x, x & 7)
    tl.store(z_ptr + at, x, mask=at < n)


@triton.jit
def positive(z_ptr, x_ptr, n, BLOCK: tl.constexpr):
    """A mask that depends on what was loaded; every other element, from the second on."""
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    x = tl.load(x_ptr + 2 * at + 1, mask=at < n, other=-1.0)
    tl.store(z_ptr + at, tl.sqrt(x), mask=(at < n) & (x > 0))
