"""The collector of cycles while programs are compiled."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlc.collector import collector_off, imported, is_awaited


def test_is_off_until_the_last_block_ends() -> None:
    assert gc.isenabled()
    with collector_off():
        with collector_off():
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()


def test_stays_off_where_it_was_off() -> None:
    gc.disable()
    try:
        with collector_off():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()


def test_is_on_again_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), collector_off():
        _ = 1 / 0
    assert gc.isenabled()


@pytest.mark.skipif(gc.get_freeze_count() > 0, reason="Python 3.12 has frozen objects of its own")
def test_what_was_imported_is_old_at_once() -> None:
    young: list[list[int]] = [[]]
    assert any(x is young for x in gc.get_objects(generation=0))
    imported("a module of this test")
    assert any(x is young for x in gc.get_objects(generation=2))
    assert not gc.get_freeze_count()
    young = [[]]
    imported("a module of this test")  # no second time
    assert any(x is young for x in gc.get_objects(generation=0))


def test_what_is_frozen_stays_frozen() -> None:
    gc.freeze()
    try:
        count = gc.get_freeze_count()
        imported("another module of this test")
        assert gc.get_freeze_count() == count > 0
    finally:
        gc.unfreeze()


class _Says:
    def __del__(self) -> None:
        pass


def _numbers() -> Iterator[int]:
    yield 1


def test_what_does_nothing_at_its_end_is_not_awaited() -> None:
    assert not is_awaited([1, "a", {}, _numbers(), sys.__stdout__, type, imported])


def test_what_does_something_at_its_end_is_awaited(tmp_path: Path) -> None:
    begun = _numbers()
    next(begun)
    with (tmp_path / "file").open("w") as file:
        assert all(map(is_awaited, ([begun], [file], [_Says()])))


def test_a_class_that_cannot_be_hashed_is_awaited() -> None:
    made = type("Meta", (type,), {"__hash__": None})("Made", (), {})
    assert is_awaited([made()])


_END = """
import atexit, gc, sys
from mlc.collector import imported

class Holder:
    def __init__(self, *held):
        self.held = *held, self

imported("a module of this test")
holder = Holder({held})
atexit._run_exitfuncs()
print(gc.get_freeze_count() > 0)
"""


@pytest.mark.parametrize(("held", "left"), [("", True), ("open(sys.argv[1], 'w')", False)])
def test_the_interpreter_ends_cycles_of_files_alone(held: str, left: bool, tmp_path: Path) -> None:
    """What is left in a buffer is written: whoever holds the file is in a cycle."""
    program = _END.format(held=held) + ("holder.held[0].write('all')" if held else "")
    path = tmp_path / "file"
    command = [sys.executable, "-c", program, str(path)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert said == f"{left}\n"
    assert not held or path.read_text() == "all"
