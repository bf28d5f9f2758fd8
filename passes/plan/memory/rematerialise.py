"""
Less memory for more arithmetic: values that wait long for their readers are computed again.

Which ones is a choice by price: at so many seconds for each byte and step that it is live, a value
is kept or computed again. Prices are those at which a choice changes; copies of long chains would
be live together, so that chains are cut into segments, of which the first values are kept.
SOURCE: Everett, "Generalized Lagrange Multiplier Method", Operations Research 11(3), 1963; Chen,
Xu, Zhang, Guestrin, "Training Deep Nets with Sublinear Memory Cost", arXiv:1604.06174, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, UnitAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.dims import shape_of
from mlc.dialects.errors import MemoryLimitError, MlcError
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import Target
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.control import yield_of
from mlc.dialects.tensor.tiles import TilesOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.work import clock
from mlc.passes.gpu.compare_updates import CompareUpdatesPass
from mlc.passes.gpu.merge_rows import MergeRowsPass
from mlc.passes.gpu.merge_streams import MergeStreamsPass
from mlc.passes.plan.check_before_loops import CheckBeforeLoopsPass
from mlc.passes.plan.form_nests import FormNestsPass
from mlc.passes.plan.form_waves import FormWavesPass
from mlc.passes.plan.fusion.merge_reductions import MergeReductionsPass
from mlc.passes.plan.memory.recompute import Model
from mlc.passes.plan.memory.write_parts_in_place import WritePartsInPlacePass
from mlc.passes.plan.place_barriers import PlaceBarriersPass
from mlc.passes.plan.tiling.choose_tiles import DEAR, LIMIT, UNTILED
from mlc.passes.plan.tiling.form_streams import FormStreamsPass
from mlc.passes.plan.tiling.form_tiles import FormTilesPass
from mlc.passes.plan.tiling.pad_strips import PadStripsPass
from mlc.passes.plan.tiling.split_folds import SplitFoldsPass
from mlc.passes.plan.trial import kernel_passes
from mlc.passes.plan.widen import WidenPass
from mlc.passes.remarks import place, remark, unheard
from mlc.passes.report.explain.edges import number_of, number_ops
from mlc.passes.report.timeline import Memory, memory_of

PRICES = 24  # tried at most, of those at which a choice changes
SEGMENTS = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 24, 32)
PLANS = 6  # made of choices; each takes as long as planning the program
MISSES = 2  # plans one after another without a lower peak end the search
LISTED = 6  # values that an error names

OTHER_LOOPS = {DEAR: "tile loops store less", UNTILED: "loops that are tiled nowhere store less"}
"""What is tried, in this order, where computing again is not enough."""

Measure = Callable[[ModuleOp], Memory]


@dataclass(frozen=True)
class RematerialisePass(ModulePass):
    """
    Forward values that the backward pass reads are computed again, until the plan's peak is at most
    the module's `mlc.peak_bytes`; nothing happens without that attribute, or below it.

    The peak is that of kernels as `fusion` forms them. `mlc opt` does not count what kernels need
    for themselves, packed factors for instance; compiling does. MemoryLimitError where no choice
    that was tried keeps to the limit; MlcError where a size is a symbol.
    """

    name = "mlc-rematerialise"

    fusion: str = "exact"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        if LIMIT in op.attributes:
            rematerialise(op, self.fusion, lambda planned: memory_of(planned, {}))


def rematerialise(module: ModuleOp, fusion: str, measure: Measure) -> None:
    """See the pass. `measure`: what a call of a planned module allocates."""
    limit = module.attributes[LIMIT]
    if not isinstance(limit, IntegerAttr):
        raise MlcError(f"{LIMIT} = {limit}; expected an integer")
    functions = [f for f in module.body.block.ops if isinstance(f, FuncOp) and f.body.blocks]
    if len(functions) != 1:
        raise MlcError(f"{LIMIT}: the module holds {len(functions)} functions; expected one")
    (function,) = functions
    symbols = {s for t in function.function_type.inputs for d in shape_of(t) for s in d.symbols()}
    if symbols:
        raise MlcError(
            f"peak_bytes needs sizes that are known when the function is compiled;"
            f" {', '.join(sorted(symbols))} is a symbol: leave it out of dynamic="
        )
    search = _Search(module, fusion, measure, limit.value.data)
    with unheard():
        if search.keeps():
            return
        found = search.run()
        for other, said in OTHER_LOOPS.items():
            if found is None:
                for each in OTHER_LOOPS:
                    module.attributes.pop(each, None)
                module.attributes[other] = UnitAttr()
                found = search.with_other_loops(said)
    if found is None:
        assert search.before is not None
        assert search.least is not None
        raise MemoryLimitError(_message(function, search.limit, search.before, search.least))
    remark(function, found)


@dataclass(frozen=True)
class _Choice:
    """The values that are kept; the seconds and the peak by estimate."""

    seconds: float
    peak_bytes: int
    kept: frozenset[int]


class _Search:
    """The search for a choice that keeps to the limit."""

    def __init__(self, module: ModuleOp, fusion: str, measure: Measure, limit: int) -> None:
        self.module = module
        self.fusion = fusion
        self.measure = measure
        self.limit = limit
        self.before: Memory | None = None
        self.least: Memory | None = None

    def keeps(self) -> bool:
        """Whether the module keeps to the limit as it is; its plan is where `run` starts."""
        self.planned = self._planned(self.module.clone(), numbered=True)
        self.now = self.measure(self.planned)
        self.before = self.before or self.now
        return self._fits(self.now)

    def _fits(self, found: Memory) -> bool:
        if self.least is None or found.peak_bytes < self.least.peak_bytes:
            self.least = found
        return found.peak_bytes <= self.limit

    def run(self) -> str | None:
        """Rewrites the module and says what was done; None: no choice keeps to the limit."""
        self.stored = stored_numbers(_function(self.planned))
        model = self._model(self.module)
        # what the estimate does not see: results, scratch, slots that do not fit together
        unseen = self.now.peak_bytes - model.profile(frozenset(model.candidates)).peak_bytes
        choices = sorted(set(_choices(model)), key=lambda c: (c.seconds, c.peak_bytes))
        tried: set[frozenset[int]] = set()
        missed, lowest = 0, self.now.peak_bytes
        for _ in range(PLANS):
            chosen = _cheapest(model, choices, self.limit - unseen, tried)
            if chosen is None:
                break
            tried.add(chosen.kept)
            trial = self.module.clone()
            self._model(trial).rewrite(chosen.kept)
            after = self.measure(self._planned(trial))
            missed = 0 if after.peak_bytes < lowest else missed + 1
            lowest = min(lowest, after.peak_bytes)
            if self._fits(after):
                bound = model.least_seconds(self.now.peak_bytes - self.limit)
                copies = model.rewrite(chosen.kept)
                return self._said(after, copies, chosen.seconds, bound)
            if missed == MISSES:
                break
            # the next one has to free what this one fell short of
            unseen += max(1, min(after.peak_bytes - self.limit, self.limit // 4))
        return None

    def _planned(self, module: ModuleOp, *, numbered: bool = False) -> ModuleOp:
        """The module's plan."""
        if numbered:
            number_ops(_function(module))
        for each in plan_passes(self.fusion, target_of(module)):
            each.apply(Context(), module)
        return module

    def _model(self, module: ModuleOp) -> Model:
        """The model of the module or of a clone."""
        function = _function(module)
        ops = list(function.walk())
        stored = {x for n in self.stored for x in ops[n].results}
        return Model(function.body.block, stored, clock(target_of(module)))

    def with_other_loops(self, said: str) -> str | None:
        """As `run`, once tile loops are others."""
        if self.keeps():
            return f"{self._peaks(self.now)}; {said} and may take longer"
        assert self.before is not None
        return self.run() if self.now.peak_bytes < self.before.peak_bytes else None

    def _said(self, after: Memory, copies: int, seconds: float, bound: float) -> str:
        gap = f", the gap {100 * (seconds / bound - 1):.0f} %" if bound > 0 else ""
        return (
            f"{self._peaks(after)}; values computed again: {copies}, which takes"
            f" {seconds * 1e6:.3g} us by estimate, at least {bound * 1e6:.3g} us by the Lagrange"
            f" bound{gap}"
        )

    def _peaks(self, after: Memory) -> str:
        assert self.before is not None
        return (
            f"the peak falls from {self.before.peak_bytes:,} to {after.peak_bytes:,} bytes"
            f" (limit {self.limit:,})"
        )


