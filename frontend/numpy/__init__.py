# ruff: noqa: F401 - names of both elementwise modules stand in their __all__
"""
NumPy's names: they record operations inside a compiled function, and compute outside.

Nothing here decides how something is computed; each function is a composition of tensor-level ops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
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
from mlc.frontend.numpy import elementwise_math, elementwise_whole, fft, linalg
from mlc.frontend.numpy.complexes import conj, conjugate, imag, iscomplexobj, isrealobj, real
from mlc.frontend.numpy.complexes import own_conjugate as own_conjugate  # for Tracer
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
    ascontiguousarray,
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
from mlc.frontend.numpy.distinct import unique
from mlc.frontend.numpy.elementwise import (
    abs,  # noqa: A004 - NumPy's name
    absolute,
    add,
    astype,
    clip,
    divide,
    equal,
    exp,
    fabs,
    greater,
    greater_equal,
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
    multiply,
    negative,
    not_equal,
    positive,
    reciprocal,
    sqrt,
    square,
    subtract,
    tanh,
    true_divide,
    where,
)
from mlc.frontend.numpy.elementwise_math import (
    acos,
    acosh,
    arccos,
    arccosh,
    arcsin,
    arcsinh,
    arctan,
    arctan2,
    arctanh,
    around,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    cbrt,
    ceil,
    copysign,
    cos,
    cosh,
    deg2rad,
    degrees,
    erf,
    erfc,
    exp2,
    expm1,
    fix,
    float_power,
    floor,
    fmax,
    fmin,
    heaviside,
    hypot,
    lgamma,
    log1p,
    log2,
    log10,
    logaddexp,
    logaddexp2,
    nextafter,
    rad2deg,
    radians,
    rint,
    round,  # noqa: A004 - NumPy's name
    rsqrt,
    sigmoid,
    sign,
    signbit,
    sin,
    sinc,
    sinh,
    tan,
    trunc,
)
from mlc.frontend.numpy.elementwise_whole import (
    bits_as,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_not,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    divmod,  # noqa: A004 - NumPy's name
    floor_divide,
    fmod,
    invert,
    left_shift,
    mod,
    pow,  # noqa: A004 - NumPy's name
    power,
    remainder,
    right_shift,
)
from mlc.frontend.numpy.indexing import getitem as getitem  # for Tracer
from mlc.frontend.numpy.indexing import take, take_along_axis
from mlc.frontend.numpy.operating import operated as operated  # for Tracer
from mlc.frontend.numpy.padding import (
    append,
    diag,
    diagflat,
    diagonal,
    dynamic_slice,
    dynamic_update,
    fliplr,
    flipud,
    pad,
    repeat,
    roll,
    rot90,
    tril_indices,
    triu_indices,
)
from mlc.frontend.numpy.placement import put_along_axis
from mlc.frontend.numpy.positions import argwhere, flatnonzero, nonzero
from mlc.frontend.numpy.python_numbers import attribute_of as attribute_of  # for Tracer
from mlc.frontend.numpy.python_numbers import item as item  # for Tracer
from mlc.frontend.numpy.python_numbers import quotient_and_rest as quotient_and_rest  # for Tracer
from mlc.frontend.numpy.python_numbers import tolist as tolist  # for Tracer
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
from mlc.frontend.numpy.registry import Subscripted, implementation_of, subscript_of
from mlc.frontend.numpy.scans import (
    cumlogsumexp,
    cummax,
    cummin,
    cumprod,
    cumsum,
    cumulative_prod,
    cumulative_sum,
    diff,
)
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
    reshape,
    split,
    squeeze,
    stack,
    swapaxes,
    tile,
    transpose,
    vstack,
)
from mlc.frontend.numpy.shaping import (
    ravel_copy as ravel_copy,
)
from mlc.frontend.numpy.sorting import (
    argpartition,
    argsort,
    bincount,
    digitize,
    histogram,
    histogram_bin_edges,
    interp,
    median,
    partition,
    percentile,
    quantile,
    searchsorted,
    sort,
    top_k,
)
from mlc.frontend.numpy.writing import setitem as setitem
from mlc.frontend.numpy.writing import write_all as write_all

permute_dims = transpose

__all__ = [
    "abs",
    "absolute",
    "add",
    "all",
    "amax",
    "amin",
    "any",
    "append",
    "arange",
    "argmax",
    "argmin",
    "argpartition",
    "argsort",
    "argwhere",
    "array",
    "asarray",
    "ascontiguousarray",
    "astype",
    "atleast_1d",
    "average",
    "bincount",
    "bool_",
    "broadcast_arrays",
    "broadcast_to",
    "clip",
    "column_stack",
    "concat",
    "concatenate",
    "conj",
    "conjugate",
    "copy",
    "count_nonzero",
    "cumlogsumexp",
    "cummax",
    "cummin",
    "cumprod",
    "cumsum",
    "cumulative_prod",
    "cumulative_sum",
    "diag",
    "diagflat",
    "diagonal",
    "diff",
    "digitize",
    "divide",
    "dot",
    "dtype",
    "dynamic_slice",
    "dynamic_update",
    "e",
    "einsum",
    "empty",
    "empty_like",
    "equal",
    "exp",
    "expand_dims",
    "eye",
    "fabs",
    "fft",
    "finfo",
    "flatnonzero",
    "flip",
    "fliplr",
    "flipud",
    "float32",
    "float64",
    "full",
    "full_like",
    "greater",
    "greater_equal",
    "histogram",
    "histogram_bin_edges",
    "hstack",
    "identity",
    "iinfo",
    "imag",
    "inf",
    "inner",
    "int32",
    "int64",
    "interp",
    "iscomplexobj",
    "isfinite",
    "isinf",
    "isnan",
    "isrealobj",
    "less",
    "less_equal",
    "linalg",
    "linspace",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "max",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "moveaxis",
    "multiply",
    "nan",
    "ndarray",
    "ndim",
    "negative",
    "newaxis",
    "nonzero",
    "not_equal",
    "ones",
    "ones_like",
    "outer",
    "pad",
    "partition",
    "percentile",
    "permute_dims",
    "pi",
    "positive",
    "prod",
    "put_along_axis",
    "quantile",
    "ravel",
    "real",
    "reciprocal",
    "repeat",
    "reshape",
    "roll",
    "rot90",
    "searchsorted",
    "shape",
    "size",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "swapaxes",
    "take",
    "take_along_axis",
    "tanh",
    "tensordot",
    "tile",
    "top_k",
    "trace",
    "transpose",
    "tri",
    "tril",
    "tril_indices",
    "triu",
    "triu_indices",
    "true_divide",
    "unique",
    "var",
    "vdot",
    "vstack",
    "where",
    "zeros",
    "zeros_like",
]
__all__ += elementwise_math.__all__
__all__ += elementwise_whole.__all__


def __getattr__(name: str) -> Any:
    if name.startswith("_") or not hasattr(np, name):
        raise AttributeError(f"mlc.numpy has no name {name!r}, and neither has NumPy")
    numpys: Any = getattr(np, name)
    try:
        found = implementation_of(numpys)
    except TypeError:  # not hashable
        found = None
    if found is None and subscript_of(numpys) is not None:
        found = Subscripted(numpys)
    if found is None:
        raise _NotYetError(name)
    globals()[name] = found
    return found


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
