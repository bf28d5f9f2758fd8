"""
What compiled code calls for factorisations and transforms that it does not compute itself: NumPy.

A callback takes the GIL, sees the kernel's memory as arrays and lets NumPy compute: about 10 us a
call on top of the routine's own time. Another one looks for LAPACK, which kernels call themselves.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.faults import LIBRARY_FAULTS

if TYPE_CHECKING:
    from mlc.dialects.tensor.library import Routine

Array = NDArray[Any]

_SIGNATURE = ctypes.CFUNCTYPE(
    ctypes.c_int64,
    *[ctypes.c_int64] * 2,
    *[ctypes.c_void_p] * 4,
    *[ctypes.c_int64] * 5,
)

OTHER_FAULT = len(LIBRARY_FAULTS)


def _array(address: int, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Array:
    """The memory at an address as an array."""
    count = prod(shape)
    if not count:
        return np.empty(shape, dtype)
    memory = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.ndarray(shape, dtype, memoryview(memory).cast("B"))


def call(routine: int, dtype: int, a: int, b: int, c: int, out: int, *sizes: int) -> int:
    """Runs a routine: 0, or the number of its fault. Nothing may be raised into native code."""

    def compute() -> None:
        from mlc.dialects.dtypes import DTYPES

        kind = DTYPES[dtype].numpy
        places = zip((a, b, c), operand_shapes(routine, sizes), strict=False)
        found = computed(routine, dtype, [_array(place, kind, shape) for place, shape in places])
        _array(out, found.dtype, found.shape)[...] = found

    return status_of(compute)


@lru_cache(maxsize=1)
def find_lapack() -> None:
    """LAPACK's routines for kernels, where a library of this process has them."""
    from mlc.runtime.lapack import lapack_addresses
    from mlc.runtime.support import support

    if (addresses := lapack_addresses()) is not None:
        support().bind_lapack(addresses)


def status_of(compute: Callable[[], None]) -> int:
    """0, or the number of the fault that a routine has met."""
    try:
        compute()
    except np.linalg.LinAlgError as error:
        text = str(error)
        return LIBRARY_FAULTS.index(text) + 1 if text in LIBRARY_FAULTS else OTHER_FAULT
    except KeyboardInterrupt:
        return 0  # the call's own interrupt counter has seen it: the entry stops at its next poll
    except BaseException:  # noqa: BLE001 - whatever it is, native code cannot raise it
        return OTHER_FAULT
    return 0


def operand_shapes(routine: int, sizes: Sequence[int]) -> list[tuple[int, ...]]:
    """Shapes of a routine's operands from the sizes that `mlc_par.library` passes."""
    _, row = _row(routine)
    batch, *matrices = sizes
    shapes = [tuple(matrices[:2]), tuple(matrices[2:]), ()]
    return [
        (batch, *shape[len(shape) - rank :]) for shape, rank in zip(shapes, row.cores, strict=False)
    ]


def computed(routine: int, dtype: int, arrays: Sequence[Array]) -> Array:
    """The result of a routine."""
    from mlc.dialects.dtypes import DTYPES
    from mlc.dialects.tensor.library import packed

    name, row = _row(routine)
    return packed(name, arrays, row.dtype(DTYPES[dtype]).numpy)


def _row(number: int) -> tuple[str, Routine]:
    """A routine's name and facts; the table is read when code first asks for a routine."""
    from mlc.dialects.tensor.library import ROUTINES

    return tuple(ROUTINES.items())[number]


@lru_cache(maxsize=1)
def _callbacks() -> tuple[Any, Any]:
    return _SIGNATURE(call), ctypes.CFUNCTYPE(None)(find_lapack)


def _address(callback: Any) -> int:
    return ctypes.cast(callback, ctypes.c_void_p).value or 0


def address() -> int:
    """The address of the callback that computes, which lives as long as the process."""
    return _address(_callbacks()[0])


def address_of_finder() -> int:
    """That of the callback which looks for LAPACK."""
    return _address(_callbacks()[1])
