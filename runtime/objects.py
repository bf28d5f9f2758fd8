"""
Objects by content: the same text for the same machine is compiled once, here or in another process.

This is the second key of decisions.md D20, which deduplicates kernels; the first, over the traced
program, is the pipeline's.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from contextvars import copy_context
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from mlc.dialects.target.cpu import CpuTarget
from mlc.fork import WhileAny
from mlc.lazy_dataclass import dataclass
from mlc.runtime import cache
from mlc.runtime.jit import is_object
from mlc.runtime.llvm import DEFAULT_OPT_LEVEL, compile_object
from mlc.runtime.threads import allowed_cpus

if TYPE_CHECKING:  # whoever finds its objects in the cache starts no thread: `logging` comes along
    from concurrent.futures import Future

MOST_THREADS = 16  # that compile one program: its kernels are some dozens
TURN_S = 5e-4
"""
How long a thread of Python keeps others waiting meanwhile. An object takes some twenty calls of
LLVM, most of them short, and each asks for the interpreter again. Measured: docs/measurements.md,
First call.
"""


@dataclass(frozen=True, kw_only=True)
class CompiledObject:
    """An object and what it cost."""

    image: bytes
    from_cache: bool
    compile_s: float


def object_of(
    text: str, target: CpuTarget, *, opt_level: int = DEFAULT_OPT_LEVEL, fresh: bool = False
) -> CompiledObject:
    """The object of LLVM IR `text`, from the cache unless it must be `fresh`."""
    start = time.perf_counter()
    key = cache.object_key(b"llvm", text.encode(), target.isa().encode(), bytes([opt_level]))
    objects = cache.object_cache()
    image = None if fresh else objects.get(key)
    known = image is not None and is_object(image)
    if image is None or not known:
        image = compile_object(text, target, opt_level=opt_level)
        objects.put(key, image)
    return CompiledObject(image=image, from_cache=known, compile_s=time.perf_counter() - start)


def objects_of(
    texts: Iterable[str],
    target: CpuTarget,
    *,
    opt_level: int = DEFAULT_OPT_LEVEL,
    fresh: bool = False,
) -> list[CompiledObject]:
    """The objects of several modules, in order; threads compile while `texts` writes the next."""
    with Objects(target, opt_level=opt_level, fresh=fresh) as objects:
        for text in texts:
            objects.add(text)
        return objects.wait()


class Objects:
    """
    Objects of modules that come one by one. Threads compile them, one less than there are hardware
    threads for this process, while the caller writes the next one.
    """

    def __init__(
        self, target: CpuTarget, *, opt_level: int = DEFAULT_OPT_LEVEL, fresh: bool = False
    ) -> None:
        self._compile = partial(object_of, target=target, opt_level=opt_level, fresh=fresh)
        from concurrent.futures import ThreadPoolExecutor

        others = max(1, min(allowed_cpus(), MOST_THREADS) - 1)
        self._threads = ThreadPoolExecutor(others, "mlc-llvm")
        self._made: dict[str, Future[CompiledObject]] = {}
        self._found: list[tuple[str, bool]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self._threads.shutdown(cancel_futures=True)
        if self._found:
            _turns.end()

    def add(self, text: str) -> None:
        """One more module."""
        if not self._found:
            _turns.begin()
        known = text in self._made
        if not known:  # knobs are of a context
            self._made[text] = self._threads.submit(copy_context().run, self._compile, text)
        self._found.append((text, known))

    def wait(self) -> list[CompiledObject]:
        """The objects of all modules so far, in order; this thread does its share of what waits."""
        from concurrent.futures import Future

        for text, made in reversed(self._made.items()):
            if made.cancel():
                self._made[text] = done = Future[CompiledObject]()
                done.set_result(self._compile(text))
        return [
            replace(done, from_cache=True, compile_s=0.0) if known else done
            for text, known in self._found
            for done in [self._made[text].result()]
        ]


@contextmanager
def meanwhile(work: Callable[[], object]) -> Generator[None, None, None]:
    """A thread does the work while the caller does something else, until the block ends."""
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(1, "mlc-llvm") as thread, _turns():
        done = thread.submit(copy_context().run, work)  # knobs are of a context
        yield
        done.result()


def _short_turns() -> float:
    """What they were."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(min(TURN_S, before))
    return before


_turns = WhileAny(_short_turns, sys.setswitchinterval)
"""Turns of threads at Python, short as long as anybody asks for it."""