def plan_passes(fusion: str, target: Target) -> tuple[ModulePass, ...]:
    """The passes of a target's plan, which a test compares with the pipeline's."""
    choose, form, *rest = kernel_passes(fusion)
    if target.launches_grids:
        merging = MergeStreamsPass(), MergeRowsPass(fusion)
        return (FormStreamsPass(), CompareUpdatesPass(), choose, form, *merging, WidenPass(), *rest)
    return (
        FormNestsPass(),
        *([FormTilesPass(fusion), SplitFoldsPass()] if target.forms_tile_loops else []),
        choose,
        form,
        MergeReductionsPass(fusion),
        PadStripsPass(fusion),
        WidenPass(),
        FormNestsPass(),
        CheckBeforeLoopsPass(),
        WritePartsInPlacePass(),
        *rest,
        PlaceBarriersPass(),
        FormWavesPass(),
    )


def stored_numbers(function: FuncOp) -> set[int]:
    """The numbers of the ops whose values a plan stores for other kernels or phases of loops."""
    found: set[int] = set()

    def note(value: SSAValue) -> None:
        pending, seen = [value], set[Operation]()
        while pending:
            owner = pending.pop().owner
            if not isinstance(owner, Operation) or owner in seen:
                continue
            seen.add(owner)
            number = number_of(owner)
            if number is not None:
                found.add(number)
            else:  # made by a pass of the plan: the sum of a tile and what was summed before
                pending += owner.operands

    for op in function.body.block.ops:
        if isinstance(op, KernelOp):
            for value in op.yielded.values:
                note(value)
        elif isinstance(op, TilesOp):
            for value in yield_of(op.body.block).values:
                root = root_of(value)
                if isinstance(root.owner, KernelOp):
                    note(root.owner.yielded.values[list[SSAValue](root.owner.outs).index(root)])
    return found


