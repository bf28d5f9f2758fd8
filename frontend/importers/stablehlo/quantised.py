# pyright: basic
"""
Quantised tensors: whole numbers that stand for (q - zero point) * scale.

Ops that move elements move the whole numbers; any other op is computed on the numbers that they
stand for, and its result is quantised. SOURCE: StableHLO specification, "Quantization
computations".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlc.frontend.importers.stablehlo.program import Kind, Op, Quantised, TensorKind
from mlc.frontend.importers.stablehlo.text import numpy_of

Array = Any
MOVING = frozenset({
    "reshape", "transpose", "slice", "concatenate", "broadcast_in_dim", "broadcast", "gather",
    "dynamic_slice", "dynamic_update_slice", "dynamic_reshape", "dynamic_broadcast_in_dim",
    "dynamic_gather", "real_dynamic_slice", "pad", "dynamic_pad", "reverse", "select", "while",
    "if", "case", "call", "constant", "optimization_barrier", "bitcast_convert",
    "get_dimension_size", "custom_call", "composite",
})  # fmt: skip


def is_quantised(kind: Kind) -> bool:
    """Whether it is a tensor of such numbers."""
    return isinstance(kind, TensorKind) and kind.quantised is not None


def computed(op: Op, operands: Sequence[Array], run: Callable[..., Sequence[Array]]) -> list[Array]:
    """The results of an op with such operands or results. `run`: computes a plain op."""
    plain = _plain_op(op)
    if op.name in ("uniform_quantize", "uniform_dequantize"):
        plain = replace(plain, name="convert")
    values = [_stands_for(x, kind) for x, kind in zip(operands, op.takes, strict=True)]
    return [_quantised(x, kind) for x, kind in zip(run(plain, values), op.kinds, strict=True)]


def _plain_op(op: Op) -> Op:
    """The op on the numbers that are stood for, and so are those in its regions."""
    return replace(
        op,
        kinds=tuple(map(_plain, op.kinds)),
        takes=tuple(map(_plain, op.takes)),
        regions=tuple(replace(r, ops=tuple(map(_plain_op, r.ops))) for r in op.regions),
    )


def _plain(kind: Kind) -> Kind:
    """The type of the numbers that are stood for."""
    if not isinstance(kind, TensorKind) or kind.quantised is None:
        return kind
    return TensorKind(kind.shape, kind.quantised.expressed)


def _along(numbers: Sequence[float], quantised: Quantised, rank: int, dtype: Any) -> Array:
    axis = quantised.axis
    shape = [-1 if a == axis else 1 for a in range(rank)] if axis is not None else []
    return np.array(numbers, dtype).reshape(shape)


def _stands_for(x: Array, kind: Kind) -> Array:
    if not isinstance(kind, TensorKind) or kind.quantised is None:
        return x
    q, dtype = kind.quantised, numpy_of(TensorKind((), kind.quantised.expressed))
    zeros = _along(q.zeros, q, x.ndim, np.int64)
    return (x.astype(np.int64) - zeros).astype(dtype) * _along(q.scales, q, x.ndim, dtype)


def _quantised(x: Array, kind: Kind) -> Array:
    if not isinstance(kind, TensorKind) or kind.quantised is None:
        return x
    q = kind.quantised
    whole = np.rint(x / _along(q.scales, q, x.ndim, x.dtype))
    moved = whole + _along(q.zeros, q, x.ndim, x.dtype)
    low, high = (np.array(n, x.dtype) for n in (q.least, q.most))
    return np.clip(moved, low, high).astype(numpy_of(kind))
