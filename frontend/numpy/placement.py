"""Writing at positions that arrays give, and at every so many-th element."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.create import IotaOp, SizeOp
from mlc.dialects.tensor.elementwise import AddOp, MulOp
from mlc.dialects.tensor.letters import ALPHABET
from mlc.dialects.tensor.scatter import ScatterOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import normal_axis
from mlc.frontend.numpy.values import convert, fitting, lift, number, result, spread
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer


def scattered(
    x: SSAValue, letters: str, indices: list[SSAValue], update: SSAValue, mode: str = "set"
) -> SSAValue:
    """`x` with `update` written where the index tensors say; letters as of the gather."""
    return here().emit(ScatterOp, x, *indices, update, mode=mode, letters=letters)


def stepped(x: SSAValue, axis: int, offset: Dim, step: int, part: SSAValue) -> SSAValue:
    """`x` with `part` written at offset, offset + step, … of an axis."""
    count = shape_of(part.type)[axis]
    kind = tensor_type(I64.ir, (count,))
    places = here().emit(IotaOp, axis=0, declared=kind)
    if step != 1:
        places = here().emit(MulOp, places, number(step, I64, (count,)))
    first = here().emit(SizeOp, dims=(offset,))
    places = here().emit(AddOp, places, spread(first, (count,)))
    word = ALPHABET[: len(shape_of(x.type))]
    letters = f"{word[:axis]}0{word[axis + 1 :]},{word[axis]}->{word}"
    return scattered(x, letters, [places], part)


@public(np.put_along_axis, writes=True)
def put_along_axis(arr: Any, indices: Any, values: Any, axis: Any) -> None:
    """arr[i, indices[i, k]] = values[i, k] for axis 1, and so for any other."""
    if not isinstance(arr, Tracer):
        message = "put_along_axis: the array exists before the call; it would be written only once."
        raise located(NotSupportedError, message, remedy="Write into a copy: y = x.copy().")
    x, index = arr, lift(indices)
    place = normal_axis(axis, x.ndim, "put_along_axis")
    if index.ndim != x.ndim:
        message = (
            f"put_along_axis: the array has {x.ndim} axes and the indices have {index.ndim};"
            " expected as many."
        )
        raise located(ShapeError, message)
    shape = tuple(index.dims[k] if k == place else d for k, d in enumerate(x.dims))
    word = ALPHABET[: x.ndim]
    letters = f"{word[:place]}0{word[place + 1 :]},{word}->{word}"
    new = spread(fitting(lift(values), x.row), shape)
    places = spread(convert(index.value, I64), shape)
    x.write(scattered(x.value, letters, [places], new))


MODES: dict[Any, str] = {
    np.add: "add",
    np.multiply: "mul",
    np.maximum: "max",
    np.minimum: "min",
}


def ufunc_at(ufunc: np.ufunc, x: Any, key: Any, new: Any = None) -> None:
    """ufunc.at(x, key, new): every element of `new` counts, also where positions are equal."""
    from mlc.frontend.numpy.writing import write_at

    if not isinstance(x, Tracer):
        message = f"{ufunc.__name__}.at: the array exists before the call."
        raise located(NotSupportedError, message, remedy="Write into a copy: y = x.copy().")
    mode = MODES.get(ufunc)
    if ufunc is np.subtract:
        mode, new = "add", -lift(new)
    if mode is None or new is None:
        message = f"numpy.{ufunc.__name__}.at is not supported yet on traced arrays."
        raise located(NotSupportedError, message)
    write_at(x, key, new, mode)


def placed_bins(counts: Dim, index: Tracer, weights: SSAValue) -> Tracer:
    """The sums of the weights per bin, with one more bin at the end for what is left out."""
    weight = result(weights)
    zeros = number(0, weight.row, (counts,))
    return result(scattered(zeros, "0,b->b", [convert(index.value, I64)], weights, "add"))
