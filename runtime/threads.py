"""
Threads of parallel regions: how many, and which OpenMP runtime serves them (decisions.md D5).

Generated code calls three OpenMP symbols, which team.ll leads to the runtime found here; a region's
workers wait for each other at a barrier of our own. Nothing
is loaded, and no thread starts, before an entry with a parallel region and more than one thread is
loaded. After fork the child runs serially: libgomp's threads do not survive it.
"""

from __future__ import annotations

import ctypes
import math
import os
import re
import sys
import warnings
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from itertools import count, takewhile
from pathlib import Path

from mlc import knobs
from mlc.lazy_dataclass import dataclass
from mlc.runtime.layout import function_address

_REQUIRED = ("GOMP_parallel", "omp_get_thread_num", "omp_get_num_threads")
_LIMIT = "omp_get_max_threads"
_RUNTIME_FILE = re.compile(r"/lib(gomp|iomp5|omp)\b[^/]*\.so[^/]*$")

_SPIN = {"GOMP_SPINCOUNT": "10000", "KMP_BLOCKTIME": "0"}
"""How long an idle thread spins before it sleeps, for a runtime that we load: about 0.2 to 0.5 ms,
what lies between two calls of a program, instead of libgomp's milliseconds, which on a shared
machine are stolen from the thread that is waited for. Measured: docs/measurements.md."""
_USERS_WAY = ("OMP_WAIT_POLICY", *_SPIN)

_CGROUPS, _OWN_CGROUPS = Path("/sys/fs/cgroup"), Path("/proc/self/cgroup")

_kept: list[object] = []
_explicit_count: int | None = None
_bound: OpenMPRuntime | None = None
_searched = False


@dataclass(frozen=True, kw_only=True)
class OpenMPRuntime:
    """An OpenMP runtime in this process."""

    path: str
    already_loaded: bool
    symbols: Mapping[str, int]


def checked_count(count: int) -> int:
    """`count` as a thread count; ValueError for anything else than 1 to `knobs.MOST_THREADS`."""
    if not knobs.is_thread_count(count):
        raise ValueError(
            f"threads is {count!r}; expected an integer from 1 to {knobs.MOST_THREADS}, or None for"
            " the default"
        )
    return int(count)


def set_threads(count: int | None) -> None:
    """The thread count of compiled functions without `threads=`; None: the default."""
    global _explicit_count
    _explicit_count = None if count is None else checked_count(count)
    from mlc.runtime.support import is_loaded

    if is_loaded():  # else the first load publishes the count
        bind_for(None)


def get_threads() -> int:
    """The thread count that compiled functions without `threads=` use."""
    if _explicit_count is not None:
        return _explicit_count
    return knobs.current().threads or default_count()


def bind_for(thread_count: int | None) -> None:
    """Find and bind an OpenMP runtime if an entry with this `threads=` can use more than one."""
    _publish()
    if (thread_count or get_threads()) > 1:
        _bind()


def describe() -> str:
    """One line for `mlc machine` and the test summary: the count and the runtime."""
    if _bound is None:
        found = "none bound yet" if not _searched else "no OpenMP runtime: one thread"
    else:
        found = f"{_bound.path}{' (already loaded)' if _bound.already_loaded else ''}"
    return f"{get_threads()} threads; {found}"


def _publish() -> None:
    from mlc.runtime.support import support

    loaded = support()
    loaded.threads.value = get_threads()
    loaded.cpus.value = allowed_cpus()
    if _bound is not None:
        loaded.bind_openmp(_targets(_bound))


def _targets(runtime: OpenMPRuntime) -> Mapping[str, int]:
    """A count that nobody asked for stays below the runtime's own limit (threadpoolctl, OMP_…)."""
    asked_for = _explicit_count is not None or knobs.current().threads is not None
    return {k: v for k, v in runtime.symbols.items() if not (asked_for and k == _LIMIT)}


def _bind() -> None:
    global _bound, _searched
    if _bound is not None or _searched:
        return
    from mlc.runtime.support import support

    _searched = True
    _bound = find_runtime()
    if _bound is None:
        warnings.warn(
            "no OpenMP runtime found: compiled functions use one thread. For more install "
            "libgomp1 (system package) or intel-openmp (pip install 'mlc-compiler[threads]').",
            RuntimeWarning,
            stacklevel=4,
        )
        return
    support().bind_openmp(_targets(_bound))
    os.register_at_fork(after_in_child=_unbind)


def _unbind() -> None:
    """In a forked child: one thread."""
    global _bound
    from mlc.runtime.support import support

    _bound = None
    support().bind_openmp({})


