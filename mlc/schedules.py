"""
`mlc tile`: the schedules that a product may have, what each should take and why, and what it takes.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from functools import partial
from math import prod
from typing import Any, Protocol

import numpy as np

from mlc import gpu_schedules as gpu
from mlc.backends import backend_of
from mlc.command_line import UsageError, named
from mlc.dialects.dtypes import DType, named_dtype
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tile.words import Grain, Words, spell
from mlc.executable import compile_module
from mlc.frontend.call.compile import compile as mlc_compile
from mlc.frontend.call.spec import TensorSpec
from mlc.knobs import MOST_THREADS
from mlc.lazy_dataclass import dataclass
from mlc.levels import Levels
from mlc.passes.cost.prediction import predicted_seconds
from mlc.passes.plan.tiling.schedule import with_words as give_words
from mlc.passes.report.explain.markup import amount, seconds
from mlc.passes.tile.choose import ROUTES, Candidate, choose_schedule, refused
from mlc.passes.tile.predict import Prediction, Problem, predict, row_of, usable_rows
from mlc.passes.tile.products import WordsOf, refusal
from mlc.runtime.cuda import GpuError, gpu_target
from mlc.runtime.probe import host_target
from mlc.waiting import progress

SUMS = {"f16": "f32", "bf16": "f32", "i8": "i32", "u8": "i32"}
"""dtype of the factors -> of the sums, where they differ."""
MOST = 2**31 - 1  # of an axis: a word's step is at most that


class Offered(Protocol):
    """A candidate of either kind of machine."""

    @property
    def route(self) -> str: ...
    @property
    def words(self) -> Words: ...
    @property
    def predicted(self) -> Any: ...
    @property
    def seconds(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class Screen:
    """What is said of one kind of machine beside times and words."""

    heading: tuple[str, ...]
    titles: str
    numbers: Callable[[Any], str]  # of a prediction, below the titles
    parts: tuple[tuple[str, str], ...]  # of a prediction: what is said of a field
    refusals: tuple[str, ...] = ()


@dataclass(frozen=True)
class Schedules:
    """Everything that `mlc tile` says of one product."""

    problem: Problem
    screen: Screen
    candidates: tuple[Offered, ...]
    current: Words | None  # what the compiler takes now
    unapplied: Callable[[Words], str | None]
    """Why a schedule does not run."""
    measured: tuple[tuple[Words, float], ...] = ()

    def to_json(self) -> str:
        """For programs."""
        took = dict(self.measured)
        rows = [
            {
                "route": c.route,
                "words": spell(c.words),
                "predicted": {**asdict(c.predicted), "seconds": c.seconds},
                "runs": self.unapplied(c.words) is None,
                "current": c.words == self.current,
                "measured_s": took.get(c.words),
            }
            for c in self.candidates
        ]
        return json.dumps({"problem": asdict(self.problem), "candidates": rows}, indent=1)

    def __str__(self) -> str:
        rows = (*_rows(self), "") if self.candidates else ()
        return "\n".join((*self.screen.heading, "", *rows, *self.screen.refusals))


def _heading(p: Problem, target: Target, peak: float, on: str, also: str = "") -> tuple[str, ...]:
    """The product, the machine, and what its best instruction could do."""
    batch = f"{p.batch} x " if p.batch > 1 else ""
    left = "A" if p.a_unit == "k" else "Aᵀ"
    right = "B" if p.b_unit == "n" else "Bᵀ"
    kind = p.dtypes[0] if p.dtypes[0] == p.dtypes[2] else f"{p.dtypes[0]} into {p.dtypes[2]}"
    rate = f"{seconds(2 * p.macs / peak)} at {amount(peak)} a second"
    return (
        f"{batch}{left}[{p.m}, {p.k}] · {right}[{p.k}, {p.n}], {kind}, on {target.name}{on}",
        f"{amount(2 * p.macs)} operations{also}; {rate}",
    )


def _rows(found: Schedules) -> Iterator[str]:
    """Each candidate: what it takes, what it reads, whether it runs, and why not it."""
    took, best, screen = dict(found.measured), found.candidates[0], found.screen
    yield f"    seconds    measured   {screen.titles}  words"
    for number, c in enumerate(found.candidates, 1):
        measured = seconds(took[c.words]) if c.words in took else ""
        numbers = f"{seconds(c.seconds):<10} {measured:<10} {screen.numbers(c.predicted)}"
        yield f"{number:>2}  {numbers}  {spell(c.words)}"
        stopped = found.unapplied(c.words)
        said = [c.route, "what the compiler takes now" if c.words == found.current else ""]
        said.append(f"does not run yet: {stopped}" if stopped else "")
        said.append("" if c is best else why_not(best, c, screen.parts))
        yield f"    {'; '.join(filter(None, said))}"


def why_not(best: Offered, other: Offered, parts: tuple[tuple[str, str], ...]) -> str:
    """What makes a schedule slower than the best one."""
    if other.seconds <= best.seconds * 1.001:
        return "as fast as the first"
    more = [
        (getattr(other.predicted, field) - getattr(best.predicted, field), name)
        for name, field in parts
    ]
    most, name = max(more)
    workers, all_of = (getattr(c.predicted, "workers", 1) for c in (other, best))
    if workers < all_of:
        name = f"{workers} of {all_of} workers: {name}"
    return f"{other.seconds / best.seconds - 1:.1%} slower: {name} {seconds(max(most, 0.0))} more"


def schedules_of(problem: Problem, target: Target, levels: Levels) -> Schedules:
    """The candidates, and among them what the compiler takes now."""
    return KINDS[type(target)](problem, target, levels)


# a GPU


def _on_gpu(problem: Problem, target: GpuTarget, levels: Levels) -> Schedules:
    kernel = contraction_of(levels)
    if kernel is None or kernel.schedule is None:
        screen = Screen(
            heading=_heading(problem, target, target.f32_flops_per_s, ""), titles=gpu.TITLES,
            numbers=gpu.numbers, parts=gpu.PARTS, refusals=("no kernel of it multiplies matrices",),
        )  # fmt: skip
        return Schedules(problem, screen, (), None, lambda _: None)
    also = gpu.said_of_factors(kernel)
    heading = _heading(
        problem, target, gpu.peak_of(kernel, target), "", f", {also}" if also else ""
    )
    taken = predicted_seconds(levels.plan(), target, {})
    if len(taken) > 1:
        beside = seconds(sum(s for op, s in taken.items() if op is not kernel))
        heading = (*heading, f"besides, what makes its factors or finishes it: {beside}")
    screen = Screen(
        heading=heading, titles=gpu.TITLES, numbers=gpu.numbers, parts=gpu.PARTS,
        refusals=tuple(gpu.refusals(kernel, target)),
    )  # fmt: skip
    current, found = kernel.schedule.data.words, gpu.gpu_candidates(kernel, target)
    if not found:
        (whole,) = (s for op, s in taken.items() if op is kernel)
        said = f"so it takes {seconds(whole)} by {spell(current)}"
        screen = replace(screen, refusals=(*screen.refusals, said))
    return Schedules(problem, screen, found, current, lambda _: None)


# a CPU


PARTS = (
    ("arithmetic and loads", "core_s"), ("reads", "wait_s"),
    ("lines of rows that lie apart", "line_s"), ("writes of sums", "write_s"),
    ("copies", "pack_s"), ("starts and barriers", "start_s"),
)  # fmt: skip
"""Of a prediction, by name."""


def _numbers(predicted: Prediction) -> str:
    read = "".join(f" {amount(x):>8}" for x in predicted.bytes)
    return f"{predicted.loads:>5.2f}{read}"


def _on_cpu(problem: Problem, target: CpuTarget, levels: Levels) -> Schedules:
    if not usable_rows(problem.dtypes, target):
        dtype = problem.dtypes[0]
        raise UsageError(f"--dtype {dtype}: {target.name} has no instruction that multiplies it")
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
    peak = max(row_of(problem, c.words, target).macs_per_cycle(target) for c in found)
    threads = f", {problem.threads} thread{'s' if problem.threads > 1 else ''}"
    heading = _heading(problem, target, 2 * peak * target.clock_hz * problem.threads, threads)
    refused_routes = (
        f"not {route}: {said}"
        for route in ROUTES
        if (said := refused(route, problem, target)) is not None
    )
    screen = Screen(
        heading=heading, titles="loads  level 1  level 2  level 3   memory",
        numbers=_numbers, parts=PARTS, refusals=tuple(refused_routes),
    )  # fmt: skip
    unapplied = _no_words if cut is None else cut.unapplied
    return Schedules(problem, screen, found, current, unapplied)


def _no_words(_: Words) -> str:
    return "no words cut this product"


def _applied(offered: Iterable[Candidate], cut: WordsOf, problem: Problem) -> tuple[Candidate, ...]:
    """What becomes of candidates for a team of any size, each once, the fastest first."""
    found: dict[Words, Candidate] = {}
    for c in offered:
        words = cut.applied(c.words)
        predicted = predict(problem, words, cut.target)
        found.setdefault(words, Candidate(c.route, words, predicted))
    return tuple(sorted(found.values(), key=lambda c: c.seconds))


# the program of a product


KINDS: Mapping[type[Target], Callable[[Problem, Any, Levels], Schedules]] = {
    CpuTarget: _on_cpu,
    GpuTarget: _on_gpu,
}
"""For each kind of machine: product, target, its program -> what is said."""


def of_results(dtype: str) -> dict[str, Any]:
    """Of a problem: what becomes of sums of factors of a dtype, which results are of as well."""
    narrow = dtype in SUMS and not named_dtype(dtype).is_integer
    return {"result": dtype, "apart": True} if narrow else {}


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
    runs = [c.words for c in schedules.candidates if schedules.unapplied(c.words) is None][:count]
    if schedules.current is not None and schedules.current not in runs:
        runs.append(schedules.current)
    arrays = inputs_of(schedules.problem)
    functions: list[Callable[..., object]] = []
    for k, words in enumerate(runs):
        said("compiling", k / len(runs))
        functions.append(with_words(levels, words))
    clock = backend_of(levels.options.target).measure
    took = clock(functions, arrays, partial(said, "timing in turn"))
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
    target = named(args.target).data
    if args.threads > 1 and target.launches_grids:
        raise UsageError(f"--threads {args.threads}: of processors; {args.target} is a GPU")
    if args.measure:
        _check_measuring(problem, target, args.target)
    try:
        levels = program_of(problem, args.target, problem.threads)
    except MlcError as error:
        said = str(error).splitlines()[0]
        raise UsageError(f"--dtype {args.dtype}: {said}") from None
    found = schedules_of(problem, target, levels)
    kept = [c for k, c in enumerate(found.candidates) if k < args.first or c.words == found.current]
    found = replace(found, candidates=tuple(kept))
    if args.measure:
        found = replace(found, measured=measured(levels, found, args.first, progress))
    return found.to_json() if args.json else found


def _check_measuring(problem: Problem, target: Target, name: str) -> None:
    """UsageError where this machine is another one, or has no room for the product."""
    if target.launches_grids:
        try:
            own = gpu_target()
        except GpuError as error:
            raise UsageError(f"--measure: {error}") from None
    else:
        own = host_target()
    if name not in ("host", "cuda") and target.isa() != own.isa():
        raise UsageError(
            f"--measure runs on this machine, {own.name}; --target {name} may be another"
        )
    sizes = (prod(shape) for shape in (*_shapes(problem), (problem.batch, problem.m, problem.n)))
    wanted = sum(n * named_dtype(x).bytes for n, x in zip(sizes, problem.dtypes, strict=True))
    room = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    if wanted > room:
        raise UsageError(
            f"--measure: the product is {amount(wanted)}B; this machine has {amount(room)}B"
        )


def problem_of(args: argparse.Namespace) -> Problem:
    """The product that a command line says."""
    for name in ("m", "n", "k", "batch", "threads", "first"):
        if getattr(args, name) < 1:
            raise UsageError(f"{name} = {getattr(args, name)}; expected 1 or more")
        most = MOST_THREADS if name == "threads" else MOST
        if getattr(args, name) > most:
            raise UsageError(f"{name} = {getattr(args, name)}; expected at most {most}")
    try:
        named_dtype(args.dtype)
    except TypeError as error:
        raise UsageError(f"--dtype: {error}") from None
    dtype = str(args.dtype)
    return Problem(
        m=args.m, n=args.n, k=args.k, batch=args.batch, threads=args.threads,
        dtypes=(dtype, dtype, SUMS.get(dtype, dtype)), **of_results(dtype),
        a_unit="m" if "a" in args.transposed else "k",
        b_unit="k" if "b" in args.transposed else "n",
    )  # fmt: skip
