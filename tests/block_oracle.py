"""Block kernels program by program, on NumPy arrays: what `mlc.block` has to give."""
# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import itertools
from collections.abc import Callable
from types import FunctionType, SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np


class _Address:
    """Elements of an array's memory."""

    def __init__(self, flat: Any, at: Any = 0) -> None:
        self.flat, self.at = flat, np.asarray(at)
        self.dtype = SimpleNamespace(element_ty=flat.dtype)

    def __add__(self, other: Any) -> _Address:
        return _Address(self.flat, self.at + np.asarray(other))

    __radd__ = __add__

    def __getitem__(self, key: Any) -> _Address:
        return _Address(self.flat, self.at[key])


class _Block(np.ndarray):
    """An array with Triton's names."""

    def to(self, dtype: Any) -> _Block:
        """Converted."""
        return _block(self.astype(dtype))


def _block(x: Any) -> Any:
    return np.asarray(x).view(_Block)


def _load(address: _Address, mask: Any = None, other: Any = 0) -> Any:
    inside = np.broadcast_to(True if mask is None else mask, address.at.shape)
    at = np.where(inside, address.at, 0)
    found = np.where(inside, address.flat[at], np.asarray(other, address.flat.dtype))
    return _block(found.astype(address.flat.dtype))


def _store(address: _Address, value: Any, mask: Any = None) -> None:
    inside = np.broadcast_to(True if mask is None else mask, address.at.shape)
    address.flat[address.at[inside]] = np.broadcast_to(value, inside.shape)[inside]


def _dot(a: Any, b: Any, acc: Any = None) -> Any:
    made = np.asarray(a, np.float32) @ np.asarray(b, np.float32)
    return _block(made if acc is None else acc + made)


def _of(function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, axis=None, keep_dims=False: _block(
        function(np.asarray(x), axis=axis, keepdims=keep_dims).astype(x.dtype)
    )


def _language(position: tuple[int, ...], grid: tuple[int, ...]) -> SimpleNamespace:
    names = ("int1", "int8", "int16", "int32", "int64", "uint8", "float16", "float32", "float64")
    dtypes = {n: np.dtype("bool" if n == "int1" else n) for n in names}
    return SimpleNamespace(
        **dtypes,
        bfloat16=np.dtype(ml_dtypes.bfloat16),
        program_id=lambda axis: np.int32(position[axis] if axis < len(position) else 0),
        num_programs=lambda axis: grid[axis] if axis < len(grid) else 1,
        arange=lambda a, b: _block(np.arange(a, b, dtype=np.int32)),
        load=_load,
        store=_store,
        dot=_dot,
        sum=_of(np.sum),
        max=_of(np.max),
        min=_of(np.min),
        cdiv=lambda a, b: -(-a // b),
        static_range=range,
        zeros=lambda shape, dtype: _block(np.zeros(shape, dtype)),
        full=lambda shape, value, dtype: _block(np.full(shape, value, dtype)),
        where=lambda c, x, y: _block(np.where(c, x, y)),
        exp=np.exp, log=np.log, sqrt=np.sqrt, abs=np.abs, tanh=np.tanh,
        sigmoid=lambda x: 1 / (1 + np.exp(-x)),
        rsqrt=lambda x: 1 / np.sqrt(x),
        maximum=np.maximum, minimum=np.minimum,
    )  # fmt: skip


def run(kernel: Any, grid: tuple[int, ...], *args: Any, **kwargs: Any) -> None:
    """The launch, one program after the other."""
    function = kernel.function
    memory: dict[int, Any] = {}

    def given(value: Any) -> Any:
        if not isinstance(value, np.ndarray):
            return np.float32(value) if isinstance(value, float) else value
        flat = value.reshape(-1)
        assert np.shares_memory(flat, value) or not value.size
        return memory.setdefault(id(value), _Address(flat))

    bound = function.__globals__
    for position in itertools.product(*map(range, grid)):
        own = FunctionType(
            function.__code__, {**bound, "tl": _language(position, grid)}, function.__name__
        )
        with np.errstate(invalid="ignore"):
            own(*map(given, args), **{k: given(v) for k, v in kwargs.items()})
