"""Every model of the benchmarks' zoo as an object for C with one thread: it asks for nothing."""

from __future__ import annotations

from typing import Any

import pytest

import mlc
from benchmarks.zoo import ZOO
from mlc.c_files import CProgram
from mlc.runtime.linker import ObjectFile
from tests.sweeps import covering


@pytest.mark.parametrize(("name", "target"), covering(list(ZOO), ["avx2", "neon"], strength=1))
def test_objects_of_the_zoo_ask_for_nothing(name: str, target: str) -> None:
    model = ZOO[name]
    lowered: Any = mlc.compile(model.function, target=target).lower(*model.arrays("small"))
    found = CProgram(lowered.levels)
    assert not list(ObjectFile.read(found.object).undefined())
    assert found.header()