def _choices(model: Model) -> Iterator[_Choice]:
    """What prices and segments choose."""
    nodes = model.nodes
    price = {
        n: nodes[n].seconds / (max(nodes[n].bytes, 1) * nodes[n].stretch) for n in model.candidates
    }
    steps = sorted(set(price.values()))
    steps = [steps[k * (len(steps) - 1) // (PRICES - 1)] for k in range(PRICES)] if steps else []
    seen: set[frozenset[int]] = set()
    for limit in dict.fromkeys(steps):
        dropped = [n for n in model.candidates if price[n] <= limit]
        total = sum(nodes[n].bytes for n in dropped)
        for count in SEGMENTS:
            kept = {n for n in model.candidates if price[n] > limit}
            filled = 0
            for n in dropped:
                filled += nodes[n].bytes
                if count > 1 and filled * count > total:
                    kept.add(n)
                    filled = 0
            if (chosen := frozenset(kept)) not in seen:
                seen.add(chosen)
                yield _choice(model, chosen)


def _choice(model: Model, kept: frozenset[int]) -> _Choice:
    profile = model.profile(kept)
    return _Choice(profile.seconds, profile.peak_bytes, kept)


def _cheapest(
    model: Model, choices: list[_Choice], limit: int, tried: set[frozenset[int]]
) -> _Choice | None:
    """
    The cheapest choice within the limit by estimate, improved: what may be kept as well is. Where
    there is none, the one with the least peak.
    """
    left = [c for c in choices if c.kept not in tried]
    for first in (c for c in left if c.peak_bytes <= limit):
        chosen = first
        dropped = [n for n in model.candidates if n not in chosen.kept]
        for n in sorted(dropped, key=lambda n: -model.nodes[n].seconds):
            more = _choice(model, chosen.kept | {n})
            if more.peak_bytes <= limit and more.seconds < chosen.seconds:
                chosen = more
        if chosen.kept not in tried:
            return chosen
    return min(left, key=lambda c: c.peak_bytes, default=None)


def _function(module: ModuleOp) -> FuncOp:
    return next(f for f in module.body.block.ops if isinstance(f, FuncOp) and f.body.blocks)


def _message(function: FuncOp, limit: int, before: Memory, least: Memory) -> str:
    where = f"{place(function)}: " if place(function) else ""
    lines = [
        f"{where}{function.sym_name.data}: peak_bytes={limit:,} cannot be kept: the least peak"
        " that was found is"
        f" {least.peak_bytes:,} bytes"
        + (
            f" ({before.peak_bytes:,} if nothing is computed again)."
            if least is not before
            else ", with nothing computed again."
        )
    ]
    lines.append(
        f"  Results take {least.results_bytes:,} bytes, the arena {least.arena_bytes:,}; most is"
        " live here:"
    )
    step = least.peak_step
    held = sorted(step.held, key=lambda x: -x.bytes) if step is not None else []
    lines += [
        f"  {x.bytes:,} bytes: {x.value} of {x.made_by}" + (f" ({x.source})" if x.source else "")
        for x in held[:LISTED]
    ]
    if len(held) > LISTED:
        lines.append(f"  and {len(held) - LISTED} smaller values")
    if step is not None and step.scratch_bytes:
        lines.append(f"  {step.scratch_bytes:,} bytes: what that kernel needs for itself")
    lines.append(
        "Remedy: raise the limit, put mlc.checkpoint around parts of the function, or take a"
        " smaller batch."
    )
    return "\n".join(lines)
