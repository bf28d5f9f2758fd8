"""Plans for machines that need not be at hand: no code is made, nothing runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mlc
from mlc.dialects.target.known import CPUS
from mlc.levels import Levels
from mlc.runtime.probe import host_target

TARGETS = tuple(target.name for target in CPUS)
"""The processors that plans are tested for, whatever runs the tests."""

RUNNABLE = "avx2" if "+avx2" in host_target().features else "host"
"""The smallest caches of these of which the code runs here."""

HOSTED = [
    name
    for name, feature in (("avx2", "+avx2"), ("avx512", "+avx512f"))
    if feature in host_target().features
] or ["host"]
"""Processors whose code runs here."""


def spec(*shape: int | str, dtype: str = "f32") -> mlc.TensorSpec:
    """An argument that is known by its shape alone."""
    return mlc.TensorSpec(*shape, dtype=dtype)


def planned(f: Callable[..., Any], *arguments: Any, target: str, **options: Any) -> Levels:
    """The program for these arguments at every level, for a named machine with two threads."""
    chosen: dict[str, Any] = {"threads": 2, **options}
    compiled: Any = mlc.compile(target=target, **chosen)(f)
    levels: Levels = compiled.lower(*arguments).levels
    return levels
