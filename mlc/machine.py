"""
What loops take on this machine, measured: `mlc machine --measure`.

Each figure of a `LoopCosts` is the one that makes a prediction true: of two programs that differ in
little but what it is of, how much longer the one takes, by the clock and by the model. So a figure
is what the model means by it, and none is fitted to programs that people write.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import numpy as np

from mlc.dialects.analysis.trips import running_kernels
from mlc.dialects.errors import MlcError
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.loop_costs import LoopCosts
from mlc.dialects.tensor.registry import OPS
from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.numpy.creation import arange
from mlc.frontend.trace.loops import scan
from mlc.knobs import Fusion
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.prediction import predicted_seconds
from mlc.profile import Profiler
from mlc.runtime import probe

RUN_S = 0.012
"""Of one program, in one round."""
ROUNDS = 3
"""In turn, the least of which counts: other work only ever adds."""
HALVINGS = 24
HIDDEN = 1e-3
"""Of a difference, what a figure may add that other things hide."""
AGREE, REFUSED = 0.1, 0.5
"""Shares by which the best two rounds of a rate may differ: to be believed, and to be kept."""
MOST_ROUNDS = 8
LIMIT = 16.0
"""A figure is so many times its row's at most, and a sixteenth of it at least."""

DTYPES = (np.float32, np.float64)
LANES = 1536
"""Elements of a program whose functions are measured."""
SOURCE = "measured by `mlc machine --measure`"

Program = Callable[..., Any]
Shape = tuple[int, ...]
Given = tuple[Program, tuple[Shape, ...]]


def shifted(x: Any) -> Any:
    return x + 1


def between(x: Any) -> Any:
    return abs(x + 1) * 0.5


def by_row(x: Any, c: Any) -> Any:
    return x + c


def row_sums(x: Any) -> Any:
    return x.sum(-1)


def column_sums(x: Any) -> Any:
    return x.sum(0)


def column_maxima(x: Any) -> Any:
    return x.max(0)


def positions(x: Any) -> Any:
    return x.argmax(-1)


def numbered(x: Any) -> Any:
    return x + arange(x.shape[0], dtype=np.float32)


def halved(x: Any) -> Any:
    return x.max((0, 1))


def every_third(x: Any) -> Any:
    return x[::3] + 1


def column(x: Any) -> Any:
    return x[:, 3] + 1


def first_column(x: Any) -> Any:
    return x[:, 0] + 1


def every_page(x: Any) -> Any:
    return x[::256] + 1


def turned(x: Any, y: Any) -> Any:
    return x.T + y


def picked(x: Any, i: Any) -> Any:
    return x[i]


def ordered(x: Any) -> Any:
    return np.sort(x, axis=-1)


def order(x: Any) -> Any:
    return np.argsort(x, axis=-1)


def running(x: Any) -> Any:
    return np.cumsum(x, axis=-1)


def chain_of_sums(x: Any) -> Any:
    def step(last: Any, here: Any) -> Any:
        found = here - last
        return found, found

    return scan(step, np.float64(0), x)


def three_taps(x: Any) -> Any:
    return x[2:] + x[1:-1] + x[:-2]


def nine_taps(x: Any) -> Any:
    ends = [x[k : k - 8] for k in range(8)]
    return sum(ends, x[8:])


def multiplied(x: Any, w: Any) -> Any:
    return x @ w


def biased(x: Any, w: Any) -> Any:
    return np.tanh(x @ w)


def divided(i: Any) -> Any:
    return 1000 // (i + 1)


def chain_of_quotients(i: Any) -> Any:
    def step(last: Any, here: Any) -> Any:
        found = (last + 1000) // (here + 1)
        return found, found

    return scan(step, np.int64(0), i)


def quotient(x: Any) -> Any:
    return 1.5 / x


def power(x: Any) -> Any:
    return x**-1.3


def whole_quotient(x: Any) -> Any:
    return x // 0.3


def remainder(x: Any) -> Any:
    return x % 0.3


def hypotenuse(x: Any) -> Any:
    return np.hypot(x, 0.5)


def angle(x: Any) -> Any:
    return np.arctan2(x, 0.5)


@dataclass(frozen=True)
class Probe:
    """A figure, and two programs with what they are given; of the second the first is taken off."""

    figure: str
    few: Given
    many: Given
    dtype: Any = np.float32
    kernel: int | None = None
    """The one that counts, of as many as there are ops. Between others: what it reads and writes
    begins where lines begin, which arguments and results of NumPy do not."""


