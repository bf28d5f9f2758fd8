"""
Pass `mlc-apply-words`: the words of a tile program's schedule, in order, each of which rewrites the
program in place and is gone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.errors import MlcError
from mlc.dialects.plan import ScheduleAttr
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.words import (
    OF_GRIDS,
    Block,
    Edge,
    Epilogue,
    Hold,
    Pack,
    Prefetch,
    Register,
    Split,
    Strip,
    Sums,
    Tile,
    Via,
    Word,
    Words,
    cases_of,
)
from mlc.lazy_dataclass import dataclass
from mlc.passes.tile.block import block
from mlc.passes.tile.blocks import form_blocks
from mlc.passes.tile.cases import conditions_of, join_cases
from mlc.passes.tile.epilogue import epilogue
from mlc.passes.tile.hold import hold
from mlc.passes.tile.marks import ask_for_sums, edge, prefetch, via
from mlc.passes.tile.pack import pack
from mlc.passes.tile.register import register
from mlc.passes.tile.shifts import sum_shifts
from mlc.passes.tile.split import split
from mlc.passes.tile.strip import strip
from mlc.passes.tile.sums import INIT, SUMS, sums

SCHEDULE = "schedule"
"""Attribute of a kernel whose words are not applied yet."""

APPLIED: Mapping[type[Word], Callable[[KernelOp, Any], None]] = {
    Block: block,
    Strip: strip,
    Split: split,
    Pack: pack,
    Register: register,
    Via: via,
    Prefetch: prefetch,
    Edge: edge,
    Epilogue: epilogue,
    Sums: sums,
    Hold: hold,
}


def apply_words(kernel: KernelOp) -> None:
    """Makes the cuts that a kernel's schedule says; MlcError where one cannot be made."""
    schedule = kernel.attributes.pop(SCHEDULE, None)
    if schedule is None:
        return
    if not isinstance(schedule, ScheduleAttr):
        raise MlcError(f"tiles: schedule = {schedule}; expected #mlc.schedule<[…]>")
    words = schedule.data.words
    if any(isinstance(word, Tile) for word in words):
        form_blocks(kernel, words)
        return
    general, cases = cases_of(words)
    if not cases:
        _apply(kernel, general)
        return
    conditions = conditions_of(kernel, [case for case, _ in cases])
    programs: list[KernelOp] = []
    for own in (*(own for _, own in cases), general):
        programs.append(program := kernel.clone())
        if (module := kernel.parent) is not None:  # which says what numerics are
            module.insert_op_before(program, kernel)
        _apply(program, own)
        if module is not None:
            program.detach()
    join_cases(kernel, conditions, programs)


def _apply(kernel: KernelOp, words: Words) -> None:
    for word in words:
        applied = APPLIED.get(type(word))
        if applied is None and isinstance(word, OF_GRIDS):
            raise MlcError(f"tiles: {word} without tile(…), which says what a block computes")
        if applied is None:
            known = ", ".join(x.NAME for x in APPLIED)
            raise MlcError(f"tiles: {word} is not applied to tile programs; expected {known}")
        applied(kernel, word)
    for name in (SUMS, INIT):
        kernel.attributes.pop(name, None)
    ask_for_sums(kernel)
    sum_shifts(kernel)


@dataclass(frozen=True)
class ApplyWordsPass(ModulePass):
    """Applies the words of every tile program."""

    name = "mlc-apply-words"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.body.block.ops:
            if isinstance(kernel, KernelOp):
                apply_words(kernel)
