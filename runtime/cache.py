"""
The object cache: compiled code on disk and in memory, found by content (decisions.md D20).

A file ``<key[:2]>/<key>.o`` holds a magic word, a SHA-256 of key and bytes, and the bytes. Writers
rename a finished temporary file into place, so readers and other processes see all of an entry or
nothing. A damaged or renamed entry is a miss and is removed. A folder that cannot be written is no
error. What somebody else could have written is not read (`private_folder`): it is native code.
"""

from __future__ import annotations

import hashlib
import os
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from mlc import knobs
from mlc.fork import RenewedLock
from mlc.lazy_dataclass import dataclass
from mlc.runtime import private_folder
from mlc.runtime.private_folder import UnsafeError
from mlc.version import __version__

_PARTS = ("dialects", "passes", "lowering", "runtime")
_MAGIC = b"mlc-object-2\n"
_DIGEST_BYTES = 32
_HEAD_BYTES = len(_MAGIC) + _DIGEST_BYTES
_OURS = re.compile(r"[0-9a-f]{64}\.o|\.[0-9a-f]{16}\.part")
_MEMORY_BYTES = 64 << 20  # objects are 2 to 50 KiB: some thousands
_TRIM_EVERY = 64  # entries written between two looks at the folder's size


@lru_cache(maxsize=1)
def compiler_version() -> bytes:
    """
    What this compiler is: its version, and name, size and time of each of its source files.

    An edited or upgraded compiler never meets objects of its former self. 3 ms for 500 files.
    """
    digest = hashlib.sha256(__version__.encode())
    root = os.path.dirname(knobs.__file__)
    for folder in (root, *(os.path.join(root, part) for part in _PARTS)):
        for entry in _sources(folder):
            status = entry.stat()
            digest.update(f"{entry.name} {status.st_size} {status.st_mtime_ns}".encode())
    return digest.digest()


def _sources(folder: str) -> Iterator[os.DirEntry[str]]:
    """The files of a folder and of those in it, links left out, in an order that stays."""
    with os.scandir(folder) as found:
        entries = sorted(found, key=lambda entry: entry.name)
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            yield from _sources(entry.path)
        elif entry.name.endswith((".py", ".ll")):
            yield entry


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


@dataclass(frozen=True)
class _File:
    """An entry on disk, or one that was never finished."""

    folder: str
    name: str
    size: int
    used: float  # when, as time.time() counts

    @property
    def is_entry(self) -> bool:
        return self.name.endswith(".o")


