"""
Our text is MLIR: kernels without our own ops are accepted by LLVM's mlir-opt, and what `mlc show`
prints at every level comes back from `mlc opt` unchanged.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc import TensorSpec
from mlc.driver import main
from tests.sweeps import covering

MLIR_OPT = "mlir-opt-19"  # Debian's package mlir-19-tools
Traced = tuple[Callable[..., Any], Sequence[TensorSpec]]


def spec(*dims: int | str, dtype: str = "f32") -> TensorSpec:
    """An argument's shape and dtype."""
    return TensorSpec(*dims, dtype=dtype)


WITHOUT_OWN_OPS: dict[str, Traced] = {
    "axpy": (lambda x, y: 2 * x + y, [spec(64, 100), spec(64, 100)]),
    "masked_end": (lambda x: np.maximum(x, 0) * x, [spec(1001)]),
    "column_sums": (lambda x: np.sum(x, axis=0), [spec(17, 100)]),
    "column_maxima": (lambda x: np.max(x, axis=0), [spec(17, 100, dtype="i32")]),
    "row_broadcast": (
        lambda x, b: np.sqrt(x / b),
        [spec(17, 100, dtype="f64"), spec(100, dtype="f64")],
    ),
    "two_pieces": (lambda x, y: np.concatenate([x, y], axis=1), [spec(7, 30), spec(7, 5)]),
    "outer_product": (lambda x, y: x[:, None] * y, [spec(20), spec(30)]),
    "vector_times_matrix": (lambda x, y: x @ y, [spec(20), spec(20, 33)]),
    "wider_floats": (lambda x: x.astype(np.float64), [spec(33)]),
    "part_of_a_matrix": (lambda x: x[1:, 3:] + 1, [spec(20, 40)]),
}


def kernel_text(loops: str) -> str:
    """The first kernel; its context, which it does not use, as a type that LLVM's tools know."""
    found = re.search(r"^  func\.func @\w+\(%ctx.*?^  }\n", loops, re.DOTALL | re.MULTILINE)
    assert found is not None
    return found[0].replace("!mlc_par.ctx", "!llvm.ptr")


@pytest.mark.skipif(shutil.which(MLIR_OPT) is None, reason=f"needs {MLIR_OPT}: mlir-19-tools")
@pytest.mark.parametrize("name", WITHOUT_OWN_OPS)
def test_mlir_opt_accepts_kernels(name: str) -> None:
    function, specs = WITHOUT_OWN_OPS[name]
    low = mlc.compile(threads=1)(function).lower(*specs)
    text = kernel_text(low.text("loops"))
    assert "mlc_" not in text
    for passes in ([], ["--canonicalize"], ["--test-lower-to-llvm"]):
        done = subprocess.run(
            [MLIR_OPT, *passes], input=text, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, f"{passes}: {done.stderr}\n{text}"
        assert done.stdout


def test_five_kernels_at_least() -> None:
    assert len(WITHOUT_OWN_OPS) >= 5


# Every level reads back

SHOWN = """
import mlc
import numpy as np

S = mlc.TensorSpec


@mlc.compile
def mlp(x: S("B", 64, dtype="f32"), w: S(64, 32, dtype="f32"), b: S(32, dtype="f32")):
    return np.maximum(x @ w + b, 0.0)


@mlc.compile
def softmax(x: S("B", 1000, dtype="f32")):
    e = np.exp(x - np.max(x, axis=1, keepdims=True))
    return e / np.sum(e, axis=1, keepdims=True), np.argmax(x, axis=1)


@mlc.compile
def looked_up(table: S(50, "N", dtype="f64"), rows: S("B", dtype="i64")):
    found = table[rows]
    return np.concatenate([found[::-1], np.where(found > 0, found, np.nan)]), -np.inf * found


@mlc.compile
def power(x: S("N", "N", dtype="f64"), n: S(dtype="i64")):
    return mlc.fori_loop(0, n, lambda i, y: np.tanh(y @ x) + i, x)


@mlc.compile
def numbers(x: S(3, 5, dtype="bool")):
    y = x.astype(np.int32)
    return (y * 7 - 3) // 2, np.sum(y, axis=0), x.T, np.log(np.sqrt(y.astype(np.float32)))
"""
FUNCTIONS = re.findall(r"^def (\w+)", SHOWN, re.MULTILINE)
LEVELS = ("trace", "tensor", "plan", "loops")


@pytest.mark.parametrize(
    ("function", "target", "level"), covering(FUNCTIONS, ["host", "avx2", "neon"], LEVELS)
)
def test_show_reads_back(
    function: str, target: str, level: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "shown.py"
    source.write_text(SHOWN)
    assert main(["show", f"{source}:{function}", "--at", level, "--target", target]) == 0
    shown = capsys.readouterr().out
    assert "func.func" in shown
    path = tmp_path / f"{level}.mlir"
    path.write_text(shown)
    assert main(["opt", str(path)]) == 0
    assert capsys.readouterr().out == shown


@pytest.mark.parametrize("function", FUNCTIONS)
def test_each_level_leads_to_the_next(
    function: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`mlc show` of a level's own text gives the same code as the Python function."""
    source = tmp_path / "shown.py"
    source.write_text(SHOWN)
    texts: dict[str, str] = {}
    for level in ("trace", "tensor", "plan", "loops"):
        assert main(["show", f"{source}:{function}", "--at", level, "--target", "avx2"]) == 0
        texts[level] = capsys.readouterr().out
    for level in ("trace", "tensor", "plan"):
        path = tmp_path / f"{level}.mlir"
        path.write_text(texts[level])
        assert main(["show", str(path), "--at", "loops", "--target", "avx2"]) == 0
        assert _without_places(capsys.readouterr().out) == _without_places(texts["loops"])


def _without_places(text: str) -> str:
    """Source places stand in `mlc.sites`; a text file has others."""
    return re.sub(r"mlc\.sites = \[.*\]", "", text)
