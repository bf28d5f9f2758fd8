"""Rules that are found: complete at two ops, the same in every run, each with a test."""

from __future__ import annotations

import argparse
import io
import os
import shlex
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from filecheck.main import main as filecheck

from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.op import Array
from mlc.discovery import Worker, write, write_tests
from mlc.discovery import run as main
from mlc.driver import COMMANDS
from mlc.opt import main as opt
from mlc.parsers import parser
from mlc.passes.discovery.find import Found, discover
from mlc.passes.discovery.generality import matches, with_terms
from mlc.passes.discovery.residues import drawn
from mlc.passes.discovery.results import pairs_of_two
from mlc.passes.discovery.table import Table
from mlc.passes.discovery.terms import Pair, Term, count, operands_of, subterms, variables
from mlc.passes.discovery.words import DOCUMENTS, WORDS, Space, spaces

ROOT = Path(__file__).parent.parent
GOLDEN = ROOT / "tests" / "data" / "rules" / "discovered"
OPS = ("add", "mul", "relu", "transpose", "matmul")
ORIGIN = f"discovered ops={','.join(OPS)} depth=2"


def found_at(depth: int, ops: Sequence[str]) -> Found:
    origin = f"discovered ops={','.join(ops)} depth={depth}"
    with Worker(1, origin, None, None) as work:
        return discover(spaces(ops), depth, None, work)


@pytest.fixture(scope="module")
def found() -> Found:
    return found_at(2, OPS)


def test_files_are_the_golden_ones(found: Found, tmp_path: Path) -> None:
    """`mlc discover --ops add,mul,relu,transpose,matmul --depth 2 --no-tests -o …/discovered`"""
    write(found, tmp_path)
    for path in GOLDEN.iterdir():
        assert (tmp_path / path.name).read_text() == path.read_text(), path.name


def run(folder: Path, seed: int, *options: str) -> str:
    command = [sys.executable, "-m", "mlc", "discover", "--no-tests", "-o", str(folder), *options]
    environment = {**os.environ, "PYTHONHASHSEED": str(seed)}
    done = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_several_processes_write_the_golden_files(tmp_path: Path) -> None:
    run(tmp_path, 7, "--ops", ",".join(OPS), "--depth", "2", "--processes", "2")
    for path in GOLDEN.iterdir():
        assert (tmp_path / path.name).read_text() == path.read_text(), path.name


def arguments(folder: Path, *options: str) -> argparse.Namespace:
    return parser(COMMANDS).parse_args(["discover", "--no-tests", "-o", str(folder), *options])


def discovered(folder: Path, *options: str) -> dict[str, str]:
    assert main(arguments(folder, "--ops", "relu,transpose", "--processes", "1", *options)) == 0
    return {path.name: path.read_text() for path in folder.iterdir()}


def test_a_stopped_run_goes_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = discovered(tmp_path / "whole")
    state = str(tmp_path / "state")
    stopped = discovered(tmp_path / "stopped", "--resume", state, "--seconds", "0")
    assert "# The search was stopped: there are more." in stopped["smaller.rules"]
    assert "files are partial" in capsys.readouterr().err
    assert discovered(tmp_path / "on", "--resume", state) == whole
    keys = sorted(Path(state).iterdir())
    assert [path.name for path in keys] == [
        "matrices-1-relu.npz", "matrices-1-transpose.npz", "matrices-2-relu.npz",
        "matrices-2-transpose.npz", "ops.txt", "verdicts.jsonl",
    ]  # fmt: skip
    times = [path.stat().st_mtime_ns for path in keys[:4]]
    assert discovered(tmp_path / "again", "--resume", state) == whole
    assert times == [path.stat().st_mtime_ns for path in keys[:4]]
    with pytest.raises(MlcError, match="it is of --ops relu,transpose; expected --ops add"):
        main(arguments(tmp_path, "--ops", "add", "--resume", state))


def test_a_limit_cuts_the_same_programs_in_every_run(tmp_path: Path) -> None:
    first = discovered(tmp_path / "a", "--limit", "20")
    assert "# The search was stopped: there are more." in first["smaller.rules"]
    assert first == discovered(tmp_path / "b", "--limit", "20")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--ops", "ad"), "--ops: 'ad' is no op of these: add, sub, mul"),
        (("--ops", "add", "--depth", "0"), "--depth 0; expected 1 or more ops"),
    ],
)
def test_wrong_options(options: tuple[str, ...], said: str, tmp_path: Path) -> None:
    with pytest.raises(MlcError, match=said):
        main(arguments(tmp_path, *options))


# Brute force -------------------------------------------------------------------------------------


def programs(space: Space, size: int) -> Iterator[Term]:
    """All terms of at most so many ops, each counted once, in every order of operands."""
    known: list[Term] = list(range(len(space.inputs)))
    for _ in range(size):
        made: list[Term] = []
        for word in space.words:
            for a in known:
                for b in known if word.parts == 2 else (None,):
                    term = (word.name, a) if b is None else (word.name, a, b)
                    if count([term]) <= size:
                        made.append(term)
        known = list(dict.fromkeys([*known, *made]))
    yield from known


