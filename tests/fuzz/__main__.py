"""
`python -m tests.fuzz [--seed N] [--count N] [--only N]`: mutated texts, and the faults they find.

`--only` prints one text and what is done with it.
"""

from __future__ import annotations

import argparse
import sys
import time

from tests.fuzz.bases import bases
from tests.fuzz.pool import results
from tests.fuzz.worker import case


def main() -> int:
    """The exit status: 1 where there are faults."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--bases", choices=("lit", "all"), default="all")
    parser.add_argument("--only", type=int, metavar="NUMBER")
    args = parser.parse_args()
    numbers = range(args.first, args.first + args.count) if args.only is None else [args.only]
    if args.only is not None:
        _, text, _ = case(bases(args.bases), args.seed, args.only)
        sys.stdout.write(text.decode("utf-8", "replace"))
    start, faults, accepted = time.perf_counter(), 0, 0
    for result in results(args.bases, args.seed, numbers, args.workers):
        accepted += result.accepted
        if result.fault:
            faults += 1
            named = f"--bases {args.bases} --seed {result.seed} --only {result.number}"
            print(f"--- {named}: {result.steps}")
            print(result.fault, flush=True)
    seconds = time.perf_counter() - start
    print(f"{len(numbers)} texts, {accepted} accepted, {faults} faults, {seconds:.0f} s")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
