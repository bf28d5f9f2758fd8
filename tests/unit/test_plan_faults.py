"""Plans that somebody has written or edited: what lowering could not follow is refused."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.errors import PlanError
from mlc.passes import wellformed
from mlc.pipeline import run_pipeline
from mlc.text import parse_text
from tests.plans import planned, spec


def _rows(x: Any) -> Any:
    total = np.exp(x).sum(axis=1)
    return np.sort(x, axis=1) / total[:, None] @ x.T


def _sums(x: Any) -> Any:
    return np.exp(x).sum(axis=1)


def _product(a: Any, b: Any) -> Any:
    return a @ b


def _columns(x: Any) -> Any:
    return np.sort(x.sum(axis=0))


def _carried(x: Any) -> Any:
    total = np.sort(x * 2)[3:].sum()
    return mlc.fori_loop(0, 5, lambda _, c: np.cumsum(c[::-1]), x) + total


def _totals(x: Any) -> Any:
    return x.sum(axis=0)


def _row_totals(x: Any) -> Any:
    return x.sum(axis=1)


def _turned(x: Any) -> Any:
    return x.T + 1


@cache
def _plan(name: str, target: str) -> str:
    function, shapes = {
        "rows": (_rows, [(64, 64)]),
        "sums": (_sums, [(64, 64)]),
        "product": (_product, [(256, 256)] * 2),
        "columns": (_columns, [("N", 64)]),
        "carried": (_carried, [(64,)]),
    }[name]
    return planned(function, *(spec(*shape) for shape in shapes), target=target).text("plan")


def _said(text: str) -> list[str]:
    return [message for _, message in wellformed.faults(parse_text(text, "plan"))]


@pytest.mark.parametrize("name", ["rows", "product", "columns", "carried"])
@pytest.mark.parametrize(
    "target", ["avx2", "avx512", "amx", "neon", "mmla", "sm_80", "cuda:sm_90a"]
)
def test_what_mlc_plans_has_no_fault(name: str, target: str) -> None:
    assert _said(_plan(name, target)) == []


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ('"0" = #mlc.dims<256>', '"0" = #mlc.dims<252>', "holds 252 bytes; tensor<64xf32> needs"),
        ('"0" = #mlc.dims<256>', '"0" = #mlc.dims<-256>', "numbered dims"),
        ('"0" = #mlc.dims<256>', '"0" = #mlc.dims<>', "numbered dims"),
        ('"0" = #mlc.dims<256>', '"3" = #mlc.dims<256>', "numbered dims"),
        ("arena 2>", "arena 9>", "there are 3"),
        ("arena 2>", "arena 1>", "what lies there is read then or later"),
        ("arena 2>", "private 0>", "there are 0"),
        ("arena 2>", "input 1>", "does not write a part of that input"),
        ("arena 2>", "tile 0>", "there are 0"),
        ("arena 0>", "out 0>", "not tensor<64xf32>"),
        ("out 0>", "out 1>", "there are 1"),
        ("axis 1), unroll(4)", "axis 2), unroll(4)", "or one from 0 to 1"),
        (
            "vector(8, axis 1), unroll(2)",
            "vector(128, axis 1), unroll(64)",
            "2048 elements at most",
        ),
    ],
)
def test_an_edited_plan_of_a_cpu(old: str, new: str, expected: str) -> None:
    text = _plan("rows", "avx2")
    assert old in text
    assert any(expected in message for message in _said(text.replace(old, new, 1)))


def test_register_tiles_of_a_cpu_are_words() -> None:
    text = planned(_product, spec(64, 64), spec(64, 64), target="avx2").text("plan")
    edited = re.sub(
        r"mlc\.schedule<[^>]*>",
        "mlc.schedule<[vector(8), stage(m 64, n 64, k 16, rows 4, columns 4)]>",
        text,
        count=1,
    )
    assert edited != text
    assert any("is no word of kernels on avx2; expected one of" in said for said in _said(edited))


@pytest.mark.parametrize(
    ("results", "expected"),
    [
        ("%n, %k", "computes tensor<64xf32> beside tensor<f32>; expected one shape"),
        ("%k", "computes tensor<f32> beside tensor<64xf32>; expected one shape"),
        ("%q", "holds mlc.reduce beside another nest; expected one nest for each kernel"),
        ("%n, %p", "holds mlc.reduce beside another nest; expected one nest for each kernel"),
        ("%s", "holds mlc.reduce beside another nest; expected one nest for each kernel"),
    ],
)
def test_a_kernel_is_one_nest(results: str, expected: str) -> None:
    """Its loops go over the points of its results, and folds that are combined together."""
    kinds = {"%n": "tensor<f32>", "%q": "tensor<f32>", "%p": "tensor<i64>"}
    types = ", ".join(kinds.get(name, "tensor<64xf32>") for name in results.split(", "))
    ops = {
        "%n": '%n = mlc.reduce "sum" "a->" %a : tensor<64xf32> -> tensor<f32>',
        "%q": '%q = mlc.reduce "max" "a->" %k : tensor<64xf32> -> tensor<f32>',
        "%p": '%p = mlc.reduce "argmax" "a->" %a : tensor<64xf32> -> tensor<i64>',
        "%b": '%b = mlc.broadcast "->a" %n : tensor<f32> -> tensor<64xf32>',
        "%k": "%k = mlc.mul %b, %a : tensor<64xf32>",
        "%s": '%s = mlc.sort "ascending" %b : tensor<64xf32> -> tensor<64xf32>',
    }
    needed = {"%n": "%n", "%q": "%n %b %k %q", "%p": "%p", "%k": "%n %b %k", "%s": "%n %b %s"}
    names = dict.fromkeys(" ".join(needed[name] for name in results.split(", ")).split())
    lines = "\n".join(ops[name] for name in names)
    count = len(results.split(", "))
    out = "%r" if count == 1 else f"%r:{count}"
    text = f"""
    func.func @f(%x: tensor<64xf32>) {{
      {out} = mlc.kernel "cell" (%a = %x) : (tensor<64xf32>) -> ({types}) {{
        {lines}
        mlc.yield {results} : {types}
      }}
      func.return
    }}"""
    assert _said(text) == [expected]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("flat(6)", "flat(5)", "expected 3 times n"),
        (", axis 0", "", "rows and columns are not read as one"),
    ],
)
def test_edited_vectors_of_whole_rows(old: str, new: str, expected: str) -> None:
    text = planned(_totals, spec(100, 24), target="avx2").text("plan")
    assert "flat(6)" in text
    assert any(expected in message for message in _said(text.replace(old, new, 1)))


def test_edited_rows_of_columns() -> None:
    text = planned(_totals, spec(3000, 1000), target="avx2").text("plan")
    assert "rows(8)" in text
    said = _said(text.replace(", axis 0", "", 1))
    assert any("neither rows nor columns are reduced together" in message for message in said)
    text = planned(_row_totals, spec(300, 200), target="avx2").text("plan")
    assert "rows(4)" in text
    said = _said(text.replace("rows(4)", "rows(3)", 1))
    assert any("expected a power of two, 8 at most" in message for message in said)


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("turn(0", "turn(1", "expected no turn, or axis 0"),
        ("rows 64", "rows 60", "expected multiples of 8"),
        ("columns 64", "columns 4", "multiples of 8, 65536 elements at most"),
    ],
)
def test_an_edited_tile_that_is_turned(old: str, new: str, expected: str) -> None:
    text = planned(_turned, spec(100, 2000), target="avx2").text("plan")
    assert old in text
    assert any(expected in message for message in _said(text.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("name", "old", "new", "expected"),
    [
        ("product", "threads(256)", "threads(128)", "one tile for each of 128 threads"),
        ("product", "rows 4", "rows 6", "one tile for each of 256 threads, in fours"),
        ("product", "k 64", "k 4096", "one tile for each of 256 threads"),
        ("product", "parts 16", "parts 8", "one tile for each of 256 threads"),
        ("product", ", parts 16", "", "one tile for each of 256 threads"),
        ("columns", "threads(256)", "threads(16)", "32 threads or more"),
        ("columns", ", axis 0", "", "the axis along which threads run"),
        ("sums", "threads(32)", "threads(64)", "32 at most, or 256 at least"),
    ],
)
def test_an_edited_plan_of_a_gpu(name: str, old: str, new: str, expected: str) -> None:
    text = _plan(name, "cuda:sm_90a")
    edited = text.replace(old, new) if old in text else text.replace("threads(8)", new)
    assert edited != text
    assert any(expected in message for message in _said(edited))


def test_a_plan_of_another_machine_is_judged_for_the_one_it_is_for() -> None:
    """Of a GPU's plan no schedule is followed on a CPU that its templates cannot follow."""
    levels = planned(_product, spec(256, 256), spec(256, 256), target="avx2")
    edited = _plan("product", "cuda:sm_90a").replace("columns 4", "columns 6")
    with pytest.raises(PlanError, match="is no word of kernels on avx2; expected one of"):
        run_pipeline(parse_text(edited, "plan"), levels.options)