def values_of(space: Space, terms: Sequence[Term]) -> dict[Term, bytes]:
    """What terms are at other random inputs than those of the table, where they have a type."""
    words = {word.name: word for word in space.words}
    values = {k: drawn(k, shape, 123_457) for k, shape in enumerate(space.inputs)}
    known: dict[Term, Array] = {**values}
    for term in terms:
        if isinstance(term, int):
            continue
        operands = [known.get(x) for x in operands_of(term)]
        if any(x is None for x in operands):
            continue
        given = [x for x in operands if x is not None]
        if words[term[0]].shape(*(x.shape[2:] for x in given)) is not None:
            known[term] = words[term[0]].value(*given)
    return {t: f"{x.shape}".encode() + x.tobytes() for t, x in known.items()}


def rewritten(term: Term, pairs: Sequence[Pair]) -> Iterator[Term]:
    """What one rule makes of an op of a term, either way, wherever that op is read."""
    for part in dict.fromkeys(subterms(term)):
        for pair in pairs:
            for left, right in (pair.sides, pair.sides[::-1]):
                if not isinstance(left, int) and set(variables(right)) <= set(variables(left)):
                    for binding in matches(left, part, {}, set()):
                        yield replaced(term, part, with_terms(right, binding))


def replaced(term: Term, part: Term, by: Term) -> Term:
    if term == part:
        return by
    if isinstance(term, int):
        return term
    return (term[0], *(replaced(operand, part, by) for operand in operands_of(term)))


def unjoined(space: Space, pairs: Sequence[Pair]) -> list[set[Term]]:
    """Programs of at most two ops that are equal, but not by rules through such programs."""
    values = values_of(space, list(programs(space, 2)))
    label = {term: term for term in values}

    def first(term: Term) -> Term:
        while label[term] != term:
            term = label[term]
        return term

    for term, value in values.items():
        for other in rewritten(term, pairs):
            if other in values:
                assert values[other] == value, (term, other)
                label[first(other)] = first(term)
    by_value: dict[bytes, set[Term]] = {}
    for term, value in values.items():
        by_value.setdefault(value, set()).add(first(term))
    return [labels for labels in by_value.values() if len(labels) > 1]


def test_brute_force_finds_nothing_that_rules_do_not_imply(found: Found) -> None:
    (space,) = spaces(OPS)
    assert unjoined(space, [pair for pair in found.rules if pair.is_of_one]) == []


def test_brute_force_sees_what_is_missing(found: Found) -> None:
    space = Space("relu", ((2, 4),), WORDS["relu"])
    pairs = list(found.rules)
    assert unjoined(space, pairs) == []
    without = [pair for pair in pairs if str(pair) != "relu(relu(x)) -> relu(x)"]
    assert unjoined(space, without) == [{("relu", 0), ("relu", ("relu", 0))}]


# Tests of rules ----------------------------------------------------------------------------------


def passes(path: Path, scratch: Path) -> bool:
    """Whether a generated test passes: what its RUN line says, in this process."""
    (line,) = (x for x in path.read_text().splitlines() if x.startswith("// RUN: "))
    first, then = line.removeprefix("// RUN: ").split(" | ")
    assert then == "filecheck %s"
    arguments = shlex.split(first.replace("%s", str(path)).replace("%S", str(path.parent)))
    assert arguments[:2] == ["mlc", "opt"]
    said = io.StringIO()
    with redirect_stdout(said):
        assert opt(arguments[2:]) == 0
    output = scratch / "output.mlir"
    output.write_text(said.getvalue())
    heard = io.StringIO()
    with redirect_stdout(heard), redirect_stderr(heard), pytest.raises(SystemExit) as end:
        filecheck(["filecheck", str(path), "--input-file", str(output)])
    return end.value.code == 0


def test_generated_tests_pass(found: Found, tmp_path: Path) -> None:
    write_tests(write(found, tmp_path), tmp_path)
    tests = sorted((tmp_path / "lit").glob("*.mlir"))
    assert len(tests) == len(found.rules)
    for path in tests:
        assert passes(path, tmp_path), path.name
    broken = tests[0]
    broken.write_text(broken.read_text().replace("CHECK-NEXT: func.return", "CHECK-NEXT: absent"))
    assert not passes(broken, tmp_path)


@pytest.mark.slow
def test_generated_tests_of_three_ops_pass(tmp_path: Path) -> None:
    found = found_at(3, DOCUMENTS)
    assert len(found.rules) > 100
    write_tests(write(found, tmp_path), tmp_path)
    wrong = [p.name for p in (tmp_path / "lit").glob("*.mlir") if not passes(p, tmp_path)]
    assert wrong == []


# Parts -------------------------------------------------------------------------------------------


def test_two_results_become_parts_of_one_product() -> None:
    """At four ops: two factors joined, a product, and its two parts."""
    ops = ("matmul", "concat", "split")
    (space,) = spaces(ops)
    table = Table(space, 4)
    for _ in range(3):
        grow(table)
    table.starts.append(len(table))  # of four ops none is needed
    pairs = {str(pair): pair for pair in pairs_of_two(table)}
    product = "matmul(x, concat1(y, z))"
    said = f"matmul(x, y), matmul(x, z) -> first1({product}), second1({product})"
    with Worker(1, "here", None, None) as work:
        rule = work.verdict(pairs[said]).rule
    assert rule is not None
    assert (rule.equivalence, len(rule.left)) == ("exact", 2)
    assert rule.grade is not None
    assert (rule.grade.name, rule.grade.shapes) == ("axiomatic", "proven")


def grow(table: Table) -> None:
    tasks = [task for some in table.tasks() for task in some]
    table.extend(tasks, [table.keys_of(task) for task in tasks])
    table.keep_values()