PROBES = (
    Probe("vector_step_cycles", (between, ((512,),)), (between, ((1536,),)), kernel=1),
    Probe("tap_cycles", (three_taps, ((1026,),)), (nine_taps, ((1032,),))),
    Probe("row_start_cycles", (by_row, ((16, 96), (16, 1))), (by_row, ((48, 32), (48, 1)))),
    Probe("masked_store_cycles", (by_row, ((48, 32), (48, 1))), (by_row, ((48, 31), (48, 1)))),
    Probe("reduce_step_cycles", (row_sums, ((16, 64),)), (row_sums, ((16, 192),))),
    Probe("fold_cycles", (row_sums, ((2, 480),)), (row_sums, ((12, 80),))),
    Probe("joined_fold_cycles", (row_sums, ((16, 128),)), (row_sums, ((64, 32),))),
    Probe("masked_load_cycles", (row_sums, ((64, 32),)), (row_sums, ((64, 31),))),
    Probe("extreme_step_cycles", (positions, ((16, 64),)), (positions, ((16, 192),))),
    Probe("extreme_fold_cycles", (positions, ((2, 480),)), (positions, ((12, 80),))),
    Probe("few_rows_vector_cycles", (column_sums, ((16, 64),)), (column_sums, ((16, 192),))),
    Probe("down_step_cycles", (column_sums, ((16, 64),)), (column_sums, ((48, 64),))),
    Probe("many_rows_vector_cycles", (column_sums, ((256, 64),)), (column_sums, ((512, 64),))),
    Probe("short_loop_cycles", (column_maxima, ((4, 16, 32),)), (halved, ((2, 2, 16, 32),))),
    Probe("iota_cycles", (shifted, ((1536,),)), (numbered, ((1536,),))),
    Probe("strided_cycles", (every_third, ((768,),)), (every_third, ((3072,),))),
    Probe("column_cycles", (first_column, ((64, 3),)), (first_column, ((256, 3),))),
    Probe("apart_cycles", (column, ((64, 20),)), (column, ((256, 20),))),
    Probe("conflict_cycles", (every_page, ((1 << 14,),)), (every_page, ((1 << 16,),))),
    Probe("turned_cycles", (by_row, ((32, 32), (32, 32))), (turned, ((32, 32), (32, 32)))),
    Probe("strided_f64_cycles", (every_third, ((768,),)), (every_third, ((1536,),)), np.float64),
    Probe("apart_f64_cycles", (column, ((64, 20),)), (column, ((192, 20),)), np.float64),
    Probe(
        "conflict_f64_cycles", (every_page, ((1 << 13,),)), (every_page, ((1 << 15,),)), np.float64
    ),
    Probe(
        "turned_f64_cycles",
        (by_row, ((32, 32), (32, 32))),
        (turned, ((32, 32), (32, 32))),
        np.float64,
    ),
    Probe("gathered_cycles", (picked, ((1024,), (-128,))), (picked, ((1024,), (-512,)))),
    Probe("gathered_row_cycles", (picked, ((32, 32), (-8,))), (picked, ((32, 32), (-32,)))),
    Probe("sort_cycles", (ordered, ((4, 256),)), (ordered, ((12, 256),))),
    Probe("argsort_cycles", (order, ((4, 256),)), (order, ((12, 256),))),
    Probe("scan_cycles", (running, ((4, 128),)), (running, ((12, 128),))),
    Probe("scan_f64_cycles", (running, ((4, 128),)), (running, ((12, 128),)), np.float64),
    Probe("add_latency_cycles", (chain_of_sums, ((200,),)), (chain_of_sums, ((600,),)), np.float64),
    Probe("integer_divide_cycles", (divided, ((-128,),)), (divided, ((-512,),))),
    Probe(
        "integer_divide_latency_cycles",
        (chain_of_quotients, ((-200,),)),
        (chain_of_quotients, ((-600,),)),
    ),
    Probe(
        "tile_epilogue_factor", (multiplied, ((48, 64), (64, 64))), (biased, ((48, 64), (64, 64)))
    ),
)


def of_ufunc(function: Callable[..., Any]) -> Program:
    """A program of one function."""

    def found(x: Any) -> Any:
        return function(x)

    return found


