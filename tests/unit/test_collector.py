"""The collector of cycles while programs are compiled."""

from __future__ import annotations

import gc

import pytest

from mlc.collector import collector_off


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
