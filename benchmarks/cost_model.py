"""
The cost model beside the clock: kernels of a set of programs, the programs, and pairs of plans.

    python -m benchmarks.cost_model --threads 1
    python -m benchmarks.cost_model --threads 1 --quick     without the largest size
    python -m benchmarks.cost_model --threads 1 --of kernels --plans none,exact --store F.json
    python -m benchmarks.cost_model --threads 1 --stored F.json

Each program is compiled once for each way of fusion. Its kernels are timed where they run (mlc/
profile.py), all programs in turn, round after round; the least of all rounds counts, because other
work on the machine only ever adds. The rates are the probe's, the best of one run before and one
after; what loops take is what `mlc machine --measure` has kept. A kernel under `LEAST_S` is not
compared: a clock read has that error. On one thread the phases of tile loops are compared in the
place of the loops.

`--of` says which set: `zoo`, or `kernels`, to which nothing in the model is fitted
(benchmarks/cost_cases.py). What `--store` keeps, `--stored` compares with what the model says now.
"""

from __future__ import annotations

import argparse
import gc
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.cost_cases import Case, cases, programs_of, store, stored
from benchmarks.harness import Settings, Table, report, settings, time_text
from mlc.dialects.target import CpuTarget
from mlc.knobs import FUSIONS
from mlc.passes.report.report import KernelReport
from mlc.runtime import probe

LEAST_S = 1e-7
ROUND_S = 0.02  # of one program in one round
PAIR_DIFFERENCE = 0.1  # measured, from which the order of two plans is asked for


@dataclass(frozen=True)
class Compared:
    """A kernel's prediction beside its measurement, of one run."""

    case: Case
    kernel: KernelReport
    predicted_s: float
    measured_s: float

    @property
    def log_ratio(self) -> float:
        """Natural logarithm of predicted / measured."""
        return math.log(self.predicted_s / self.measured_s)


def compared(case: Case, target: CpuTarget, threads: int) -> list[Compared]:
    """The kernels of a case that ran, as long as the clock can tell."""
    kernels = case.kernels(target, threads)
    return [
        Compared(case, kernel, kernel.predicted_s, seconds / runs)
        for kernel, seconds, runs in zip(kernels, case.seconds, case.runs, strict=True)
        if runs and seconds / runs >= LEAST_S
    ]


def program_s(case: Case, target: CpuTarget, threads: int) -> tuple[float, float]:
    """(predicted, measured) seconds of a call: its kernels, as often as they ran."""
    pairs = zip(case.kernels(target, threads), case.runs, strict=True)
    return sum(kernel.predicted_s * runs for kernel, runs in pairs), sum(case.seconds)


def agreement(logs: Sequence[float]) -> tuple[str, str, str]:
    """How many, the median of |log ratio|, and the share within a factor of two."""
    if not logs:
        return "0", "", ""
    sizes = sorted(abs(x) for x in logs)
    within = sum(x <= math.log(2) for x in sizes) / len(sizes)
    return str(len(sizes)), f"{sizes[len(sizes) // 2]:.3f}", f"{within:.1%}"


def by_template(kernels: Sequence[Compared]) -> Table:
    """Agreement over all kernels, and of each template and size."""
    table = Table("kernels", ["which", "count", "median |log ratio|", "within a factor 2", "bias"])

    def add(which: str, chosen: Sequence[Compared]) -> None:
        logs = sorted(k.log_ratio for k in chosen)
        bias = f"{logs[len(logs) // 2]:+.2f}" if logs else ""
        table.add(which, *agreement(logs), bias)

    add("all", kernels)
    for template in dict.fromkeys(k.kernel.template for k in kernels):
        add(template, [k for k in kernels if k.kernel.template == template])
    for size in dict.fromkeys(k.case.size for k in kernels):
        add(size, [k for k in kernels if k.case.size == size])
    add("of 1 us and more", [k for k in kernels if k.measured_s >= 1e-6])
    return table


def worst(kernels: Sequence[Compared], count: int) -> Table:
    """The kernels whose predictions are off most."""
    columns = ["kernel", "predicted", "measured", "log ratio", "ops"]
    table = Table(f"the {count} kernels predicted worst", columns)
    for k in sorted(kernels, key=lambda k: -abs(k.log_ratio))[:count]:
        what = " ".join(k.kernel.ops)
        where = f"{k.case.name} {k.case.size} {k.case.fusion} {k.kernel.template}"
        table.add(where, k.predicted_s, k.measured_s, f"{k.log_ratio:+.2f}", what[:60])
    return table


