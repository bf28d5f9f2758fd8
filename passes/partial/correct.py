"""
A mutant with corrections: its result where that is right, and what the original computes where it
is wrong, put together by `mlc.concat`; phases that alternate by a reshape. All are ordinary ops.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Operation, Region, SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.tensor.op import Array, OpBuilder, tensor_of
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp
from mlc.passes.partial.compare import Comparison, Pair
from mlc.passes.partial.regions import Box, Run
from mlc.passes.partial.restrict import Parts, sizes_of, whole

LEAST_RIGHT = 0.5
"""Of a box of a result; where less is right, all of it is computed by the original's ops."""


def corrected(pair: Pair, found: Comparison, name: str) -> ModuleOp:
    """A module whose function equals the original: the mutant, corrected where it is wrong."""
    block = Block(arg_types=[x.type for x in pair.arguments])
    known: dict[SSAValue, SSAValue] = dict(zip(pair.arguments, block.args, strict=True))
    for old, new in known.items():
        new.name_hint = old.name_hint
    b = OpBuilder(block.add_op)
    right = Parts(b, known, through_products=False)
    wrong = Parts(b, known, through_products=True)
    result = _Whole(pair, found, b, right, wrong).of(whole(pair.left))
    block.add_op(ReturnOp(result))
    _drop_unused(block)
    kinds = [x.type for x in pair.arguments]
    return ModuleOp([FuncOp(name, (kinds, [result.type]), Region(block))])


def wrong_boxes(found: Comparison) -> list[Box]:
    """The wrong regions, put together where they are next to one another."""
    left = [box for box, is_right in found.regions() if not is_right]
    rank = len(found.cuts)
    for axis in reversed(range(rank)):
        merged: list[Box] = []
        for box in sorted(left, key=lambda x: (*_others(x, axis), x[axis].step, x[axis].start)):
            last = merged[-1] if merged else None
            if last is not None and _others(last, axis) == _others(box, axis):
                run = _joined(last[axis], box[axis])
                if run is not None:
                    merged[-1] = (*box[:axis], run, *box[axis + 1 :])
                    continue
            merged.append(box)
        left = merged
    return left


def _others(box: Box, axis: int) -> tuple[tuple[int, int, int], ...]:
    return tuple((r.start, r.step, r.count) for k, r in enumerate(box) if k != axis)


def _joined(first: Run, second: Run) -> Run | None:
    """Two runs as one."""
    if first.step == second.step and second.start == first.start + first.step * first.count:
        return Run(first.start, first.step, first.count + second.count)
    return None


class _Whole:
    """The result, box by box."""

    def __init__(
        self, pair: Pair, found: Comparison, b: OpBuilder, right: Parts, wrong: Parts
    ) -> None:
        self.pair, self.b, self.right, self.wrong = pair, b, right, wrong
        runs = [axis.runs() for axis in found.cuts]
        self.piece = [np.empty(axis.size, np.int64) for axis in found.cuts]
        for place, pieces in zip(self.piece, runs, strict=True):
            for k, run in enumerate(pieces):
                place[run.start :: run.step][: run.count] = k
        self.band = [np.zeros(axis.size, np.int64) for axis in found.cuts]
        for band, axis in zip(self.band, found.cuts, strict=True):
            for k, (start, end) in enumerate(axis.bands()):
                band[start:end] = k
        self.period = [axis.period for axis in found.cuts]
        grid = np.zeros(math.prod(map(len, runs)), bool)
        grid[list(found.wrong)] = True
        self.grid = grid.reshape([len(pieces) for pieces in runs])

    def is_wrong(self, box: Box) -> Array:
        """For each position of a box."""
        return self.grid[np.ix_(*(p[_places(r)] for p, r in zip(self.piece, box, strict=True)))]

    def of(self, box: Box) -> SSAValue:
        """The result at the positions of a box."""
        wrong = self.is_wrong(box)
        if not wrong.any():
            return self.right.of(self.pair.right, box)
        if wrong.mean() > LEAST_RIGHT:
            return self.wrong.of(self.pair.left, box)
        if (cut := self.best_cut(box, wrong)) is not None:
            axis, at = cut
            parts = [self.of(part) for part in _halves(box, axis, at)]
            return self.b(ConcatOp, *parts, axis=axis)
        return self.by_phases(box, wrong)

    def best_cut(self, box: Box, wrong: Array) -> tuple[int, int] | None:
        """The cut between bands that leaves most positions in a part that is all right or wrong."""
        best, most = None, -1
        for axis, run in enumerate(box):
            for at in np.flatnonzero(np.diff(self.band[axis][_places(run)])) + 1:
                halves = np.split(wrong, [at], axis)
                volume = sum(x.size for x in halves if x.all() or not x.any())
                if volume > most:
                    best, most = (axis, int(at)), volume
        return best

    def by_phases(self, box: Box, wrong: Array) -> SSAValue:
        """Phase by phase along the first axis on which they differ."""
        axis = next(k for k in range(len(box)) if (np.take(wrong, [0], k) != wrong).any())
        run, period = box[axis], self.period[axis]
        rest = run.count % period
        if rest and run.count > period:
            parts = [self.of(part) for part in _halves(box, axis, run.count - rest)]
            return self.b(ConcatOp, *parts, axis=axis)
        count = max(run.count // period, 1)
        phases = [
            self.of((*box[:axis], Run(run.start + k, period, count), *box[axis + 1 :]))
            for k in range(min(period, run.count))
        ]
        if count == 1:
            return self.b(ConcatOp, *phases, axis=axis)
        sizes = sizes_of(phases[0])
        columns = [self.shaped(x, (*sizes[: axis + 1], 1, *sizes[axis + 1 :])) for x in phases]
        together = self.b(ConcatOp, *columns, axis=axis + 1)
        return self.shaped(together, tuple(r.count for r in box))

    def shaped(self, value: SSAValue, sizes: Sequence[int]) -> SSAValue:
        kind = tensor_type(tensor_of(value).element_type, tuple(map(Dim.const, sizes)))
        return self.b(ReshapeOp, value, declared=kind)


def _places(run: Run) -> slice:
    return slice(run.start, run.start + run.step * (run.count - 1) + 1, run.step)


def _halves(box: Box, axis: int, at: int) -> tuple[Box, Box]:
    run = box[axis]
    first = Run(run.start, run.step, at)
    second = Run(run.start + run.step * at, run.step, run.count - at)
    return (*box[:axis], first, *box[axis + 1 :]), (*box[:axis], second, *box[axis + 1 :])


def _drop_unused(block: Block) -> None:
    op: Operation | None = block.last_op
    while op is not None:
        before = op.prev_op
        if op.results and op.results[0].first_use is None:
            block.erase_op(op)
        op = before