class ObjectCache:
    """Bytes by key: a bounded memory over a bounded folder. Safe for threads and processes."""

    def __init__(self, folder: Path, limit_bytes: int) -> None:
        self.folder = folder
        self.limit_bytes = limit_bytes
        self.hits = 0
        self.misses = 0
        self._memory: dict[str, bytes] = {}
        self._memory_bytes = 0
        self._lock = RenewedLock()
        self._readable = self._writable = limit_bytes > 0
        self._warned = False
        self._writes = 0

    def get(self, key: str) -> bytes | None:
        """The bytes put under `key`, by this process or another; None when there are none."""
        with self._lock():
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
        with self._lock():
            old = self._memory.pop(key, None)
            self._memory_bytes += len(value) - (0 if old is None else len(old))
            self._memory[key] = value
            while self._memory_bytes > _MEMORY_BYTES and len(self._memory) > 1:
                oldest = next(iter(self._memory))
                self._memory_bytes -= len(self._memory.pop(oldest))

    def _read(self, key: str) -> bytes | None:
        if not self._readable:
            return None
        try:
            with private_folder.opened(self.folder) as folder:
                return self._entry(folder, key)
        except UnsafeError as error:
            self._do_without(error)
        except OSError:
            pass
        return None

    def _entry(self, folder: int, key: str) -> bytes | None:
        """The sound entry of a key; a damaged one is removed."""
        name, limit = f"{key}.o", self.limit_bytes + _HEAD_BYTES
        try:
            with private_folder.inside(folder, key[:2]) as inner:
                content = private_folder.read(inner, name, at_most=limit)
                value = None if content is None else _checked(key, content)
                if content is not None and value is None:
                    os.unlink(name, dir_fd=inner)
                return value
        except UnsafeError as error:
            self._warn(f"{error}: what is in it is not used")
        except OSError:
            pass
        return None

    def _write(self, key: str, value: bytes) -> None:
        try:
            with (
                private_folder.opened(self.folder, create=True) as folder,
                private_folder.inside(folder, key[:2], create=True) as inner,
            ):
                private_folder.write(inner, f"{key}.o", _MAGIC + _digest(key, value) + value)
        except UnsafeError as error:
            self._do_without(error)
            return
        except IsADirectoryError:  # one stands where the entry should: this entry is not kept
            return
        except OSError as error:
            self._writable = False
            self._warn(f"{error.strerror or error}; every process compiles anew")
            return
        self._writes += 1
        if self._writes % _TRIM_EVERY == 1:
            self.trim()

    def _do_without(self, error: UnsafeError) -> None:
        self._readable = self._writable = False
        self._warn(f"{error}: what is in it is not used, and every process compiles anew")

    def _warn(self, because: str) -> None:
        if self._warned:
            return
        self._warned = True
        warnings.warn(
            f"compiled code cannot be kept in {self.folder}: {because}. Set MLC_CACHE_DIR to a"
            " folder that you alone can write (chmod 700), or MLC_CACHE_BYTES=0 to do without.",
            RuntimeWarning,
            stacklevel=5,
        )

    def _files(self) -> list[_File]:
        """Entries and unfinished ones, and nothing else that may lie there."""
        found: list[_File] = []
        with suppress(OSError, UnsafeError), private_folder.opened(self.folder) as folder:
            for name in sorted(os.listdir(folder)):
                with suppress(OSError, UnsafeError), private_folder.inside(folder, name) as inner:
                    for file, status in private_folder.files(inner):
                        if _OURS.fullmatch(file):
                            found.append(_File(name, file, status.st_size, status.st_mtime))
        return found

    def _remove(self, file: _File) -> bool:
        with (
            suppress(OSError, UnsafeError),
            private_folder.opened(self.folder) as folder,
            private_folder.inside(folder, file.folder) as inner,
        ):
            os.unlink(file.name, dir_fd=inner)
            return True
        return False

    def trim(self) -> None:
        """Remove the least recently used entries until the folder is below its limit."""
        files = sorted(self._files(), key=lambda file: file.used)
        total = sum(file.size for file in files)
        for file in files:
            if total <= self.limit_bytes:
                return
            if self._remove(file):
                total -= file.size

    def info(self) -> CacheInfo:
        """Entries and bytes on disk."""
        files = [file.size for file in self._files() if file.is_entry]
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
        with self._lock():
            self._memory.clear()
            self._memory_bytes = 0
        return sum(self._remove(file) and file.is_entry for file in self._files())

    def verify(self) -> tuple[int, tuple[Path, ...]]:
        """(sound entries, damaged ones); the damaged ones are removed."""
        sound = 0
        damaged: list[Path] = []
        for file in self._files():
            if not file.is_entry:
                continue
            with suppress(OSError, UnsafeError), private_folder.opened(self.folder) as folder:
                if self._entry(folder, file.name.removesuffix(".o")) is not None:
                    sound += 1
                    continue
            damaged.append(self.folder / file.folder / file.name)
        return sound, tuple(damaged)


def _digest(key: str, value: bytes) -> bytes:
    """Of the key too: code under another key would be wrong code."""
    return hashlib.sha256(key.encode() + b"\n" + value).digest()


def _checked(key: str, content: bytes) -> bytes | None:
    value = content[_HEAD_BYTES:]
    return value if content[:_HEAD_BYTES] == _MAGIC + _digest(key, value) else None


@lru_cache(maxsize=8)
def _cache_at(folder: Path, limit_bytes: int) -> ObjectCache:
    return ObjectCache(folder, limit_bytes)


def object_cache() -> ObjectCache:
    """The cache that the knobs name now (MLC_CACHE_DIR, MLC_CACHE_BYTES)."""
    settings = knobs.current()
    return _cache_at(settings.cache_dir, settings.cache_bytes)
