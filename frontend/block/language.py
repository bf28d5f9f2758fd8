"""
The names of a block program: `import mlc.block.language as tl`.

They mean what Triton's names of the same spelling mean, for blocks of any length.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

import mlc.frontend.numpy as mnp
from mlc.dialects.dtypes import BF16, BOOL, F32, I32, numpy_dtype
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend.block import memory, operators, parts
from mlc.frontend.block.frame import frame
from mlc.frontend.block.memory import Pointer
from mlc.frontend.block.parts import Part
from mlc.frontend.block.product import product
from mlc.frontend.block.spans import Line, whole_region
from mlc.frontend.block.value import (
    Block,
    common_row,
    elementwise,
    is_whole_number,
)
from mlc.frontend.errors import NotSupportedError, located

int1 = np.dtype(np.bool_)
int8, int16, int32, int64 = map(np.dtype, (np.int8, np.int16, np.int32, np.int64))
uint8, uint16, uint32, uint64 = map(np.dtype, (np.uint8, np.uint16, np.uint32, np.uint64))
float16, float32, float64 = map(np.dtype, (np.float16, np.float32, np.float64))
bfloat16 = BF16.numpy


class constexpr:  # noqa: N801 - Triton's name
    """The annotation of parameters whose values are part of the program; `constexpr(5)` is 5."""

    def __new__(cls, value: Any) -> Any:
        return value


__all__ = [
    "abs",
    "arange",
    "bfloat16",
    "broadcast_to",
    "cast",
    "cdiv",
    "ceil",
    "constexpr",
    "cos",
    "dot",
    "exp",
    "exp2",
    "expand_dims",
    "float16",
    "float32",
    "float64",
    "floor",
    "fma",
    "full",
    "int1",
    "int16",
    "int32",
    "int64",
    "int8",
    "load",
    "log",
    "log2",
    "max",
    "max_contiguous",
    "maximum",
    "min",
    "minimum",
    "multiple_of",
    "num_programs",
    "program_id",
    "rsqrt",
    "sigmoid",
    "sin",
    "sqrt",
    "static_range",
    "store",
    "sum",
    "tanh",
    "uint16",
    "uint32",
    "uint64",
    "uint8",
    "where",
    "zeros",
]

# Where a program is


def program_id(axis: int) -> Block:
    """The program's position along an axis of the grid."""
    here = frame("tl.program_id")
    _check_axis("tl.program_id", axis, 3)
    return Block(here.grid, (), I32, line=here.position(axis))


def num_programs(axis: int) -> int:
    """The size of an axis of the grid."""
    _check_axis("tl.num_programs", axis, 3)
    return frame("tl.num_programs").size(axis)


def arange(start: int, end: int) -> Block:
    """start, start + 1, … before end: any number of them."""
    grid = frame("tl.arange").grid
    for name, value in (("start", start), ("end", end)):
        if not is_whole_number(value):
            message = f"tl.arange: {name} is {_said(value)}; expected a number"
            remedy = "The length of a block is part of the program: make it a tl.constexpr."
            raise located(DTypeError, message, remedy=remedy)
    if end <= start:
        raise located(ShapeError, f"tl.arange({start}, {end}) has no elements")
    steps = (*(0 for _ in grid), 1)
    return Block(grid, (int(end - start),), I32, line=Line(int(start), steps))


def static_range(*bounds: int) -> range:
    """Python's range: loops over it are written out."""
    return range(*bounds)


def cdiv(a: Any, b: Any) -> Any:
    """a / b, rounded up."""
    return (a + b - 1) // b if isinstance(a, Block) else -(-a // b)


# Memory


def load(
    pointer: Any, mask: Any = None, other: Any = None, boundary_check: Any = (), **hints: Any
) -> Block:
    """The elements at the addresses; `other`, or 0, where the mask is false."""
    _check_hints("tl.load", hints, boundary_check)
    return memory.load(pointer, mask, other)


def store(
    pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), **hints: Any
) -> None:
    """Writes the elements to the addresses where the mask is true, in the array's dtype."""
    _check_hints("tl.store", hints, boundary_check)
    memory.store(pointer, value, mask)


_HINTS = {"cache_modifier", "eviction_policy", "volatile", "padding_option"}


def _check_hints(what: str, hints: dict[str, Any], boundary_check: Any) -> None:
    if boundary_check:
        message = f"{what}: block pointers (boundary_check=) are not supported"
        raise located(NotSupportedError, message, remedy="Use addresses and mask=.")
    if unknown := sorted(hints.keys() - _HINTS):
        raise located(NotSupportedError, f"{what} has no argument {unknown[0]!r}")


# New blocks, shapes


def full(shape: Any, value: Any, dtype: Any) -> Block:
    """A block of one number."""
    grid = frame("tl.full").grid
    sizes = (shape,) if is_whole_number(shape) else tuple(shape)
    row = numpy_dtype(np.dtype(dtype))
    core = mnp.full((1,) * (len(grid) + len(sizes)), value, dtype=row.numpy)
    return Block(grid, sizes, row, Part(core, whole_region((*grid, *sizes))))


def zeros(shape: Any, dtype: Any) -> Block:
    """A block of zeros."""
    return full(shape, 0, dtype)


def broadcast_to(x: Block, shape: Any) -> Block:
    """The block repeated along axes of size 1."""
    return x.spread(tuple(shape))


