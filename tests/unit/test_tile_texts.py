"""The interpreter of tile programs: NumPy's results for any team and order; races."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mlc.dialects.errors import MlcError
from mlc.dialects.target.known import CPUS
from mlc.passes.tile.check_tiles import tile_faults
from mlc.runtime.interpret import interpret, interpret_kernel
from mlc.runtime.tiles.memory import TileError
from tests.tile_texts import TEXTS, kernel_of, module_of, text_of

Array = NDArray[Any]


@pytest.mark.parametrize("name", TEXTS)
def test_numpys_result_and_the_same_bits_for_every_team(name: str) -> None:
    text, kernel = TEXTS[name], kernel_of(text_of(name))
    arrays = text.draw(np.random.default_rng(3), dict(text.sizes))
    alone = interpret_kernel(kernel, arrays)
    for found, expected in zip(alone, text.meaning(*arrays), strict=True):
        np.testing.assert_allclose(found.astype(expected.dtype), expected, rtol=0, atol=text.error)
    for workers, seed in ((2, 0), (3, 1)):
        for x, y in zip(
            interpret_kernel(kernel, arrays, workers=workers, seed=seed), alone, strict=True
        ):
            np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("which", [0, 1])
def test_a_missing_barrier_is_found(which: int) -> None:
    parts = text_of("gemm").split("mlc_tile.barrier")
    broken = "mlc_tile.barrier".join(parts[: which + 1]) + "mlc_tile.barrier".join(
        parts[which + 1 :]
    )
    arrays = TEXTS["gemm"].draw(np.random.default_rng(3), {"G": 1, "M": 8})
    for seed in range(3):
        with pytest.raises(TileError, match=r"with no mlc_tile\.barrier between"):
            interpret_kernel(kernel_of(broken), arrays, workers=2, seed=seed)


def _run(body: str, *arrays: Array, workers: int = 1) -> Array:
    """The result y of a kernel of views x (and w), given as f32."""
    views = ", ".join(
        f"%{name}: !mlc_tile.view<{'x'.join(map(str, x.shape))}xf32>"
        for name, x in zip("xw", arrays, strict=False)
    )
    text = f"mlc_tile.kernel @k({views}) -> (%y: !mlc_tile.view<5xf32>) workers(9 by 1) {{{body}}}"
    (found,) = interpret_kernel(kernel_of(text), arrays, workers=workers)
    return found


FIVE = np.arange(5, dtype=np.float32)


def test_a_worker_that_waits_for_others_in_vain_is_found() -> None:
    body = """
    mlc_tile.for %i in 3 deal(team when 4 >= workers) {
      mlc_tile.barrier
    }"""
    with pytest.raises(
        TileError, match=r"worker 1 waits at mlc_tile.barrier at .*:3; worker 0 has"
    ):
        _run(body, FIVE, workers=2)


def test_workers_at_two_barriers_are_found() -> None:
    body = """
    mlc_tile.for %i in 3 deal(team when 4 >= workers) {
      mlc_tile.barrier
    }
    mlc_tile.barrier"""
    with pytest.raises(TileError, match="expected all at one"):
        _run(body, FIVE, workers=2)


def test_an_element_that_two_workers_write_differently_is_found() -> None:
    body = """
    mlc_tile.for %i in 5 deal(team) {
      %a = mlc_tile.load %x[%i] : !mlc_tile.frag<1xf32>
      mlc_tile.store %a, %y
    }"""
    with pytest.raises(TileError, match="writes what worker"):
        _run(body, FIVE, workers=2)
    assert _run(body, FIVE)[0] == 4


def test_scratch_is_unwritten_until_it_is_written() -> None:
    body = """
    %s = mlc_tile.alloc worker : !mlc_tile.view<8xf32>
    mlc_tile.copy %x[2] -> %s "a -> a" over (a 4) fill 7.0
    %a = mlc_tile.load %s[1] fill 9.0 : !mlc_tile.frag<8xf32>
    mlc_tile.store %a, %y"""
    np.testing.assert_array_equal(_run(body, FIVE), [3, 4, 7, np.nan, np.nan])


def test_what_lies_outside_is_filled_and_not_written() -> None:
    body = """
    mlc_tile.fill %y = 1.0
    %a = mlc_tile.load %x[-2] fill 9.0 : !mlc_tile.frag<4xf32>
    mlc_tile.store %a, %y[-1]
    mlc_tile.store %a, %y[%q + a] as "a" where a < 1"""
    found = _run(
        "%q = mlc_tile.for %i in 1 {}".replace("%q = ", "") + body.replace("%q", "4"), FIVE
    )
    np.testing.assert_array_equal(found, [9, 0, 1, 1, 9])


def test_arguments_that_are_read_are_not_written() -> None:
    with pytest.raises(TileError, match="only read"):
        _run("mlc_tile.fill %x = 1.0", FIVE)


def test_a_product_without_a_row_and_with_batches() -> None:
    body = """
    %s = mlc_tile.dot "gmk,gk->gm" %x, %w over (k 4) : !mlc_tile.frag<5x1xf32>
    %t = mlc_tile.extract %s[:, 0] : !mlc_tile.frag<5xf32>
    mlc_tile.store %t, %y"""
    rng = np.random.default_rng(0)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((5, 1, 3), (5, 3)))
    np.testing.assert_allclose(_run(body, x, w), np.einsum("gmk,gk->g", x, w), rtol=1e-5)


def test_a_row_for_other_dtypes_is_an_error_that_names_them() -> None:
    body = '%s = mlc_tile.dot "mk,kn->mn" %x, %w over (k 4) via amx_bf16 : !mlc_tile.frag<2x2xf32>'
    with pytest.raises(MlcError, match=r"amx_bf16 multiplies \(f32, f32, f32\); expected \(bf16"):
        _run(body, np.ones((2, 4), np.float32), np.ones((4, 2), np.float32))


def test_states_of_two_values_are_combined() -> None:
    x = np.array([[1, 5, 5, 2], [np.nan, 3, np.nan, 9], [-1, -1, -2, -3]], np.float32)
    at = np.array([[9, 8, 7, 6], [4, 3, 2, 1], [0, 1, 2, 3]])
    largest, place, running = interpret_kernel(kernel_of(text_of("states")), [x, at])
    np.testing.assert_array_equal(largest, [5, np.nan, -1])
    np.testing.assert_array_equal(place, [7, 2, 0])
    np.testing.assert_array_equal(running, np.cumsum(x, 1))


def test_a_program_that_calls_kernels() -> None:
    x = np.random.default_rng(0).standard_normal((6, 4)).astype(np.float32)
    e = np.exp(-x)
    for workers in (1, 3):
        (found,) = interpret(module_of(text_of("softmax")), [x], workers=workers, seed=1)
        np.testing.assert_allclose(found, e / e.sum(1, keepdims=True), rtol=1e-6)
    module = module_of(text_of("softmax").replace("mlc_tile.barrier", ""))
    with pytest.raises(TileError, match=r"nest at .*reads what worker"):
        [interpret(module, [x], workers=2, seed=k) for k in range(8)]  # one may be first at both


@pytest.mark.parametrize(
    ("name", "target"),
    [
        ("gemm", "avx512"), ("bf16", "amx"), ("conv", "avx512"), ("attention", "avx2"),
        ("lstm", "avx512"), ("cases", "avx2"), ("softmax", "avx2"), ("states", "avx2"),
    ],
)  # fmt: skip
def test_whole_texts_break_no_invariant(name: str, target: str) -> None:
    (cpu,) = (row for row in CPUS if row.name == target)
    assert not [*tile_faults(kernel_of(text_of(name)), cpu)]


RELEASE = "mlc_tile.release %ring : "
FAULTS = {
    "one release is missing": (f"{RELEASE}.*", "", "ends with 1 places not released"),
    "no release": ("mlc_tile.release.*", "", r"nobody .* \(producer 0 .* at mlc_tile.put at"),
    "released twice": (rf"({RELEASE}.*)", r"\1 \1", "nothing is left to release"),
    "released while it is multiplied": (" behind 1", "", "released before it is waited for"),
    "waits for too few": ("wait %v, 1", "wait %v, 2", "released before it is waited for"),
    "gets too few": (
        'in "K" step 16 carry', 'in "K" - 16 step 16 carry', "nobody can go on"
    ),
    "a slot is written by who reads it": (
        r"mlc_tile.wait %v", "mlc_tile.fill %y = 0.0 mlc_tile.wait %v", "that no mlc_tile.put has"
    ),
    "a slot is filled in part": (
        r'"n k -> n k" via', '"n k -> n k" over (n 8, k 16) via', "nobody can go on"
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_faults_of_a_ring_are_found(fault: str) -> None:
    pattern, instead, message = FAULTS[fault]
    broken, count = re.subn(pattern, instead, text_of("hopper"))
    assert count
    arrays = TEXTS["hopper"].draw(np.random.default_rng(3), {"M": 60, "N": 30, "K": 48})
    for seed in range(3):
        with pytest.raises(TileError, match=message):
            interpret_kernel(kernel_of(broken), arrays, workers=1, seed=seed)
