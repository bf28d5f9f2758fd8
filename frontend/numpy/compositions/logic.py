"""Questions about elements: closeness, equality of arrays, membership, kinds of numbers."""

# pyright: reportOperatorIssue=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.frontend import numpy as mnp
from mlc.frontend.numpy.elementwise import truth
from mlc.frontend.numpy.python_numbers import item
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.values import broadcast_shapes, is_inexact, lift, strong
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


@composed(np.isclose)
def isclose(
    a: Operand, b: Operand, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Tracer:
    """|a - b| <= atol + rtol |b|, or equal; infinities are close to themselves only."""
    x, y = strong(a), strong(b)
    if y.row.kind in ("int", "uint"):  # NumPy computes with floats
        y = y.astype(np.float64)
    elif y.row.kind == "bool":
        y = y.astype(np.int8)
    with_bounds = mnp.less_equal(mnp.abs(x - y), atol + rtol * mnp.abs(y))
    close = with_bounds & mnp.isfinite(y) | mnp.equal(x, y)
    return close | (mnp.isnan(x) & mnp.isnan(y)) if equal_nan else close


@composed(np.allclose)
def allclose(
    a: Operand, b: Operand, rtol: Any = 1e-05, atol: Any = 1e-08, equal_nan: bool = False
) -> Tracer:
    """Whether all elements are close."""
    return item(mnp.all(isclose(a, b, rtol, atol, equal_nan)))


@composed(np.array_equal)
def array_equal(a1: Operand, a2: Operand, equal_nan: bool = False) -> Any:
    """Whether shapes and elements are equal."""
    x, y = strong(a1), strong(a2)
    if x.ndim != y.ndim or any(m != n for m, n in zip(x.shape, y.shape, strict=True)):
        return item(truth(False))
    same = mnp.equal(x, y)
    return item(mnp.all(same | (mnp.isnan(x) & mnp.isnan(y)) if equal_nan else same))


@composed(np.array_equiv)
def array_equiv(a1: Operand, a2: Operand) -> Any:
    """Whether the elements are equal when the shapes are broadcast."""
    from mlc.dialects.errors import ShapeError

    x, y = strong(a1), strong(a2)
    try:
        broadcast_shapes("array_equiv", (x.dims, y.dims))
    except ShapeError:
        return item(truth(False))
    return item(mnp.all(mnp.equal(x, y)))


@composed(np.isin)
def isin(
    element: Operand,
    test_elements: Operand,
    assume_unique: bool = False,
    invert: bool = False,
    *,
    kind: Any = None,
) -> Tracer:
    """Which elements are among the others: found by their place in order."""
    x, others = strong(element), mnp.ravel(strong(test_elements))
    size = others.dims[0].constant
    if size == 0:
        return mnp.full(x.shape, bool(invert), bool)
    if size is not None and size <= 10:
        found = mnp.any(mnp.equal(mnp.expand_dims(x, -1), others), axis=-1)
    else:
        row = np.result_type(x.dtype, others.dtype)
        x, others = x.astype(row), mnp.sort(others.astype(row))
        if size is None:  # there may be none
            ends = (mnp.searchsorted(others, x, side) for side in ("left", "right"))
            found = mnp.logical_and(mnp.less(*ends), mnp.equal(x, x))
            return mnp.logical_not(found) if invert else found
        place = mnp.minimum(mnp.searchsorted(others, x), others.shape[0] - 1)
        found = mnp.equal(mnp.take(others, place), x)
    return mnp.logical_not(found) if invert else found


def _of_floats(function: str, x: Operand) -> Tracer:
    from mlc.frontend.numpy.registry import refuse_complex

    refuse_complex(function, lift(x).row, "Take x.real or x.imag.")
    return lift(x)


@composed(np.isposinf)
def isposinf(x: Operand, out: Any = None) -> Tracer:
    """Where x is +inf."""
    return mnp.isinf(x) & ~mnp.signbit(_of_floats("isposinf", x))


@composed(np.isneginf)
def isneginf(x: Operand, out: Any = None) -> Tracer:
    """Where x is -inf."""
    return mnp.isinf(x) & mnp.signbit(_of_floats("isneginf", x))


@composed(np.isreal)
def isreal(x: Operand) -> Tracer:
    """Where the imaginary part is 0."""
    return mnp.equal(mnp.imag(strong(x)), 0)


@composed(np.iscomplex)
def iscomplex(x: Operand) -> Tracer:
    """Where the imaginary part is not 0."""
    return mnp.not_equal(mnp.imag(strong(x)), 0)


@composed(np.nan_to_num)
def nan_to_num(
    x: Operand, copy: bool = True, nan: Any = 0.0, posinf: Any = None, neginf: Any = None
) -> Tracer:
    """NaN and infinities replaced by numbers, those of largest size where none are given."""
    source = strong(x)
    if not is_inexact(source.row):
        found = mnp.copy(source)
    elif source.row.kind == "complex":
        parts = (nan_to_num(part, True, nan, posinf, neginf) for part in (source.real, source.imag))
        found = _joined(*parts)
    else:
        limits: Any = np.finfo(source.dtype)
        high, low = (
            (limits.max if posinf is None else posinf),
            (limits.min if neginf is None else neginf),
        )
        found = mnp.where(mnp.isnan(source), nan, source)
        found = mnp.where(isposinf(source), high, mnp.where(isneginf(source), low, found))
        found = found.astype(source.dtype)
    if copy or not isinstance(x, Tracer):
        return found
    return mnp.write_all(x, found, "nan_to_num")


def _joined(re: Tracer, im: Tracer) -> Tracer:
    from mlc.frontend.numpy.complexes import of_parts

    return of_parts(re, im)


@composed(np.real_if_close, but="numbers with an imaginary part that is not constant stay complex")
def real_if_close(a: Operand, tol: Any = 100) -> Tracer:
    """Real numbers as they are; whether complex ones are real only their values say."""
    from mlc.frontend.errors import NotSupportedError, located

    x = strong(a)
    if x.row.kind == "complex":
        message = "real_if_close: the dtype of the result depends on the data."
        raise located(NotSupportedError, message, remedy="Take x.real.")
    return x


@composed(np.angle)
def angle(z: Operand, deg: bool = False) -> Tracer:
    """The angle of complex numbers; of real ones 0, or pi of negative ones."""
    x = strong(z)
    real = x.real if x.row.kind == "complex" else x
    found = mnp.arctan2(mnp.imag(x), real)
    return found * (180 / np.pi) if deg else found


@composed(np.iterable)
def iterable(y: Any) -> bool:
    """Whether there is an axis to go along."""
    return bool(y.ndim) if isinstance(y, Tracer) else np.iterable(y)


@composed(np.isscalar)
def isscalar(element: Any) -> bool:
    """Whether it is a number: traced ones count as numbers where NumPy has them as scalars."""
    if not isinstance(element, Tracer):
        return np.isscalar(element)
    return element.weak or not (element.dims or element in here().inputs)


@composed(np.result_type)
def result_type(*arrays_and_dtypes: Any) -> np.dtype[Any]:
    """The dtype of the arrays together."""
    known = [
        (0.0 if x.row.kind == "float" else 0) if isinstance(x, Tracer) and x.weak else x
        for x in arrays_and_dtypes
    ]
    return np.result_type(*(x.dtype if isinstance(x, Tracer) else x for x in known))


@composed(np.common_type)
def common_type(*arrays: Any) -> type[Any]:
    """The floating type of the arrays together."""
    return np.common_type(*(np.empty(0, strong(x).dtype) for x in arrays))


@composed(np.can_cast)
def can_cast(from_: Any, to: Any, casting: Any = "safe") -> bool:
    """Whether the dtypes are converted by the rule."""
    first = from_.dtype if isinstance(from_, Tracer) else from_
    return np.can_cast(first, to, casting)


@composed(np.broadcast_shapes)
def broadcast_shapes_(*args: Any) -> tuple[Any, ...]:
    """The common shape."""
    from mlc.frontend.numpy.creation import shape_argument
    from mlc.frontend.trace.symbolic import as_size

    shapes = [shape_argument(shape, "broadcast_shapes") for shape in args]
    return tuple(map(as_size, broadcast_shapes("broadcast_shapes", shapes)))