def expand_dims(x: Any, axis: int) -> Any:
    """The block with a new axis of size 1."""
    rank = len(x.shape) + 1
    at = axis + rank if axis < 0 else axis
    return x[(*(slice(None),) * at, None)]


# Element by element


def _function(name: str, *, inexact: bool = True) -> Callable[[Any], Block]:
    function = getattr(mnp, name)

    def call(x: Any) -> Block:
        if inexact and isinstance(x, Block) and not x.row.is_inexact:
            message = f"tl.{name} of {x.row.name}; expected floating-point numbers"
            raise located(DTypeError, message, remedy="Convert it: x.to(tl.float32).")
        return elementwise(function, _block(f"tl.{name}", x))

    call.__name__, call.__doc__ = name, f"{name} of each element."
    return call


exp, exp2, log, log2 = (_function(name) for name in ("exp", "exp2", "log", "log2"))
sqrt, sin, cos, tanh = (_function(name) for name in ("sqrt", "sin", "cos", "tanh"))
floor, ceil = _function("floor"), _function("ceil")
abs = _function("abs", inexact=False)  # noqa: A001 - Triton's name


def rsqrt(x: Any) -> Block:
    """1 / sqrt of each element."""
    return operators.divide(1.0, sqrt(x))


def sigmoid(x: Any) -> Block:
    """1 / (1 + exp(-x)) of each element."""
    return operators.divide(1.0, operators.add(1.0, exp(operators.negative(x))))


def maximum(x: Any, y: Any) -> Block:
    """The larger of two; NaN where one is."""
    return elementwise(mnp.maximum, x, y, row=common_row(x, y))


def minimum(x: Any, y: Any) -> Block:
    """The smaller of two; NaN where one is."""
    return elementwise(mnp.minimum, x, y, row=common_row(x, y))


def fma(x: Any, y: Any, z: Any) -> Block:
    """x * y + z."""
    return x * y + z


def where(condition: Any, x: Any, y: Any) -> Block:
    """x where the condition holds, y elsewhere."""
    given = _block("tl.where", condition)
    chosen = [x, y]
    row = common_row(*chosen) if any(isinstance(v, Block) for v in chosen) else F32
    made = [v.to(row.numpy) if isinstance(v, Block) else row.numpy.type(v) for v in chosen]
    return elementwise(mnp.where, given.to(int1), *made)


def multiple_of(x: Any, values: Any) -> Any:
    """x: a hint that the compiler does not need."""
    return x


max_contiguous = multiple_of


def cast(x: Block, dtype: Any) -> Block:
    """The elements in another dtype."""
    return x.to(dtype)


# Along an axis


def _reduction(name: str) -> Callable[..., Block]:
    def call(x: Any, axis: int | None = None, keep_dims: bool = False) -> Block:
        given = _block(f"tl.{name}", x)
        if name == "sum" and given.row is BOOL:
            given = given.to(int32)
        axes = range(len(given.shape)) if axis is None else (axis,)
        for number in sorted(axes, reverse=True):
            _check_axis(f"tl.{name}", number, len(given.shape))
            given = _reduced(given, number % len(given.shape), name, keep_dims=keep_dims)
        return given

    call.__name__, call.__doc__ = name, f"The {name} along an axis, or of the whole block."
    return call


def _reduced(x: Block, axis: int, kind: str, *, keep_dims: bool) -> Block:
    made = parts.reduced(x.part, len(x.grid) + axis, x.sizes, kind)
    shape = (*x.shape[:axis], 1, *x.shape[axis + 1 :])
    block = Block(x.grid, shape, made.core.row, made).to(x.dtype)
    return block if keep_dims else block.without(axis)


sum, max, min = (_reduction(name) for name in ("sum", "max", "min"))  # noqa: A001 - Triton's names


def dot(a: Block, b: Block, acc: Block | None = None, **hints: Any) -> Block:
    """The matrix product of blocks (M, K) and (K, N); of 16-bit floats, in 32-bit ones."""
    if unknown := sorted(hints.keys() - {"input_precision", "allow_tf32", "out_dtype"}):
        raise located(NotSupportedError, f"tl.dot has no argument {unknown[0]!r}")
    made = product(a, b)
    return made if acc is None else operators.add(acc, made)


# Help


def _block(what: str, x: Any) -> Block:
    if isinstance(x, Block):
        return x
    if isinstance(x, Pointer):
        message = f"{what}: the operand is addresses of {x.name}"
        raise located(DTypeError, message, remedy="Load it first: tl.load(x_ptr + offsets).")
    return full((), x, F32 if isinstance(x, float) else np.asarray(x).dtype)


def _check_axis(what: str, axis: Any, rank: int) -> None:
    if not is_whole_number(axis) or not -rank <= axis < rank:
        message = f"{what}: axis {axis} of {rank}"
        raise located(ShapeError, message, remedy=f"Use 0 to {rank - 1}.")


def _said(value: object) -> str:
    return repr(value) if isinstance(value, Block) else type(value).__name__


def __getattr__(name: str) -> NoReturn:
    if name.startswith("__"):
        raise AttributeError(name)
    known = ", ".join(sorted(k for k in __all__ if k[0].islower()))
    message = f"tl.{name} is not supported in block kernels"
    raise located(NotSupportedError, message, remedy=f"Supported: {known}.")
