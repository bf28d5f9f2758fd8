"""A call of a native entry that notices what is written outside its results."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects import abi
from mlc.dialects.dtypes import named_dtype
from mlc.dialects.signature import BindSymbol, EntrySignature, solve
from mlc.runtime.entry import EntryState

Array = NDArray[Any]

ZONE_BYTES = 256  # on each side of a result: more than the widest tile writes at once
FILL = 0xA5


class GuardedEntry:
    """The entry at `address`, called on arrays that fit `signature`."""

    def __init__(self, address: int, signature: EntrySignature, state: EntryState) -> None:
        self._signature = signature
        self._state = state
        self._steps = solve(signature)
        pointers = [ctypes.c_void_p] * 4
        self._call = ctypes.CFUNCTYPE(ctypes.c_int32, *pointers)(address)

    def set_threads(self, count: int) -> None:
        """How many threads a call has from now on."""
        self._state.set_threads(count)

    def __call__(self, *arrays: Array) -> tuple[Array, ...]:
        """The results; AssertionError if a byte beside one of them has changed."""
        sizes = self._bound(arrays)
        zones, results = self._results(sizes)
        numbers = [sizes[symbol] for symbol in self._signature.symbols]
        for position, axis in self._signature.strided:
            numbers.append(arrays[position].strides[axis] // arrays[position].itemsize)
        starts = [zone.ctypes.data + ZONE_BYTES for zone in zones]
        with self._state.context() as ctx:
            status = self._call(
                ctx,
                _pointers([x.ctypes.data for x in arrays]),
                (ctypes.c_int64 * max(1, len(numbers)))(*numbers),
                _pointers(starts),
            )
            if status != abi.STATUS_OK:
                offsets = (abi.CTX_ERROR_SITE, abi.CTX_ERROR_VALUE, abi.CTX_ERROR_EXTENT)
                error = [ctypes.c_int64.from_address(ctx + at).value for at in offsets]
                self._state.raise_status(status, *error)
        for number, zone in enumerate(zones):
            beside = np.concatenate([zone[:ZONE_BYTES], zone[-ZONE_BYTES:]])
            assert (beside == FILL).all(), f"bytes beside result {number} were written"
        return results

    def _bound(self, arrays: Sequence[Array]) -> dict[str, int]:
        """The symbols' values, which fit every argument."""
        specs = self._signature.args
        assert len(arrays) == len(specs)
        found: dict[str, int] = {}
        for step in self._steps:
            if isinstance(step, BindSymbol):
                size = arrays[step.arg].shape[step.axis]
                found[step.symbol] = (size - step.offset.evaluate(found)) // step.scale
        for spec, x in zip(specs, arrays, strict=True):
            assert x.dtype == named_dtype(spec.dtype).numpy
            assert x.shape == tuple(d.evaluate(found) for d in spec.shape)
            assert spec.layout == "general" or x.flags.c_contiguous
        return found

    def _results(self, sizes: dict[str, int]) -> tuple[list[Array], tuple[Array, ...]]:
        """Memory with a zone on each side, and the results inside it."""
        zones: list[Array] = []
        results: list[Array] = []
        for spec in self._signature.results:
            dtype = named_dtype(spec.dtype).numpy
            shape = [d.evaluate(sizes) for d in spec.shape]
            count = int(np.prod(shape)) * dtype.itemsize
            zone = np.full(count + 2 * ZONE_BYTES, FILL, np.uint8)
            zones.append(zone)
            results.append(zone[ZONE_BYTES : ZONE_BYTES + count].view(dtype).reshape(shape))
        return zones, tuple(results)


def _pointers(addresses: Sequence[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(1, len(addresses)))(*addresses)
