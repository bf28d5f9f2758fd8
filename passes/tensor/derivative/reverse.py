"""
Reverse mode: cotangents from results back to inputs (Griewank and Walther, Evaluating Derivatives,
2nd ed., 2008, chapter 3).

What one op does to a cotangent follows from the facts it states: the transpose of a linear op, the
partials of an elementwise op, and for the others the transpose of the linear program that their
`jvp` is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.comparison import CompareOp, SelectOp
from mlc.dialects.tensor.control import ControlOp, discard
from mlc.dialects.tensor.elementwise import Elementwise, MulOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.shape import IndexMapped, ReshapeOp, SliceOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.derivative.active import Varied
from mlc.passes.tensor.derivative.emit import Emitter, Values
from mlc.passes.tensor.derivative.rules import inline_used, placed_at


class Mask:
    """
    Where a cotangent may be other than zero; written when it is first asked for, after those that
    it is made of. `condition`: the program's own value that it is, if it is one.
    """

    def __init__(
        self,
        make: Callable[[], SSAValue],
        condition: SSAValue | None = None,
        *,
        behind: Sequence[Mask] = (),
    ) -> None:
        self.make = make
        self.condition = condition
        self.behind = behind
        self._value: SSAValue | None = None

    @property
    def value(self) -> SSAValue:
        """The tensor of bool."""
        pending = [self]
        while pending:
            mask = pending[-1]
            unwritten = [inner for inner in mask.behind if inner._value is None]
            if mask._value is None and not unwritten:
                mask._value = mask.make()
            if unwritten:
                pending += unwritten
            else:
                pending.pop()
        assert self._value is not None
        return self._value


@dataclass(frozen=True)
class Masked:
    """
    `value` where the mask is `kept`, zero elsewhere. It stays in two parts through elementwise ops:
    what they make of elements that were not selected, NaN perhaps, never reaches the gradient.
    `clean`: the value is zero elsewhere itself.
    """

    mask: Mask
    value: SSAValue
    kept: bool = True
    clean: bool = False

    def of(self, value: SSAValue, *, clean: bool = False) -> Masked:
        """Another value under the same mask."""
        return Masked(self.mask, value, self.kept, clean)


@dataclass(frozen=True)
class Part:
    """A contribution to few elements of a large cotangent: `onto` adds it to a total, in place."""

    alone: Callable[[], SSAValue]
    onto: Callable[[SSAValue], SSAValue]


Contribution = SSAValue | Masked | Part
Rule = Callable[["Reverse", ControlOp], None]


class Reverse:
    """The cotangents of values, while ops are visited in reverse order."""

    def __init__(self, b: Emitter, varied: Varied) -> None:
        self.b = b
        self.varied = varied
        self.pending: dict[SSAValue, list[Contribution]] = {}
        self.visited: set[Operation] = set()  # ops whose results have a cotangent

    # cotangents

    def add(self, value: SSAValue, contribution: Contribution | None) -> None:
        """One consumer's contribution to a value's cotangent."""
        if contribution is not None and value in self.varied:
            self.pending.setdefault(value, []).append(contribution)

    def take(self, value: SSAValue) -> SSAValue | None:
        """The cotangent of a value, all of whose consumers were visited; None for zero."""
        found = self._taken(value)
        return self._whole(found) if isinstance(found, Masked) else found

    def _taken(self, value: SSAValue) -> SSAValue | Masked | None:
        parts = self.pending.pop(value, [])
        masked = [part for part in parts if isinstance(part, Masked)]
        if masked and len(masked) == len(parts):
            return masked[0] if len(masked) == 1 else self._united(masked)
        return self.total(parts, None)

    def _united(self, parts: list[Masked]) -> SSAValue | Masked:
        """The sum of masked contributions: zero where all of them are."""
        first, places = parts[0], {(part.mask.condition, part.kept) for part in parts}
        conditions = {condition for condition, _ in places}
        if len(places) == 1 and None not in conditions:
            value = self.b.sum([part.value for part in parts])
            return first.of(value, clean=all(part.clean for part in parts))
        whole = self.b.sum([self._whole(part) for part in parts])
        if len(conditions) == 1 and None not in conditions:
            return whole  # both sides of one choice

        def make() -> SSAValue:
            ones = [self._kept(part, self.b.number(1.0, part.mask.value.type)) for part in parts]
            return self.b.sum(ones)

        return Masked(Mask(make, behind=[part.mask for part in parts]), whole, clean=True)

    def total(
        self, contributions: Sequence[Contribution], start: SSAValue | None
    ) -> SSAValue | None:
        """The sum of contributions and `start`; those to few elements last."""
        dense = [self._whole(c) for c in contributions if not isinstance(c, Part)]
        dense = dense if start is None else [start, *dense]
        found = self.b.sum(dense) if dense else None
        for part in contributions:
            if isinstance(part, Part):
                found = part.alone() if found is None else part.onto(found)
        return found

    def _whole(self, found: SSAValue | Masked) -> SSAValue:
        if not isinstance(found, Masked):
            return found
        return found.value if found.clean else self._kept(found, found.value)

    def _kept(self, found: Masked, value: SSAValue) -> SSAValue:
        """`value` where the mask keeps it, zero elsewhere."""
        pair = (value, self.b.zeros(value.type))
        return self.b(SelectOp, found.mask.value, *(pair if found.kept else pair[::-1]))

    # ops

    def run(self, ops: Iterable[Operation]) -> None:
        """Visits the ops, last first."""
        for op in reversed(list(ops)):
            try:
                self._visit(op)
            except MlcError as error:
                raise placed_at(error, op) from None

    def _visit(self, op: Operation) -> None:
        if isinstance(op, ControlOp):
            from mlc.passes.tensor.derivative.reverse_control import pull_control

            pull_control(self, op)
        elif isinstance(op, TensorOp):
            self._pull(op)

    def _pull(self, op: TensorOp) -> None:
        reached = self._reached(op) if isinstance(op, LibraryOp) else None
        found = self._taken(op.results[0])
        wanted = [k for k, x in enumerate(op.operands) if x in self.varied]
        if found is None or not wanted or op.NO_DERIVATIVE:
            return
        self.visited.add(op)
        self.b.at(op)
        if isinstance(op, Elementwise) and not op.states("jvp"):
            self._elementwise(op, found, wanted)
            return
        cotangent = self._whole(found) if isinstance(found, Masked) else found
        linear = op.jointly_linear()
        for k in wanted:
            if k in linear:
                self.add(op.operands[k], self._moved(op, found, self._transposed(op, cotangent, k)))
        rest = [k for k in wanted if k not in linear]
        if rest:
            self._by_tangents(op, cotangent, rest, reached)

    def _reached(self, op: LibraryOp) -> list[bool]:
        """
        Which of a routine's results have a cotangent: for the others, whose derivative may be
        infinite, there is none, rather than zeros.
        """
        readers = [use.operation for use in op.result.uses if use.operation in self.visited]
        slices = [x for x in readers if isinstance(x, SliceOp)]
        columns = op.columns()
        starts = {x.offsets.data[-1] for x in slices}
        known = len(slices) == len(self.pending.get(op.result, ()))
        known = known and starts <= {first for first, _ in columns}
        return [not known or first in starts for first, _ in columns]

    def _moved(self, op: TensorOp, found: SSAValue | Masked, value: Contribution) -> Contribution:
        """
        The mask goes along through ops that only move or add elements: what gets contributions from
        outside of it alone lies outside of it.
        """
        adds = isinstance(op, IndexMapped | ReshapeOp | ReduceOp)
        if not adds or not isinstance(found, Masked) or isinstance(value, Part | Masked):
            return value
        location = op.location

        def make() -> SSAValue:
            self.b.location = location
            ones = self._kept(found, self.b.number(1.0, found.value.type))
            count = op.transpose(self.b, ones, 0)
            return self.b(CompareOp, count, self.b.zeros(count.type), predicate="ne")

        return Masked(Mask(make, behind=[found.mask]), value, clean=True)

    def _elementwise(self, op: Elementwise, found: SSAValue | Masked, wanted: list[int]) -> None:
        if isinstance(op, SelectOp):
            self._select(op, found, wanted)
            return
        cotangent = found.value if isinstance(found, Masked) else found
        linear = op.jointly_linear()
        partials = op.partials(self.b) if any(k not in linear for k in wanted) else ()
        for k in wanted:
            if k in linear:
                value = op.transpose(self.b, cotangent, k)
            else:
                partial = partials[k]
                if partial is None:
                    continue
                value = self.b(MulOp, cotangent, partial)
            if isinstance(found, Masked):
                self.add(op.operands[k], found.of(value, clean=found.clean and k in linear))
            else:
                self.add(op.operands[k], value)

    def _select(self, op: SelectOp, found: SSAValue | Masked, wanted: list[int]) -> None:
        for k in wanted:
            if isinstance(found, Masked):
                self.add(op.operands[k], Masked(self._both(op, found, k == 1), found.value))
            else:
                self.add(
                    op.operands[k], Masked(Mask(lambda: op.condition, op.condition), found, k == 1)
                )

    def _both(self, op: SelectOp, found: Masked, kept: bool) -> Mask:
        """Our condition and the outer one: where ours does not hold, that counts for nothing."""

        def make() -> SSAValue:
            no = self.b.zeros(op.condition.type)
            outer = self._kept(found, self.b.number(1.0, op.condition.type))
            return self.b(SelectOp, op.condition, *((outer, no) if kept else (no, outer)))

        return Mask(make, behind=[found.mask])

    def _transposed(self, op: TensorOp, cotangent: SSAValue, operand: int) -> Contribution:
        if not op.states("accumulate"):
            return op.transpose(self.b, cotangent, operand)
        b, location = self.b, op.location

        def alone() -> SSAValue:
            b.location = location
            return op.transpose(b, cotangent, operand)

        def onto(total: SSAValue) -> SSAValue:
            b.location = location
            return op.accumulate(b, total, cotangent, operand)

        return Part(alone, onto)

    def _by_tangents(
        self,
        op: TensorOp,
        cotangent: SSAValue,
        operands: list[int],
        reached: Sequence[bool] | None = None,
    ) -> None:
        """`reached`: which results of a library routine have a cotangent."""

        def emit(b: Emitter, tangents: Values) -> list[SSAValue | None]:
            given: list[SSAValue | None] = [None] * len(op.operands)
            for k, tangent in zip(operands, tangents, strict=True):
                given[k] = tangent
            if isinstance(op, LibraryOp) and reached is not None:
                return list(op.jvp_of_parts(b, given))
            return [op.jvp(b, given)]

        cotangents: list[SSAValue | None] = [cotangent]
        if isinstance(op, LibraryOp) and reached is not None:
            pairs = zip(reached, op.split(self.b, cotangent), strict=True)
            cotangents = [part if wanted else None for wanted, part in pairs]
        kinds = [op.operands[k] for k in operands]
        for x, found in zip(kinds, self.transposed(emit, kinds, cotangents), strict=True):
            self.add(x, found)

    def transposed(
        self,
        emit: Callable[[Emitter, Values], Sequence[SSAValue | None]],
        like: Sequence[SSAValue],
        cotangents: Sequence[SSAValue | None],
    ) -> list[SSAValue | None]:
        """
        The transpose of a linear program, which `emit` writes for arguments typed as `like`: for
        cotangents of its results those of its arguments. What is not linear in it stays.
        """
        scratch = Block(arg_types=[x.type for x in like])
        results = emit(Emitter(scratch, self.b.location), list(scratch.args))
        linear = Varied(scratch.args).mark(scratch.ops)
        tape: list[Operation] = []
        for op in list(scratch.ops):
            if any(x in linear for x in op.results):
                tape.append(op)
            else:
                op.detach()
                self.b.block.add_op(op)
        after = Emitter(Block(), self.b.location)
        inner = Reverse(after, linear)
        for result, cotangent in zip(results, cotangents, strict=True):
            if result is not None and cotangent is not None:
                inner.add(result, cotangent)
        inner.run(tape)
        found = [inner.take(x) for x in scratch.args]
        self._keep_used(scratch)
        for op in list(after.block.ops):
            op.detach()
            self.b.block.add_op(op)
        return found

    def _keep_used(self, scratch: Block) -> None:
        """Loops of a linear program may have saved values: these stay, the rest is forgotten."""
        used = any(
            scratch.find_ancestor_op_in_block(use.operation) is None
            for op in scratch.ops
            for result in op.results
            for use in result.uses
        )
        if used:
            for argument in scratch.args:
                argument.replace_all_uses_with(self.b.zeros(argument.type))
            for op in list(scratch.ops):
                op.detach()
                self.b.block.add_op(op)
        else:
            discard(scratch)


def pull_back(
    ops: Iterable[Operation],
    outputs: Sequence[SSAValue],
    inputs: Sequence[SSAValue],
    into: Block,
    cotangents: Sequence[SSAValue | None],
) -> tuple[list[SSAValue], list[SSAValue | None]]:
    """
    Adds to `into` the ops that bring cotangents of `outputs` (None: zero) back through `ops`; gives
    the outputs (which a rule of the user's may have replaced) and the cotangents of `inputs`, None
    for zero. Loops among the ops may be rewritten in place, so that they save what the way back
    needs.
    """
    ops = list(ops)
    sweep = Reverse(Emitter(into), Varied(inputs, outputs).mark(ops))
    for value, cotangent in zip(outputs, cotangents, strict=True):
        sweep.add(value, cotangent)
    sweep.run(ops)
    found = [sweep.take(x) for x in inputs]
    around = {op.parent for op in ops} - {into, None}
    renamed = inline_used([*(block for block in around if block is not None), into])
    values = [renamed.get(x, x) for x in outputs]
    return values, [None if x is None else renamed.get(x, x) for x in found]
