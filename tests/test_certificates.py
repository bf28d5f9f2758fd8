"""Certificates of compilations: accepted where passes are right, rejected where anything is not."""

# pyright: reportInvalidTypeForm=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

import ast
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from benchmarks.zoo import ZOO
from mlc import check_ops, check_text, check_values
from mlc.certificate import certificate, lines_of
from mlc.check import CertificateError, Change, check, said
from mlc.check_values import Floats, Side, Values
from mlc.dialects.tensor.elementwise import AddOp, SubOp
from mlc.driver import main
from mlc.frontend.trace.containers import flatten
from mlc.levels import Levels
from mlc.passes.tensor import canonicalize
from mlc.passes.tensor.rules import Rules
from mlc.runtime.interpret import interpret
from tests.certificate_mutations import forged, mutations

CHECKER = ("check", "check_text", "check_ops", "check_values")
QUICK = ("causal_attention", "mlp_step", "lstm", "page_rank")


def levels_of(name: str) -> Levels:
    """Of a program of the zoo."""
    return mlc.compile(ZOO[name].function).lower(*ZOO[name].arrays("small")).levels


def model(w: Any, x: Any) -> Any:
    """A softmax of a product, with much to rewrite."""
    y = (x @ w.T.T) * 0.5 + 0
    e = np.exp(y - y.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True) * np.negative(-x)).sum()


@mlc.compile(target="avx2", threads=1)
def program(w: mlc.TensorSpec(4, 4), x: mlc.TensorSpec(3, 4)) -> Any:
    """The model and its derivative; three programs of steps."""
    value, slope = mlc.value_and_grad(model)(w, x)
    return value, w - 0.125 * slope


@pytest.fixture(scope="module")
def text() -> str:
    return certificate(program.lower().levels)


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ZOO]
)
def test_the_zoo_is_accepted(name: str) -> None:
    levels = levels_of(name)
    made = certificate(levels)
    assert "accepted" in said(made, lines_of(levels))


def test_it_is_the_same_text_each_time(text: str) -> None:
    assert certificate(program.lower().levels) == text


@pytest.mark.parametrize("most", [3, pytest.param(100, marks=pytest.mark.slow)])
def test_whatever_is_wrong_is_rejected(text: str, most: int) -> None:
    found = check(text)
    assert found["none"] == 0
    assert min(found["end"], found["probabilistic"], found["tested"]) > 1
    seen = Counter[str]()
    for kind, wrong in mutations(text):
        if seen[kind] < most:
            seen[kind] += 1
            with pytest.raises(CertificateError, match=r"^line \d+: .+"):
                check(wrong)
    assert sum(seen.values()) > 50
    assert len(seen) > 20


def test_another_program(text: str) -> None:
    with pytest.raises(CertificateError, match="another program"):
        check(text, lines_of(levels_of("softmax")))


def test_a_wrong_rule_has_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    wrong, right = Rules(), vars(canonicalize)["_rules"]

    @wrong.on(SubOp)
    def sum_for_difference(op: Any, b: Any) -> Any:
        return b(AddOp, op.lhs, op.rhs)

    monkeypatch.setattr(canonicalize, "_rules", lambda *limits: Rules(wrong, right(*limits)))
    made = certificate(levels_of("softmax"))
    assert check(made)["none"] == 1
    with pytest.raises(CertificateError, match=r"1 claims without evidence; first: .* not equal"):
        said(made)
    assert "1 without evidence" in said(made, partial=True)


def test_a_wrong_derivative_has_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mlc.dialects.tensor.elementwise.MulOp.transpose", lambda op, b, dy, operand: dy
    )
    assert check(certificate(program.lower().levels))["none"]


def test_sizes_that_are_symbols() -> None:
    @mlc.compile(target="avx2")
    def f(x: mlc.TensorSpec("n", 3)) -> Any:
        y = np.exp(x.T.T) + 0.0 * 1
        return (y - y.mean(axis=0)) @ y.T / y.shape[0]

    made = certificate(f.lower().levels)
    assert '"n": 8' in made
    assert "0 without evidence" in said(made)
    for right, wrong in (('"n": 8', '"n": 0'), ('"standard"', '"any"')):
        records = [json.loads(line) for line in made.replace(right, wrong, 1).splitlines()]
        resealed = "\n".join(map(json.dumps, forged(records)))
        with pytest.raises(CertificateError, match="expected strict, standard, fast, and 8 of"):
            check(resealed)


