"""The object cache: damage, limits, folders that cannot be written, concurrent processes."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from pathlib import Path

import pytest

from mlc import knobs
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
