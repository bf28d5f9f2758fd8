# pyright: basic
"""Programs as StableHLO: read again by our reader, and run by JAX's compiler where it is there."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.trace.containers import flatten
from tests.exported_programs import PROGRAMS, A, B, f32, network, softmax
from tests.other_compilers import run_by_jax

needs_jax = pytest.mark.skipif(
    importlib.util.find_spec("jax") is None, reason="JAX is not installed"
)


def same(found: Sequence[Any], wanted: Any) -> None:
    leaves, _ = flatten(wanted)
    for a, b in zip(found, map(np.asarray, leaves), strict=True):
        assert (np.shape(a), np.asarray(a).dtype) == (b.shape, b.dtype)
        near = 3e-3 if b.dtype == np.float16 else 3e-5
        np.testing.assert_allclose(a, b, rtol=near, atol=near)


def as_text(name: str) -> tuple[str, list[Any], Any]:
    function, arguments = PROGRAMS[name]
    compiled = mlc.compile(function)
    return compiled.lower(*arguments).text("stablehlo"), arguments, compiled(*arguments)


def listed(found: Any) -> Sequence[Any]:
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.parametrize("name", PROGRAMS)
def test_our_reader_reads_what_we_write(name: str) -> None:
    text, arguments, wanted = as_text(name)
    assert "mlc." not in text
    same(listed(mlc.stablehlo.load(text)(*arguments)), wanted)


@needs_jax
@pytest.mark.parametrize("name", PROGRAMS)
def test_another_compiler_runs_what_we_write(name: str) -> None:
    text, arguments, wanted = as_text(name)
    same(run_by_jax(text, arguments), wanted)


def moved(x: Any) -> Any:
    return x[1:, ::2], x[::-1], np.concatenate([x, x]).reshape(-1), x.T, x[:-1] - x[1:]


def summed(x: Any, w: Any) -> Any:
    y = np.pad(x @ w, ((1, 0), (0, 0)))
    return y.mean(0), np.argmax(y, 0), np.sort(y, 0), np.arange(len(x)) * len(x), np.zeros_like(y)


def gathered(x: Any, i: Any) -> Any:
    return x[i], np.take_along_axis(x, np.argsort(x, 0), 0)


def filtered(x: Any, w: Any) -> Any:
    return mlc.nn.conv(x, w, padding=1)


def looped(x: Any) -> Any:
    def trip(i: Any, total: Any) -> Any:
        return total + x[i]

    return mlc.fori_loop(0, x.shape[0], trip, np.zeros(6, np.float32))


X, B_ = mlc.TensorSpec("B", 6), mlc.TensorSpec(6, 3)
OPEN: dict[str, tuple[Any, list[Any], list[Any]]] = {
    "network": (network, [X, B_], [A, B]),
    "softmax": (softmax, [X], [A]),
    "gradient": (mlc.grad(lambda w, x: network(x, w).sum()), [B_, X], [B, A]),
    "moved": (moved, [X], [A]),
    "summed": (summed, [X, B_], [A, B]),
    "gathered": (gathered, [X, mlc.TensorSpec("K", dtype="i64")], [A, np.array([2, 0, -1])]),
    "filtered": (
        filtered, [mlc.TensorSpec("N", 2, 5, 5), mlc.TensorSpec(2, 2, 3, 3)],
        [f32(4, 2, 5, 5), f32(2, 2, 3, 3)],
    ),
    "loop": (looped, [X], [A]),
}  # fmt: skip


def more(arguments: list[Any]) -> list[Any]:
    """The arguments with twice as many rows where sizes are open."""
    return [np.concatenate([x, x]) if x.shape[0] in (3, 4) else x for x in arguments]


@pytest.mark.parametrize("name", OPEN)
def test_one_text_for_all_sizes(name: str) -> None:
    function, specs, arguments = OPEN[name]
    compiled = mlc.compile(function)
    read = mlc.stablehlo.load(compiled.lower(*specs).text("stablehlo"))
    for given in (arguments, more(arguments)):
        same(listed(read(*given)), compiled(*given))
    assert len(read.stats().artifacts) == 1


@needs_jax
@pytest.mark.parametrize("name", OPEN)
def test_another_compiler_runs_it_for_all_sizes(name: str) -> None:
    function, specs, arguments = OPEN[name]
    compiled = mlc.compile(function)
    text = compiled.lower(*specs).text("stablehlo")
    for given in (arguments, more(arguments)):
        same(run_by_jax(text, given), compiled(*given))


def test_what_cannot_be_said_is_listed_at_once() -> None:
    def program(x: Any) -> Any:
        return np.linalg.solve(x, x), x[x > 0], np.fft.fft(x)

    with pytest.raises(mlc.MlcError) as caught:
        mlc.compile(program).lower(np.eye(3)).text("stablehlo")
    said = str(caught.value)
    assert "mlc.library: a routine of a library" in said
    assert "mlc.bind: a size that data decide" in said
    assert "test_stablehlo_export.py" in said


def test_the_command_line_shows_it(tmp_path: Path) -> None:
    file = tmp_path / "model.py"
    file.write_text("import numpy as np\n\n\ndef f(x):\n    return np.exp(x).sum(0)\n")
    show = [sys.executable, "-m", "mlc", "show", f"{file}:f", "--spec", "f32[B,3]"]
    ran = subprocess.run([*show, "--at", "stablehlo"], capture_output=True, text=True, check=True)
    assert '"stablehlo.exponential"' in ran.stdout
    read = mlc.stablehlo.load(ran.stdout)
    np.testing.assert_allclose(read(A[:, :3]), np.exp(A[:, :3]).sum(0), rtol=1e-5)
