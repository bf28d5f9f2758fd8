"""
`mlc tile`: the schedules that a product may have, what each should take and why, and what it takes.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, replace
from functools import partial
from typing import Any

import numpy as np

from mlc.command_line import UsageError
from mlc.dialects.dtypes import DType, named_dtype
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget
from mlc.dialects.target.known import CPUS
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tile.words import Grain, Words, spell
from mlc.executable import compile_module
from mlc.frontend.call.compile import compile as mlc_compile
from mlc.frontend.call.spec import TensorSpec
from mlc.lazy_dataclass import dataclass
from mlc.levels import Levels
from mlc.passes.plan.tiling.schedule import with_words as give_words
from mlc.passes.report.explain.markup import amount, seconds
from mlc.passes.tile.choose import ROUTES, Candidate, choose_schedule, refused
from mlc.passes.tile.predict import Problem, predict, row_of, usable_rows
from mlc.passes.tile.products import WordsOf, refusal
from mlc.runtime.probe import host_target
from mlc.timing import measure
from mlc.waiting import progress

SUMS = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32"}
"""dtype of the factors -> of the sums, where they differ."""


@dataclass(frozen=True)
class Schedules:
    """Everything that `mlc tile` says of one product."""

    problem: Problem
    target: CpuTarget
    candidates: tuple[Candidate, ...]
    current: Words | None  # what the compiler takes now
    measured: tuple[tuple[Words, float], ...] = ()
    cut: WordsOf | None = None  # the product, where words can cut it

    def stopped(self, words: Words) -> str | None:
        """Why a schedule does not run."""
        return "no words cut this product" if self.cut is None else self.cut.unapplied(words)

    def to_json(self) -> str:
        """For programs."""
        took = dict(self.measured)
        rows = [
            {
                "route": c.route,
                "words": spell(c.words),
                "predicted": {**asdict(c.predicted), "seconds": c.seconds},
                "runs": self.stopped(c.words) is None,
                "current": c.words == self.current,
                "measured_s": took.get(c.words),
            }
            for c in self.candidates
        ]
        return json.dumps({"problem": asdict(self.problem), "candidates": rows}, indent=1)

    def __str__(self) -> str:
        return "\n".join(("".join(_heading(self)), "", *_rows(self), "", *_refusals(self)))


def _heading(found: Schedules) -> tuple[str, ...]:
    """The product, the machine, and what its best instruction could do."""
    p, t = found.problem, found.target
    batch = f"{p.batch} x " if p.batch > 1 else ""
    left = "A" if p.a_unit == "k" else "Aᵀ"
    right = "B" if p.b_unit == "n" else "Bᵀ"
    kind = p.dtypes[0] if p.dtypes[0] == p.dtypes[2] else f"{p.dtypes[0]} into {p.dtypes[2]}"
    peak = max(row_of(p, c.words, t).macs_per_cycle(t) for c in found.candidates) * t.clock_hz
    threads = f"{p.threads} thread{'s' if p.threads > 1 else ''}"
    return (
        f"{batch}{left}[{p.m}, {p.k}] · {right}[{p.k}, {p.n}], {kind}, on {t.name}, {threads}\n",
        f"{amount(2 * p.macs)} operations; {seconds(p.macs / peak / p.threads)} at",
        f" {amount(2 * peak * p.threads)} a second",
    )


def _rows(found: Schedules) -> Iterator[str]:
    """Each candidate: what it takes, what it reads, whether it runs, and why not it."""
    took, best = dict(found.measured), found.candidates[0]
    yield "    seconds    measured   loads  level 1  level 2  level 3   memory  words"
    for number, c in enumerate(found.candidates, 1):
        p = c.predicted
        read = "".join(f"{amount(x):>9}" for x in p.bytes)
        measured = seconds(took[c.words]) if c.words in took else ""
        numbers = f"{seconds(c.seconds):<10} {measured:<10} {p.loads:>5.2f}{read}"
        yield f"{number:>2}  {numbers}  {spell(c.words)}"
        stopped = found.stopped(c.words)
        said = [c.route, "what the compiler takes now" if c.words == found.current else ""]
        said.append(f"does not run yet: {stopped}" if stopped else "")
        said.append("" if c is best else why_not(best, c))
        yield f"    {'; '.join(filter(None, said))}"


def why_not(best: Candidate, other: Candidate) -> str:
    """What makes a schedule slower than the best one."""
    if other.seconds <= best.seconds * 1.001:
        return "as fast as the first"
    parts = (
        ("arithmetic and loads", "core_s"), ("reads", "wait_s"),
        ("lines of rows that lie apart", "line_s"), ("writes of sums", "write_s"),
        ("copies", "pack_s"), ("starts and barriers", "start_s"),
    )  # fmt: skip
    more = [
        (getattr(other.predicted, field) - getattr(best.predicted, field), name)
        for name, field in parts
    ]
    most, name = max(more)
    if other.predicted.workers < best.predicted.workers:
        name = f"{other.predicted.workers} of {best.predicted.workers} workers: {name}"
    return f"{other.seconds / best.seconds - 1:.1%} slower: {name} {seconds(max(most, 0.0))} more"


def _refusals(found: Schedules) -> Iterator[str]:
    """The routes that the product has not, and why."""
    for route in ROUTES:
        if (said := refused(route, found.problem, found.target)) is not None:
            yield f"not {route}: {said}"


def schedules_of(problem: Problem, target: CpuTarget, levels: Levels) -> Schedules:
    """The candidates, and among them what the compiler takes now."""
    found = choose_schedule(problem, target)
    kernel = contraction_of(levels)
    schedule = None if kernel is None or kernel.schedule is None else kernel.schedule.data
    current: Words | None = None
    cut = WordsOf(kernel, target) if kernel is not None and refusal(kernel) is None else None
    if cut is not None:
        found = _applied(found, cut, problem)
    if schedule is not None and schedule.cuts:
        current = tuple(word for word in schedule.cuts if not isinstance(word, Grain))
    if current is not None and all(c.words != current for c in found):
        route = "blocked" if "pack" in spell(current) else "panel"
        mine = Candidate(route, current, predict(problem, current, target))
        found = tuple(sorted((*found, mine), key=lambda c: c.seconds))
    return Schedules(problem, target, found, current, cut=cut)


def _applied(offered: Iterable[Candidate], cut: WordsOf, problem: Problem) -> tuple[Candidate, ...]:
    """What becomes of candidates for a team of any size, each once, the fastest first."""
    found: dict[Words, Candidate] = {}
    for c in offered:
        words = cut.applied(c.words)
        predicted = predict(problem, words, cut.target)
        found.setdefault(words, Candidate(c.route, words, predicted))
    return tuple(sorted(found.values(), key=lambda c: c.seconds))


# the program of a product


def program_of(problem: Problem, target: str, threads: int) -> Levels:
    """The product as a program, for arrays of these sizes."""
    turned, sums = (problem.a_unit == "m", problem.b_unit == "k"), problem.dtypes[2]
    wide = named_dtype(sums).numpy if named_dtype(sums).is_integer else None

    def product(a: Any, b: Any) -> Any:
        if turned[0]:
            a = np.swapaxes(a, -1, -2)
        if turned[1]:
            b = np.swapaxes(b, -1, -2)
        if wide is not None:
            return a.astype(wide) @ b.astype(wide)
        return a @ b

    shapes = _shapes(problem)
    specs = [TensorSpec(*s, dtype=d) for s, d in zip(shapes, problem.dtypes, strict=False)]
    compiled: Any = mlc_compile(target=target, threads=threads)(product)
    levels: Levels = compiled.lower(*specs).levels
    return levels


def _shapes(problem: Problem) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Of the arrays that a call gives."""
    p, batch = problem, (problem.batch,) if problem.batch > 1 else ()
    a = (p.m, p.k) if p.a_unit == "k" else (p.k, p.m)
    b = (p.k, p.n) if p.b_unit == "n" else (p.n, p.k)
    return (*batch, *a), (*batch, *b)


