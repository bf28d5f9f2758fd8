"""
Memory is part of a plan's cost: a value larger than the last-level cache, and than all arguments
and results together, is stored only if every other plan should take much longer.

The plans are those of tile loops formed in several ways, and of such values computed where they are
read. Each is planned to its end and costs what its report predicts, on one thread.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.dialects.func import FuncOp

from mlc.dialects.dims import shape_of
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.op import TensorOp
from mlc.passes.plan.donate_arguments import DonateArgumentsPass
from mlc.passes.plan.form_kernels import ABOVE, FormKernelsPass
from mlc.passes.plan.legality import is_view
from mlc.passes.plan.plan_buffers import PlanBuffersPass
from mlc.passes.plan.plan_cost import ASSUMED, stored_bytes
from mlc.passes.plan.schedule import SchedulePass
from mlc.passes.remarks import listening, remark
from mlc.passes.report import Intermediate, Plan, plan_of

SLOWER = 1.5
"""How much longer than the fastest plan one may take that stores fewer bytes of large values."""

Columns = Literal["paying", "none", "large"]
"""
Which loops over columns that are never stored: those that pay by estimate, none, or besides all
that keep a large value from being stored.
"""

Form = Callable[[ModuleOp, Columns], None]


@dataclass(frozen=True)
class Choice:
    """A plan: how its loops are formed, what it takes and which large values it stores."""

    columns: Columns
    inline: bool  # whether large values are computed where they are read
    seconds: float
    large: tuple[Intermediate, ...]

    @property
    def bytes(self) -> int:
        """Of all large values that it stores."""
        return sum(x.bytes for x in self.large)


def large_bytes(function: FuncOp, target: CpuTarget) -> float:
    """The size above which a value is large."""
    kind = function.function_type
    around = sum(map(stored_bytes, (*kind.inputs.data, *kind.outputs.data)))
    return max(around, target.l3_bytes, target.l2_bytes)


def has_large(function: FuncOp, target: CpuTarget) -> bool:
    """Whether the function computes a value that may have to be stored and is large."""
    limit = large_bytes(function, target)
    return any(
        isinstance(op, TensorOp) and not is_view(op) and stored_bytes(op.results[0].type) > limit
        for op in function.walk()
    )


def choose(
    module: ModuleOp, function: FuncOp, target: CpuTarget, fusion: str, form: Form
) -> Columns:
    """
    How to form the tile loops of a module with one function: of the plans that take no longer than
    the fastest by a factor, the one that stores the fewest bytes of large values. Where it needs
    them computed where they are read, the module says so.
    """
    with listening():  # plans that are tried have nothing to say
        tried = list(_tried(module, target, fusion, form, large_bytes(function, target)))
    fastest = min(choice.seconds for choice in tried)
    near = [choice for choice in tried if choice.seconds <= SLOWER * fastest]
    chosen = min(near, key=lambda c: (c.bytes, c.seconds))
    _say(function, chosen, tried)
    if chosen.inline:
        module.attributes[ABOVE] = IntegerAttr(int(large_bytes(function, target)), i64)
    return chosen.columns


def _tried(
    module: ModuleOp, target: CpuTarget, fusion: str, form: Form, limit: float
) -> Iterator[Choice]:
    """The plans of all ways to form the loops that differ, without and with large values inline."""
    seen: set[str] = set()
    for columns in get_args(Columns):
        formed = module.clone()
        form(formed, columns)
        if (text := str(formed)) in seen:
            continue
        seen.add(text)
        for inline in (False, True):
            trial = formed.clone()
            if inline:
                trial.attributes[ABOVE] = IntegerAttr(int(limit), i64)
            plan = _planned(trial, target, fusion)
            large = tuple(x for x in plan.intermediates if x.bytes > limit)
            yield Choice(columns, inline, plan.predicted_s, large)
            if not large:
                break


def _planned(module: ModuleOp, target: CpuTarget, fusion: str) -> Plan:
    """The plan of a module whose tile loops are formed."""
    for each in (FormKernelsPass(fusion), DonateArgumentsPass(), SchedulePass(), PlanBuffersPass()):
        each.apply(Context(), module)
    symbols = {
        name
        for op in module.walk()
        for x in op.operands
        if isinstance(x.type, TensorType)
        for dim in shape_of(x.type)
        for name in dim.symbols()
    }
    return plan_of(module, target, dict.fromkeys(symbols, ASSUMED))


def _say(function: FuncOp, chosen: Choice, tried: Sequence[Choice]) -> None:
    """A remark on what is stored though it is large, or is not though that would be faster."""
    fastest = min(tried, key=lambda choice: choice.seconds)
    least = min(tried, key=lambda choice: (choice.bytes, choice.seconds))
    for value in chosen.large:
        text = f"{value.result} ({value.bytes:,} bytes) is larger than the last-level cache and than"
        text += " all arguments and results, and stored: "
        if least.bytes < chosen.bytes:
            text += f"a plan with less takes {_ms(least)}, this one {_ms(chosen)}"
            text += f" (limit {SLOWER} times)"
        else:
            text += "no plan without it is known"
        remark(function, text)
    if not chosen.large and fastest.bytes:
        names = ", ".join(x.result for x in fastest.large)
        text = f"not stored, since no cache holds it: {names}; the plan takes {_ms(chosen)},"
        remark(function, f"{text} and {_ms(fastest)} with it (limit {SLOWER} times)")


def _ms(choice: Choice) -> str:
    return f"{1e3 * choice.seconds:.4g} ms"
