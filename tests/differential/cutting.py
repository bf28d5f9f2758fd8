"""Words for the products of a random program, however small: they become tile programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.dims import Dim
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.target.attribute import cpu_of
from mlc.dialects.tile.words import Block, Edge, Grain, Pack, Register, Via, Word, Words
from mlc.passes.tile.predict import usable_rows
from mlc.passes.tile.products import WordsOf, refusal, words_of_product

EDGE = Edge("m", "clamp")
FORMS: Sequence[Words] = (
    (),
    (Block("k", 2), Pack("b", 8), Block("m", 4)),
    (Block("n", 16), Block("k", 3), Pack("b", 8), Block("m", 2), Pack("a", 2)),
    (Pack("b", 8), Pack("a", 2)),
)
"""What stands before the register tile; the first: what the compiler would choose."""


def cut_products(module: ModuleOp, form: int) -> None:
    """Every product that words can cut has some, for whatever team shares it."""
    target = cpu_of(module, "words")
    for kernel in [op for op in module.walk() if isinstance(op, KernelOp)]:
        if kernel.schedule is None or refusal(kernel) is not None:
            continue
        found = WordsOf(kernel, target)
        rows = [row for row in usable_rows(found.problem.dtypes, target) if row.shape[2] == 1]
        rows = [row for row in rows if row.name in ("fma", "mul_add")]
        if not rows:
            continue
        words: Words | None
        if not FORMS[form]:
            words = words_of_product(kernel, target, 0.0)
        else:
            lanes = rows[0].shape[1]
            end: Words = (Register(2, lanes), Via(rows[0].name), EDGE)
            batches = (Block("g", 1),) if found.sizes["g"] != Dim.const(1) else ()
            wanted = (*batches, *(_as_wide(word, lanes) for word in FORMS[form]), *end)
            if found.unapplied(wanted) is not None:
                continue
            words = (*found.applied(wanted), Grain(1))
        if words is not None:
            kernel.properties["schedule"] = ScheduleAttr(Schedule(words))


def _as_wide(word: Word, lanes: int) -> Word:
    """Panels and blocks of columns as wide as the register tile."""
    if isinstance(word, Pack) and word.operand == "b":
        return replace(word, panels=lanes)
    if isinstance(word, Block) and word.axis == "n":
        return replace(word, step=2 * lanes)
    return word
