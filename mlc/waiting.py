"""One line on a terminal where a compilation takes long, which goes when it ends."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager

PATIENCE_S = 5.0
"""A compilation of less says nothing."""
BETWEEN_S = 0.5

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