def test_loops_branches_and_functions() -> None:
    @mlc.compile(target="avx2")
    def f(x: mlc.TensorSpec(5, 5), n: mlc.TensorSpec(dtype=np.int64)) -> Any:
        total, k = x * 0, 0
        while k < n:
            total = total + (x.T @ x).T.T
            k = k + 1
        batch = mlc.vmap(lambda row: np.sort(row)[::-1] * total.sum())(x)
        return total, batch, np.cumsum(x, axis=0)

    assert "0 without evidence" in said(certificate(f.lower().levels))


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ZOO]
)
def test_the_checker_means_the_same_by_ops(name: str) -> None:
    levels = levels_of(name)
    module = levels.at("tensor")
    parsed = check_text.Program(lines_of(levels))
    arrays, _ = flatten(ZOO[name].arrays("small"))
    block, _ = next(iter(parsed.functions.values()))
    if any(op.name == "pull_back" for op in block.ops):
        return
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in map(np.asarray, arrays)]
    values = Values(Side(parsed, block.args[0], set(), {}, {}), Floats(0), set())
    with np.errstate(all="ignore"):
        found = values.run(block, [(x, 1) for x in wide], {})
    for (ours, _), theirs in zip(found, interpret(module, arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def test_it_is_independent_and_small() -> None:
    for module in (check_ops, check_text, check_values, sys.modules["mlc.check"]):
        text = Path(str(module.__file__)).read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 400
        for node in ast.walk(ast.parse(text)):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
            for name in names:
                first, *others = name.split(".")
                assert first in ("numpy", *sys.stdlib_module_names) or others[0] in CHECKER, name


LOOP = """func "f"(%0: f32[3], %1: f32[3]) [] {
  %2 = constant {"value": 4} : i64[]
  %3, %4 = for %2 %0 %0 : f32[3], f32[3] {
  ^(%5: i64[], %6: f32[3], %7: f32[3])
    %8 = mul %6 %1 : f32[3]
    yield %8 %7
  }
  return %3 %4
}"""


def test_arguments_of_loops_that_trade_places() -> None:
    """Values that only have the names that others had are not taken for these."""
    before = LOOP.splitlines()
    wrong = LOOP.replace("%6: f32[3], %7", "%7: f32[3], %6").replace("%8 = mul %6", "%9 = mul %6")
    wrong = wrong.replace("yield %8", "yield %9")
    step = {"claims": [{"was": "%8", "is": "%9"}]}
    change = Change(check_text.Program(before), step, check_text.Program(wrong.splitlines()), {})
    with pytest.raises(CertificateError, match="not equal"):
        change.graded("%8", "%9", [0, 0])


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, made = tmp_path / "f.mlir", tmp_path / "f.cert"
    source.write_text(
        "func.func @f(%x: tensor<4x3xf32>) -> tensor<4x3xf32> {\n"
        '  %0 = mlc.transpose "ab->ba" %x : tensor<4x3xf32> -> tensor<3x4xf32>\n'
        '  %1 = mlc.transpose "ab->ba" %0 : tensor<3x4xf32> -> tensor<4x3xf32>\n'
        "  func.return %1 : tensor<4x3xf32>\n}\n"
    )
    build = ["build", str(source), "--target", "avx2", "--emit", "ll", "-o", str(tmp_path / "f.ll")]
    assert main([*build, "--certify", str(made)]) == 0
    assert main(["check", str(made), "--program", str(source)]) == 0
    assert "accepted: f for avx2, numerics standard" in capsys.readouterr().out
    made.write_text(made.read_text().replace("ab->ba", "ab->ab", 1))
    assert main(["check", str(made)]) == 1
    assert "rejected: line " in capsys.readouterr().out