UFUNCS = (
    "sqrt", "cbrt", "exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sin", "cos", "tan",
    "asin", "acos", "atan", "sinh", "cosh", "tanh",
)  # fmt: skip
"""Ops of one operand whose cycles a row may have."""
_OPS: Mapping[str, Any] = {op.name.removeprefix("mlc."): op for op in OPS}

FUNCTIONS: Mapping[str, Program] = {
    "div": quotient, "pow": power, "floor_div": whole_quotient, "mod": remainder,
    "hypot": hypotenuse, "atan2": angle, **{name: of_ufunc(_OPS[name].NUMPY) for name in UFUNCS},
}  # fmt: skip
"""Ops whose cycles a row may have."""


class Timed:
    """A program with a clock around its kernels, and what they took."""

    def __init__(
        self,
        program: Program,
        shapes: Sequence[Shape],
        dtype: Any = np.float32,
        kernel: int | None = None,
    ) -> None:
        """Arguments lie at each place in a line that NumPy gives them."""
        numbers = np.random.default_rng(0)
        given = [
            numbers.integers(0, 8, -s[0]) if s[0] < 0 else numbers.random(s).astype(dtype)
            for s in shapes
        ]
        fusion: Fusion = "exact" if kernel is None else "none"
        levels = compile_function(program, threads=1, fusion=fusion).lower(*given).levels
        self.counts = slice(kernel, None if kernel is None else kernel + 1)
        self.profiler = Profiler(levels)
        self.arguments = [[_at(x, offset) for x in given] for offset in range(0, 64, 16)]
        self.seconds = [[math.inf] * self.profiler.count for _ in self.arguments]
        self.runs: Sequence[int] = ()

    def run(self, seconds: float) -> None:
        """The least of each kernel so far. Results are kept, so that others lie elsewhere."""
        held: list[object] = []
        for k, arguments in enumerate(self.arguments):
            held += [bytearray(16 * k + 40), self.profiler.entry.builtin(*arguments)]
            found = self.profiler.run(arguments, seconds / len(self.arguments))
            self.seconds[k] = [*map(min, self.seconds[k], found.seconds)]
            self.runs = found.runs

    @property
    def measured_s(self) -> float:
        """Of a call, of all places in a line."""
        return sum(sum(x[self.counts]) for x in self.seconds) / len(self.seconds)

    def predicted_s(self, target: CpuTarget) -> float:
        """Of a call."""
        found = predicted_seconds(self.profiler.plan, target, {})
        kernels = running_kernels(self.profiler.plan)
        each = [found[k] * runs for k, runs in zip(kernels, self.runs, strict=True)]
        return sum(each[self.counts])


def _at(x: Any, offset: int) -> Any:
    """A copy that lies so many bytes behind the beginning of a line."""
    room = np.empty(x.nbytes + 128, np.uint8)
    start = -room.ctypes.data % 64 + offset
    found = room[start : start + x.nbytes].view(x.dtype).reshape(x.shape)
    found[...] = x
    return found


@dataclass(frozen=True)
class TimedLoops:
    """Programs that differ in little, timed."""

    programs: Mapping[tuple[Program, tuple[Shape, ...], Any, int | None], Timed]
    plain: Mapping[Any, Timed]
    """By dtype: what functions are compared with."""
    functions: Mapping[str, Sequence[Timed]]

    def row(self, target: CpuTarget) -> LoopCosts:
        """What loops take, of a machine whose rates and waits are measured."""
        loops = self._functions(target)
        for x in PROBES:
            few, many = (self.programs[*given, x.dtype, x.kernel] for given in (x.few, x.many))
            with_figure = partial(_with, loops, x.figure)
            loops = with_figure(_figure(with_figure, few, many, target, getattr(loops, x.figure)))
        return loops

    def _functions(self, target: CpuTarget) -> LoopCosts:
        """The machine's row with what functions take."""
        loops = target.loops

        def cycles(name: str, few: Timed, many: Timed) -> float:
            def row(value: float) -> LoopCosts:
                return replace(loops, function_cycles=f"{name} {value} {value}")

            return _figure(row, few, many, target, usual=16.0)

        found = {
            name: [cycles(name, *pair) for pair in zip(self.plain.values(), both, strict=True)]
            for name, both in self.functions.items()
        }
        known = {name.removeprefix("mlc."): [*x] for name, x in loops.functions.items()} | found
        parts = (f"{name} {single:g} {double:g}" for name, (single, double) in known.items())
        return replace(loops, function_cycles=", ".join(parts))


