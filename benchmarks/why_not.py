"""
Answers of `why-not` beside the clock: every unfused edge of the model zoo.

    python -m benchmarks.why_not --threads 1 --quick

For each edge whose ops may share a kernel and do not, the best plan in which they do is compiled
and timed in turn with the plan that was chosen. Of the pairs whose times differ by more than
`DIFFERENCE`, the share is printed for which the predicted difference has the right sign.
"""

from __future__ import annotations

from collections import Counter

import mlc
from benchmarks.harness import Table, report, settings
from benchmarks.zoo import ZOO, Model, Size
from mlc.why_not import Edge

DIFFERENCE = 0.1  # of measured times, from which the sign is asked for
LARGEST = 60  # edges of one program that are measured


def edges_of(model: Model, size: Size) -> list[Edge]:
    """The answers for a program of the zoo, measured where there are two plans."""
    lowered = mlc.compile(model.function).lower(*model.arrays(size))
    executable = lowered.compile()
    return executable.unfused(measure=lowered.arguments())[:LARGEST]


def is_right(edge: Edge) -> bool | None:
    """Whether the faster plan was predicted; None where the two take about as long."""
    if edge.measured_s is None or edge.other_s is None:
        return None
    here, there = edge.measured_s
    if abs(there - here) <= DIFFERENCE * min(here, there):
        return None
    return (there > here) == (edge.other_s > edge.chosen_s)


def main() -> None:
    """Print a line per program, and the share of right signs."""
    options = settings("answers of why-not against measurements, over the model zoo")
    mlc.set_threads(options.threads)
    table = Table(
        f"Unfused edges of the zoo, {options.threads} threads",
        ["program", "edges", "rules", "compared", "right", "wrong: predicted, measured"],
    )
    right = compared = 0
    for model in ZOO.values():
        edges = edges_of(model, "small" if options.quick else "medium")
        signs = [(edge, sign) for edge in edges if (sign := is_right(edge)) is not None]
        good = sum(sign for _, sign in signs)
        rules = Counter(edge.rule for edge in edges if not edge.legal)
        said = ", ".join(f"{name} {count}" for name, count in sorted(rules.items()))
        wrong = "; ".join(_changes(edge) for edge, sign in signs if not sign)
        table.add(model.name, len(edges), said, len(signs), good, wrong)
        right, compared = right + good, compared + len(signs)
    table.add("all", "", "", compared, right, f"{right / compared:.0%}" if compared else "")
    report(options, table)


def _changes(edge: Edge) -> str:
    assert edge.measured_s is not None
    assert edge.other_s is not None
    here, there = edge.measured_s
    return f"{edge.other_s / edge.chosen_s - 1:+.0%}, {there / here - 1:+.0%}"


if __name__ == "__main__":
    main()
