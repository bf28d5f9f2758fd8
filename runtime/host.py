"""
LLVM's words for this machine, kept beside the object cache: a process that finds all its code there
never loads LLVM.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from mlc import knobs
from mlc.lazy_dataclass import dataclass
from mlc.runtime import private_folder
from mlc.runtime.private_folder import UnsafeError

_CPUINFO = Path("/proc/cpuinfo")
_WORDS_BYTES = 1 << 16  # of the file, at most


@dataclass(frozen=True)
class Host:
    """A processor as LLVM knows it."""

    triple: str  # "x86_64-unknown-linux-gnu"
    name: str  # "znver5"
    features: Mapping[str, bool]


@lru_cache(maxsize=1)
def host() -> Host:
    """The machine of this process."""
    identity = _identity()
    found = None if identity is None else _kept(identity)
    if found is None:
        from mlc.runtime.llvm import host_cpu, host_triple

        found = Host(host_triple(), *host_cpu())
        if identity is not None:
            _keep(identity, found)
    return found


def _identity() -> str | None:
    """What decides LLVM's words: the kernel's for the first processor, and LLVM's version."""
    try:
        first, _, _ = _CPUINFO.read_text().partition("\n\n")
        spec = find_spec("llvmlite")
        origin = spec.origin if spec is not None else None
        if origin is None:
            return None
        llvm = os.stat(origin)
    except OSError:
        return None
    # its clock changes from moment to moment
    lines = [
        line for line in first.splitlines() if "MHz" not in line and "mips" not in line.lower()
    ]
    words = (platform.machine(), *lines, origin, str(llvm.st_mtime_ns), str(llvm.st_size))
    return hashlib.sha256("\n".join(words).encode()).hexdigest()[:16]


def _kept(identity: str) -> Host | None:
    """What `_keep` has stored; None where that is nothing that it wrote."""
    path = _file(identity)
    try:
        with private_folder.opened(path.parent) as folder:
            text = private_folder.read(folder, path.name, at_most=_WORDS_BYTES)
        content: object = json.loads(text or b"")
    except (OSError, ValueError, UnsafeError, RecursionError):
        return None
    if not isinstance(content, dict):
        return None
    found = cast("dict[str, object]", content)
    triple, name, features = (found.get(x) for x in ("triple", "name", "features"))
    if not (isinstance(triple, str) and isinstance(name, str) and isinstance(features, dict)):
        return None
    flags = cast("dict[str, object]", features)
    if not all(isinstance(x, bool) for x in flags.values()):
        return None
    return Host(triple, name, cast("dict[str, bool]", flags))


def _keep(identity: str, found: Host) -> None:
    if not knobs.current().cache_bytes:
        return
    path, content = _file(identity), {x: getattr(found, x) for x in ("triple", "name", "features")}
    with suppress(OSError, UnsafeError), private_folder.opened(path.parent, create=True) as folder:
        private_folder.write(folder, path.name, json.dumps(content).encode())


def _file(identity: str) -> Path:
    return knobs.current().cache_dir / f"host-{identity}.json"
