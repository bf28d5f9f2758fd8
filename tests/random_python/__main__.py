"""`python -m tests.random_python FIRST COUNT [--code]`: compares programs, and reduces faults."""

from __future__ import annotations

import argparse
import collections
import sys
import time
from functools import partial

from tests.random_python.judge import fails_alike, judged
from tests.random_python.reduce import reduced
from tests.random_python.wider import Wider
from tests.random_python.writer import Writer


def main() -> int:
    """1 where a program is answered otherwise than by NumPy."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument(
        "--code", action="store_true", help="run compiled code, not the interpreter"
    )
    parser.add_argument("--seconds", type=float, default=1e9, help="stop after so many")
    parser.add_argument("--reduce", type=float, default=60, help="seconds for each that differs")
    parser.add_argument("--refused", action="store_true", help="print what is refused")
    parser.add_argument("--wider", action="store_true", help="programs with further constructs")
    options = parser.parse_args()
    writer = Wider if options.wider else Writer
    kinds: collections.Counter[str] = collections.Counter()
    reasons: collections.Counter[str] = collections.Counter()
    begun = time.monotonic()
    for seed in range(options.first, options.first + options.count):
        if time.monotonic() - begun > options.seconds:
            print(f"stopped before {seed}")
            break
        text, cases = writer(seed).text(), range(seed % 20, seed % 20 + 2)
        verdict = judged(text, cases, code=options.code)
        kinds[verdict.kind] += 1
        if verdict.kind == "refused":
            reasons[verdict.detail.splitlines()[0][:150]] += 1
            if options.refused:
                print(f"---- seed {seed} refused: {verdict.detail}\n", flush=True)
        if verdict.kind == "differs":
            fails = partial(fails_alike, seeds=cases, code=options.code, fault=verdict.fault)
            small = reduced(text, fails, options.reduce)
            found = judged(small, cases, code=options.code)
            print(f"---- seed {seed}: {found.detail}\n{small}", flush=True)
    print(dict(kinds))
    for reason, times in reasons.most_common(12):
        print(times, reason)
    return int(kinds["differs"] > 0)


if __name__ == "__main__":
    sys.exit(main())
