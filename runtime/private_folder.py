"""
Files that only this user can write, for native code is loaded from them.

A folder or file of another owner, or that others may write, is refused; links are not followed, and
what is no regular file is not opened. Folders are made with mode 0700, files with 0600.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

_WRITABLE_BY_OTHERS = stat.S_IWGRP | stat.S_IWOTH
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


class UnsafeError(Exception):
    """Somebody else could have written what is there; the message says how."""


@contextmanager
def opened(path: Path, *, create: bool = False) -> Generator[int, None, None]:
    """
    The folder as a file descriptor. OSError where there is none, UnsafeError where it is not this
    user's alone.
    """
    if create:
        with suppress(FileExistsError):
            os.makedirs(path.parent, exist_ok=True)
            os.mkdir(path, 0o700)
    with _folder(str(path), None) as folder:
        yield folder


@contextmanager
def inside(parent: int, name: str, *, create: bool = False) -> Generator[int, None, None]:
    """As `opened`, for a folder in an open one."""
    if create:
        with suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=parent)
    with _folder(name, parent) as folder:
        yield folder


@contextmanager
def _folder(name: str, parent: int | None) -> Generator[int, None, None]:
    try:
        folder = os.open(name, _FOLDER, dir_fd=parent)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR) and _is_link(name, parent):
            raise UnsafeError(f"{name} is a symbolic link") from None
        raise
    try:
        _check(name, os.fstat(folder))
        yield folder
    finally:
        os.close(folder)


def _is_link(name: str, parent: int | None) -> bool:
    try:
        return stat.S_ISLNK(os.lstat(name, dir_fd=parent).st_mode)
    except OSError:
        return False


def _check(name: str, status: os.stat_result) -> None:
    if status.st_uid != os.geteuid():
        raise UnsafeError(f"{name} belongs to user {status.st_uid}")
    if status.st_mode & _WRITABLE_BY_OTHERS:
        raise UnsafeError(f"{name} can be written by others")


def read(folder: int, name: str, *, at_most: int) -> bytes | None:
    """A regular file's bytes; None where it is something else or larger. Its time of use is set."""
    file = os.open(name, _READ, dir_fd=folder)
    try:
        status = os.fstat(file)
        if not stat.S_ISREG(status.st_mode) or status.st_size > at_most:
            return None
        _check(name, status)
        with os.fdopen(os.dup(file), "rb") as stream:
            content = stream.read(at_most + 1)
        with suppress(OSError):
            os.utime(file)
        return content if len(content) <= at_most else None
    finally:
        os.close(file)


def write(folder: int, name: str, content: bytes) -> None:
    """A new file put in the place of an old one: readers see all of it or nothing."""
    temporary = f".{os.urandom(8).hex()}.part"
    file = os.open(temporary, _NEW, 0o600, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            stream.write(content)
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary, dir_fd=folder)
        raise


def files(folder: int) -> Iterator[tuple[str, os.stat_result]]:
    """The regular files in a folder."""
    with os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_file(follow_symlinks=False):
                    yield entry.name, entry.stat(follow_symlinks=False)
