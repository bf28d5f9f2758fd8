"""The floating-point environment of a thread, which compiling leaves as it was."""

from __future__ import annotations

import ctypes
from collections.abc import Generator
from contextlib import contextmanager
from functools import lru_cache

_ENVIRONMENT_BYTES = 256  # of a fenv_t: 32 on x86-64 and 8 on AArch64, glibc and musl


@lru_cache(maxsize=1)
def _library() -> ctypes.CDLL:
    try:
        return ctypes.CDLL("libm.so.6")
    except OSError:
        return ctypes.CDLL(None)


@contextmanager
def float_flags_kept() -> Generator[None, None, None]:
    """Which exceptions have occurred, and how is rounded, are afterwards what they are now."""
    library, environment = _library(), ctypes.create_string_buffer(_ENVIRONMENT_BYTES)
    library.fegetenv(environment)
    try:
        yield
    finally:
        library.fesetenv(environment)
