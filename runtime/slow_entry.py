"""
The entry without native struct offsets: the shim's checks and steps in Python, through ctypes.

Used where `layout.layout_fault` finds a difference, and as what tests compare the shim with.
"""

from __future__ import annotations

import ctypes
from typing import TYPE_CHECKING

from mlc.dialects import abi
from mlc.dialects.signature import ArgSpec, EntrySignature, solve, solved

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from mlc.runtime.entry import EntryState

    Array = NDArray[np.generic]

NativeEntry = ctypes.CFUNCTYPE(ctypes.c_int32, *[ctypes.c_void_p] * 4)
"""An entry as a function of Python's: see dialects/abi.py."""

_PYTHON_TYPES: dict[str, type] = {"float": float, "int": int, "bool": bool}


class _NotTakenError(Exception):
    """The arguments are for the slow callable."""


def numpy_dtype(name: str) -> np.dtype[np.generic]:
    """NumPy's dtype of an IR dtype name."""
    from mlc.dialects.dtypes import named_dtype

    return named_dtype(name).numpy


class SlowEntry:
    """A callable that does what the shim does, about a hundred times slower."""

    def __init__(self, address: int, signature: EntrySignature, state: EntryState) -> None:
        self._signature = signature
        self._state = state
        self._steps = solve(signature)
        self._call = NativeEntry(address)

    def __call__(self, *args: object, **kwargs: object) -> object:
        """Run the entry, or the slow callable when it does not take the arguments."""
        try:
            arrays, sizes, symbols = self._checked(args, kwargs)
        except _NotTakenError:
            return self._state.slow(*args, **kwargs)
        self._state.count_call()
        return self._run(arrays, sizes, symbols)

    def _checked(
        self, args: tuple[object, ...], kwargs: dict[str, object]
    ) -> tuple[list[Array], list[int], dict[str, int]]:
        if kwargs or len(args) != len(self._signature.args):
            raise _NotTakenError
        specs = self._signature.args
        arrays = [_argument(spec, arg) for spec, arg in zip(specs, args, strict=True)]
        symbols = solved(self._steps, [x.shape for x in arrays])
        if symbols is None:
            raise _NotTakenError
        sizes = [symbols[symbol] for symbol in self._signature.symbols]
        for position, axis in self._signature.strided:
            stride, rest = divmod(arrays[position].strides[axis], arrays[position].itemsize)
            if rest:
                raise _NotTakenError
            sizes.append(stride)
        self._check_donations(arrays)
        return arrays, sizes, symbols

    def _check_donations(self, arrays: list[Array]) -> None:
        import numpy as np

        for donated, spec in enumerate(self._signature.args):
            for other, array in enumerate(arrays):
                apart = not spec.donated or other == donated
                if not apart and np.may_share_memory(arrays[donated], array):
                    raise _NotTakenError

    def _run(self, arrays: list[Array], sizes: list[int], symbols: dict[str, int]) -> object:
        import numpy as np

        outs = [
            arrays[spec.alias_of]
            if spec.alias_of is not None
            else np.empty([dim.evaluate(symbols) for dim in spec.shape], numpy_dtype(spec.dtype))
            for spec in self._signature.results
        ]
        with self._state.context() as ctx:
            status = self._call(
                ctx,
                _pointers([array.ctypes.data for array in arrays]),
                (ctypes.c_int64 * max(1, len(sizes)))(*sizes),
                _pointers([out.ctypes.data for out in outs]),
            )
            if status != abi.STATUS_OK:
                self._state.raise_from(status, ctx)
        results = [
            out if spec.dims or spec.alias_of is not None else out[()]
            for spec, out in zip(self._signature.results, outs, strict=True)
        ]
        if self._signature.as_tuple:
            return tuple(results)
        return results[0] if results else None


def _pointers(addresses: list[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)


def _argument(spec: ArgSpec, value: object) -> Array:
    import numpy as np

    dtype = numpy_dtype(spec.dtype)
    if spec.kind != "array":
        if type(value) is not _PYTHON_TYPES[spec.kind]:
            raise _NotTakenError
        try:
            with np.errstate(over="ignore"):
                wide = np.array(value, "int64") if spec.kind == "int" else np.array(value)
                narrow = wide.astype(dtype)
        except OverflowError:
            raise _NotTakenError from None
        if spec.kind == "int" and dtype.kind in "iu" and int(narrow) != value:
            raise _NotTakenError
        return narrow
    if type(value) is not np.ndarray:
        raise _NotTakenError
    flags = value.flags
    taken = (
        value.dtype.num == dtype.num
        and value.dtype.isnative
        and value.ndim == len(spec.dims)
        and flags.aligned
        and (spec.layout == "general" or flags.c_contiguous)
        and (flags.writeable or not spec.donated)
    )
    if not taken:
        raise _NotTakenError
    return value
