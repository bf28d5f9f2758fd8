"""Fusion as attributes: of each op that computes, whether its result is stored (D22)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import cast

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.errors import PlanError
from mlc.dialects.plan import KernelOp
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.op import TensorOp
from mlc.knobs import FUSIONS, Fusion
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.sizes import stored_bytes
from mlc.passes.cost.work import ATTO
from mlc.passes.plan.fusion.legality import CHOSEN, Chosen, State, bound_views
from mlc.passes.plan.fusion.planner import BUDGET_MS, Planner, states_of
from mlc.passes.plan.memory.in_place.ownership import Ownership
from mlc.passes.plan.memory.pin_reads import pin_reads
from mlc.passes.remarks import place

ABOVE = "mlc.inline_above"
"""Module attribute: values of more bytes are computed where they are read, if that is legal."""


@dataclass(frozen=True)
class ChooseFusionPass(ModulePass):
    """
    %0 = mlc.add …  ->  %0 = mlc.add … {mlc.state = "inline"}

    `mlc-form-kernels` makes kernels of what the attributes say: "inline" values are computed where
    they are read, "buffer" ones are written, "apart" ones by a kernel of their own. A value that
    has to be stored is stored, whatever its attribute says.

    A function that says some state already keeps what it says.

    `fusion`: "exact" searches for the plan that should take the least time; "all", "fnr" (fuse, no
    redundancy) and "greedy" are rules of thumb; "none" gives each op a kernel of its own.
    `budget_ms`: how long the search may take. `forced`: "store:N" or "inline:N" decides the value
    of the function's N-th op, as its walk counts.
    """

    name = "mlc-choose-fusion"

    fusion: str = "exact"
    budget_ms: float = BUDGET_MS
    forced: tuple[str, ...] = ()

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.choose_all(op)

    def choose_all(self, module: ModuleOp) -> float:
        """
        Of functions that neither have kernels nor say a state; the seconds of their plans by the
        cost that the search compares.
        """
        return sum(
            self.choose(module, function)
            for function in unformed(module)
            if not is_chosen(function)
        )

    def choose(self, module: ModuleOp, function: FuncOp) -> float:
        """States what becomes of the function's values; the seconds of that plan."""
        planner = Planner(
            fusion=_fusion(self.fusion),
            target=target_of(module),
            budget_ms=self.budget_ms,
            forced=_large_values(module, function) | forced_values(function, self.forced),
        )
        bound_views(function)
        pin_reads(function)
        for value, state in states_of(function.body.block, Ownership(function), planner).items():
            cast("Operation", value.owner).attributes[CHOSEN] = StringAttr(state)
        return planner.cost / ATTO


def unformed(module: ModuleOp) -> Iterator[FuncOp]:
    """The functions with a body and without kernels, in tile loops too; nests may stand before."""
    functions = (f for f in module.body.block.ops if isinstance(f, FuncOp) and f.body.blocks)
    for function in functions:
        if not any(isinstance(op, KernelOp) and not op.is_nest for op in function.walk()):
            yield function


def is_chosen(function: FuncOp) -> bool:
    """Whether some value's state is written down."""
    return any(CHOSEN in op.attributes for op in function.walk())


def take_choices(function: FuncOp) -> dict[SSAValue, Chosen]:
    """The states that the attributes say, which are consumed. Raises PlanError."""
    words: dict[str, Chosen] = {"inline": "inline", "buffer": "buffer", "apart": "apart"}
    found: dict[SSAValue, Chosen] = {}
    for op in function.walk():
        state = op.attributes.pop(CHOSEN, None)
        if state is None:
            continue
        word = state.data if isinstance(state, StringAttr) else str(state)
        if word not in words or not isinstance(op, TensorOp):
            expected = ", ".join(f'"{known}"' for known in words)
            raise PlanError(
                f'{place(op) or op.name}: {CHOSEN} = "{word}" of {op.name}; expected one of'
                f" {expected} of an op on tensors: edit it, or run mlc-choose-fusion again"
            )
        found[op.results[0]] = words[word]
    return found


def _fusion(name: str) -> Fusion:
    for known in FUSIONS:
        if name == known:
            return known
    expected = ", ".join(f'"{known}"' for known in FUSIONS)
    raise ValueError(f'mlc-form-kernels: fusion="{name}"; expected one of {expected}')


def _large_values(module: ModuleOp, function: FuncOp) -> dict[SSAValue, State]:
    """The values that a module wants computed where they are read."""
    limit = module.attributes.get(ABOVE)
    if not isinstance(limit, IntegerAttr):
        return {}
    return {
        op.results[0]: "inline"
        for op in function.walk()
        if isinstance(op, TensorOp) and stored_bytes(op.results[0].type) > limit.value.data
    }


def forced_values(function: FuncOp, forced: Sequence[str]) -> dict[SSAValue, State]:
    """The values that are decided from outside. Raises ValueError."""
    if not forced:
        return {}
    ops = list(function.walk())
    words: dict[str, State] = {"store": "buffer", "inline": "inline"}
    found: dict[SSAValue, State] = {}
    for text in forced:
        word, _, digits = text.partition(":")
        number = int(digits) if digits.isdecimal() else len(ops)
        if word not in words or number >= len(ops) or len(ops[number].results) != 1:
            raise ValueError(
                f'mlc-form-kernels: forced="{text}"; expected "store:N" or "inline:N", with the'
                f" number below {len(ops)} of an op with a result"
            )
        found[ops[number].results[0]] = words[word]
    return found
