"""`mlc superopt`: programs that rules lead to, judged by their plans."""

# pyright: reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.driver import main
from mlc.levels import Levels
from mlc.passes.rules.text import parse
from mlc.runtime.interpret import interpret
from mlc.superopt import Search, superopt

TEXT = """
rule product_of_sum
  class approximate
  dims m, k, n
  given %x [m, k], %y [m, k], %z [k, n] : float int
  left
    yield add (contract "mk,kn->mn" %x, %z), (contract "mk,kn->mn" %y, %z)
  right
    yield contract "mk,kn->mn" (add %x, %y), %z
  ways both
"""
RULES = parse(TEXT, "sums.rules")
SQUARE = mlc.TensorSpec(96, 96)


def levels_of(numerics: Any = "fast") -> Levels:
    """Of three products with one factor, added."""

    @mlc.compile(target="avx2", threads=1, numerics=numerics)
    def f(x: Any, y: Any, z: Any, w: Any) -> Any:
        return x @ w + y @ w + z @ w

    return f.lower(SQUARE, SQUARE, SQUARE, SQUARE).levels


@pytest.fixture(scope="module")
def found() -> Search:
    return superopt(levels_of(), RULES, plans=20)


def test_three_products_become_one(found: Search) -> None:
    assert [step.rule for step in found.steps] == ["product_of_sum", "product_of_sum"]
    assert str(found.best).count("mlc.contract") == 1
    assert found.best_s < found.steps[0].predicted_s < found.start_s
    assert all("test_superopt.py:" in step.at for step in found.steps)


def test_it_computes_the_same(found: Search) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((96, 96)).astype(np.float32) for _ in range(4)]
    wanted = interpret(found.start, arrays)[0]
    for module in found.modules:
        np.testing.assert_allclose(interpret(module, arrays)[0], wanted, rtol=0, atol=1e-3)


def test_more_plans_are_no_worse_and_the_same_each_time(found: Search) -> None:
    some = [superopt(levels_of(), RULES, plans=n) for n in (1, 2, 3)]
    times = [search.best_s for search in (*some, found)]
    assert times == sorted(times, reverse=True)
    assert [search.judged for search in some] == [1, 2, 3]
    assert some[0].steps == ()
    assert superopt(levels_of(), RULES, plans=20).said() == found.said()


def test_numerics_say_which_rules_there_are() -> None:
    assert superopt(levels_of("standard"), RULES, plans=20).steps == ()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, source, best = tmp_path / "r.rules", tmp_path / "f.mlir", tmp_path / "best.mlir"
    rules.write_text(TEXT)
    levels = levels_of()
    source.write_text(levels.traced)
    command = ["superopt", str(source), "--numerics", "fast", "--plans", "9", "-o", str(best)]
    assert main([*command, "--target", "avx2", "--rules", str(rules)]) == 0
    said = capsys.readouterr().out
    assert "as it is" in said
    assert said.count("product_of_sum") == 2
    assert best.read_text().count("mlc.contract") == 1
    rules.write_text(TEXT.replace("(add %x, %y)", "(sub %x, %y)"))
    assert main([*command, "--rules", str(rules)]) == 1
    assert "rule product_of_sum is refuted" in capsys.readouterr().err
