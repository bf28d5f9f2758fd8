"""`why-not`: answers about two lines (word for word: tests/golden/why-not.txt), and mistakes."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.driver import main
from mlc.passes.report.explain.edges import RULES
from mlc.why_not import Edge, unfused
from tests.plans import planned, spec

GOLDEN = Path(__file__).parent / "golden" / "why-not.txt"
PROGRAM = """import mlc
import numpy as np


@mlc.compile
def several(x: mlc.TensorSpec(64, 32), w: mlc.TensorSpec(16, 64)):
    y = np.exp(x)
    z = y * 2.0 + 1.0
    best = np.sort(z, axis=1)
    total = best.sum()
    scaled = best / total
    flat = np.tanh(scaled).reshape(32, 64)
    rows = flat.sum(axis=1)
    limits = np.sqrt(rows)

    def step(i, carried):
        return carried * 0.5 + limits
    last = mlc.fori_loop(0, 5, step, rows)
    unused = last * 0.0
    return last


@mlc.compile
def other(x):
    return x + x
"""
PAIRS = [(7, 8), (8, 9), (9, 10), (10, 11), (11, 12), (12, 13), (14, 17), (7, 13), (11, 7)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("why_not") / "several.py"
    path.write_text(PROGRAM)
    return path


def asked(path: Path, pair: tuple[int, int], *options: str) -> list[str]:
    """The arguments of the command."""
    lines = [f"{path}:{line}" for line in pair]
    return ["why-not", *lines, *options]


def test_answers(
    program: Path, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Times are left out: they depend on the machine and its threads."""
    said: list[str] = []
    for pair in PAIRS:
        assert main(asked(program, pair, "--target", "avx512")) == 0
        out = capsys.readouterr().out.replace(f"{program.parent}/", "")
        out = re.sub(r": [\d.e+]+ [nµm]?s, (\d+) kernels( \(.*\))?", r": …, \1 kernels", out)
        out = re.sub(r"decided: .*", "decided: …", out)
        said.append(f"{pair[0]} {pair[1]}\n{out}")
    found = "\n".join(said)
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


