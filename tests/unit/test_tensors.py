"""Addresses of tensors: native code asks the function that their class names."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from mlc.runtime.layout import PYTHON, layout_fault
from mlc.runtime.tensors import addresses_of

pytestmark = pytest.mark.skipif(layout_fault() is not None, reason="another layout of objects")


class Tensor:
    """An array with the interface that PyTorch's tensors have."""

    def __init__(self, *, fails: bool = False) -> None:
        self.array, self.fails = np.zeros(4), fails


class Parameter(Tensor):
    """A subclass."""


def _describe(tensor: object, out: int) -> int:
    assert isinstance(tensor, Tensor)
    words = (ctypes.c_uint64 * 6).from_address(out)
    words[0], words[5] = tensor.array.ctypes.data - 24, 24  # and an offset in bytes
    return -1 if tensor.fails else 0


_NAME = b"dlpack_exchange_api"
_FUNCTION = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_void_p)(_describe)


def _table(major: int) -> ctypes.Array[ctypes.c_uint64]:
    table = (ctypes.c_uint64 * 7)()
    ctypes.c_uint32.from_buffer(table).value = major
    table[5] = ctypes.cast(_FUNCTION, ctypes.c_void_p).value or 0
    return table


_TABLES = {major: _table(major) for major in (1, 2)}


def _capsule(major: int, name: bytes = _NAME) -> object:
    new = PYTHON.PyCapsule_New
    new.restype = ctypes.py_object
    new.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
    return new(ctypes.addressof(_TABLES[major]), name, None)


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", _capsule(1), raising=False)


@pytest.mark.usefixtures("known")
def test_addresses_of_tensors_and_of_subclasses() -> None:
    read = addresses_of(Tensor)
    assert read is not None
    tensors = [Tensor(), Parameter(), Parameter(), Tensor()]
    words = (ctypes.c_uint64 * 4)()
    read(tensors, ctypes.addressof(words))
    assert [*words] == [x.array.ctypes.data for x in tensors]
    read([], 0)


@pytest.mark.usefixtures("known")
@pytest.mark.parametrize("other", [None, 3, Tensor(fails=True)])
def test_what_is_no_tensor_is_not_described(other: object) -> None:
    read = addresses_of(Tensor)
    assert read is not None
    words = (ctypes.c_uint64 * 2)()
    with pytest.raises(TypeError, match="something else"):
        read([Tensor(), other], ctypes.addressof(words))


def test_classes_without_the_api_that_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    assert addresses_of(Tensor) is None
    for capsule in (3, _capsule(2), _capsule(1, b"another")):
        monkeypatch.setattr(Tensor, "__dlpack_c_exchange_api__", capsule, raising=False)
        assert addresses_of(Tensor) is None