def programs(found: Sequence[Case], target: CpuTarget, threads: int) -> Table:
    """Predicted and measured seconds of each program, and of the whole call."""
    columns = ["program", "plan", "kernels", "predicted", "measured", "log ratio", "call"]
    table = Table("programs", columns)
    for case in found:
        predicted, measured = program_s(case, target, threads)
        ratio = f"{math.log(predicted / measured):+.2f}" if measured else ""
        count = str(len(case.runs))
        where = f"{case.name} {case.size}"
        table.add(where, case.fusion, count, predicted, measured, ratio, case.call_s)
    return table


def pairs(found: Sequence[Case], target: CpuTarget, threads: int) -> Table:
    """For each two plans of one program, whether the one predicted to be faster is."""
    table = Table(
        "pairs of plans",
        ["which", "pairs", "right", "share"],
    )
    outcome: list[tuple[float, bool]] = []
    missed: list[str] = []
    for k, a in enumerate(found):
        for b in found[k + 1 :]:
            if (a.name, a.size) != (b.name, b.size):
                continue
            one, other = (program_s(x, target, threads) for x in (a, b))
            if one[1] < LEAST_S or other[1] < LEAST_S or one[0] == other[0]:
                continue
            difference = math.log(one[1] / other[1])
            right = (difference > 0) == (one[0] > other[0])
            outcome.append((abs(difference), right))
            if not right and abs(difference) > PAIR_DIFFERENCE:
                missed.append(f"{a.name} {a.size} {a.fusion}/{b.fusion}")
    for which, least in (("all", 0.0), ("measured 10 % apart", PAIR_DIFFERENCE)):
        chosen = [right for difference, right in outcome if difference >= least]
        share = f"{sum(chosen) / len(chosen):.1%}" if chosen else ""
        table.add(which, str(len(chosen)), str(sum(chosen)), share)
    for name in missed:
        table.add(f"missed: {name}", "", "", "")
    return table


def best_rates(*measured: CpuTarget) -> CpuTarget:
    """The highest of each rate: other work on the machine only ever takes."""
    best = {name: max(getattr(t, name) for t in measured) for name in probe.MEASURED_FIELDS}
    return replace(measured[0], **best)


def timed(which: str, plans: Sequence[str], options: Settings) -> tuple[list[Case], CpuTarget]:
    """A set of programs, and the machine as it was meanwhile."""
    before = probe.measure()
    programs = programs_of(which, quick=options.quick)
    found = list(cases(programs, plans, options.threads))
    gc.collect()
    for _ in range(options.rounds):
        for case in found:
            case.run(ROUND_S)
    rates = best_rates(before, probe.measure())
    return found, replace(rates, loops=probe.host_target().loops)


def print_all(found: Sequence[Case], target: CpuTarget, options: Settings) -> None:
    """The tables."""
    kernels = [k for case in found for k in compared(case, target, options.threads)]
    rates = ", ".join(f"{n} {getattr(target, n) / 1e9:.1f}e9" for n in probe.MEASURED_FIELDS)
    print(rates)
    totals = [program_s(case, target, options.threads) for case in found]
    summary = Table("programs", ["count", "median |log ratio|", "within a factor 2"])
    summary.add(*agreement([math.log(p / m) for p, m in totals if m >= LEAST_S]))
    print(f"a kernel from {time_text(LEAST_S)} on is compared")
    report(
        options,
        programs(found, target, options.threads),
        worst(kernels, 40),
        by_template(kernels),
        summary,
        pairs(found, target, options.threads),
    )


def main() -> None:
    """Measure, or read what was measured, and print."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--of", choices=("zoo", "kernels"), default="zoo")
    parser.add_argument("--plans", default=",".join(FUSIONS))
    parser.add_argument("--store", type=Path)
    parser.add_argument("--stored", type=Path)
    own, rest = parser.parse_known_args()
    options = settings(__doc__ or "", rest)
    if own.stored is not None:
        found, rates = stored(own.stored)
        target = replace(probe.host_target(), **rates)
    else:
        found, target = timed(own.of, own.plans.split(","), options)
    if own.store is not None:
        store(found, {name: getattr(target, name) for name in probe.MEASURED_FIELDS}, own.store)
    print_all(found, target, options)


if __name__ == "__main__":
    main()