MISTAKES: dict[str, tuple[tuple[str, str], str]] = {
    "no line": (("{file}", "{file}:8"), "expected FILE:LINE, such as model.py:12"),
    "no such file": (("nowhere.py:3", "{file}:8"), "nowhere.py: no such file; expected FILE:LINE"),
    "no such line": (("{file}:99", "{file}:8"), "several.py:99: the file has 25 lines"),
    "line 0": (("{file}:0", "{file}:8"), "several.py:0: the file has 25 lines"),
    "no ops": (
        ("{file}:6", "{file}:8"),
        "several.py:6: nothing of @several comes from this line; expected one of",
    ),
    "not needed": (("{file}:7", "{file}:19"), "is folded into other lines, or nobody needs it"),
    "outside of functions": (("{file}:2", "{file}:8"), "say --of"),
    "measured elsewhere": (("{file}:7", "{file}:8"), "--measure runs on this machine's CPU"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_mistakes(mistake: str, program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lines, message = MISTAKES[mistake]
    measure = ["--measure"] if mistake == "measured elsewhere" else []
    given = [line.replace("{file}", str(program)) for line in lines]
    assert main(["why-not", *given, "--target", "avx2", *measure]) == 1
    error = capsys.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_mlir(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "f.mlir"
    path.write_text(
        "func.func @f(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
        "  %0 = mlc.exp %x : tensor<8xf32>\n"
        "  %1 = mlc.neg %0 : tensor<8xf32>\n"
        "  func.return %1 : tensor<8xf32>\n}\n"
    )
    assert main(["why-not", f"{path}:2", f"{path}:3", "--target", "avx2"]) == 0
    assert "in one kernel: 0" in capsys.readouterr().out


def test_json(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(asked(program, (9, 10), "--json", "--target", "avx512")) == 0
    answer = json.loads(capsys.readouterr().out)
    assert set(answer) == {"producer", "consumer", "edges", "path"}
    (edge,) = answer["edges"]
    assert edge["rule"] == "whole"
    document = (Path(__file__).parent.parent / "docs" / "explain.md").read_text()
    assert all(f"`{name}`" in document for name in edge)


# The interface of executables


def scaled(x: Any) -> Any:
    e: Any = np.exp(x - x.max())
    return e / e.sum()


def line_of(text: str) -> str:
    """`file:line` of a line of this file."""
    lines = Path(__file__).read_text().splitlines()
    return f"{__file__}:{next(n for n, line in enumerate(lines, 1) if text in line)}"


def test_both_plans_are_measured() -> None:
    def f(x: Any) -> Any:
        total: Any = np.tanh(x) + np.exp(x)  # the producer
        return total * 2.0 + total.sum()  # the consumer

    x = np.ones((60, 50), np.float32)
    exe = mlc.compile(f).lower(x).compile()
    lines = line_of("# the producer"), line_of("# the consumer")
    answer = exe.why_not(*lines, measure=[x])
    plain = exe.why_not(*lines)
    changed = [edge for edge in answer.edges if edge.other_s is not None]
    assert changed, "each of the two readers can have the sum stored and computed again"
    for edge, same in zip(answer.edges, plain.edges, strict=True):
        assert (edge.measured_s is None) == (edge.other_s is None)
        assert same.measured_s is None
        assert (edge.rule, edge.legal, edge.other_s) == (same.rule, same.legal, same.other_s)
        if edge.measured_s is not None:
            assert min(edge.measured_s) > 0
            assert "measured: " in str(answer)


def test_the_cost_that_decided_is_told_beside_the_prediction(cpu: str) -> None:
    """Where a legal plan is held for dearer, it is so by the cost that the search compared."""

    def ordered(x: Any) -> Any:
        return np.sort(np.exp(x), axis=1) + np.exp(x)

    levels = planned(ordered, spec(300, 200), target=cpu)
    edges = [edge for edge in unfused(levels, {}) if edge.legal]
    assert edges
    for edge in edges:
        assert edge.searched_s is not None
        assert edge.searched_s[0] <= edge.searched_s[1]
        assert "by the cost of the search, which decided: " in edge.text()


def check(edge: Edge, kernels: int) -> None:
    """An answer says either why not, or what it would cost."""
    assert not edge.together
    assert edge.chosen_kernels == kernels
    assert len(edge.kernels) >= 2
    if edge.legal:
        assert edge.rule == "cost"
        assert edge.other_s is not None
        assert edge.other_s > 0
    else:
        assert edge.rule in RULES
        assert edge.rule != "unknown"
        assert edge.remedy
        assert edge.other_s is None


def mlp(x: Any, w: Any, v: Any, labels: Any) -> Any:
    h = np.tanh(x @ w)
    scores: Any = (h - h.mean(axis=0)) @ v
    shifted = scores - scores.max(axis=1, keepdims=True)
    chosen = np.take_along_axis(shifted, labels[:, None], axis=1)
    return (np.log(np.exp(shifted).sum(axis=1)) - chosen[:, 0]).mean()


def looped(x: Any) -> Any:
    scale: Any = 1.0 / np.sqrt(x.sum(axis=0))

    def body(i: Any, c: Any) -> Any:
        return np.cumsum(c * scale, axis=0) - c.max()

    return mlc.fori_loop(0, 4, body, x)


@pytest.mark.parametrize("fusion", ["none", "all", "fnr", "greedy", "exact"])
def test_every_edge_has_an_answer(fusion: Any) -> None:
    rng = np.random.default_rng(1)
    x = rng.random((40, 30), np.float32)
    cases: list[tuple[Any, tuple[Any, ...]]] = [
        (scaled, (x,)),
        (looped, (x,)),
        (mlp, (x, rng.random((30, 20), np.float32), rng.random((20, 5), np.float32),
               rng.integers(0, 5, 40))),
    ]  # fmt: skip
    from dataclasses import replace

    for function, arguments in cases:
        exe = mlc.compile(function).lower(*arguments).compile()
        exe.levels.options = replace(exe.levels.options, fusion=fusion)
        exe.levels.planned = None
        kernels = exe.plan().kernel_count
        edges = exe.unfused()
        assert edges, "these programs have several kernels"
        for edge in edges:
            check(edge, kernels)
            assert (edge.rule == "fusion") == (fusion == "none")
