"""Derivatives of single ops by the passes, and points at which they exist."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp

from mlc.dialects.dtypes import C128, F64, DType, numpy_dtype
from mlc.dialects.tensor.library import LibraryOp
from mlc.passes.tensor.differentiate import DifferentiatePass
from tests.every_op.cases import Case
from tests.every_op.facts import around, op_of, values_of
from tests.every_op.native import Array
from tests.every_op.values import limits

Mode = Literal["reverse", "forward"]
RANGES = {
    "asin": (-0.9, 0.9),
    "acos": (-0.9, 0.9),
    "atanh": (-0.9, 0.9),
    "acosh": (1.1, 2.0),
    "share": (0.1, 0.9),
}
SYMMETRIC = ("cholesky", "eigh_lower", "eigh_upper", "eigvalsh_lower", "eigvalsh_upper")


def differentiable(case: Case) -> list[int]:
    """The operands with derivatives; none where the result has none."""
    if not op_of(case).dtype.is_inexact:
        return []
    return [k for k, x in enumerate(case.operands) if x.dtype.is_inexact]


def single(case: Case) -> ModuleOp:
    """A function of the case's op alone."""
    return around(case, lambda b, op, extra: [op.results[0]])


def derived(module: ModuleOp, mode: Mode, wrt: Sequence[int]) -> ModuleOp:
    """The derivative of the module's function, as the entry of a module."""
    whole = module.clone()
    DifferentiatePass(mode=mode, wrt=tuple(wrt)).apply(Context(), whole)
    *before, made = [op for op in whole.body.block.ops if isinstance(op, FuncOp)]
    for op in before:
        op.detach()
    made.arg_attrs = ArrayAttr([DictionaryAttr({}) for _ in made.args])
    made.attributes["mlc.entry"] = UnitAttr()
    return whole


def point(rng: np.random.Generator, case: Case) -> list[Array]:
    """Operands at which the op is smooth, away from ties and kinks."""
    drawn = case.draw(rng, {}, "contiguous")
    if case.op is LibraryOp:
        return [np.asarray(_symmetric(case, x)) for x in drawn]
    return [_smooth(rng, case, x) for x in drawn]


def _smooth(rng: np.random.Generator, case: Case, x: Array) -> Array:
    dtype = numpy_dtype(x.dtype)
    if not dtype.is_inexact:
        return x
    low, high = RANGES.get(case.op.name.removeprefix("mlc."), (0.5, 2.0))
    found = rng.uniform(low, high, x.shape)
    if dtype.kind == "complex":
        found = found + 1j * rng.uniform(0.5, 2.0, x.shape)
    return np.asarray(found).astype(x.dtype)


def _symmetric(case: Case, x: Array) -> Array:
    """Where a routine reads one triangle, both."""
    if case.label not in SYMMETRIC:
        return x
    return (x + np.conj(np.swapaxes(x, -1, -2))) / 2


def direction(rng: np.random.Generator, case: Case, x: Array) -> Array:
    """A tangent or cotangent like x."""
    found: Array = rng.standard_normal(x.shape)
    if x.dtype.kind == "c":
        found = found + 1j * rng.standard_normal(x.shape)
    matrix = case.op is LibraryOp and x.ndim > 2
    return np.asarray(_symmetric(case, found) if matrix else found).astype(x.dtype)


def pairing(xs: Sequence[Array], ys: Sequence[Array]) -> tuple[float, float]:
    """
    The real part of sum(x * y), which transposes keep, and the sum of the magnitudes of its terms.
    """
    products = [
        x.astype(np.clongdouble) * y.astype(np.clongdouble) for x, y in zip(xs, ys, strict=True)
    ]
    total = sum(float(np.sum(p.real)) for p in products)
    return total, sum(float(np.sum(np.abs(p))) for p in products)


def central(module: ModuleOp, at: Sequence[Array], by: Mapping[int, Array]) -> Array:
    """(f(x + h v) - f(x - h v)) / 2 h; nothing where f is infinite."""
    h = 1e-6
    ends = [
        values_of(module, [x + s * by[k] if k in by else x for k, x in enumerate(at)], {})[0]
        for s in (h, -h)
    ]
    with np.errstate(invalid="ignore"):
        return np.where(np.isfinite(ends[0]), (ends[0] - ends[1]) / (2 * h), 0)


def _floats(case: Case) -> list[DType]:
    found = [op_of(case).dtype, *(x.dtype for x in case.operands)]
    return [dtype for dtype in found if dtype.is_inexact]


def is_wide(case: Case) -> bool:
    """Whether all its floats are f64 or complex of f64: differences say something."""
    return all(dtype in (F64, C128) for dtype in _floats(case))


def eps_of(case: Case) -> float:
    """The largest distance of 1 from the next number among its dtypes."""
    return max(float(limits(dtype.part.numpy).eps) for dtype in _floats(case))
