"""What made a kernel's nest is looked at each time, and once where somebody says that it stays."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

from xdsl.dialects.builtin import ModuleOp, StringAttr

import mlc
from mlc.dialects.analysis.access import nest_of, nests_stay
from mlc.dialects.numerics import ATTRIBUTE, is_strict
from mlc.dialects.plan import KernelOp
from tests.plans import planned


def total(x: Any) -> Any:
    return x.sum(1)


def kernel_of() -> tuple[ModuleOp, KernelOp]:
    """A plan of one sum, whose order "strict" numerics keep."""
    plan = planned(total, mlc.TensorSpec(64, 64, dtype="f32"), target="avx2").plan()
    (kernel,) = (op for op in plan.walk() if isinstance(op, KernelOp))
    return plan, kernel


def make_strict(plan: ModuleOp, kernel: KernelOp) -> None:
    """A change that nests depend on."""
    plan.attributes[ATTRIBUTE] = StringAttr("strict")
    assert is_strict(kernel)


def test_a_change_is_seen_when_nests_need_not_stay() -> None:
    plan, kernel = kernel_of()
    first = nest_of(kernel)
    assert first is not None
    assert nest_of(kernel) is first
    make_strict(plan, kernel)
    second = nest_of(kernel)
    assert second is not None
    assert (first.order, second.order) == ("any", "in lanes")


def test_a_nest_is_found_anew_for_each_time_that_nests_stay() -> None:
    plan, kernel = kernel_of()
    with nests_stay():
        first = nest_of(kernel)
        with nests_stay():
            assert nest_of(kernel) is first
        assert nest_of(kernel) is first
    make_strict(plan, kernel)
    with nests_stay():
        second = nest_of(kernel)
        assert second is not None
        assert second.order == "in lanes"
        plan.attributes[ATTRIBUTE] = StringAttr("standard")
        assert nest_of(kernel) is second  # nobody was to change it
        with ThreadPoolExecutor(1) as other:  # which said nothing
            third = other.submit(nest_of, kernel).result()
            assert third is not None
            assert third.order == "any"
    last = nest_of(kernel)
    assert last is not None
    assert last.order == "any"
