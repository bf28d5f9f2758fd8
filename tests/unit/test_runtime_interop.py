"""What is taken from other libraries, what is refused, and with which remedy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from mlc.runtime.interop import as_array, result_maker


class Foreign:
    """An array of another library: NumPy's data behind the DLPack protocol alone."""

    def __init__(self, data: object, device: tuple[int, int] = (1, 0)) -> None:
        self.data = np.asarray(data)
        self.device = device

    def __dlpack__(self, **options: object) -> object:
        return self.data.__dlpack__(**options)  # pyright: ignore[reportArgumentType]

    def __dlpack_device__(self) -> tuple[int, int]:
        return self.device

    def __array_namespace__(self) -> type[Namespace]:
        return Namespace


class Namespace:
    """The foreign library."""

    @staticmethod
    def from_dlpack(value: object) -> Foreign:
        """The array API's entry point."""
        return Foreign(np.from_dlpack(value))  # pyright: ignore[reportArgumentType]


def test_dlpack_shares_memory_both_ways() -> None:
    data = np.arange(6.0).reshape(2, 3)
    taken = as_array(Foreign(data), "argument 'x'")
    assert type(taken) is np.ndarray
    assert np.shares_memory(taken, data)
    make = result_maker(Foreign(data))
    assert make is not None
    result = make(data)
    assert isinstance(result, Foreign)
    assert np.shares_memory(result.data, data)
    scalar = make(np.float64(2.5))
    assert isinstance(scalar, Foreign)
    assert scalar.data.shape == ()


def test_numpy_results_stay_numpy() -> None:
    assert result_maker(np.zeros(3)) is None
    assert result_maker(np.float32(1)) is None
    assert result_maker(2.0) is None


def test_what_is_taken() -> None:
    for value in (np.float32(2), np.zeros(3)[::2], np.zeros(3, ml_dtypes.bfloat16)):
        assert np.array_equal(as_array(value, "x"), value)
    swapped = np.arange(3, dtype=">i4")
    taken = as_array(swapped, "x")
    assert taken.dtype == np.dtype("=i4")
    assert taken.dtype.isnative
    assert taken.tolist() == [0, 1, 2]
    misaligned = np.zeros(9, np.int8)[1:].view(np.float64)
    assert as_array(misaligned, "x").flags.aligned


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.array([None, 1]), r"^argument 'x' has dtype object, which holds Python .*astype"),
        (np.zeros(2, [("a", "f4"), ("b", "i4")]), r"structured; .*x\['a'\]"),
        (np.array(["a"]), "holds text"),
        (np.array(["2024-01-01"], "M8[D]"), "holds dates"),
        (np.ma.MaskedArray([1.0], [True]), r"masked array.*x\.filled"),
        ([1.0, 2.0], "is a list; expected an array .* np.asarray"),
        ("text", "is a str"),
        (Foreign([1.0], (2, 0)), 'on a CUDA device.*target="cuda"'),
        (Foreign([1.0], (99, 0)), "DLPack type 99 device"),
    ],
)
def test_what_is_refused_and_why(value: object, message: str) -> None:
    with pytest.raises(TypeError, match=message):
        as_array(value, "argument 'x'")


def test_an_exporter_that_fails_is_explained() -> None:
    class Broken(Foreign):
        def __dlpack__(self, **options: object) -> object:
            raise RuntimeError("requires grad")

    with pytest.raises(TypeError, match=r"cannot view: requires grad; .*detach"):
        as_array(Broken([1.0]), "argument 'x'")
