"""A function of native code as a builtin that Python calls without a frame."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from mlc.runtime.layout import PYTHON

_METH_FASTCALL_KEYWORDS = 0x80 | 0x02


class _MethodDef(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char_p),
        ("function", ctypes.c_void_p),
        ("flags", ctypes.c_int),
        ("doc", ctypes.c_char_p),
    )


_method_defs: list[_MethodDef] = []
"""CPython reads the definition while the builtin dies, after its owner: 32 bytes each stay."""


def new_builtin(name: str, address: int, owner: object) -> Callable[..., Any]:
    """The function at an address (METH_FASTCALL | METH_KEYWORDS) as a builtin; keeps `owner`."""
    definition = _MethodDef(name.encode(), address, _METH_FASTCALL_KEYWORDS, None)
    _method_defs.append(definition)
    new = PYTHON.PyCFunction_NewEx
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p]
    return new(ctypes.addressof(definition), owner, None)
