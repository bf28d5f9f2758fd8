"""
Addresses of tensors, read by native code: through DLPack's exchange API, where their class has it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlc.dialects import abi
from mlc.runtime import jit
from mlc.runtime.layout import PYTHON, function_address, layout_fault
from mlc.runtime.objects import object_of
from mlc.runtime.probe import host_target

_MAJOR = 1  # of DLPack: another one has another table
_DESCRIBE = 40  # bytes before `dltensor_from_py_object_no_sync` in the table
_NAME = b"dlpack_exchange_api"
_READ = "mlc_addresses"


class Addresses:
    """Reads the addresses of tensors of a class and of its subclasses."""

    def __init__(self, kind: type, describe: int) -> None:
        self._class, self._describe = id(kind), describe
        self._read = _code()[1]

    def __call__(self, tensors: list[Any], words: int) -> None:
        """Stores the addresses from the address `words` on; what the class raises is raised."""
        count = len(tensors)
        if self._read(tensors, count, self._class, self._describe, words) != count:
            raise TypeError("a list of tensors has something else in it")


def addresses_of(kind: type) -> Addresses | None:
    """For a class; None where it has no exchange API of the version that is known here."""
    capsule = getattr(kind, "__dlpack_c_exchange_api__", None)
    if capsule is None or layout_fault() is not None:
        return None
    get_pointer, is_valid = PYTHON.PyCapsule_GetPointer, PYTHON.PyCapsule_IsValid
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = is_valid.argtypes = [ctypes.py_object, ctypes.c_char_p]
    if not is_valid(capsule, _NAME):
        return None
    table: int = get_pointer(capsule, _NAME)
    if ctypes.c_uint32.from_address(table).value != _MAJOR:
        return None
    return Addresses(kind, ctypes.c_size_t.from_address(table + _DESCRIBE).value)


@lru_cache(maxsize=1)
def _code() -> tuple[jit.LoadedCode, Callable[..., int]]:
    """The code, which stays, and its function."""
    text = Path(__file__).with_name("tensors.ll").read_text()
    text = text.replace("OBJECT_TYPE", str(abi.OBJECT_TYPE))
    names = ("PyList_GetItem", "PyType_IsSubtype")
    code = jit.load(
        [object_of(text, host_target()).image],
        imports={name: function_address(getattr(PYTHON, name)) for name in names},
        exports=(_READ,),
    )
    function = ctypes.PYFUNCTYPE(
        ctypes.c_int64, ctypes.py_object, ctypes.c_int64, *[ctypes.c_void_p] * 3
    )
    return code, function(code.address(_READ))
