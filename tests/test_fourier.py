"""Fourier transforms as generated code: no library, all lengths, near what pocketfft finds."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.lowering.loops.opaque.fourier_plan import factors_of, plan_of, unity
from tests.c_programs import CROSS, QEMU_AARCH64, called, compiler, here, program
from tests.sweeps import leading

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(0)

TRANSFORMS: dict[str, tuple[Callable[[Any], Any], Callable[[int, Any], Array]]] = {
    "fft": (np.fft.fft, lambda n, t: _complex(3, n, t)),
    "ifft": (np.fft.ifft, lambda n, t: _complex(3, n, t)),
    "rfft": (np.fft.rfft, lambda n, t: _complex(3, n, t).real.copy()),
    "irfft_even": (np.fft.irfft, lambda n, t: _complex(3, n // 2 + 1, t)),
    "irfft_odd": (
        lambda x: np.fft.irfft(x, 2 * x.shape[-1] - 1),
        lambda n, t: _complex(3, n // 2 + 1, t),
    ),
}


def _complex(rows: int, n: int, dtype: Any) -> Array:
    x = RNG.standard_normal((rows, n)) + 1j * RNG.standard_normal((rows, n))
    return x.astype(np.result_type(dtype, np.complex64))


LENGTHS = (2, 12, 13, 60, 64, 97, 210, 243, 1024, 1, 3, 4, 5, 6, 7, 8, 9, 10, 11, 15, 16, 17, 20,
           24, 25, 27, 30, 31, 32, 33, 48, 49, 77, 100, 121, 128, 256, 331, 360, 500, 512, 625,
           1000, 1009, 2048, 2310, 4096)  # fmt: skip


@pytest.mark.parametrize("n", leading(9, LENGTHS))
def test_transforms_are_near_pocketffts(n: int) -> None:
    """
    Within 2 log2 n units of the largest result, in both precisions: all factors, vectors with rests
    and Bluestein's lengths. SOURCE: Higham, Accuracy and Stability, 2nd edition, theorem 24.2.
    """
    for name, (f, given) in TRANSFORMS.items():
        for dtype in (np.float64, np.float32):
            x = given(n, dtype)
            if name == "irfft_even" and x.shape[-1] == 1:
                continue  # no points
            compiled = mlc.compile(f)
            found, expected = compiled(x), f(x)
            assert found.dtype == expected.dtype
            assert "mlc_par.library" not in compiled.lower(x).text("loops")
            limit = 2 * max(np.log2(n), 1) * np.finfo(dtype).eps * np.abs(expected).max()
            np.testing.assert_allclose(found, expected, rtol=0, atol=limit)


def test_roots_of_unity_are_exact() -> None:
    for n in (1, 2, 3, 8, 12, 100, 1024):
        x, y = unity(n)
        expected = np.exp(-2j * np.pi * np.arange(n).astype(np.longdouble) / n)
        assert np.abs(x + 1j * y - expected).max() <= 4e-16
        assert {*x[:: max(n // 4, 1)], *y[:: max(n // 4, 1)]} <= {0, 1, -1} or n % 4


def test_plans() -> None:
    assert factors_of(1024) == [4, 4, 4, 4, 4]
    assert factors_of(2 * 27 * 11) == [2, 3, 3, 3, 11]
    assert factors_of(26) is None
    assert plan_of(13, 8).size == 32 > 2 * 13 - 1
    assert plan_of(210, 8).is_direct


def test_who_works_does_not_change_bits() -> None:
    x = _complex(40, 360, np.float64)

    def both(x: Any) -> Any:
        return np.fft.fft(x * 2 + 1), np.fft.fft2(x)

    alone = mlc.compile(both, threads=1)(x)
    several = mlc.compile(both, threads=4)(x)
    assert [v.tobytes() for v in alone] == [v.tobytes() for v in several]


def test_gpus_call_the_library() -> None:
    text = mlc.compile(np.fft.fft, target="h200").lower(_complex(3, 64, np.float32)).text("loops")
    assert "mlc_par.library" in text


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", TRANSFORMS)
def test_lengths_that_only_a_call_knows(name: str, dtype: Any) -> None:
    """One program for all: its plan and its tables are made in the call."""
    f, given = TRANSFORMS[name]
    (argument,) = inspect.signature(f).parameters if name == "irfft_odd" else ("a",)
    compiled = mlc.compile(f, dynamic={argument: {0: "B", 1: "N"}})
    for n in LENGTHS[:10] if dtype is np.float32 else LENGTHS:
        x = given(n, dtype)
        if name == "irfft_even" and x.shape[-1] == 1:
            continue
        found, expected = compiled(x), f(x)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
        limit = 2 * max(np.log2(n), 1) * np.finfo(dtype).eps * np.abs(expected).max()
        np.testing.assert_allclose(found, expected, rtol=0, atol=limit)
    assert compiled.stats().compilations == 1
    assert "mlc_par.library" not in compiled.lower(given(4, dtype)).text("loops")


def to_length(x: Any, like: Any) -> Any:
    return np.fft.irfft(x, like.shape[0])


def test_real_transforms_to_lengths_that_only_a_call_knows() -> None:
    """Even and odd ones: by the whole spectrum."""
    compiled = mlc.compile(to_length, dynamic={"x": {1: "M"}, "like": {0: "N"}})
    for n in (1, 2, 5, 8, 13):
        args = _complex(2, n // 2 + 1, np.float64), np.zeros(n)
        np.testing.assert_allclose(compiled(*args), to_length(*args), atol=1e-14)


def test_no_points() -> None:
    """NumPy's error, also where only a call knows."""
    functions: list[tuple[Any, int]] = [(np.fft.fft, 0), (np.fft.irfft, 1)]
    for f, none in functions:
        compiled = mlc.compile(f, dynamic={"a": {1: "N"}})
        with pytest.raises(ValueError, match=r"Invalid number of FFT data points \(0\)"):
            compiled(np.zeros((2, none), complex))


