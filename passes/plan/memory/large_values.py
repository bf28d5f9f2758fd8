"""
Memory is part of a plan's cost: a value larger than the last-level cache, and than all arguments
and results together, is stored only if every other plan should take much longer.

The plans are those of tile loops formed in several ways, and of such values computed where they are
read. Each is planned to its end, and its seconds are those that its report predicts, on one thread.
Loops whose columns are never stored have an estimate besides, by which the search forms them: a
plan without the value is taken where either says that it is not much longer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Literal

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i64
from xdsl.dialects.func import FuncOp

from mlc.dialects.analysis.outside import outside_kernels
from mlc.dialects.analysis.views import is_view
from mlc.dialects.program import symbols_of
from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.sizes import assumed, stored_bytes
from mlc.passes.plan.fusion.block_graph import all_readers
from mlc.passes.plan.fusion.choose_fusion import ABOVE
from mlc.passes.plan.fusion.compare_indices import CompareIndicesPass, indexings
from mlc.passes.plan.tiling.split_folds import SplitFoldsPass
from mlc.passes.plan.trial import kernel_passes
from mlc.passes.remarks import listening, remark
from mlc.passes.report.report import Intermediate, Plan, plan_of

SLOWER = 1.6
"""How much longer than the fastest plan one may take that stores fewer bytes of large values."""

Columns = Literal["paying", "none", "large"]
"""
Which loops over columns that are never stored: those that pay by estimate, none, or besides all
that keep a large value from being stored.
"""

Form = Callable[[ModuleOp, Columns], float]
"""Forms the loops of a module; the seconds that those over columns save, by estimate."""


@dataclass(frozen=True)
class _Choice:
    """A plan: how its loops are formed, what it takes and which large values it stores."""

    columns: Columns
    inline: bool  # whether large values are computed where they are read
    seconds: float  # predicted
    saved_s: float  # by estimate, against the plan without loops over columns
    large: tuple[Intermediate, ...]
    compares: bool = False  # whether large values are indexed by comparing positions

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
    """Whether the function computes a large value, which a plan may store."""
    limit = large_bytes(function, target)
    return any(
        isinstance(op, TensorOp) and not is_view(op) and stored_bytes(op.results[0].type) > limit
        for op in outside_kernels(function)
    )


def choose(
    module: ModuleOp, function: FuncOp, target: CpuTarget, fusion: str, form: Form
) -> Columns:
    """
    How to form the tile loops of a module with one function: as they pay, where that stores no
    large value; else as in the plan that stores the fewest bytes of them, of those that are not
    much longer than the fastest. Where it needs them computed where they are read, the module says
    so.
    """
    limit = large_bytes(function, target)
    comparing = CompareIndicesPass(int(limit))
    with listening():  # plans that are tried have nothing to say
        tried = list(_tried(module, target, fusion, form, limit))
        if all(choice.large for choice in tried) and indexings(module, limit):
            compared = module.clone()
            comparing.apply(Context(), compared)
            others = _tried(compared, target, fusion, form, limit)
            tried += [replace(choice, compares=True) for choice in others]
    chosen = min(_near(tried), key=lambda choice: (choice.bytes, choice.seconds))
    _say(function, chosen, tried)
    if chosen.compares:
        comparing.apply(Context(), module)
    if chosen.inline:
        module.attributes[ABOVE] = IntegerAttr(int(limit), i64)
    return chosen.columns


def _tried(
    module: ModuleOp, target: CpuTarget, fusion: str, form: Form, limit: float
) -> Iterator[_Choice]:
    """The plans until one stores no large value although its loops are formed as they pay."""
    ways: tuple[Columns, ...] = ("paying", "none", "large")
    seen: list[tuple[ModuleOp, _Choice]] = []
    for columns in ways:
        formed = module.clone()
        saved_s = form(formed, columns)
        if any(formed.is_structurally_equivalent(other) for other, _ in seen):
            continue
        choice = _choice(formed.clone(), target, fusion, limit, columns, saved_s)
        yield choice
        if columns == "paying" and not choice.large:
            return
        seen.append((formed, choice))
    formed, least = min(seen, key=lambda pair: (pair[1].bytes, pair[1].seconds))
    if least.large and _may_inline(formed, limit):
        formed.attributes[ABOVE] = IntegerAttr(int(limit), i64)
        yield _choice(formed, target, fusion, limit, least.columns, least.saved_s)


def _choice(
    formed: ModuleOp,
    target: CpuTarget,
    fusion: str,
    limit: float,
    columns: Columns,
    saved_s: float,
) -> _Choice:
    inline = ABOVE in formed.attributes
    plan = _planned(formed, target, fusion)
    large = tuple(x for x in plan.intermediates if x.bytes > limit)
    return _Choice(columns, inline, plan.predicted_s, saved_s, large)


def _may_inline(module: ModuleOp, limit: float) -> bool:
    """Whether there is a large value that its readers may compute element by element."""
    return any(
        isinstance(op, Elementwise)
        and stored_bytes(op.results[0].type) > limit
        and all(isinstance(x, Elementwise | ReduceOp) for x in all_readers(op.results[0]))
        for op in outside_kernels(module)
    )


def _planned(module: ModuleOp, target: CpuTarget, fusion: str) -> Plan:
    """The plan of a module whose tile loops are formed."""
    for each in (SplitFoldsPass(), *kernel_passes(fusion)):
        each.apply(Context(), module)
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    symbols = [name for function in functions for name in symbols_of(function)]
    return plan_of(module, target, assumed(symbols))


def _near(tried: Sequence[_Choice]) -> list[_Choice]:
    """The plans that are not much longer than the fastest, as predicted or by estimate."""
    fastest = min(choice.seconds for choice in tried)
    stored = min((c.seconds for c in tried if c.columns == "none"), default=fastest)
    return [
        choice
        for choice in tried
        if choice.seconds <= SLOWER * fastest or stored - choice.saved_s <= SLOWER * stored
    ]


def _say(function: FuncOp, chosen: _Choice, tried: Sequence[_Choice]) -> None:
    """A remark on what is stored though it is large, or is not though that would be faster."""
    fastest = min(tried, key=lambda choice: choice.seconds)
    least = min(tried, key=lambda choice: (choice.bytes, choice.seconds))
    for value in chosen.large:
        text = (
            f"{value.result} ({value.bytes:,} bytes) is stored, though larger than the last-level"
        )
        text += " cache and than all arguments and results: "
        if least.bytes < chosen.bytes:
            text += f"{_seconds(chosen)}, and {_seconds(least)} where less is stored"
            text += f" (limit: {SLOWER} times)"
        else:
            text += "no plan without it is known"
        remark(function, text)
    if not chosen.large and fastest.bytes:
        names = ", ".join(dict.fromkeys(x.result for x in fastest.large))
        text = (
            f"larger than the last-level cache and all arguments and results, not stored: {names}:"
        )
        text += f" {_seconds(chosen)}, and {_seconds(fastest)} with it (limit: {SLOWER} times)"
        remark(function, text)


def _seconds(choice: _Choice) -> str:
    text = f"the plan takes {1e3 * choice.seconds:.4g} ms"
    if not choice.saved_s:
        return text
    more = "less" if choice.saved_s > 0 else "more"
    return (
        f"{text} ({1e3 * abs(choice.saved_s):.4g} ms {more} than storing, by the search's estimate)"
    )
