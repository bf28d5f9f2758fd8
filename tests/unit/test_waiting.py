"""A terminal is told of compilations that take long; nobody else is."""

from __future__ import annotations

import io
import time

import pytest

from mlc import waiting


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.01)
    monkeypatch.setattr(waiting, "BETWEEN_S", 0.01)
    with waiting.waiting("step"):
        waiting.at("mlc-schedule")
        deadline = time.monotonic() + 10
        while "mlc-schedule" not in terminal.getvalue() and time.monotonic() < deadline:
            time.sleep(0.01)
    text = terminal.getvalue()
    assert text.startswith("\rmlc: step is compiled: 0 s, mlc-schedule")
    assert text.split("\r")[-2].strip() == ""


def test_what_is_short_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = _Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    with pytest.raises(ZeroDivisionError), waiting.waiting("step"):
        _ = 1 // 0
    assert terminal.getvalue() == ""


def test_no_terminal_is_told_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    monkeypatch.setattr(waiting, "PATIENCE_S", 0.0)
    with waiting.waiting("step"):
        time.sleep(0.02)
    assert stream.getvalue() == ""
