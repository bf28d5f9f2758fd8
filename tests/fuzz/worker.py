"""`python -m tests.fuzz.worker BASES`: numbers of texts in, steps and outcomes out, as lines."""

from __future__ import annotations

import faulthandler
import json
import os
import random
import resource
import signal
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

from tests.fuzz.bases import Base, read
from tests.fuzz.compare import difference
from tests.fuzz.mutate import mutated_bytes
from tests.fuzz.ways import Outcome, command, outcome

MEMORY_BYTES = 6 << 30
CPU_S = 5.0  # of one step: a text that takes longer is a hang


def case(known: Sequence[Base], seed: int, number: int) -> tuple[Base, bytes, random.Random]:
    """The text of a number: the same on every machine."""
    rng = random.Random(f"{seed}:{number}")
    base = rng.choice(known)
    if rng.random() < 0.2:  # there are few plans, and much is said in them
        base = rng.choice([b for b in known if "mlc.kernel" in b.text or "mlc.tiles" in b.text])
    return base, mutated_bytes(rng, base.text, [b.text for b in known]), rng


class Worker:
    """Takes texts one after the other; says before each step what it is."""

    def __init__(self, known: Sequence[Base], folder: Path) -> None:
        self.known = known
        self.path = folder / "text.mlir"
        self.output = folder / "out"
        self.said = os.fdopen(os.dup(1), "w")
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def say(self, **what: object) -> None:
        """One line of JSON to the parent."""
        self.said.write(json.dumps(what) + "\n")
        self.said.flush()

    def begin(self, step: str) -> None:
        """A step begins: its time counts from now. A program that runs may take its time."""
        signal.setitimer(signal.ITIMER_PROF, 0 if step == "run" else CPU_S)
        self.say(step=step)

    def run(self, seed: int, number: int) -> None:
        """All that is done with one text."""
        base, data, rng = case(self.known, seed, number)
        self.path.write_bytes(data)
        arguments = command(rng, base, str(self.path), str(self.output))
        self.begin(" ".join(arguments[:1] + arguments[2:]))
        found = outcome(arguments)
        if found.accepted and rng.random() < 0.7:
            found = self._compared()
        signal.setitimer(signal.ITIMER_PROF, 0)
        self.say(number=number, accepted=found.accepted, fault=found.fault)

    def _compared(self) -> Outcome:
        self.begin("reference")
        try:
            return Outcome(True, difference(self.path, self.begin))
        except Exception:  # noqa: BLE001 - a traceback is what is looked for
            return Outcome(True, traceback.format_exc(limit=-6))


def main() -> None:
    """Reads lines "SEED NUMBER" until there are none."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_BYTES, MEMORY_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    faulthandler.enable()
    faulthandler.register(signal.SIGPROF, all_threads=False, chain=True)
    known = read(Path(sys.argv[1]))
    with tempfile.TemporaryDirectory() as folder:
        worker = Worker(known, Path(folder))
        worker.say(ready=True)
        for line in sys.stdin:
            seed, number = map(int, line.split())
            worker.run(seed, number)


if __name__ == "__main__":
    main()
