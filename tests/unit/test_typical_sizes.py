# pyright: basic
"""What sizes that vary mostly are: plans are made for these, and programs are right for all."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.dims import Dim
from mlc.driver import main
from mlc.passes import wellformed
from mlc.passes.cost.sizes import ASSUMED, assumed, elements_of, sizes_of, typical
from mlc.text import parse_text
from mlc.why_not import unfused
from tests.plans import planned, spec

MODULE = "builtin.module attributes {mlc.typical = {B = 2 : i64}} {}"


def normalised(x: Any, w: Any) -> Any:
    """Values larger than caches where there are 4096 rows, and none for two."""
    h = np.tanh(x @ w)
    h = h - h.mean(-1, keepdims=True)
    return (h @ w.T) * np.exp(-(h * h).sum(-1, keepdims=True))


def test_costs_are_asked_for_typical_sizes() -> None:
    b, c = Dim.of("B"), Dim.of("C")
    assert elements_of((b, Dim.const(3))) == 3 * ASSUMED
    with sizes_of(parse_text(MODULE, "test")):
        assert elements_of((b, Dim.const(3))) == 6
        assert assumed(["B", "C"]) == {"B": 2, "C": ASSUMED}
        assert typical(b * 3 + 1) == 7
        assert typical(b + c) is None
    assert elements_of((b, Dim.const(3))) == 3 * ASSUMED


def test_plans_are_made_for_typical_sizes() -> None:
    """Loops over tiles keep large values in caches; values of two rows are small."""
    x, w = spec("B", 512), spec(512, 512)
    many = planned(normalised, x, w, target="avx2")
    few = planned(normalised, x, w, target="avx2", typical={"B": 2})
    assert "mlc.typical = {B = 2 : i64}" in few.traced
    assert "mlc.typical" not in many.traced
    assert re.search(r"\bmlc\.tiles\b", str(many.plan()))
    assert not re.search(r"\bmlc\.tiles\b", str(few.plan()))


def test_passes_alone_plan_for_typical_sizes(tmp_path: Path) -> None:
    """What `mlc opt` makes of a printed program is what the pipeline makes of it."""
    few = planned(normalised, spec("B", 512), spec(512, 512), target="avx2", typical={"B": 2})
    source, made = tmp_path / "few.mlir", tmp_path / "made.mlir"
    for text, tiled in (
        (few.traced, False),
        (few.traced.replace("mlc.typical = {B = 2 : i64}", "mlc.typical = {B = 4096 : i64}"), True),
    ):
        source.write_text(str(text))
        assert main(["opt", str(source), "-p", "form-tiles", "-o", str(made)]) == 0
        assert bool(re.search(r"\bmlc\.tiles\b", made.read_text())) == tiled


def test_why_not_speaks_of_the_plan_for_typical_sizes() -> None:
    """Its search is for three rows too: for 4096 it would keep apart, by cost, what is joined."""

    def softmax(x: Any, w: Any) -> Any:
        y = np.exp(x)
        return (y / y.sum(axis=1, keepdims=True)) @ w

    few = planned(softmax, spec("B", 24), spec(24, 24), target="avx2", typical={"B": 3})
    edges = unfused(few, {"B": 3})
    assert edges
    assert not [edge for edge in edges if edge.rule == "cost"]


def test_typical_rows_have_a_schedule() -> None:
    """Of the case of few rows: for how many there mostly are."""

    def product(a: Any, b: Any) -> Any:
        return a @ b

    a, b = spec("M", 512), spec(512, 512)
    words = [
        re.search(r"case\(m, below 96\).*?(?=grain)", str(levels.plan()))
        for levels in (
            planned(product, a, b, target="avx512"),
            planned(product, a, b, target="avx512", typical={"M": 32}),
        )
    ]
    assert words[0] is not None
    assert words[1] is not None
    assert words[0][0] != words[1][0]


def test_one_program_serves_all_sizes() -> None:
    f = mlc.compile(normalised, dynamic={"x": {0: "B"}}, typical=True)
    random = np.random.default_rng(0)
    w = random.standard_normal((24, 24)).astype(np.float32) / 5
    for rows in (3, 1, 70):
        x = random.standard_normal((rows, 24)).astype(np.float32)
        np.testing.assert_allclose(f(x, w), normalised(x, w), rtol=1e-4, atol=1e-5)
    assert len(f.stats().artifacts) == 1


@pytest.mark.parametrize(
    ("given", "why"), [("B", "expected True, or sizes"), ({"B": -1}, r'such as typical={"B": 8}')]
)
def test_what_is_no_size_is_refused(given: Any, why: str) -> None:
    with pytest.raises((TypeError, ValueError), match=re.escape(why)):
        mlc.compile(normalised, typical=given)


def test_a_module_that_says_no_sizes_is_refused() -> None:
    wrong = parse_text(MODULE.replace("2 : i64", '"two"'), "test")
    ((_, why),) = wellformed.faults(wrong)
    assert "mlc.typical" in why
    assert "expected sizes of symbols, such as {B = 2 : i64}" in why
