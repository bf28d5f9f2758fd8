"""The collector of cycles while programs are compiled."""

from __future__ import annotations

import gc

import pytest

from mlc.collector import collector_off, imported


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