def contraction_of(levels: Levels) -> KernelOp | None:
    """The kernel of the plan that multiplies."""
    kernels = (op for op in levels.plan().walk() if isinstance(op, KernelOp))
    return next(filter(_multiplies, kernels), None)


def _multiplies(kernel: KernelOp) -> bool:
    return any(isinstance(op, Product) for op in kernel.block.ops)


def with_words(levels: Levels, words: Words) -> Callable[..., object]:
    """The program with this schedule, as code."""
    module = levels.at("plan")
    for op in module.walk():
        if isinstance(op, KernelOp) and _multiplies(op):
            give_words(op, words)
    return compile_module(module, levels.signature, levels.options).builtin


def measured(
    levels: Levels, schedules: Schedules, count: int, said: Callable[[str, float], None]
) -> tuple[tuple[Words, float], ...]:
    """Seconds of a call of the first few candidates that run now, in turn."""
    problem = schedules.problem
    runs = [c.words for c in schedules.candidates if schedules.stopped(c.words) is None][:count]
    if schedules.current is not None and schedules.current not in runs:
        runs.append(schedules.current)
    functions: list[Callable[..., object]] = []
    for k, words in enumerate(runs):
        said("compiling", k / len(runs))
        functions.append(with_words(levels, words))
    took = measure(functions, inputs_of(problem), partial(said, "timing in turn"))
    said("", 0.0)
    return tuple(sorted(zip(runs, took, strict=True), key=lambda pair: pair[1]))


