"""
`mlc discover`: rules that are found by enumeration, each verified, with a test of its own.

By one process or by several, the files are the same: keys are computed in chunks, and verdicts are
asked for in one order. What is known is kept in a folder, from which a later run goes on.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from multiprocessing.pool import Pool
from pathlib import Path
from typing import Any, Self

import numpy as np

from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.op import Array
from mlc.passes.discovery.find import Count, Found, StoppedError, Verdict, discover
from mlc.passes.discovery.lit_tests import CONFIGURATION, lit_test
from mlc.passes.discovery.order import is_smaller
from mlc.passes.discovery.statement import stated
from mlc.passes.discovery.table import CHUNK, Table, Task
from mlc.passes.discovery.terms import Pair
from mlc.passes.discovery.words import WORDS, Word, spaces
from mlc.passes.rules.grade import derivations_of, verify
from mlc.passes.rules.proofs import proofs_path, spell_proofs
from mlc.passes.rules.rule import Grade, Rule
from mlc.passes.rules.spell import spell
from mlc.passes.tensor.rules import EQUIVALENCE, Equivalence
from mlc.runtime.interpret import interpret
from mlc.waiting import progress

ALL_WORDS: dict[str, Word] = {w.name: w for s in spaces(list(WORDS)) for w in s.words}
PART = 4 * CHUNK  # programs that a process takes at once
FILES = ("smaller.rules", "other.rules")

_table: Table | None = None  # of which the processes that are forked compute keys


def verdict_of(pair: Pair, origin: str) -> Verdict:
    """The rule of a pair, of the strictest class that is true, with its grade."""
    why = ""
    for equivalence in EQUIVALENCE:
        rule = stated(pair, ALL_WORDS, equivalence, origin)
        if rule is None:
            return Verdict(None, "no type of both sides whose sizes the left one says")
        found = verify(rule, interpret)
        if found.grade is not None:
            return Verdict(replace(rule, grade=found.grade))
        why = found.counterexample
    return Verdict(None, why)


def _known_verdict(pair: Pair) -> tuple[Equivalence | None, Grade | None, str]:
    """A verdict as it goes from one process to another."""
    found = verdict_of(pair, "")
    if found.rule is None:
        return None, None, found.why
    return found.rule.equivalence, found.rule.grade, ""


def _keys(parts: tuple[int, tuple[int, ...], Array, Array]) -> Array:
    assert _table is not None
    return _table.keys_of(Task(*parts))


class Worker:
    """Computes keys and verdicts, by so many processes; `folder`: what is known, and will be."""

    def __init__(
        self, processes: int, origin: str, folder: Path | None, until: float | None
    ) -> None:
        self.processes, self.origin, self.folder, self.until = processes, origin, folder, until
        self.verdicts: dict[str, tuple[Equivalence | None, Grade | None, str]] = {}
        self.pool: Pool | None = None
        self.of_table: tuple[int, int] | None = None
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            self._load(folder / "verdicts.jsonl")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def _close(self) -> None:
        if self.pool is not None:
            self.pool.terminate()
            self.pool.join()
            self.pool = None

    def _check(self) -> None:
        if self.until is not None and time.monotonic() > self.until:
            raise StoppedError

    def _workers(self, table: Table | None) -> Pool:
        """Processes that see a table as it is now."""
        global _table
        state = self.of_table if table is None else (id(table), table.level)
        if self.pool is None or state != self.of_table:
            self._close()
            _table, self.of_table = table, state
            self.pool = multiprocessing.get_context("fork").Pool(self.processes)
        return self.pool

    # Keys ---------------------------------------------------------------------------------------

    def keys(self, table: Table, name: str, tasks: Sequence[Task]) -> list[Array]:
        """The keys of tasks; from the folder, where an earlier run has left them."""
        path = None if self.folder is None else self.folder / f"{name}.npz"
        count = sum(len(task.a) for task in tasks)
        if path is not None and path.exists():
            known = np.load(path)["keys"]
            if len(known) == count:
                ends = np.cumsum([len(task.a) for task in tasks])[:-1]
                return np.split(known, ends) if tasks else []
        found = self._computed(table, tasks)
        if path is not None:
            half = path.with_suffix(".half")
            with half.open("wb") as file:
                np.savez(file, keys=np.concatenate(found) if found else np.zeros(0, np.uint64))
            half.replace(path)
        return found

    def _computed(self, table: Table, tasks: Sequence[Task]) -> list[Array]:
        parts = [
            (k, (task.word, task.shapes, task.a[at : at + PART], task.b[at : at + PART]))
            for k, task in enumerate(tasks)
            for at in range(0, len(task.a), PART)
        ]
        run: Callable[..., Any] = map
        if self.processes > 1 and sum(len(part[2]) for _, part in parts) > PART:
            run = self._workers(table).imap
            compute: Callable[[Any], Array] = _keys
        else:
            compute = lambda part: table.keys_of(Task(*part))  # noqa: E731
        found: list[list[Array]] = [[np.zeros(0, np.uint64)] for _ in tasks]
        for (k, _), keys in zip(parts, run(compute, [part for _, part in parts]), strict=True):
            self._check()
            found[k].append(keys)
        return [np.concatenate(each) for each in found]

    # Verdicts -----------------------------------------------------------------------------------

    @property
    def looks_ahead(self) -> bool:
        """Whether there are processes to compute verdicts that may be asked for."""
        return self.processes > 1

    def ahead(self, pairs: Sequence[Pair]) -> None:
        """Computes verdicts of several pairs at once."""
        fresh = [p for p in dict.fromkeys(pairs) if _key(p) not in self.verdicts]
        if len(fresh) > 1:
            self._check()
            found = self._workers(None).imap(_known_verdict, fresh, 1)
            for pair, verdict in zip(fresh, found, strict=True):
                self._learn(pair, verdict)

    def verdict(self, pair: Pair) -> Verdict:
        """The verdict of a pair."""
        if _key(pair) not in self.verdicts:
            self._check()
            self._learn(pair, _known_verdict(pair))
        equivalence, grade, why = self.verdicts[_key(pair)]
        if equivalence is None:
            return Verdict(None, why)
        rule = stated(pair, ALL_WORDS, equivalence, self.origin)
        assert rule is not None
        return Verdict(replace(rule, grade=grade))

    def _learn(self, pair: Pair, found: tuple[Equivalence | None, Grade | None, str]) -> None:
        self.verdicts[_key(pair)] = found
        if self.folder is not None:
            equivalence, grade, why = found
            row = [_key(pair), equivalence, None if grade is None else asdict(grade), why]
            with (self.folder / "verdicts.jsonl").open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")

    def _load(self, path: Path) -> None:
        if not path.exists():
            return
        for line in path.read_text(encoding="utf-8").splitlines():
            try:
                key, equivalence, grade, why = json.loads(line)
            except ValueError:  # the run was ended while it wrote
                continue
            self.verdicts[key] = equivalence, grade and Grade(**grade), why

    def say(self, what: str, part: float) -> None:
        """How far the search is, on a terminal."""
        progress(what, part)


def _key(pair: Pair) -> str:
    return f"{pair} {pair.ranks}"


# The command


def run(args: argparse.Namespace) -> int:
    """`mlc discover …`; the exit status."""
    start = time.monotonic()
    options = args.ops.split(",")
    for name in options:
        if name not in WORDS:
            raise MlcError(f"--ops: {name!r} is no op of these: {', '.join(WORDS)}")
    if args.depth < 1:
        raise MlcError(f"--depth {args.depth}; expected 1 or more ops")
    folder = Path(args.output)
    resumed = None if args.resume is None else Path(args.resume)
    if resumed is not None:
        _same_question(resumed, options)
    until = None if args.seconds is None else start + args.seconds
    origin = f"discovered ops={','.join(options)} depth={args.depth}"
    with Worker(args.processes or len(os.sched_getaffinity(0)), origin, resumed, until) as work:
        found = discover(spaces(options), args.depth, args.limit, work)
    progress("", 0.0)
    written = write(found, folder)
    if not args.no_tests:
        write_tests(written, folder)
    print(table_of(found.counts))
    for name, rules in written.items():
        print(f"{len(rules):>6} rules in {folder / name}")
    print(f"{len(found.refused):>6} pairs refused; {time.monotonic() - start:.1f} s")
    if found.is_partial:
        print("stopped before the end: the files are partial", file=sys.stderr)
    return 0


def _same_question(folder: Path, options: Sequence[str]) -> None:
    """Keys are of one set of ops: a folder of another one is refused."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "ops.txt"
    said = ",".join(options)
    if path.exists() and (known := path.read_text(encoding="utf-8").strip()) != said:
        raise MlcError(f"--resume {folder}: it is of --ops {known}; expected --ops {said}")
    path.write_text(said + "\n", encoding="utf-8")


