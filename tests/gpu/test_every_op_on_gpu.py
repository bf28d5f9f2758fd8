"""Every op on every dtype on the GPU against `reference`: the cases of `tests/test_every_op.py`."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests import test_every_op as on_cpu
from tests.every_op import elementwise
from tests.every_op.shapes import ShapeClass
from tests.gpu import native
from tests.numerics.judges import BY_UNIT

pytestmark = [pytest.mark.gpu, pytest.mark.usefixtures("guarded_memory")]


@pytest.fixture(autouse=True)
def compile_for_the_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """The same tests with another compiler, whose vector math is polynomials and estimates."""
    monkeypatch.setattr(elementwise, "BOUNDS", BY_UNIT)
    monkeypatch.setattr(on_cpu, "RUNS", 20)
    monkeypatch.setattr(on_cpu, "to_plan", native.to_plan)
    monkeypatch.setattr(on_cpu, "compile_plan", native.compile_plan)


@pytest.mark.parametrize(("c", "among"), on_cpu.SHARED)
@pytest.mark.parametrize("family", on_cpu.FAMILIES)
def test_gpu_gives_the_reference(family: str, c: ShapeClass, among: Sequence[ShapeClass]) -> None:
    on_cpu.test_compiled_gives_the_reference(family, c, among)


def test_special_values_meet_special_values() -> None:
    on_cpu.test_special_values_meet_special_values()


@pytest.mark.parametrize("symbolic", [False, True], ids=["static", "symbolic"])
@pytest.mark.parametrize("strided", [False, True], ids=["contiguous", "strided"])
def test_tiled_contractions(symbolic: bool, strided: bool) -> None:
    on_cpu.test_packed_contractions(symbolic, strided)


@pytest.mark.parametrize("index", [7, -8, 2**62, -(2**63)])
def test_an_index_out_of_range_raises_and_reads_nothing(index: int) -> None:
    on_cpu.test_an_index_out_of_range_raises_and_reads_nothing(index)


@pytest.mark.parametrize("monoid", ["max", "min", "argmax", "argmin"])
def test_the_largest_of_nothing_raises(monoid: str) -> None:
    on_cpu.test_the_largest_of_nothing_raises(monoid)
