"""
Mutated texts of every level for every target: no traceback, no crash, no hang, and what is accepted
computes what the reference does. `python -m tests.fuzz --seed N --only K` shows one text.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.fuzz.pool import Result, results
from tests.fuzz.ways import TO_PLAN, outcome

TO_LOOPS = f"{TO_PLAN},plan-to-loops"


def _faults(kind: str, seed: int, count: int, workers: int) -> list[Result]:
    return [found for found in results(kind, seed, range(count), workers) if found.fault]


def test_500_mutated_texts() -> None:
    assert _faults("lit", 0, 500, workers=1) == []


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_20000_mutated_texts(seed: int) -> None:
    assert _faults("all", seed, 5000, workers=2) == []


def _opt(tmp_path: Path, text: str, *arguments: str) -> int:
    """The exit status of `mlc opt`, which has found no bug."""
    path = tmp_path / "text.mlir"
    path.write_text(text)
    found = outcome(["opt", str(path), *arguments])
    assert not found.fault
    return 0 if found.accepted else 1


@pytest.mark.parametrize("target", ["avx2", "avx512", "sm_80"])
@pytest.mark.parametrize(
    ("op", "shape"), [('reduce "sum" "n->"', ""), ('scan "sum" "forward" "inclusive" 0', "5000x")]
)
def test_loops_of_complex_vectors_verify(tmp_path: Path, op: str, shape: str, target: str) -> None:
    x, y = "tensor<5000xcomplex<f32>>", f"tensor<{shape}complex<f32>>"
    text = f"""func.func @f(%x: {x}) -> {y} {{
      %0 = mlc.{op} %x : {x} -> {y}
      func.return %0 : {y}
    }}"""
    assert _opt(tmp_path, text, "-p", TO_LOOPS, "--target", target) == 0


@pytest.mark.parametrize("kind", ["f128", "f8E5M2", "vector<2x2xf32>", "vector<4294967296xf32>"])
def test_functions_of_types_without_a_form_are_refused(tmp_path: Path, kind: str) -> None:
    text = f"func.func @f(%x: {kind}) {{\n  %y = math.exp %x : {kind}\n  func.return\n}}\n"
    assert _opt(tmp_path, text, "-p", "expand-math", "--target", "sm_80") == 1


def test_a_missing_quote_ends_at_once_for_the_emitter_too() -> None:
    text = 'builtin.module attributes {x = "' + "0" * 300 + "} {}\n"
    command = [sys.executable, "-m", "mlc.lowering.emit", "-"]
    done = subprocess.run(
        command, check=False, input=text, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 1
    assert "error" in done.stderr
    assert "Traceback" not in done.stderr