@pytest.mark.parametrize("returned", ["%x", "%y, %y"])
def test_results_without_memory_of_their_own(returned: str) -> None:
    """A result that no kernel writes would be whatever its memory held before."""
    kind = "tensor<4x64xf32>"
    text = f"""func.func @f(%x: {kind}) -> ({", ".join([kind] * len(returned.split(",")))}) {{
      %y = mlc.kernel "cell" (%a = %x) : ({kind}) -> ({kind}) {{
        %0 = mlc.neg %a : {kind}
        mlc.yield %0 : {kind}
      }}
      func.return {returned} : {", ".join([kind] * len(returned.split(",")))}
    }}"""
    options = planned(_columns, spec(4, 64), target="avx2").options
    with pytest.raises(PlanError, match=r"result [01] is not made by a kernel of its own"):
        run_pipeline(parse_text(text, "plan"), options)


@pytest.mark.parametrize("handed", ["%a, %b", "%b, %a", "%b, %b"])
def test_regions_hand_on_what_a_result_may_not_lie_in(handed: str) -> None:
    """A loop of no trip would return the argument, which lies elsewhere."""
    kind = "tensor<4xf32>"
    text = f"""func.func @f(%x: {kind}, %n: tensor<i64>) -> ({kind}, {kind}) {{
      %y = mlc.kernel "cell" (%z = %x) : ({kind}) -> ({kind}) {{
        %0 = mlc.neg %z : {kind}
        mlc.yield %0 : {kind}
      }}
      %r, %q = mlc.for %i to %n iter(%a = %x, %b = %y) -> ({kind}, {kind}) {{
        mlc.yield {handed} : {kind}, {kind}
      }}
      func.return %r, %q : {kind}, {kind}
    }}"""
    options = planned(_columns, spec(4, 64), target="avx2").options
    with pytest.raises(PlanError, match=r"result [01] is not made by a kernel of its own"):
        run_pipeline(parse_text(text, "plan"), options)
