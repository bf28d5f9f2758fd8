"""
NumPy's names: they record operations inside a compiled function, and compute outside.

Nothing here decides how something is computed; each function is a composition of tensor-level ops.
"""

from __future__ import annotations

from typing import NoReturn

import numpy as _numpy
from numpy import (
    bool_,
    dtype,
    e,
    finfo,
    float32,
    float64,
    iinfo,
    inf,
    int32,
    int64,
    nan,
    ndarray,
    newaxis,
    pi,
)

from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.contraction import (
    dot,
    einsum,
    inner,
    matmul,
    outer,
    tensordot,
    trace,
    vdot,
)
from mlc.frontend.numpy.creation import (
    arange,
    array,
    asarray,
    copy,
    empty,
    empty_like,
    eye,
    full,
    full_like,
    identity,
    linspace,
    ones,
    ones_like,
    tri,
    tril,
    triu,
    zeros,
    zeros_like,
)
from mlc.frontend.numpy.elementwise import (
    abs,  # noqa: A004 - NumPy's name
    absolute,
    add,
    astype,
    bitwise_and,
    bitwise_or,
    bitwise_xor,
    clip,
    divide,
    equal,
    exp,
    floor_divide,
    greater,
    greater_equal,
    invert,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    mod,
    multiply,
    negative,
    not_equal,
    positive,
    power,
    reciprocal,
    remainder,
    sign,
    sqrt,
    square,
    subtract,
    tanh,
    true_divide,
    where,
)
from mlc.frontend.numpy.indexing import getitem, setitem, take, take_along_axis, write_all
from mlc.frontend.numpy.reductions import all_ as all  # noqa: A004 - NumPy's name
from mlc.frontend.numpy.reductions import (
    amax,
    amin,
    argmax,
    argmin,
    average,
    count_nonzero,
    max,  # noqa: A004 - NumPy's name
    mean,
    min,  # noqa: A004 - NumPy's name
    ndim,
    prod,
    shape,
    size,
    std,
    sum,  # noqa: A004 - NumPy's name
    var,
)
from mlc.frontend.numpy.reductions import any_ as any  # noqa: A004 - NumPy's name
from mlc.frontend.numpy.shaping import (
    atleast_1d,
    broadcast_arrays,
    broadcast_to,
    column_stack,
    concat,
    concatenate,
    expand_dims,
    flip,
    hstack,
    matrix_transpose,
    moveaxis,
    ravel,
    ravel_copy,
    repeat,
    reshape,
    split,
    squeeze,
    stack,
    swapaxes,
    tile,
    transpose,
    vstack,
)

permute_dims, pow = transpose, power

_INTERNAL = {"getitem", "setitem", "write_all", "ravel_copy"}

__all__ = sorted(
    name for name in globals() if not name.startswith("_") and name not in _INTERNAL | {"annotations"}
)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> NoReturn:
    if name.startswith("_") or not hasattr(_numpy, name):
        raise AttributeError(f"mlc.numpy has no name {name!r}, and neither has NumPy")
    raise _NotYetError(name)


class _NotYetError(NotSupportedError, AttributeError):
    """A name of NumPy's that mlc.numpy has not got yet; hasattr() is False for it."""

    def __init__(self, name: str) -> None:
        plain = located(
            NotSupportedError,
            f"numpy.{name} is not supported yet by mlc.numpy.",
            remedy="Compute it with NumPy before the call and pass the result as an argument.",
        )
        super().__init__(str(plain))
        self.__dict__.update(plain.__dict__)
