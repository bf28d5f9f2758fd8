# pyright: basic
"""Tensors of a graph as arrays of ours: element type, sizes that may be symbols, and order."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from importlib import import_module
from operator import add, mul
from typing import Any

import numpy as np

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import DTYPES
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.trace.symbolic import as_size
from mlc.lazy_dataclass import dataclass

_ROWS = {f"torch.{row.numpy.name}": row for row in DTYPES}
"""PyTorch's element types, which have NumPy's names, as ours."""


def dtype_name(dtype: Any) -> str | None:
    """Our name of PyTorch's element type; None where we have none."""
    row = _ROWS.get(str(dtype))
    return None if row is None else row.name


def numpy_dtype(dtype: Any) -> np.dtype[Any]:
    """NumPy's form of PyTorch's element type."""
    return _ROWS[str(dtype)].numpy


def dim_of(size: Any) -> Dim | None:
    """A size of a graph as a polynomial of symbols; None where it is none."""
    if isinstance(size, int):
        return Dim.const(size)
    expr = getattr(getattr(size, "node", None), "expr", None)
    return None if expr is None else _dim(expr)


def _dim(expr: Any) -> Dim | None:
    """A polynomial of SymPy's; `//` by a number is one of our atoms."""
    if expr.is_Integer:
        return Dim.const(int(expr))
    if expr.is_Symbol:
        return Dim.of(str(expr))
    parts = [_dim(part) for part in expr.args]
    if any(part is None for part in parts):
        return None
    if expr.is_Add or expr.is_Mul:
        return reduce(add if expr.is_Add else mul, parts)  # pyright: ignore[reportArgumentType]
    if expr.is_Pow and (power := parts[1].constant) is not None and power >= 0:  # pyright: ignore[reportOptionalMemberAccess]
        return reduce(mul, [parts[0]] * power, Dim.const(1))  # pyright: ignore[reportArgumentType]
    if type(expr).__name__ in ("FloorDiv", "CleanDiv"):
        return _quotient(parts[0], parts[1])  # pyright: ignore[reportArgumentType]
    return None


def _quotient(left: Dim, right: Dim) -> Dim | None:
    if (exact := left.exact_quotient(right)) is not None:
        return exact
    divisor = right.constant
    return left // divisor if divisor is not None and divisor > 0 else None


def hint_of(size: Any) -> int | None:
    """The size in the call that was traced."""
    if isinstance(size, int):
        return size
    node = size.node
    return None if node.hint is None else int(node.hint)


@dataclass(frozen=True)
class Form:
    """
    How a tensor lies in memory. `order`: its axes from the outermost to the innermost; `thin`:
    axes of stride 0. Where it is not `dense`, with gaps or overlaps, it is copied before a call.
    """

    dtype: str
    dims: Shape
    order: tuple[int, ...]
    thin: frozenset[int]
    dense: bool

    @property
    def spec(self) -> TensorSpec:
        """The array in memory, as an argument."""
        return TensorSpec(*self.memory, dtype=self.dtype)

    @property
    def memory(self) -> Shape:
        """The sizes of the array in memory; a number is an array of one element."""
        if not self.dims:
            return (Dim.const(1),)
        return tuple(Dim.const(1) if a in self.thin else self.dims[a] for a in self.order)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes as tracing knows them."""
        return tuple(as_size(dim) for dim in self.dims)

    def seen(self, array: Any) -> Any:
        """The tensor, of the array in memory."""
        found = array if self.dims else array.reshape(())
        if self.order != tuple(range(len(self.order))):
            found = found.transpose(tuple(np.argsort(self.order)))
        return np.broadcast_to(found, self.shape) if self.thin else found

    def laid(self, array: Any) -> Any:
        """The array in memory, of the tensor."""
        found = array if self.dims else array.reshape((1,))
        if self.thin:
            found = found[tuple(slice(0, 1) if a in self.thin else slice(None)
                                for a in range(len(self.dims)))]  # fmt: skip
        if self.order != tuple(range(len(self.order))):
            found = found.transpose(self.order)
        return found


def is_lazy(tensor: Any) -> bool:
    """Whether a tensor's memory is the conjugate of it, or the negative."""
    return tensor.is_neg() or tensor.is_conj()


def form_of(tensor: Any) -> Form | None:
    """The form of a tensor of a graph's meta data; None where we do not take such tensors."""
    torch = import_module("torch")
    name = dtype_name(tensor.dtype)
    known = tensor.device.type in ("cpu", "cuda")
    if name is None or tensor.layout is not torch.strided or not known:
        return None
    dims = [dim_of(size) for size in tensor.shape]
    hints = [hint_of(size) for size in tensor.shape]
    steps = [hint_of(step) for step in tensor.stride()]
    if any(x is None for x in (*dims, *hints, *steps)):
        return None
    if is_lazy(tensor) and 0 in steps:  # which it loses with the lazy part
        return None
    return _form(name, tuple(dims), hints, steps, [dim_of(step) for step in tensor.stride()])  # pyright: ignore[reportArgumentType]


def _form(
    name: str, dims: Shape, hints: Sequence[int], steps: Sequence[int], strides: Sequence[Any]
) -> Form:
    rank = len(dims)
    plain = tuple(range(rank))
    if 0 in hints:
        return Form(name, dims, plain, frozenset(), dense=True)
    single = [a for a in plain if dims[a].constant == 1]
    thin = frozenset(a for a in plain if steps[a] == 0 and a not in single)
    moving = [a for a in plain if a not in thin and a not in single]
    order = sorted(moving, key=lambda a: (-steps[a], a))
    expected, whole = 1, Dim.const(1)
    for a in reversed(order):
        said = strides[a] is None or strides[a] == whole
        if steps[a] != expected or not said:
            return Form(name, dims, plain, frozenset(), dense=False)
        expected, whole = expected * hints[a], whole * dims[a]
    if order == moving:  # the plain order: single axes may stand anywhere
        return Form(name, dims, plain, thin, dense=True)
    return Form(name, dims, (*sorted((*single, *thin)), *order), thin, dense=True)
