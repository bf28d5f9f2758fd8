"""
Kernels as they are written: the function itself under NumPy, `mlc.compile` and `numba.njit`.

Every call gets fresh copies of what the function writes, the same for all; numba takes part where
it is installed, with the functions that it compiles. `--only NAME` leaves others out.
"""

from __future__ import annotations

import argparse
import importlib
import math
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

import mlc
from benchmarks.harness import Call, Settings, Table, medians, report, settings, time_text
from benchmarks.kernels import KERNELS, Kernel
from mlc.frontend.trace.containers import flatten


def fresh_calls(kernel: Kernel, size: int) -> Callable[[Any], Call]:
    """From a function to a call of it with arguments that no call before has written."""
    arguments, kept = kernel.arguments(size), kernel.arguments(size)
    kernel.function(*arguments)
    pairs = zip(arguments, kept, strict=True)
    written = [k for k, (a, b) in enumerate(pairs) if not np.array_equal(a, b)]

    def of(function: Any) -> Call:
        def call() -> object:
            given = list(kept)
            for k in written:
                given[k] = kept[k].copy()
            return function(*given)

        return call

    return of


def same(kernel: Kernel, function: Any, size: int) -> bool:
    """Whether the function computes what the kernel does under NumPy, and writes the same."""
    ours, theirs = kernel.arguments(size), kernel.arguments(size)
    found, expected = ((f(*a), a) for f, a in ((function, ours), (kernel.function, theirs)))
    pairs = zip(flatten(found)[0], flatten(expected)[0], strict=True)
    return all(a is b or np.allclose(a, b, rtol=1e-8, equal_nan=True) for a, b in pairs)


def by_numba(kernel: Kernel) -> Any:
    """The function under `numba.njit`, or None: not installed, not compiled, or another answer."""
    try:
        numba: Any = importlib.import_module("numba")
        function = numba.njit(kernel.function)
        return function if same(kernel, function, kernel.small) else None
    except Exception:  # noqa: BLE001 - whatever the peer cannot do is no row of its own
        return None


def measured(kernel: Kernel, options: Settings) -> dict[str, float]:
    """Median seconds of a call by each who computes it rightly."""
    size = kernel.small if options.quick else kernel.full
    of = fresh_calls(kernel, size)
    step = mlc.compile(threads=options.threads)(kernel.function)
    if not same(kernel, step, size):
        raise SystemExit(f"{kernel.name}: mlc's answer is not NumPy's")
    calls = {"mlc": of(step), "NumPy": of(kernel.function)}
    if (peer := by_numba(kernel)) is not None:
        calls["numba"] = of(peer)
    return medians(calls, options.rounds, options.settle_s)


def main() -> None:
    """Print the table: medians, and the best of NumPy and numba as a multiple of mlc's time."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", action="append", default=[])
    own, rest = parser.parse_known_args()
    options = settings("Kernels beside NumPy and numba.", rest)
    names = own.only or list(KERNELS)
    table = Table("kernels as they are written", ["kernel", "mlc", "NumPy", "numba", "best / mlc"])
    ratios: list[float] = []
    for name in names:
        try:
            found = measured(KERNELS[name], options)
        except mlc.MlcError as error:
            table.add(name, str(error).splitlines()[0][:40], "", "", "")
            continue
        ours = found.pop("mlc")
        ratios.append(min(found.values()) / ours)
        texts = [time_text(found[peer]) if peer in found else "" for peer in ("NumPy", "numba")]
        table.add(name, ours, *texts, f"{ratios[-1]:.2f}")
        print(table.rows[-1], file=sys.stderr, flush=True)
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        table.add("geometric mean", "", "", "", f"{mean:.2f}")
    report(options, table)


if __name__ == "__main__":
    main()
