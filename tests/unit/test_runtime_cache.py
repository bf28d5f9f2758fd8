"""The object cache: damage, limits, folders that others may write, concurrent processes."""

from __future__ import annotations

import multiprocessing
import os
import socket
import stat
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from mlc import knobs
from mlc.runtime import probe
from mlc.runtime.cache import ObjectCache, object_cache, object_key

KEY = object_key(b"one")
LIMIT = 1 << 20


def files(folder: Path) -> list[Path]:
    """Every file of a cache folder."""
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_keys_separate_their_parts() -> None:
    assert object_key(b"ab", b"c") != object_key(b"a", b"bc")
    assert object_key(b"ab", b"c") == object_key(b"ab", b"c")


def test_what_one_process_puts_another_gets(tmp_path: Path) -> None:
    writer, reader = ObjectCache(tmp_path, LIMIT), ObjectCache(tmp_path, LIMIT)
    assert reader.get(KEY) is None
    writer.put(KEY, b"code")
    assert reader.get(KEY) == b"code"
    assert writer.get(KEY) == b"code"
    assert (reader.hits, reader.misses) == (1, 1)
    assert reader.info().entries == 1


@pytest.mark.parametrize("damage", ["truncated", "bit", "empty", "foreign"])
def test_a_damaged_entry_is_a_miss_and_goes(tmp_path: Path, damage: str) -> None:
    ObjectCache(tmp_path, LIMIT).put(KEY, b"code" * 100)
    (path,) = files(tmp_path)
    content = path.read_bytes()
    flipped = content[:-1] + bytes([content[-1] ^ 1])
    path.write_bytes(
        {"truncated": content[:-7], "bit": flipped, "empty": b"", "foreign": b"\x7fELF"}[damage]
    )
    cache = ObjectCache(tmp_path, LIMIT)
    assert cache.get(KEY) is None
    assert not files(tmp_path)
    cache.put(KEY, b"again")
    assert ObjectCache(tmp_path, LIMIT).get(KEY) == b"again"


def test_verify_and_clear(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, LIMIT)
    for i in range(5):
        cache.put(object_key(bytes([i])), b"x" * i)
    damaged = files(tmp_path)[2]
    damaged.write_bytes(b"no")
    assert cache.verify() == (4, (damaged,))
    assert cache.clear() == 4
    assert cache.info().entries == 0
    assert cache.get(object_key(bytes([1]))) is None


def test_the_least_recently_used_goes_first(tmp_path: Path) -> None:
    cache = ObjectCache(tmp_path, 5000)
    keys = [object_key(bytes([i])) for i in range(4)]
    for age, key in enumerate(keys):
        cache.put(key, b"x" * 1500)
        path = tmp_path / key[:2] / f"{key}.o"
        if path.exists():
            os.utime(path, (1000 + age, 1000 + age))
    ObjectCache(tmp_path, 5000).get(keys[0])  # used now
    cache.trim()
    kept = [key for key in keys if ObjectCache(tmp_path, 5000).get(key) is not None]
    assert kept == [keys[0], keys[2], keys[3]]


