"""`x.item()` and `x.tolist()`: elements as numbers of Python's, which take the other's dtype."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.dtypes import DType
from mlc.dialects.errors import ShapeError
from mlc.frontend.errors import ConcretizationError, located
from mlc.frontend.numpy.shaping import reshape
from mlc.frontend.numpy.values import convert, dtype_row, lift, result
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.tracer import Tracer

MAX_LISTED = 1000
"""Elements that `tolist` takes one by one; each is a value of the program."""

_ROWS = {"bool": np.bool_, "int": np.int64, "uint": np.int64, "float": np.float64}


def item(x: Tracer, *args: Any) -> Tracer:
    """The element at a place as a Python number; without a place, of an array of one element."""
    place = args[0] if len(args) == 1 else args or None
    if place is not None:
        element = x[place] if isinstance(place, tuple) else reshape(x, (-1,))[place]
    elif x.ndim and x.size != 1:
        raise located(
            ShapeError,
            f"can only convert an array of size 1 to a Python scalar; found {x.shape}.",
            remedy=f"Name the element: {name_of(x) or 'x'}.item(0).",
        )
    else:
        element = reshape(x, ()) if x.ndim else x
    made = result(convert(element.value, _row_of(element, "item()")))
    made.weak, made.origins = True, element.origins
    return made


def _row_of(x: Tracer, what: str) -> DType:
    if x.row.kind == "complex":
        return dtype_row(np.complex128)
    if x.row.numpy == np.uint64 or x.row.kind not in _ROWS:
        raise located(
            ConcretizationError,
            f"{what} of {x.row.numpy} is a Python number of more values than a traced one has.",
            remedy=f"Convert it first: {name_of(x) or 'x'}.astype(np.int64).",
        )
    return dtype_row(_ROWS[x.row.kind])


def tolist(x: Tracer) -> Any:
    """Nested lists of Python numbers."""
    if any(d.constant is None for d in x.dims) or int(x.size) > MAX_LISTED:
        raise located(
            ConcretizationError,
            f"tolist() of {x.row.numpy} {x.shape} would make each element a value of the program;"
            f" expected {MAX_LISTED:,} elements at most, in a size that is known.",
            remedy="Return the array, and call .tolist() on the result.",
        )
    return item(x) if not x.ndim else [tolist(lift(row)) for row in x]
