"""`import mlc.numpy` and `mlc.numpy` are one module, so that no class exists twice."""

from __future__ import annotations

import importlib

import mlc


def test_import_statement_gives_the_module_of_the_attribute() -> None:
    for name in ("nn", "numpy", "optim", "random"):
        assert importlib.import_module(f"mlc.{name}") is getattr(mlc, name)