def test_a_folder_that_cannot_be_written_is_one_warning(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.write_text("in the way")
    cache = ObjectCache(blocker / "mlc", LIMIT)
    with pytest.warns(RuntimeWarning, match="MLC_CACHE_DIR"):
        cache.put(KEY, b"code")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.put(object_key(b"two"), b"more")
    assert cache.get(KEY) == b"code"  # from memory
    assert not cache.info().writable or os.geteuid() == 0


def test_no_folder_when_the_limit_is_zero(tmp_path: Path) -> None:
    with knobs.scope(cache_dir=tmp_path / "none", cache_bytes=0):
        object_cache().put(KEY, b"code")
        assert object_cache().get(KEY) == b"code"
    assert not (tmp_path / "none").exists()


def _hammer(folder: Path, seed: int) -> int:
    """Put and get the same 20 keys, now and then damaging one; count wrong bytes."""
    wrong = 0
    for turn in range(100):
        cache = ObjectCache(folder, 30_000)
        number = (turn * 7 + seed) % 20
        key, value = object_key(bytes([number])), bytes([number]) * 3000
        found = cache.get(key)
        wrong += found not in (None, value)
        cache.put(key, value)
        if turn % 13 == 0:
            path = folder / key[:2] / f"{key}.o"
            try:
                path.write_bytes(b"damaged")
            except OSError:
                continue
    return wrong


def test_processes_share_a_folder(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    with context.Pool(3) as pool:
        assert pool.starmap(_hammer, [(tmp_path, seed) for seed in range(3)]) == [0, 0, 0]


def entry_of(folder: Path, key: str) -> Path:
    """Where an entry lies."""
    return folder / key[:2] / f"{key}.o"


def test_folders_are_the_users_alone(tmp_path: Path) -> None:
    folder = tmp_path / "new" / "mlc"
    ObjectCache(folder, LIMIT).put(KEY, b"code")
    path = entry_of(folder, KEY)
    modes = [stat.S_IMODE(p.stat().st_mode) for p in (folder, path.parent, path)]
    assert modes == [0o700, 0o700, 0o600]


def _writable(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWOTH)


def _by_the_group(path: Path) -> None:
    path.chmod(path.stat().st_mode | stat.S_IWGRP)


def _of_another(path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root gives files away")
    os.chown(path, 12345, -1)


def _linked(path: Path) -> None:
    """The same, moved elsewhere, behind a link."""
    elsewhere = path.parent.parent / "elsewhere"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)


@pytest.mark.parametrize("spoil", [_writable, _by_the_group, _of_another, _linked])
@pytest.mark.parametrize("what", ["folder", "inner folder"])
def test_a_folder_that_others_may_write_is_done_without(
    tmp_path: Path, spoil: Callable[[Path], None], what: str
) -> None:
    folder = tmp_path / "mlc"
    ObjectCache(folder, LIMIT).put(KEY, b"code")
    spoil(folder if what == "folder" else entry_of(folder, KEY).parent)
    cache = ObjectCache(folder, LIMIT)
    with pytest.warns(RuntimeWarning, match="chmod 700"):
        assert cache.get(KEY) is None
    if what == "folder":
        cache.put(KEY, b"mine")  # warnings are errors: there is no second one
        assert cache.get(KEY) == b"mine"  # from memory
        cache.put(object_key(b"two"), b"more")
        assert cache.get(object_key(b"three")) is None
    if what == "folder":
        assert cache.clear() == 0
    assert ObjectCache(tmp_path / "elsewhere", LIMIT).get(KEY) in (None, b"code")


@pytest.mark.parametrize("spoil", [_writable, _by_the_group, _of_another])
def test_an_entry_that_others_may_write_is_a_miss(
    tmp_path: Path, spoil: Callable[[Path], None]
) -> None:
    ObjectCache(tmp_path, LIMIT).put(KEY, b"code")
    spoil(entry_of(tmp_path, KEY))
    cache = ObjectCache(tmp_path, LIMIT)
    with pytest.warns(RuntimeWarning, match="chmod 700"):
        assert cache.get(KEY) is None
    cache.put(KEY, b"mine")
    assert ObjectCache(tmp_path, LIMIT).get(KEY) == b"mine"


def _fifo(path: Path) -> None:
    os.mkfifo(path)


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as made:
        os.chdir(path.parent)  # a socket's path is short
        made.bind(path.name[:90])
    Path(path.name[:90]).rename(path)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(1 << 40)


def _dangling(path: Path) -> None:
    path.symlink_to(path.parent / "nowhere")


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


@pytest.mark.parametrize("kind", [_fifo, _socket, _sparse, _dangling, _device, Path.mkdir])
def test_what_is_no_file_is_a_miss(
    tmp_path: Path, kind: Callable[[Path], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    path = entry_of(tmp_path, KEY)
    path.parent.mkdir(0o700)
    kind(path)
    cache = ObjectCache(tmp_path, LIMIT)
    assert cache.get(KEY) is None
    assert cache.verify()[0] == 0
    cache.info()
    cache.put(KEY, b"code")
    assert cache.get(KEY) == b"code"
    if kind is not Path.mkdir:
        assert ObjectCache(tmp_path, LIMIT).get(KEY) == b"code"


def test_an_entry_under_another_key_is_a_miss(tmp_path: Path) -> None:
    ObjectCache(tmp_path, LIMIT).put(KEY, b"code")
    other = object_key(b"other")
    entry_of(tmp_path, other).parent.mkdir(0o700, exist_ok=True)
    entry_of(tmp_path, KEY).rename(entry_of(tmp_path, other))
    assert ObjectCache(tmp_path, LIMIT).get(other) is None


def test_files_that_are_not_ours_stay(tmp_path: Path) -> None:
    (tmp_path / "ab").mkdir(0o700)
    foreign = tmp_path / "ab" / "thesis.o"
    foreign.write_text("years of work")
    cache = ObjectCache(tmp_path, 1)
    cache.trim()
    assert cache.clear() == 0
    assert foreign.exists()


@pytest.mark.parametrize("level", [b"program", b"llvm"])
def test_what_cannot_be_loaded_is_a_miss(tmp_path: Path, level: bytes) -> None:
    """Sound entries under the right key that are no code: another build's, say."""
    import mlc

    def doubled(x: Any) -> Any:
        return x + x

    x = np.arange(3.0)
    with knobs.scope(cache_dir=tmp_path, cache_bytes=LIMIT):
        first = ObjectCache.get
        asked: list[str] = []

        def get(self: ObjectCache, key: str) -> bytes | None:
            asked.append(key)
            return first(self, key)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ObjectCache, "get", get)
            assert list(mlc.compile(doubled)(x)) == [0, 2, 4]
        for key in asked[:1] if level == b"program" else asked[1:]:
            object_cache().put(key, b"no code")
        if level == b"llvm":
            object_cache().put(asked[0], b"nor this")
        found = mlc.compile(doubled)
        assert list(found(x)) == [0, 2, 4]
        assert list(mlc.compile(doubled)(x)) == [0, 2, 4]


WRONG = (
    '"fold_cycles": "many"', '"fold_cycles": -1.0', '"folds": 4.5', '"name": "zen9"',
    '"num_lines_together": 4.5', '"fold_cycles": {}',
)  # fmt: skip


def test_measured_rates_come_from_a_file_of_the_users_alone(tmp_path: Path) -> None:
    target = probe.host_target()
    loops = replace(target.loops, fold_cycles=4.5, function_cycles="exp 5.0 7.5")
    rates: dict[str, Any] = dict.fromkeys(probe.MEASURED_FIELDS, 1.0)
    measured = replace(target, source=probe.SOURCE, loops=loops, **rates)
    with knobs.scope(cache_dir=tmp_path):
        probe.keep(measured)
        assert probe.host_target() == measured
        (path,) = files(tmp_path)
        for wrong in WRONG:
            path.write_text(path.read_text().replace('"fold_cycles": 4.5', wrong))
            probe.host_target.cache_clear()
            assert probe.host_target() != measured
            probe.keep(measured)
        path.unlink()
        os.mkfifo(path)
        probe.host_target.cache_clear()
        assert probe.host_target() != measured
    probe.host_target.cache_clear()
