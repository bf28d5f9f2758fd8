"""One line on a terminal while something takes long, which goes when it ends."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

PATIENCE_S = 5.0
"""A compilation of less says nothing."""
BETWEEN_S = 0.5
BAR = 40  # characters of the progress bar

_step = "traced"


def at(step: str) -> None:
    """What is done from now on."""
    global _step
    _step = step


@contextmanager
def waiting(name: str) -> Generator[None, None, None]:
    """Around a function's compilation."""
    stream = sys.stderr
    if not stream.isatty():
        yield
        return
    at("traced")
    ended = threading.Event()
    start = time.monotonic()

    def tell() -> None:
        width, wait = 0, PATIENCE_S
        while not ended.wait(wait):
            line = f"mlc: {name} is compiled: {time.monotonic() - start:.0f} s, {_step}"
            print(f"\r{line:<{width}}", end="", file=stream, flush=True)
            width, wait = max(width, len(line)), BETWEEN_S
        if width:
            print(f"\r{'':<{width}}\r", end="", file=stream, flush=True)

    teller = threading.Thread(target=tell, daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join()


def progress(what: str, part: float) -> None:
    """A bar on a terminal, over the one before; nothing to say takes it away."""
    if sys.stderr.isatty():
        done = round(BAR * min(1.0, part))
        bar = f"{what:<15} [{'#' * done}{'.' * (BAR - done)}]" if what else " " * (BAR + 18)
        print(f"\r{bar}", end="" if what else "\r", file=sys.stderr, flush=True)
