"""Worker processes, watched: one that dies or does not answer has found a fault."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tests.fuzz.bases import write

ROOT = Path(__file__).parent.parent.parent
WALL_S = 60.0  # without a word from a worker: it waits for something


@dataclass
class Result:
    """What became of one text."""

    seed: int
    number: int
    accepted: bool = False
    fault: str = ""
    steps: list[str] = field(default_factory=list[str])


class _Process:
    """One worker, started when it is needed."""

    def __init__(self, bases: Path) -> None:
        self.bases = bases
        self.process: subprocess.Popen[str] | None = None
        self.lines: queue.Queue[str | None] = queue.Queue()

    def _start(self) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.fuzz.worker", str(self.bases)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        lines: queue.Queue[str | None] = queue.Queue()

        def read() -> None:
            assert process.stdout is not None
            for line in process.stdout:
                lines.put(line)
            lines.put(None)

        threading.Thread(target=read, daemon=True).start()
        self.process, self.lines = process, lines
        assert lines.get(timeout=120) is not None, "a worker does not start"
        return process

    def result(self, seed: int, number: int) -> Result:
        """Hands a text to the worker and waits for the outcome."""
        process = self.process or self._start()
        assert process.stdin is not None
        result = Result(seed, number)
        process.stdin.write(f"{seed} {number}\n")
        process.stdin.flush()
        while True:
            try:
                line = self.lines.get(timeout=WALL_S)
            except queue.Empty:
                line = None
            if line is None:
                result.fault = self._ended(result.steps[-1] if result.steps else "")
                return result
            said = json.loads(line)
            if "step" in said:
                result.steps.append(said["step"])
                continue
            result.accepted, result.fault = said["accepted"], said["fault"]
            return result

    def _ended(self, step: str) -> str:
        """The fault of a worker that is dead or silent; a program that runs on is none."""
        assert self.process is not None
        silent = self.process.poll() is None
        self.process.kill()
        _, stderr = self.process.communicate()
        code = self.process.returncode
        self.process = None
        if silent and step == "run":
            return ""
        what = "no answer" if silent else f"ended with {code}"
        return f"{what} in step {step!r}\n{stderr[-3000:]}"

    def close(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.communicate()


def results(kind: str, seed: int, numbers: Iterable[int], workers: int = 1) -> Iterator[Result]:
    """The outcome of each numbered text of some `bases`, as it comes."""
    with tempfile.TemporaryDirectory() as folder:
        bases = Path(folder) / "bases.json"
        write(kind, bases)
        yield from _results(bases, seed, numbers, workers)


def _results(bases: Path, seed: int, numbers: Iterable[int], workers: int) -> Iterator[Result]:
    todo = iter(list(numbers))
    lock = threading.Lock()
    done: queue.Queue[Result | BaseException | None] = queue.Queue()

    def work() -> None:
        process = _Process(bases)
        try:
            while True:
                with lock:
                    number = next(todo, None)
                if number is None:
                    return
                done.put(process.result(seed, number))
        except BaseException as error:  # noqa: BLE001 - raised in the caller's thread
            done.put(error)
        finally:
            process.close()
            done.put(None)

    for _ in range(workers):
        threading.Thread(target=work, daemon=True).start()
    left = workers
    while left:
        found = done.get()
        if found is None:
            left -= 1
        elif isinstance(found, BaseException):
            raise found
        else:
            yield found
