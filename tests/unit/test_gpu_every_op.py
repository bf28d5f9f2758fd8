"""Every op on every dtype in the model of a GPU: the cases of `tests/test_every_op.py`."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.signature import EntrySignature
from mlc.dialects.target import GpuTarget
from mlc.dialects.target.attribute import TargetAttr
from mlc.dialects.target.known import named_target
from mlc.passes.gpu.expand_positions import ExpandPositionsPass
from mlc.passes.math.expand_math import ExpandMathPass
from mlc.passes.tensor.expand_partition import ExpandPartitionPass
from tests import test_every_op as on_cpu
from tests.every_op import elementwise
from tests.every_op.native import Array
from tests.every_op.native import to_plan as planned
from tests.gpu.native import gpu_loops
from tests.gpu_model.machine import Model
from tests.numerics.judges import BY_UNIT

QUICK = {"contractions", "creation", "moving", "placing"}
FAMILIES = [
    pytest.param(name, marks=() if name in QUICK else pytest.mark.slow)
    for name in on_cpu.FAMILIES
    if name != "routines"  # the host's
]


def _target() -> GpuTarget:
    target = named_target("sm_80")
    assert isinstance(target, GpuTarget)
    return target


def to_plan(module: ModuleOp, *, fusion: str = "none") -> ModuleOp:
    """As for a GPU."""
    module.attributes["mlc.target"] = TargetAttr(_target())
    for step in (ExpandPartitionPass(), ExpandPositionsPass()):
        step.apply(Context(), module)
    return planned(module, fusion=fusion)


def compile_plan(module: ModuleOp, signature: EntrySignature) -> Callable[..., tuple[Array, ...]]:
    """The plan-level module as a callable that runs it in the model."""
    loops = gpu_loops(module, _target())
    ExpandMathPass().apply(Context(), loops)

    def run(*arrays: Array) -> tuple[Array, ...]:
        sizes = [tuple(d.evaluate({}) for d in x.shape) for x in signature.results]
        kinds = [named_dtype(x.dtype).numpy for x in signature.results]
        return tuple(Model(loops, seed=1).call(arrays, list(zip(sizes, kinds, strict=True))))

    return run


@pytest.mark.parametrize("family", FAMILIES)
def test_the_model_gives_the_reference(family: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(elementwise, "BOUNDS", BY_UNIT)
    monkeypatch.setattr(on_cpu, "to_plan", to_plan)
    monkeypatch.setattr(on_cpu, "compile_plan", compile_plan)
    on_cpu.test_compiled_gives_the_reference(family, on_cpu.ODD, ())