def _with(loops: LoopCosts, figure: str, value: float) -> LoopCosts:
    return replace(loops, **{figure: value})


def timed_loops() -> TimedLoops:
    """All programs in turn."""
    programs = {
        (*given, x.dtype, x.kernel): Timed(*given, x.dtype, x.kernel)
        for x in PROBES
        for given in (x.few, x.many)
    }
    plain = {dtype: Timed(shifted, ((LANES,),), dtype) for dtype in DTYPES}
    functions = {
        name: [Timed(program, ((LANES,),), dtype) for dtype in DTYPES]
        for name, program in FUNCTIONS.items()
    }
    for _ in range(ROUNDS):
        for timed in (*programs.values(), *plain.values(), *chain(*functions.values())):
            timed.run(RUN_S)
    return TimedLoops(programs, plain, functions)


def _figure(
    row: Callable[[float], LoopCosts], few: Timed, many: Timed, target: CpuTarget, usual: float
) -> float:
    def more(value: float) -> float:
        there = replace(target, loops=row(value))
        return many.predicted_s(there) - few.predicted_s(there)

    return solved(more, many.measured_s - few.measured_s, usual=usual)


def solved(more: Callable[[float], float], wanted: float, *, usual: float) -> float:
    """The figure with which one program is predicted to take as much longer as it does."""
    low, high = usual / LIMIT, usual * LIMIT
    # where reads hide it, or the clock does: the most that changes nothing, and no more is known
    wanted = max(wanted, more(low) + HIDDEN * abs(more(low)))
    for _ in range(HALVINGS):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if more(middle) < wanted else (low, middle)
    return float(f"{low:.3g}")


Figures = Mapping[str, float]


def rates_once() -> dict[str, float]:
    """What `probe` measures, by name: rates, and waits upside down, so that more is better."""
    target = probe.measure()
    waits = probe.measured_waits(target)
    rates: dict[str, float] = {name: getattr(target, name) for name in probe.MEASURED_FIELDS}
    return rates | {name: 1 / wait for name, wait in waits.items()}


def best_of(rounds: Sequence[Figures]) -> tuple[dict[str, float], dict[str, float]]:
    """
    The best of each figure, and by which share the second best is less. Other work on the machine
    only ever takes: what two rounds agree on it has not touched.
    """
    sorted_by_name = {name: sorted((r[name] for r in rounds), reverse=True) for name in rounds[0]}
    best = {name: values[0] for name, values in sorted_by_name.items()}
    return best, {name: 1 - values[1] / values[0] for name, values in sorted_by_name.items()}


def agreed(rounds: list[Figures], once: Callable[[], Figures]) -> tuple[Figures, Figures]:
    """
    As `best_of`, after more rounds where the best two of any figure are apart: `MOST_ROUNDS` at
    most. MlcError where even then they are so far apart that a plan by them would be a guess.
    """
    while len(rounds) < 2 or max(best_of(rounds)[1].values()) > AGREE:
        if len(rounds) >= MOST_ROUNDS:
            break
        rounds.append(once())
    best, apart = best_of(rounds)
    if max(apart.values()) > REFUSED:
        raise MlcError(
            f"this machine was measured {len(rounds)} times, and the best two of each differ: "
            f"{spread_of(apart)}; expected at most {REFUSED:.0%}. Nothing is kept: measure again "
            "when less other work runs"
        )
    return best, apart


def spread_of(apart: Figures) -> str:
    """The figures whose best two rounds are more than `AGREE` apart."""
    worst = sorted(apart.items(), key=lambda x: -x[1])
    return ", ".join(f"{name} by {share:.0%}" for name, share in worst if share > AGREE)


def measure() -> tuple[CpuTarget, str]:
    """
    This machine, its rates and its loops measured, and kept for later processes; and the rates that
    its rounds do not agree on, "" where they do. Rates are measured before the loops and after.
    """
    first = rates_once()
    timed = timed_loops()
    best, apart = agreed([first], rates_once)
    rates = {name: best[name] for name in probe.MEASURED_FIELDS}
    waits = {name: 1 / best[name] for name in best.keys() - rates.keys()}
    target = replace(probe.estimated_target(), source=probe.SOURCE, **rates)
    target = replace(target, loops=replace(target.loops, **waits, source=SOURCE))
    target = replace(target, loops=timed.row(target))
    probe.keep(target)
    return target, spread_of(apart)