def test_who_works_on_open_lengths_does_not_change_bits() -> None:
    dynamic = {"a": {0: "B", 1: "N"}}
    alone, several = (mlc.compile(np.fft.fft, threads=k, dynamic=dynamic) for k in (1, 4))
    for n in (360, 331):
        x = _complex(40, n, np.float64)
        assert alone(x).tobytes() == several(x).tobytes()


@pytest.mark.slow
def test_long_transforms() -> None:
    """Whose tables would be too large for the code."""
    x = _complex(1, (1 << 20) + 7, np.float64)[0]
    found, expected = mlc.compile(np.fft.fft)(x), np.fft.fft(x)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-14 * np.abs(expected).max())


def test_what_a_real_transform_does_not_read() -> None:
    """Imaginary parts of the first number and, of even lengths, of the last one."""
    x = np.array([1 + 5j, 2 + 1j, 3 + 7j])
    np.testing.assert_allclose(mlc.compile(np.fft.irfft)(x), np.fft.irfft(x), atol=1e-15)


def spectrum(x: Any) -> Any:
    return np.abs(np.fft.rfft(x))


SIGNAL = RNG.standard_normal((4, 120)).astype(np.float32)


def test_objects_for_c_transform(tmp_path: Path) -> None:
    """The program asks for no symbol; AArch64's finds what x86-64's does."""
    for target in ("avx2", "neon"):
        assert program(spectrum, mlc.TensorSpec(4, 120), target=target).object


@pytest.mark.skipif(
    not (CROSS and QEMU_AARCH64), reason="qemu-aarch64 and aarch64-linux-gnu-gcc are not installed"
)
def test_transforms_on_arm(tmp_path: Path) -> None:
    options: Any = {"compiler": CROSS, "flags": ["-static"], "emulator": [QEMU_AARCH64]}
    for spec in (mlc.TensorSpec(4, 120), mlc.TensorSpec("B", "N")):
        found = program(spectrum, spec, target="neon")
        (ours,) = called(found, [SIGNAL], tmp_path, sizes={"B": 4, "N": 120}, **options)
        np.testing.assert_allclose(ours, spectrum(SIGNAL), atol=2e-5)


@compiler
@here
def test_transforms_in_c(tmp_path: Path) -> None:
    found = program(spectrum, mlc.TensorSpec(4, 120), target="avx2")
    (ours,) = called(found, [SIGNAL], tmp_path)
    assert ours.tobytes() == mlc.compile(spectrum, target="avx2", threads=1)(SIGNAL).tobytes()


@compiler
@here
def test_open_lengths_in_c(tmp_path: Path) -> None:
    """One object for all lengths, which asks for nothing."""
    found = program(spectrum, mlc.TensorSpec("B", "N"), target="avx2")
    for n in (97, 120):
        x = np.ascontiguousarray(SIGNAL[:, :n])
        (ours,) = called(found, [x], tmp_path, sizes={"B": 4, "N": n})
        np.testing.assert_allclose(ours, spectrum(x), atol=2e-5)
