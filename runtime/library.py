"""
What compiled code calls for factorisations and transforms: NumPy's own LAPACK and pocketfft.

Kernels import one symbol. It is a callback that takes the GIL, sees the kernel's memory as arrays
and lets NumPy compute: about 10 us a call on top of the routine's own time.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dtypes import DTYPES
from mlc.dialects.tensor.library import FAULTS, ROUTINES, packed

Array = NDArray[Any]

_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    *[ctypes.c_int64] * 2,
    *[ctypes.c_void_p] * 4,
    *[ctypes.c_int64] * 5,
)

OTHER_FAULT = len(FAULTS)
_TABLE = tuple(ROUTINES.items())


def _array(address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The memory at an address as an array."""
    count = prod(shape)
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray(shape, dtype, memoryview(memory).cast("B"))


def call(routine: int, dtype: int, a: int, b: int, c: int, out: int, *sizes: int) -> int:
    """Runs a routine: 0, or the number of its fault. Nothing may be raised into native code."""
    try:
        return _call(routine, dtype, (a, b, c), out, sizes)
    except np.linalg.LinAlgError as error:
        text = str(error)
        return FAULTS.index(text) + 1 if text in FAULTS else OTHER_FAULT
    except KeyboardInterrupt:
        return 0  # the call's own interrupt counter has seen it: the entry stops at its next poll
    except BaseException:  # noqa: BLE001 - whatever it is, native code cannot raise it
        return OTHER_FAULT


def _call(
    routine: int, dtype: int, addresses: tuple[int, ...], out: int, sizes: tuple[int, ...]
) -> int:
    name, row = _TABLE[routine]
    kind = DTYPES[dtype]
    batch, *matrices = sizes
    shapes = [tuple(matrices[:2]), tuple(matrices[2:]), ()]
    arrays = [
        _array(address, kind.numpy, (batch, *shape[len(shape) - rank :]))
        for address, shape, rank in zip(addresses, shapes, row.cores, strict=False)
    ]
    target = row.dtype(kind).numpy
    found = packed(name, arrays, target)
    _array(out, target, found.shape)[...] = found
    return 0


@lru_cache(maxsize=1)
def _callback() -> Callable[..., int]:
    return _SIGNATURE(call)


def address() -> int:
    """The address of the callback, which lives as long as the process."""
    return ctypes.cast(_callback(), ctypes.c_void_p).value or 0  # pyright: ignore[reportArgumentType]