def inputs_of(problem: Problem) -> list[np.ndarray[Any, Any]]:
    """Arrays to multiply."""
    rng = np.random.default_rng(0)

    def values(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        if dtype.is_integer:
            return rng.integers(0, 100, shape).astype(dtype.numpy)
        return rng.standard_normal(shape).astype(dtype.numpy)

    dtypes = map(named_dtype, problem.dtypes)
    return [values(shape, dtype) for shape, dtype in zip(_shapes(problem), dtypes, strict=False)]


def of_command_line(args: argparse.Namespace) -> Schedules | str:
    """What `mlc tile` prints. UsageError where the product or the machine is none."""
    problem = problem_of(args)
    known = {"host": host_target(), **{row.name: row for row in CPUS}}
    target = known.get(args.target)
    if target is None:
        raise UsageError(f"--target {args.target}: expected a processor, {', '.join(known)}")
    if args.measure and target.isa() != host_target().isa() and args.target != "host":
        raise UsageError(f"--measure runs on this machine; --target {args.target} may be another")
    if not usable_rows(problem.dtypes, target):
        raise UsageError(
            f"--dtype {args.dtype}: {args.target} has no instruction that multiplies it"
        )
    levels = program_of(problem, args.target, problem.threads)
    found = schedules_of(problem, target, levels)
    kept = [c for k, c in enumerate(found.candidates) if k < args.first or c.words == found.current]
    found = replace(found, candidates=tuple(kept))
    if args.measure:
        found = replace(found, measured=measured(levels, found, args.first, progress))
    return found.to_json() if args.json else found


def problem_of(args: argparse.Namespace) -> Problem:
    """The product that a command line says."""
    for name in ("m", "n", "k", "batch", "threads", "first"):
        if getattr(args, name) < 1:
            raise UsageError(f"{name} = {getattr(args, name)}; expected 1 or more")
    try:
        named_dtype(args.dtype)
    except TypeError as error:
        raise UsageError(f"--dtype: {error}") from None
    dtype = str(args.dtype)
    return Problem(
        m=args.m, n=args.n, k=args.k, batch=args.batch, threads=args.threads,
        dtypes=(dtype, dtype, SUMS.get(dtype, dtype)),
        a_unit="m" if "a" in args.transposed else "k",
        b_unit="k" if "b" in args.transposed else "n",
    )  # fmt: skip
