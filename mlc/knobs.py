"""
Every environment variable that mlc reads, in one place.

    variable         field        unset means                  meaning
    MLC_DUMP         dump         no dump                      folder for the IR after each pass
    MLC_VERIFY       verify       0                            verify the IR after each pass
    MLC_CACHE_DIR    cache_dir    $XDG_CACHE_HOME/mlc or       folder of compiled objects
                                  ~/.cache/mlc
    MLC_CACHE_BYTES  cache_bytes  1G                           limit of that folder; 0: no folder
    MLC_THREADS      threads      every allowed core           threads of a parallel region
    MLC_TARGET       target       the machine mlc runs on      machine, as `--target` takes it
    MLC_FUSION       fusion       exact                        how kernels are formed, as
                                                               `mlc.compile(fusion=)` takes it
    MLC_DEBUG        debug        0                            1 timings, 2 and code, 3 and assembly

The rest of mlc asks `current()`, and never `os.environ`. `scope(...)` overrides fields for a block:

    with knobs.scope(verify=True, threads=1):
        ...

Passes read no knobs: what a pass needs is one of its options or stands in the IR.
"""

import os
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace
from numbers import Integral
from pathlib import Path
from typing import Generic, Literal, TypedDict, TypeVar, Unpack

from mlc.lazy_dataclass import dataclass

T = TypeVar("T")
MOST_THREADS = 4096
"""Of a parallel region: far more than any machine has cores. Where the system refuses to start a
thread, OpenMP runtimes end the process; of 30,000 Linux starts all, of a million not."""

Fusion = Literal["none", "all", "fnr", "greedy", "exact"]
FUSIONS: tuple[Fusion, ...] = ("none", "all", "fnr", "greedy", "exact")
"""How a plan is chosen: docs/plan.md."""

DEFAULT_CACHE_BYTES = 2**30  # some thousands of functions at 50-200 KiB of objects each


class KnobError(ValueError):
    """
    An `MLC_…` variable holds a value that means nothing.

        $ MLC_THREADS=many python model.py
        MLC_THREADS=many: expected an integer from 1 to 4096;
        unset MLC_THREADS to use every allowed core
    """


@dataclass(frozen=True, kw_only=True)
class Knobs:
    """The settings that hold in one place. The table above says what each field means."""

    dump: Path | None
    verify: bool
    cache_dir: Path
    cache_bytes: int
    threads: int | None
    target: str | None
    fusion: Fusion
    debug: int


class Overrides(TypedDict, total=False):
    """The fields of `Knobs`, each optional."""

    dump: Path | None
    verify: bool
    cache_dir: Path
    cache_bytes: int
    threads: int | None
    target: str | None
    fusion: Fusion
    debug: int


@dataclass(frozen=True)
class _Variable(Generic[T]):
    """An environment variable: how its text is read, and the two halves of its error message."""

    name: str
    parse: Callable[[str], T]
    expected: str
    unset_to: str

    def read(self, environment: Mapping[str, str]) -> T | None:
        """The value in `environment`; None where it is unset or empty."""
        text = environment.get(self.name, "").strip()
        if not text:
            return None
        try:
            return self.parse(text)
        except (ValueError, OverflowError):
            message = f"{self.name}={text}: expected {self.expected}"
            raise KnobError(f"{message}; unset {self.name} to {self.unset_to}") from None


def current() -> Knobs:
    """What holds here and now: the environment, under the innermost `scope` of this thread."""
    knobs = from_environment(os.environ)
    overrides = _overrides.get()
    return knobs if overrides is None else replace(knobs, **overrides)


@contextmanager
def scope(**overrides: Unpack[Overrides]) -> Generator[Knobs, None, None]:
    """Override fields until the block ends. Scopes nest; other threads do not see them."""
    merged: Overrides = {**(_overrides.get() or {}), **overrides}
    token = _overrides.set(merged)
    try:
        yield current()
    finally:
        _overrides.reset(token)


def from_environment(environment: Mapping[str, str]) -> Knobs:
    """`environment` as `Knobs`."""
    cache_dir = _CACHE_DIR.read(environment)
    cache_bytes = _CACHE_BYTES.read(environment)
    return Knobs(
        dump=_DUMP.read(environment),
        verify=_VERIFY.read(environment) or False,
        cache_dir=_default_cache_dir(environment) if cache_dir is None else cache_dir,
        cache_bytes=DEFAULT_CACHE_BYTES if cache_bytes is None else cache_bytes,
        threads=_THREADS.read(environment),
        target=_TARGET.read(environment),
        fusion=_FUSION.read(environment) or "exact",
        debug=_DEBUG.read(environment) or 0,
    )


def _default_cache_dir(environment: Mapping[str, str]) -> Path:
    """SOURCE: XDG Base Directory Specification 0.8, XDG_CACHE_HOME; a relative one is ignored."""
    base = environment.get("XDG_CACHE_HOME", "")
    home = environment.get("HOME") or os.path.expanduser("~")
    return (Path(base) if os.path.isabs(base) else Path(home, ".cache")) / "mlc"


def is_thread_count(count: object) -> bool:
    """Whether it is an integer that a parallel region can have as its threads."""
    if type(count) is bool or not isinstance(count, Integral):
        return False
    return 0 < int(count) <= MOST_THREADS


def _boolean(text: str) -> bool:
    if text.lower() in ("1", "true", "yes", "on"):
        return True
    if text.lower() in ("0", "false", "no", "off"):
        return False
    raise ValueError(text)


def byte_count(text: str) -> int:
    """`512M`, `1.5GiB`, `4096`: suffixes are powers of 1024."""
    digits = text.upper().removesuffix("IB").removesuffix("B")
    power = "KMGT".find(digits[-1:]) + 1 if digits else 0
    return _in_range(int(float(digits[:-1]) * 1024**power) if power else int(digits), 0)


def _thread_count(text: str) -> int:
    return _in_range(int(text), 1, MOST_THREADS)


def _debug_level(text: str) -> int:
    return _in_range(int(text), 0, 3)


def _fusion(text: str) -> Fusion:
    for known in FUSIONS:
        if text == known:
            return known
    raise ValueError(text)


def _in_range(value: int, low: int, high: int | None = None) -> int:
    if value < low or (high is not None and value > high):
        raise ValueError(value)
    return value


_overrides: ContextVar[Overrides | None] = ContextVar("mlc_knobs", default=None)

_DUMP = _Variable("MLC_DUMP", Path, "a folder", "dump nothing")
_VERIFY = _Variable("MLC_VERIFY", _boolean, "0 or 1", "verify nothing in the JIT path")
_CACHE_DIR = _Variable("MLC_CACHE_DIR", Path, "a folder", "use ~/.cache/mlc")
_CACHE_BYTES = _Variable(
    "MLC_CACHE_BYTES", byte_count, "bytes such as 500000000, 512M or 0", "keep at most 1G"
)
_THREADS = _Variable(
    "MLC_THREADS", _thread_count, f"an integer from 1 to {MOST_THREADS}", "use every allowed core"
)
_TARGET = _Variable("MLC_TARGET", str, "a name", "compile for the machine mlc runs on")
_FUSION = _Variable("MLC_FUSION", _fusion, ", ".join(FUSIONS), "search for the best plan")
_DEBUG = _Variable("MLC_DEBUG", _debug_level, "0, 1, 2 or 3", "print nothing")

VARIABLES = tuple(
    variable.name
    for variable in (_DUMP, _VERIFY, _CACHE_DIR, _CACHE_BYTES, _THREADS, _TARGET, _FUSION, _DEBUG)
)
