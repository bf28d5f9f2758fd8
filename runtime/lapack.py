"""Where LAPACK lies in this process: in the library that NumPy, SciPy or the program has loaded."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from pathlib import Path

from mlc.dialects.abi import LAPACK
from mlc.runtime.layout import function_address

_FILE = re.compile(r"\S+/lib[^/\s]*(?:openblas|lapack|blis|mkl_rt|armpl)[^/\s]*\.so[^/\s]*$", re.M)
_SPELLED = ("scipy_{}_64_", "{}_64_", "scipy_{}_", "{}_")
"""
How a library spells a routine: NumPy's wheels, OpenBLAS with long integers, SciPy's wheels, and
everybody else. Integers of 32 bits are the lower halves of ours.
"""


def lapack_addresses() -> tuple[int, ...] | None:
    """The address of each of `LAPACK`; None where no loaded library has them all."""
    found = lapack_library()
    return None if found is None else found[1]


def lapack_library() -> tuple[str, tuple[int, ...]] | None:
    """The name of the library's file as well."""
    for library in _loaded():
        for spelled in _SPELLED:
            found = [getattr(library, spelled.format(name), None) for name in LAPACK]
            if None not in found:
                return Path(library._name).name, tuple(function_address(x) for x in found)
    return None


def _loaded() -> Iterator[ctypes.CDLL]:
    """Libraries of this process that may have LAPACK, NumPy's first."""
    try:
        maps = Path("/proc/self/maps").read_text()
    except OSError:
        return
    paths = dict.fromkeys(_FILE.findall(maps))
    for path in sorted(paths, key=lambda path: "numpy" not in path):
        try:
            yield ctypes.CDLL(path)
        except OSError:
            continue
