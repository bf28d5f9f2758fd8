"""Programs for CUDA without Python, on a GPU: the bits that Python gets."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from ml_dtypes import bfloat16

import mlc
from mlc.runtime.cuda.driver import device
from tests.c_programs import compiler
from tests.cuda_programs import Loaded, cuda_program, halved, picked, product, scaled

pytestmark = [pytest.mark.gpu, compiler]
Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(3)
F = np.float32


def ran(
    f: Any, folder: Path, args: Sequence[Array], sizes: Sequence[int], specs: Sequence[Any]
) -> tuple[list[Array], tuple[Array, ...]]:
    """What two calls of a program give, and what Python gets."""
    gpu = device()
    ctypes.CDLL("libcuda.so.1", mode=ctypes.RTLD_GLOBAL)
    with gpu.active():
        found = Loaded(cuda_program(f, *specs, target="cuda"), folder, None)
        native, arrays = gpu.native, [np.ascontiguousarray(x) for x in args]
        answer: Any = mlc.compile(target="cuda")(f)(*args)
        wanted = cast("tuple[Array, ...]", answer if isinstance(answer, tuple) else (answer,))
        results: list[Array] = [np.zeros_like(np.asarray(x)) for x in wanted]
        places = [native.allocate(max(256, x.nbytes)) for x in (*arrays, *results)]
        for place, x in zip(places, arrays, strict=False):
            native.copy_in(place, x.ctypes.data, x.nbytes, 0)
        found.context.arena_bytes = 1 << 24
        found.context.arena = native.allocate(1 << 24)
        assert found.load(native.allocate(found.state_bytes)) == 0
        outs = places[len(arrays) :]
        for _ in range(2):
            assert found.start(places[: len(arrays)], sizes, outs) == 0
            assert found.wait() == 0
        for place, x in zip(outs, results, strict=True):
            native.copy_out(x.ctypes.data, place, x.nbytes, 0)
        native.synchronize(0)
        assert found.unload() == 0
    return results, wanted


CASES: dict[str, Any] = {
    "scaled": (
        scaled, [RNG.random((100, 32), F), RNG.random((32, 64), F), RNG.random(64, F)], [100],
        ("B", 32), "f32",
    ),
    "product": (
        product, [RNG.random(x, F).astype(bfloat16) for x in ((512, 256), (256, 1024))], [],
        (512, 256), "bf16",
    ),
    "halved": (halved, [RNG.random(64, F) * 100], [], (64,), "f32"),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_gives_the_same_bits(name: str, tmp_path: Path) -> None:
    f, args, sizes, first, dtype = CASES[name]
    shapes = [first, *(x.shape for x in args[1:])]
    specs = [mlc.TensorSpec(*shape, dtype=dtype) for shape in shapes]
    found, wanted = ran(f, tmp_path, args, sizes, specs)
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(a, b)


def test_an_error_of_a_kernel_is_a_status(tmp_path: Path) -> None:
    x = RNG.random(7, F)
    specs = (mlc.TensorSpec("N", dtype="f32"), mlc.TensorSpec(dtype="i64"))
    found, wanted = ran(picked, tmp_path, [x, np.array(3)], [7], specs)
    assert found[0] == wanted[0]
    gpu = device()
    with gpu.active():
        program = Loaded(cuda_program(picked, *specs, target="cuda"), tmp_path, None)
        place = gpu.native.allocate(4096)
        at = np.array([9], np.int64)
        gpu.native.copy_in(place, at.ctypes.data, 8, 0)
        program.context.arena, program.context.arena_bytes = place + 1024, 1024
        assert program.load(place + 2048) == 0
        assert program.start([place, place], [7], [place + 512]) == 0
        assert program.wait() == 1
        context = program.context
        assert (context.error_site, context.error_value, context.error_extent) == (1, 9, 7)
        assert program.wait() == 0
        assert program.unload() == 0
