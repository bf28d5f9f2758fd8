"""Certificates of compilations: accepted where passes are right, rejected where anything is not."""

# pyright: reportInvalidTypeForm=false, reportUnknownLambdaType=false
# pyright: reportUnknownArgumentType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

import ast
import io
import json
import sys
import tokenize
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from benchmarks.zoo import ZOO
from mlc.certificate import certificate, lines_of, said
from mlc.check import CertificateError, Terms, Values, check, graded
from mlc.dialects.tensor.elementwise import AddOp, SubOp
from mlc.driver import main
from mlc.frontend.trace.containers import flatten
from mlc.levels import Levels
from mlc.passes.tensor import canonicalize
from mlc.passes.tensor.rules import Rules
from mlc.runtime.interpret import interpret
from tests.certificate_mutations import mutations, sealed

MOST_LINES = 300
QUICK = ("causal_attention", "mlp_step", "lstm", "page_rank")


def grades(text: str, *, seed: str = "") -> Counter[str]:
    """How many claims of each grade a certificate has."""
    return Counter(claim["grade"] for claim in check(text, seed=seed)["claims"])


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
    found = check(certificate(levels), lines_of(levels))
    assert "accepted" in said(found)
    assert all(claim["grade"] != "none" for claim in found["claims"])


def test_it_is_the_same_text_each_time(text: str) -> None:
    assert certificate(program.lower().levels) == text


@pytest.mark.parametrize("most", [2, pytest.param(100, marks=pytest.mark.slow)])
def test_whatever_is_wrong_is_rejected(text: str, most: int) -> None:
    found = grades(text)
    assert found["none"] == 0
    assert min(found["probabilistic"], found["tested"]) > 0
    seen = Counter[str]()
    for kind, wrong in mutations(text):
        if seen[kind] < most:
            seen[kind] += 1
            with pytest.raises(CertificateError, match=r"^line \d+: .+"):
                check(wrong)
    assert sum(seen.values()) > 50
    assert len(seen) > 20


@pytest.mark.parametrize("seed", ["1", "2", "3"])
def test_any_seed_will_do(text: str, seed: str) -> None:
    assert grades(text, seed=seed) == grades(text)


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
    found = check(made)
    with pytest.raises(CertificateError, match=r"1 claims without evidence; first: .* not equal"):
        said(found)
    assert "1 without evidence" in said(found, partial=True)


def test_a_wrong_derivative_has_no_evidence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "mlc.dialects.tensor.elementwise.MulOp.transpose", lambda op, b, dy, operand: dy
    )
    assert grades(certificate(program.lower().levels))["none"]


def test_sizes_that_are_symbols() -> None:
    @mlc.compile(target="avx2")
    def f(x: mlc.TensorSpec("n", 3)) -> Any:
        y = np.exp(x.T.T) + 0.0 * 1
        return (y - y.mean(axis=0)) @ y.T / y.shape[0]

    made = certificate(f.lower().levels)
    assert '"n": 8' in made
    assert grades(made)["none"] == 0
    for right, wrong in (('"n": 8', '"n": 0'), ('"standard"', '"any"')):
        records = [json.loads(line) for line in made.replace(right, wrong, 1).splitlines()]
        resealed = "\n".join(map(json.dumps, sealed(records)))
        with pytest.raises(CertificateError, match="expected strict, standard, fast, and 8 of"):
            check(resealed)


def test_sizes_that_are_computed() -> None:
    """What has a size that only the call knows has no numbers here; the rest is checked."""

    @mlc.compile(target="avx2")
    def f(x: mlc.TensorSpec("n")) -> Any:
        return x[x > 0].sum() * 1.0

    found = grades(certificate(f.lower().levels))
    assert found["none"] <= 1 <= found["probabilistic"]


def test_forward_derivatives() -> None:
    @mlc.compile(target="avx2")
    def f(x: mlc.TensorSpec(4), v: mlc.TensorSpec(4)) -> Any:
        return mlc.jvp(lambda a: np.tanh(a) * a.sum(), (x,), (v,))

    found = grades(certificate(f.lower().levels))
    assert found["none"] == 0 < found["tested"]


def test_loops_branches_and_functions() -> None:
    @mlc.compile(target="avx2")
    def f(x: mlc.TensorSpec(5, 5), n: mlc.TensorSpec(dtype=np.int64)) -> Any:
        total, k = x * 0, 0
        while k < n:
            total = total + (x.T @ x).T.T
            k = k + 1
        batch = mlc.vmap(lambda row: np.sort(row)[::-1] * total.sum())(x)
        return total, batch, np.cumsum(x, axis=0)

    assert grades(certificate(f.lower().levels))["none"] == 0


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ZOO]
)
def test_the_checker_means_the_same_by_ops(name: str) -> None:
    levels = levels_of(name)
    *lines, head = map(json.loads, lines_of(levels))
    terms = Terms()
    for line in lines:
        terms.define(line)
    if any(term.name == "pull_back" for term in terms.terms):
        return
    arrays, _ = flatten(ZOO[name].arrays("small"))
    wide = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in map(np.asarray, arrays)]
    values = Values(terms, "", "floats")
    with np.errstate(all="ignore"):
        body = [list(terms.of(head[k])) for k in ("args", "results")]
        found = values.run((body[0], body[1]), wide)
    for ours, theirs in zip(found, interpret(levels.at("tensor"), arrays), strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3)


