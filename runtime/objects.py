"""
Objects by content: the same text for the same machine is compiled once, here or in another process.

This is the second key of decisions.md D20, which deduplicates kernels; the first, over the traced
program, is the pipeline's.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import dataclass, replace
from functools import partial

from mlc.dialects.target.cpu import CpuTarget
from mlc.runtime import cache
from mlc.runtime.jit import is_object
from mlc.runtime.llvm import DEFAULT_OPT_LEVEL, compile_object
from mlc.runtime.threads import allowed_cpus

MOST_THREADS = 16  # that compile one program: its kernels are some dozens


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
    """
    The objects of several modules, in order. Threads compile them, as many as there are hardware
    threads for this process, while `texts` goes on to write the next one.
    """
    made: dict[str, Future[CompiledObject]] = {}
    found: list[tuple[Future[CompiledObject], bool]] = []
    with ThreadPoolExecutor(min(allowed_cpus(), MOST_THREADS), "mlc-llvm") as threads:
        for text in texts:
            known = text in made
            if not known:
                job = partial(object_of, text, target, opt_level=opt_level, fresh=fresh)
                made[text] = threads.submit(copy_context().run, job)  # knobs are of a context
            found.append((made[text], known))
    return [
        replace(made.result(), from_cache=True, compile_s=0.0) if known else made.result()
        for made, known in found
    ]