def find_runtime() -> OpenMPRuntime | None:
    """One in the process already, else the system's libgomp, else libiomp5 of intel-openmp."""
    for path in _loaded_paths():
        if (found := _open(path, already_loaded=True)) is not None:
            return found
    for path in ("libgomp.so.1", *_installed_paths(), "libiomp5.so", "libomp.so.5", "libomp.so"):
        if (found := _open(path, already_loaded=False)) is not None:
            return found
    return None


def _loaded_paths() -> list[str]:
    try:
        lines = Path("/proc/self/maps").read_text().splitlines()
    except OSError:
        return []
    paths = (line.split(maxsplit=5)[5] for line in lines if line.count(" ") >= 5 and "/" in line)
    return sorted({path for path in paths if _RUNTIME_FILE.search(path)})


def _installed_paths() -> Iterator[str]:
    """Where the wheel intel-openmp puts the library."""
    for folder in dict.fromkeys((sys.prefix, sys.base_prefix)):
        path = Path(folder, "lib", "libiomp5.so")
        if path.exists():
            yield str(path)


def _open(path: str, *, already_loaded: bool) -> OpenMPRuntime | None:
    try:
        library = ctypes.CDLL(path) if already_loaded else _load_patiently(path)
        symbols = {name: function_address(getattr(library, name)) for name in (*_REQUIRED, _LIMIT)}
    except (OSError, AttributeError):
        return None
    return OpenMPRuntime(path=path, already_loaded=already_loaded, symbols=symbols)


def _load_patiently(path: str) -> ctypes.CDLL:
    """Load a runtime whose idle threads soon sleep, unless the user has said how they wait."""
    if any(name in os.environ for name in _USERS_WAY):
        return ctypes.CDLL(path)
    with _environment_with(_SPIN):  # runtimes read the environment once, while they are loaded
        return ctypes.CDLL(path)


@contextmanager
def _environment_with(more: Mapping[str, str]) -> Generator[None, None, None]:
    """
    C code finds these too, in a copy of the environment: the process's own stays as it is, and
    os.environ, which child processes inherit, does too.
    """
    environ = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    entries = list(takewhile(bool, (environ[k] for k in count()))) if environ else []
    entries += [f"{name}={value}".encode() for name, value in more.items()]
    copy = (ctypes.c_char_p * (len(entries) + 1))(*entries, None)
    _kept.append(copy)  # whoever reads it meanwhile may be slow
    place = ctypes.c_void_p.from_address(ctypes.addressof(environ))
    own, place.value = place.value, ctypes.addressof(copy)
    try:
        yield
    finally:
        place.value = own


@lru_cache(maxsize=1)
def default_count() -> int:
    """Physical cores this process may use: affinity mask and cgroup quota respected."""
    cores = {_core_of(cpu) for cpu in os.sched_getaffinity(0)}
    return min(len(cores), allowed_cpus())


def allowed_cpus() -> int:
    """Hardware threads this process may keep busy: affinity mask and cgroup quota respected."""
    allowed, quota = len(os.sched_getaffinity(0)), cgroup_cpus()
    return max(1, allowed if quota is None else min(allowed, math.ceil(quota)))


def _core_of(cpu: int) -> str:
    """The set of hardware threads that share a core, as sysfs spells it."""
    folder = Path(f"/sys/devices/system/cpu/cpu{cpu}/topology")
    for name in ("core_cpus_list", "thread_siblings_list"):
        try:
            return (folder / name).read_text().strip()
        except OSError:
            continue
    return str(cpu)


def cgroup_cpus(root: Path = _CGROUPS, own: Path = _OWN_CGROUPS) -> float | None:
    """CPUs of the cgroup quota, versions 2 and 1, the tightest of all ancestors; None: no quota."""
    found: list[float] = []
    try:
        groups = own.read_text().splitlines()
    except OSError:
        groups = []
    for group in groups:
        _, controllers, path = group.split(":", 2)
        base = root if not controllers else root / "cpu"
        if controllers and "cpu" not in controllers.split(","):
            continue
        folder = base / path.lstrip("/")
        for level in (folder, *folder.parents):
            quota = _quota_of(level)
            if quota is not None:
                found.append(quota)
            if level == base:
                break
    return min(found, default=None)


def _quota_of(folder: Path) -> float | None:
    try:
        quota, period = (folder / "cpu.max").read_text().split()
        return None if quota == "max" else int(quota) / int(period)
    except (OSError, ValueError):
        pass
    try:
        quota_us = int((folder / "cpu.cfs_quota_us").read_text())
        period_us = int((folder / "cpu.cfs_period_us").read_text())
        return None if quota_us <= 0 else quota_us / period_us
    except (OSError, ValueError):
        return None
