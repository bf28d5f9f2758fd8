"""A function with dynamic sizes is compiled once, whatever its sizes are."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.errors import MlcError
from mlc.frontend.importers.mlir import read_module

VECTORS = (
    "np.sort(x) + np.arange(x.shape[0])",
    "np.sort(x)[np.arange(x.shape[0]) // 2]",
    "np.argsort(x) * np.arange(x.shape[0])",
    "x.reshape(2, -1).sum(1)",
    "x.reshape(-1, 4).mean(1)",
    "np.split(x, 2)[1] + np.split(x, 4)[0].sum()",
    "np.concatenate([x, np.arange(x.shape[0]), x[1:]])",
    "np.pad(x, 2) + np.pad(x, 2, mode='edge')",
    "np.repeat(x, 3) * np.tile(x, 3)",
    "np.cumsum(np.sort(x)) / np.arange(1, x.shape[0] + 1)",
    "np.abs(np.fft.fft(x)) + np.roll(x, 1)",
    "np.fft.irfft(np.fft.rfft(x))",
    "np.diff(np.outer(x, x), 2)",
    "((x[1:] + x[:-1]) / 2).sum() * x",
    "np.histogram(x, 4)[0]",
    "(x - np.mean(x)) / np.std(x, ddof=1) + np.var(x)",
    "x * np.linspace(0, 1, x.shape[0]) + np.linspace(0, x[0], x.shape[0])",
    "np.eye(x.shape[0]) @ x + np.tri(x.shape[0]) @ x",
    "np.where(np.arange(x.shape[0]) > 2, x, 0.5)",
    "np.median(x) + np.quantile(x, 0.3) + np.max(x)",
    "np.interp(x, np.arange(x.shape[0]), np.sort(x))",
    "x.shape[0] * x.sum() + x.shape[0] / 2 + x.shape[0] ** 0.5",
)
MATRICES = (
    "np.linalg.solve(x, np.arange(x.shape[0]))",
    "np.linalg.solve(x, x.T) + np.linalg.inv(x)",
    "np.linalg.det(x) + np.trace(x) + np.linalg.eigvalsh(x + x.T)",
    "np.sort(x, axis=0) * np.arange(x.shape[0])[:, None]",
    "x.reshape(2, -1, x.shape[1]).sum(1)",
    "np.tril(x) @ np.diagonal(x) + np.diag(x[0]).sum(0)",
)


def module_of(expression: str, folder: Path) -> ModuleType:
    """A module with the expression as a function of `x`."""
    path = folder / "program.py"
    path.write_text(f"import numpy as np\n\ndef function(x):\n    return {expression}\n")
    spec = importlib.util.spec_from_file_location("program", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("expression", [*VECTORS, *MATRICES])
def test_one_compilation_serves_every_size(expression: str, tmp_path: Path) -> None:
    plain: Any = module_of(expression, tmp_path)
    function = mlc.compile(dynamic=True)(plain.function)
    for size in (4, 8, 12, 40):
        rng = np.random.default_rng(size)
        x = rng.random((size, size)) + np.eye(size) if expression in MATRICES else rng.random(size)
        np.testing.assert_allclose(function(x), plain.function(x), rtol=1e-6, atol=1e-9)
    stats = function.stats()
    assert stats.compilations + stats.cache_hits == 1, stats


def test_a_size_that_does_not_divide_is_refused_with_its_numbers() -> None:
    def rows(x: Any) -> Any:
        return x.reshape(2, -1)

    function = mlc.compile(dynamic={"x": {0: "N"}})(rows)
    np.testing.assert_array_equal(function(np.arange(6.0)), np.arange(6.0).reshape(2, 3))
    with pytest.raises(ValueError, match="7 is not a multiple of 2"):
        function(np.arange(7.0))
    np.testing.assert_array_equal(function(np.arange(8.0)), np.arange(8.0).reshape(2, 4))
    assert function.stats().compilations + function.stats().cache_hits == 1


def test_writing_to_a_view_of_another_shape_writes_to_every_size() -> None:
    def written(x: Any) -> Any:
        y = x.copy()
        halves = y.reshape(2, -1)
        halves[0] = 5
        return y

    function = mlc.compile(dynamic=True)(written)
    for size in (4, 6, 10):
        np.testing.assert_array_equal(function(np.arange(size)), written(np.arange(size)))
    assert function.stats().compilations + function.stats().cache_hits == 1


FIRST = """func.func @first(%x: tensor<?xf32, #mlc.dims<"B">>) -> tensor<3xf32> attributes {{mlc.symbols = ["B"]{0}}} {{
  %0 = mlc.slice %x[<{1}>, <{2}>] : tensor<?xf32, #mlc.dims<"B">> -> tensor<3xf32>
  func.return %0 : tensor<3xf32>
}}
"""  # noqa: E501


@pytest.mark.parametrize(("begin", "step"), [(0, 1), (2, -1)])
def test_a_text_says_how_many_elements_it_needs(tmp_path: Path, begin: int, step: int) -> None:
    path = tmp_path / "first.mlir"
    for said in ("", ', mlc.assume = #mlc.dims<"B - 2">'):
        path.write_text(FIRST.format(said, begin, step))
        with pytest.raises(MlcError, match=r'element 2 of axis 0, which has B; expected .*"B - 3"'):
            read_module(path)
    path.write_text(FIRST.format(', mlc.assume = #mlc.dims<"B - 5", "B - 3">', begin, step))
    read_module(path)


def test_a_traced_text_says_so(tmp_path: Path) -> None:
    def ends(x: Any) -> Any:
        return x[:3] + x[3::-1][:3] + x[1]

    path = tmp_path / "ends.mlir"
    path.write_text(mlc.compile(ends).lower(mlc.TensorSpec("B")).text("tensor"))
    read_module(path)


def test_what_is_compiled_for_many_elements_refuses_few(tmp_path: Path) -> None:
    def first(x: Any) -> Any:
        return x[:33].sum()

    compiled = mlc.compile(first).lower(mlc.TensorSpec("B")).compile()
    compiled.save(tmp_path / "first.mlc")
    x = np.ones(40, np.float32)
    for run in (compiled, mlc.load(tmp_path / "first.mlc")):
        assert run(x) == 33
        with pytest.raises(TypeError, match=r"f32\[B\]\) where B - 33 >= 0, found \(float32\[5\]"):
            run(x[:5])