def lines_of_code(text: str) -> int:
    """Lines that hold more than a comment or a docstring."""
    layout = {tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
    tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))[:-1]
    spans = [(x.start[0], x.end[0] + 1) for x in tokens if x.type not in layout]
    found = {line for span in spans for line in range(*span)}
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(
            node
        ):
            found -= set(range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1))
    return len(found)


def test_lines_are_counted_as_they_are_read() -> None:
    text = '"""What it is."""\n\nX = (\n    1,\n)  # all\n\n\n'
    text += 'def f() -> str:\n    # why\n    return """a\nb"""\n'
    assert lines_of_code(text) == 6


def test_it_is_independent_and_small() -> None:
    text = Path(str(sys.modules["mlc.check"].__file__)).read_text(encoding="utf-8")
    assert lines_of_code(text) <= MOST_LINES
    assert max(map(len, text.splitlines())) <= 100
    for node in ast.walk(ast.parse(text)):
        names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
        names += [str(node.module)] if isinstance(node, ast.ImportFrom) else []
        assert {x.split(".")[0] for x in names} <= {"numpy", *sys.stdlib_module_names}


NUMBER, VECTOR = ["i64", []], ["f32", [3]]


def variable(name: str, level: int, number: int, type_: Any = VECTOR) -> Any:
    """Its line."""
    return [[name], "arg", {"level": level, "number": number}, [], [type_], []]


def of(*lines: Any) -> Terms:
    """What lines define."""
    terms = Terms()
    for line in lines:
        terms.define(line)
    return terms


HEAD = (
    variable("%0", 0, 0),
    variable("%1", 0, 1),
    [["%2"], "constant", {"is": ["constant", {"value": [4]}]}, [], [NUMBER], []],
    variable("%5", 1, 0, NUMBER),
    variable("%6", 1, 1),
    variable("%7", 1, 2),
)


def test_arguments_of_loops_that_trade_places() -> None:
    def loop(name: str, x: str) -> list[Any]:
        product = [[f"{name}y"], "mul", {"is": ["multiply", {}]}, [x, "%1"], [VECTOR], []]
        body = [["%5", "%6", "%7"], [f"{name}y", "%7"]]
        names = [name, f"{name}b"]
        return [product, [names, "for", {}, ["%2", "%0", "%0"], [VECTOR, VECTOR], [body]]]

    terms = of(*HEAD, *loop("%a", "%6"), *loop("%b", "%7"))
    for was, now in (("%ay", "%by"), ("%a", "%b")):
        with pytest.raises(CertificateError, match="not equal"):
            graded(terms, {"was": was, "is": now, "over": []}, "")


def test_a_loop_in_a_loop_has_variables_of_its_own() -> None:
    """Loops over the same of the same, one in the other, and whose variable is added."""
    inner = [variable("%8", 2, 0, NUMBER), variable("%9", 2, 1)]

    def loops(name: str, x: str) -> list[Any]:
        return [
            [[f"{name}s"], "add", {}, [x, "%9"], [VECTOR], []],
            [[f"{name}i"], "for", {}, ["%2", "%0"], [VECTOR], [[["%8", "%9"], [f"{name}s"]]]],
            [[name], "for", {}, ["%2", "%0"], [VECTOR], [[["%5", "%6"], [f"{name}i"]]]],
        ]

    terms = of(*HEAD, *inner, *loops("%a", "%6"), *loops("%b", "%9"))
    with pytest.raises(CertificateError, match="not equal"):
        graded(terms, {"was": "%a", "is": "%b", "over": []}, "")
    assert terms.of(["%a"]) != terms.of(["%b"])


def test_a_variable_is_none_in_a_loop_that_changes_it() -> None:
    """A sum over trips of what depends on the trip is no multiple of what it is once."""
    term = [["%s"], "convert", {}, ["%5"], [["f32", []]], []]
    wide = [["%w"], "broadcast", {"is": ["look", {"offset": 0, "strides": [0]}]}, ["%s"], [VECTOR]]
    terms = of(*HEAD, term, [*wide, []], [["%t"], "add", {}, ["%6", "%w"], [VECTOR], []])
    terms.define([["%n"], "for", {}, ["%2", "%0"], [VECTOR], [[["%5", "%6"], ["%t"]]]])
    terms.define([["%4"], "constant", {"is": ["constant", {"value": [4.0]}]}, [], [VECTOR], []])
    terms.define([["%m"], "mul", {"is": ["multiply", {}]}, ["%4", "%w"], [VECTOR], []])
    terms.define([["%o"], "add", {}, ["%0", "%m"], [VECTOR], []])
    with pytest.raises(CertificateError, match="not equal"):
        graded(terms, {"was": "%n", "is": "%o", "over": ["%w"]}, "")


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
    assert main(["check", str(made), "--seed", "another"]) == 0
    made.write_text(made.read_text().replace("ab->ba", "ab->ab", 1))
    assert main(["check", str(made)]) == 1
    assert "rejected: line " in capsys.readouterr().out