def write(found: Found, folder: Path) -> dict[str, list[Rule]]:
    """Writes rules and derivations, of rules that end into files of their own; rules by file."""
    folder.mkdir(parents=True, exist_ok=True)
    smaller = {rule.name for pair, rule in found.rules.items() if is_smaller(pair)}
    rules = sorted(found.rules.values(), key=lambda rule: rule.name)
    by_file = {
        FILES[0]: [rule for rule in rules if rule.name in smaller],
        FILES[1]: [rule for rule in rules if rule.name not in smaller],
    }
    heads = {
        FILES[0]: "# Rules whose right side costs less and reads nothing more often: they end.",
        FILES[1]: "# Rules of which no side is the smaller one: for searches, which ask for costs.",
    }
    for name, some in by_file.items():
        partial = "# The search was stopped: there are more.\n" if found.is_partial else ""
        text = f"{heads[name]}\n{partial}\n{spell(some)}"
        (folder / name).write_text(text, encoding="utf-8")
        proven = (r for r in some if r.grade is not None and r.grade.name == "axiomatic")
        proofs = dict(pair for rule in proven for pair in derivations_of(rule))
        proofs_path(folder / name).write_text(spell_proofs(proofs), encoding="utf-8")
    return by_file


def write_tests(by_file: dict[str, list[Rule]], folder: Path) -> None:
    """Writes a lit test for each rule, and takes away those of earlier runs."""
    tests = folder / "lit"
    tests.mkdir(exist_ok=True)
    for old in tests.glob("*.mlir"):
        old.unlink()
    (tests / "lit.cfg.py").write_text(CONFIGURATION, encoding="utf-8")
    for name, some in by_file.items():
        for k, rule in enumerate(some):
            progress("tests", k / len(some))
            text = lit_test(rule, f"../{name}")
            (tests / f"{rule.name}.mlir").write_text(text, encoding="utf-8")
    progress("", 0.0)


def table_of(counts: Sequence[Count]) -> str:
    """The counts as a table in Markdown: a row for each space and size."""
    stages = list(dict.fromkeys(count.stage for count in counts))
    rows: dict[tuple[str, int], dict[str, int]] = {}
    for count in counts:
        rows.setdefault((count.space, count.size), {})[count.stage] = count.number
    lines = [
        f"| space | ops | {' | '.join(stages)} |",
        f"|---|---|{'---|' * len(stages)}",
    ]
    for (space, size), found in rows.items():
        cells = (f"{found[s]:,}" if s in found else "" for s in stages)
        lines.append(f"| {space} | {size} | {' | '.join(cells)} |")
    return "\n".join(lines)
