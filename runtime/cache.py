"""
The object cache: compiled code on disk and in memory, found by content (decisions.md D20).

A file ``<key[:2]>/<key>.o`` holds a magic word, a SHA-256 of the rest and the bytes. Writers rename
a finished temporary file into place, so readers and other processes see all of an entry or nothing.
A damaged entry is a miss and is removed. A folder that cannot be written is no error.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
import threading
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from mlc import knobs
from mlc.version import __version__

_PARTS = ("dialects", "passes", "lowering", "runtime")
_MAGIC = b"mlc-object-1\n"
_DIGEST_BYTES = 32
_MEMORY_BYTES = 64 << 20  # objects are 2 to 50 KiB: some thousands
_TRIM_EVERY = 64  # entries written between two looks at the folder's size


@lru_cache(maxsize=1)
def compiler_version() -> bytes:
    """
    What this compiler is: its version, and name, size and time of each of its source files.

    An edited or upgraded compiler never meets objects of its former self. 1 ms for 200 files.
    """
    digest = hashlib.sha256(__version__.encode())
    root = Path(knobs.__file__).parent
    for folder in sorted((root, *(root / part for part in _PARTS))):
        for path in sorted((*folder.rglob("*.py"), *folder.glob("*.ll"))):
            status = path.stat()
            digest.update(f"{path.name} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.digest()


def object_key(*parts: bytes) -> str:
    """The key of an object: a digest of the caller's parts and of the compiler itself."""
    digest = hashlib.sha256(compiler_version())
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


@dataclass(frozen=True, kw_only=True)
class CacheInfo:
    """What `mlc cache` prints."""

    folder: Path
    entries: int
    size_bytes: int
    limit_bytes: int
    writable: bool


class ObjectCache:
    """Bytes by key: a bounded memory over a bounded folder. Safe for threads and processes."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.hits = 0
        self.misses = 0
        self._memory: dict[str, bytes] = {}
        self._memory_bytes = 0
        self._lock = threading.Lock()
        self._writable = limit_bytes > 0
        self._writes = 0

    def get(self, key: str) -> bytes | None:
        """The bytes put under `key`, by this process or another; None when there are none."""
        with self._lock:
            found = self._memory.get(key)
        if found is None:
            found = self._read(key)
            if found is not None:
                self._remember(key, found)
        if found is None:
            self.misses += 1
        else:
            self.hits += 1
        return found

    def put(self, key: str, value: bytes) -> None:
        """Keep `value`; on disk where possible."""
        self._remember(key, value)
        if self._writable:
            self._write(key, value)

    def _remember(self, key: str, value: bytes) -> None:
        with self._lock:
            old = self._memory.pop(key, None)
            self._memory_bytes += len(value) - (0 if old is None else len(old))
            self._memory[key] = value
            while self._memory_bytes > _MEMORY_BYTES and len(self._memory) > 1:
                oldest = next(iter(self._memory))
                self._memory_bytes -= len(self._memory.pop(oldest))

    def _path(self, key: str) -> Path:
        return self.folder / key[:2] / f"{key}.o"

    def _read(self, key: str) -> bytes | None:
        if self.limit_bytes <= 0:
            return None
        path = self._path(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        value = _checked(content)
        if value is None:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):
            os.utime(path)  # the time of use orders eviction
        return value

    def _write(self, key: str, value: bytes) -> None:
        path = self._path(key)
        temporary = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".", suffix=".part")
            with os.fdopen(handle, "wb") as file:
                file.write(_MAGIC + hashlib.sha256(value).digest() + value)
            os.replace(temporary, path)
        except OSError as error:
            if temporary:
                with suppress(OSError):
                    os.unlink(temporary)
            self._give_up_writing(error)
            return
        self._writes += 1
        if self._writes % _TRIM_EVERY == 1:
            self.trim()

    def _give_up_writing(self, error: OSError) -> None:
        self._writable = False
        warnings.warn(
            f"compiled code cannot be kept in {self.folder}: {error.strerror or error}; every "
            "process compiles anew. Set MLC_CACHE_DIR to a folder that can be written, or "
            "MLC_CACHE_BYTES=0 to do without.",
            RuntimeWarning,
            stacklevel=4,
        )

    def _files(self) -> Iterator[tuple[Path, os.stat_result]]:
        try:
            folders = sorted(path for path in self.folder.iterdir() if len(path.name) == 2)
        except OSError:
            return
        for folder in folders:
            with suppress(OSError):
                for path in folder.iterdir():
                    with suppress(OSError):
                        yield path, path.stat()

    def trim(self) -> None:
        """Remove the least recently used entries until the folder is below its limit."""
        files = sorted(self._files(), key=lambda file: file[1].st_mtime)
        total = sum(status.st_size for _, status in files)
        for path, status in files:
            if total <= self.limit_bytes:
                return
            with suppress(OSError):
                path.unlink()
                total -= status.st_size

    def info(self) -> CacheInfo:
        """Entries and bytes on disk."""
        files = [status.st_size for path, status in self._files() if path.suffix == ".o"]
        nearest = next((p for p in (self.folder, *self.folder.parents) if p.exists()), Path("/"))
        return CacheInfo(
            folder=self.folder,
            entries=len(files),
            size_bytes=sum(files),
            limit_bytes=self.limit_bytes,
            writable=self.limit_bytes > 0 and os.access(nearest, os.W_OK),
        )

    def clear(self) -> int:
        """Remove every entry, from memory too; returns how many were on disk."""
        with self._lock:
            self._memory.clear()
            self._memory_bytes = 0
        removed = 0
        for path, _ in list(self._files()):
            with suppress(OSError):
                path.unlink()
                removed += path.suffix == ".o"
        return removed

    def verify(self) -> tuple[int, tuple[Path, ...]]:
        """(sound entries, damaged ones); the damaged ones are removed."""
        sound = 0
        damaged: list[Path] = []
        for path, _ in list(self._files()):
            if path.suffix != ".o":
                continue
            with suppress(OSError):
                if _checked(path.read_bytes()) is not None:
                    sound += 1
                    continue
                path.unlink()
            damaged.append(path)
        return sound, tuple(damaged)


def _checked(content: bytes) -> bytes | None:
    head = len(_MAGIC) + _DIGEST_BYTES
    value = content[head:]
    if content[: len(_MAGIC)] != _MAGIC:
        return None
    return value if hashlib.sha256(value).digest() == content[len(_MAGIC) : head] else None


@lru_cache(maxsize=8)
def _cache_at(folder: Path, limit_bytes: int) -> ObjectCache:
    return ObjectCache(folder, limit_bytes)


def object_cache() -> ObjectCache:
    """The cache that the knobs name now (MLC_CACHE_DIR, MLC_CACHE_BYTES)."""
    settings = knobs.current()
    return _cache_at(settings.cache_dir, settings.cache_bytes)
