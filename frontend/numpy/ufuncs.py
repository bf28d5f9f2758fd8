"""
What every ufunc has: the options dtype=, where= and out=, and the methods reduce, accumulate,
outer, reduceat and at.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.dialects.dtypes import BOOL
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend.errors import located
from mlc.frontend.numpy.registry import call_function, into
from mlc.frontend.numpy.values import (
    broadcast_shapes,
    check_casting,
    dtype_row,
    is_inexact,
    lift,
    number,
    result,
    spread,
    strong,
)
from mlc.frontend.trace.kinds import is_tuple
from mlc.frontend.trace.tracer import Tracer

_HARMLESS: dict[Any, float] = {np.arcsin: 0, np.arccos: 0, np.arctanh: 0, np.arccosh: 2}
"""What where= puts at places that are not computed, so that no derivative there is NaN; else 1."""


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A NumPy ufunc, or one of its methods, that met a traced array."""
    kwargs = dict(kwargs)
    if method == "__call__":
        return _call(ufunc, inputs, kwargs)
    if method == "at":
        from mlc.frontend.numpy.placement import ufunc_at

        return ufunc_at(ufunc, *inputs, **kwargs)
    if ufunc.nin != 2 or ufunc.nout != 1:
        message = f"{ufunc.__name__}.{method}: only functions of two arguments with one result."
        raise located(ShapeError, message)
    out = kwargs.pop("out", None)
    out = out[0] if is_tuple(out) else out
    if method == "outer":
        first, second = (strong(x) for x in inputs)
        wide = first.reshape((*first.shape, *(1 for _ in second.dims)))
        return _call(ufunc, (wide, second), {**kwargs, "out": out})
    from mlc.frontend.numpy import folds

    if method == "reduce":
        found = folds.reduce(ufunc, *inputs, out=out, **kwargs)
    elif method == "accumulate":
        found = folds.accumulate(ufunc, *inputs, **kwargs)
    else:
        found = folds.reduceat(ufunc, *inputs, **kwargs)
    return into(out, found, f"{ufunc.__name__}.{method}", "unsafe", exact=True)


def _call(ufunc: np.ufunc, inputs: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """A ufunc call with the options dtype=, where= and out= taken care of."""
    dtype, casting = kwargs.pop("dtype", None), kwargs.pop("casting", "same_kind")
    where, out = kwargs.pop("where", True), kwargs.pop("out", None)
    for name in ("order", "subok"):
        kwargs.pop(name, None)
    if len(inputs) > ufunc.nin:
        out, inputs = tuple(inputs[ufunc.nin :]), inputs[: ufunc.nin]
    places = out if is_tuple(out) else (out,)
    places = (*places, *(None for _ in range(ufunc.nout - len(places))))
    if dtype is not None:
        inputs = _converted(ufunc, inputs, dtype, casting)
    mask = None if where is True else _mask(where, ufunc.__name__)
    if mask is not None:
        harmless = _HARMLESS.get(ufunc, 1)
        inputs = [_only_where(mask, x, harmless) for x in inputs]
    found = call_function(ufunc, inputs, kwargs)
    parts = found if is_tuple(found) else (found,)
    if mask is not None:
        parts = tuple(_chosen(mask, x, o, casting) for x, o in zip(parts, places, strict=True))
    written = tuple(into(o, x, ufunc.__name__, casting) for x, o in zip(parts, places, strict=True))
    return written if is_tuple(found) else written[0]


def _mask(where: Any, function: str) -> Tracer:
    mask = lift(where, function)
    if mask.row is not BOOL:
        message = f"{function}: where= is {mask.row.numpy}; expected bool."
        raise located(DTypeError, message, remedy="Write where=(mask != 0).")
    return mask


def _only_where(mask: Tracer, x: Any, harmless: float) -> Any:
    """The operand, with another number where nothing is computed: derivatives there stay 0."""
    from mlc.frontend.numpy.elementwise import where

    operand = lift(x)
    if operand.weak or not is_inexact(operand.row):
        return x
    return where(mask, operand, harmless)


def _chosen(mask: Tracer, found: Tracer, out: Any, casting: Any) -> Tracer:
    """The result where the mask holds; elsewhere what out= has, 0 where nothing is said."""
    from mlc.frontend.numpy.elementwise import astype, where

    if out is None:
        return where(mask, found, result(number(0, found.row)))
    old = lift(out)
    if np.can_cast(found.row.numpy, old.row.numpy, casting):
        found = astype(found, old.row.numpy)
    return where(mask, found, old)


def _converted(ufunc: np.ufunc, inputs: Sequence[Any], dtype: Any, casting: str) -> list[Any]:
    """The operands in the dtype that the loop of a ufunc shall have."""
    from mlc.frontend.numpy.creation import asarray

    row, name = dtype_row(dtype, ufunc.__name__), ufunc.__name__
    operands = [lift(x, name) for x in inputs]
    loop = (*(None for _ in operands), *(row.numpy for _ in range(ufunc.nout)))
    try:
        ufunc.resolve_dtypes(
            (*(x.row.numpy for x in operands), *(None for _ in range(ufunc.nout))),
            signature=loop,
            casting="unsafe",
        )
    except TypeError:
        message = f"{name}: there is no loop with results of dtype {row.numpy}."
        raise located(DTypeError, message) from None
    check_casting(name, [x for x in operands if not x.weak], row, casting)
    return [asarray(x, dtype=row.numpy) for x in operands]


def masked(x: Tracer, where: Any, fill: Any, function: str) -> Tracer:
    """The operand of a reduction, with `fill` where the mask does not hold."""
    if where is True:
        return x
    from mlc.frontend.numpy.elementwise import where as choose

    mask = reduction_mask(x, where, function)
    return choose(mask, x, result(number(fill, x.row)))


def reduction_mask(x: Tracer, where: Any, function: str) -> Tracer:
    """where= of a reduction, in the operand's shape."""
    mask = _mask(where, function)
    if broadcast_shapes(function, (x.dims, mask.dims)) != x.dims:
        raise located(ShapeError, f"{function}: where= has more elements than the array.")
    return result(spread(mask.value, x.dims))
