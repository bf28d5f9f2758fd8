# pyright: reportPrivateUsage=false
"""
Addresses and struct offsets of CPython and NumPy that native entries rely on, and their self-test.

The offsets (dialects/abi.py) are those of CPython 3.11 to 3.14 and NumPy 2. `layout_fault` checks
them on live objects; where one differs (a free-threaded build, say) entries run through
runtime/slow_entry.py instead.
"""

from __future__ import annotations

import ctypes
import sys
from functools import lru_cache

from mlc.dialects import abi

# Indices in NumPy's C-API table. SOURCE: numpy/_core/include/numpy/__multiarray_api.h, frozen ABI.
_ARRAY_TYPE, _ARRAY_RETURN, _ARRAY_NEW, _SET_HANDLER = 2, 76, 93, 304

_PYTHON_FUNCTIONS = (
    "PyObject_Vectorcall",
    "PyObject_CallFunction",
    "PyLong_AsLongLongAndOverflow",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "PyThread_get_thread_ident",
    "PyErr_Clear",
    "PyErr_NoMemory",
    "Py_IncRef",
    "Py_DecRef",
)


PYTHON = ctypes.PyDLL(None)
"""The interpreter's C API; not ctypes.pythonapi, whose argument types other libraries set too."""


def function_address(function: object) -> int:
    """The address of a ctypes foreign function."""
    address = ctypes.cast(function, ctypes.c_void_p).value  # pyright: ignore[reportArgumentType]
    assert address is not None
    return address


@lru_cache(maxsize=1)
def python_symbols() -> dict[str, int]:
    """Symbol -> address of what native code uses of CPython and NumPy."""
    from numpy._core import _multiarray_umath  # pyright: ignore[reportAttributeAccessIssue, reportUnknownVariableType]

    get_pointer = PYTHON.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    capsule: object = _multiarray_umath._ARRAY_API  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    table = (ctypes.c_void_p * (_SET_HANDLER + 1)).from_address(get_pointer(capsule, None))
    symbols = {name: function_address(getattr(PYTHON, name)) for name in _PYTHON_FUNCTIONS}
    for name, index in (
        ("PyArray_Type", _ARRAY_TYPE),
        ("PyArray_Return", _ARRAY_RETURN),
        ("PyArray_New", _ARRAY_NEW),
        ("PyDataMem_SetHandler", _SET_HANDLER),
    ):
        address = table[index]
        assert address is not None
        symbols[name] = address
    # CPython's id() is the address; runtime/layout.layout_fault has checked that it is
    symbols |= {
        "PyFloat_Type": id(float),
        "PyLong_Type": id(int),
        "PyBool_Type": id(bool),
        "_Py_TrueStruct": id(True),
        "_Py_NoneStruct": id(None),
    }
    return symbols


def _read(type_: type[ctypes._SimpleCData[int]], address: int) -> int:
    return type_.from_address(address).value


@lru_cache(maxsize=1)
def layout_fault() -> str | None:
    """The first offset that does not hold in this process; None when native entries can be used."""
    if sys.implementation.name != "cpython":
        return f"the interpreter is {sys.implementation.name}, not CPython"
    import numpy as np

    array = np.arange(12, dtype=np.float32).reshape(3, 4)[::2]
    at = id(array)
    pointer = ctypes.c_size_t
    strides = _read(pointer, at + abi.ARRAY_STRIDES)
    dimensions = _read(pointer, at + abi.ARRAY_DIMENSIONS)
    if _read(pointer, at + abi.OBJECT_TYPE) != id(np.ndarray):
        return "ob_type of an object is elsewhere (a free-threaded or debug build of CPython?)"
    descr = id(array.dtype)
    facts = {
        "ndarray.data": (
            _read(pointer, at + abi.ARRAY_DATA),
            array.__array_interface__["data"][0],
        ),
        "ndarray.nd": (_read(ctypes.c_int32, at + abi.ARRAY_NDIM), 2),
        "ndarray.descr": (_read(pointer, at + abi.ARRAY_DESCR), descr),
        "ndarray.flags": (_read(ctypes.c_int32, at + abi.ARRAY_FLAGS), array.flags.num),
        "dtype.type_num": (_read(ctypes.c_int32, descr + abi.DESCR_TYPE_NUM), array.dtype.num),
        "dtype.byteorder": (
            _read(ctypes.c_uint8, descr + abi.DESCR_BYTEORDER),
            ord(array.dtype.byteorder),
        ),
        "type of float32": (abi.TYPE_NUMS["f32"], array.dtype.num),
        "type of int64": (abi.TYPE_NUMS["i64"], np.dtype(np.int64).num),
        "PyArray_Type": (python_symbols()["PyArray_Type"], id(np.ndarray)),
    }
    for name, (found, expected) in facts.items():
        if found != expected:
            return f"{name} reads {found}, expected {expected}"
    # only now are the tables known to be pointers
    for axis in range(2):
        if _read(ctypes.c_int64, dimensions + 8 * axis) != array.shape[axis]:
            return "ndarray.dimensions is elsewhere"
        if _read(ctypes.c_int64, strides + 8 * axis) != array.strides[axis]:
            return "ndarray.strides is elsewhere"
    number = 0.15625
    if ctypes.c_double.from_address(id(number) + abi.FLOAT_VALUE).value != number:
        return "float.ob_fval is elsewhere"
    return None
