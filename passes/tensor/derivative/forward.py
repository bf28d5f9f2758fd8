"""
Forward mode: tangents beside values (Griewank and Walther, Evaluating Derivatives, 2nd ed., 2008,
chapter 3). Every op is followed by the ops of its tangent.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.control import ControlOp, IfOp, YieldOp, yield_of
from mlc.dialects.tensor.elementwise import AddOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.dialects.tensor.shape import SliceOp
from mlc.passes.tensor.derivative.active import Varied
from mlc.passes.tensor.derivative.emit import (
    Emitter,
    Values,
    before,
    extend_arguments,
    extend_results,
    extend_yield,
)
from mlc.passes.tensor.derivative.reverse import Reverse
from mlc.passes.tensor.derivative.reverse_rule import copied
from mlc.passes.tensor.derivative.rules import (
    check_closed,
    check_linear,
    inline_used,
    placed_at,
)


class Forward:
    """Tangents of the values that vary; for the others, which have none, they are zero."""

    def __init__(self, varied: Varied) -> None:
        self.varied = varied
        self.tangents: dict[SSAValue, SSAValue] = {}
        self.renamed: dict[SSAValue, SSAValue] = {}  # results of ops that were replaced
        self.parts: dict[tuple[SSAValue, Dim], SSAValue] = {}  # of routines, by first columns

    def run(self, block: Block) -> None:
        """Puts tangents between the ops of a block."""
        ops = list(block.ops)
        for op in ops:
            op.detach()
        b = Emitter(block)
        for op in ops:
            block.add_op(op)
            try:
                self._visit(b.at(op), op)
            except MlcError as error:
                raise placed_at(error, op) from None

    def _visit(self, b: Emitter, op: Operation) -> None:
        if isinstance(op, RuleOp) and op.kind.data != "checkpoint":
            self._rule(b, op)
        elif isinstance(op, ControlOp):
            self._control(b, op)
        elif isinstance(op, TensorOp) and op.results[0] in self.varied:
            tangent = self._push(b, op)
            if tangent is not None:
                self.tangents[op.results[0]] = tangent

    def of(self, b: Emitter, value: SSAValue) -> SSAValue:
        """The tangent of a value, zeros where it does not vary."""
        found = self.tangents.get(value)
        return b.zeros(value.type) if found is None else found

    def _push(self, b: Emitter, op: TensorOp) -> SSAValue | None:
        given = [self.tangents.get(x) for x in op.operands]
        present = [k for k, t in enumerate(given) if t is not None]
        if not present or op.NO_DERIVATIVE:
            return None
        joint = op.jointly_linear()
        if isinstance(op, LibraryOp) and not set(present) <= set(joint):
            parts = op.jvp_of_parts(b, given)
            columns = [(op.result, first) for first, _ in op.columns()]
            self.parts.update(zip(columns, parts, strict=True))
            return op.joined(b, parts)
        if isinstance(op, SliceOp) and (op.x, op.offsets.data[-1]) in self.parts:
            part = self.parts[op.x, op.offsets.data[-1]]
            if part.type == op.result.type:
                return part  # not cut from the whole: the others' derivatives may be infinite
        if not set(present) <= set(joint) and op.states("jvp"):
            return op.jvp(b, given)
        if joint != op.linear_operands():  # linear in all of them together
            terms = [self._together(b, op, given)]
        else:
            terms = [_with(b, op, {k: given[k]}) for k in present if k in joint]
        if rest := [k for k in present if k not in joint]:
            partials = op.partials(b)
            pairs = [(given[k], partials[k]) for k in rest]
            terms += [b(MulOp, t, p) for t, p in pairs if t is not None and p is not None]
        return b.sum(terms) if terms else None

    def _together(self, b: Emitter, op: TensorOp, given: Sequence[SSAValue | None]) -> SSAValue:
        """The op on its tangents; those that are not there are zero."""
        joint = op.jointly_linear()
        present = [k for k in joint if given[k] is not None]
        if len(present) == 1 and isinstance(op, AddOp | SubOp):
            only = given[present[0]]
            assert only is not None
            return b(NegOp, only) if isinstance(op, SubOp) and present == [1] else only
        return _with(b, op, {k: given[k] or b.zeros(op.operands[k].type) for k in joint})

    # regions

    def _control(self, b: Emitter, op: ControlOp) -> None:
        """Tangents of carried values are carried beside them."""
        active = [k for k, x in enumerate(op.results) if x in self.varied]
        if not active:
            return
        first = len(op.results)
        if not isinstance(op, IfOp):
            carried = [k for k, x in enumerate(op.starts) if x in self.varied]
            self._carry(op, carried if isinstance(op, RuleOp) else active)
        extend_results(op, [op.results[k].type for k in active])
        for block in op.blocks:
            last = yield_of(block)
            last.detach()
            self.run(block)
            inner = Emitter(block, op.location)
            yields = block in op.yielding()
            given = [self.of(inner, last.values[k]) for k in active] if yields else []
            block.add_op(last)
            extend_yield(block, given)
        for k, tangent in zip(active, op.results[first:], strict=True):
            self.tangents[op.results[k]] = tangent

    def _carry(self, op: ControlOp, active: list[int]) -> None:
        """Arguments for the tangents of carried values, which begin as those of the starts."""
        e = before(op)
        starts = [self.of(e, op.starts[k]) for k in active]
        carried = [op.carried_in(block) for block in op.blocks]
        for values, tangents in zip(carried, extend_arguments(op, starts), strict=True):
            for k, tangent in zip(active, tangents, strict=True):
                self.tangents[values[k]] = tangent

    def _rule(self, b: Emitter, op: RuleOp) -> None:
        """The op is replaced by its rule, where an operand varies."""
        check_closed(op, self.varied)
        if not any(x in self.tangents for x in op.inputs):
            return
        tangents = [self.of(b, x) for x in op.inputs]
        if op.kind.data == "jvp":
            found = copied(b, op.rules[0].block, [*op.inputs, *tangents])
            results, pushed = found[: op.count], list[SSAValue | None](found[op.count :])
        else:
            forward, backward = (region.block for region in op.rules)
            cotangents = backward.args[len(backward.args) - op.count :]
            check_linear(backward, cotangents, "custom_vjp, in forward mode: backward")
            found = copied(b, forward, op.inputs)
            results, residuals = found[: op.count], found[op.count :]

            def emit(inner: Emitter, cotangents: Values) -> list[SSAValue | None]:
                return list(copied(inner, backward, [*residuals, *cotangents]))

            pushed = Reverse(b, self.varied).transposed(emit, results, tangents)
        for old, new, tangent in zip(op.results, results, pushed, strict=False):
            self.renamed[old] = new
            old.replace_all_uses_with(new)
            self.varied.add(new)
            if tangent is not None:
                self.tangents[new] = tangent
        op.detach()


def _with(b: Emitter, op: TensorOp, changed: dict[int, SSAValue | None]) -> SSAValue:
    """The same op on other operands."""
    operands = [changed.get(k) or x for k, x in enumerate(op.operands)]
    new = type(op).create(
        operands=operands,
        result_types=[op.results[0].type],
        properties=dict(op.properties),
    )
    b.insert(new)
    return new.results[0]


def push_forward(
    block: Block,
    outputs: Sequence[SSAValue],
    inputs: Sequence[SSAValue],
    tangents: Sequence[SSAValue],
) -> tuple[list[SSAValue], list[SSAValue | None]]:
    """
    Adds to a block of ops the tangents of `outputs`, for given tangents of `inputs`; gives the
    outputs (which a rule of the user's may have replaced) and their tangents, None for zero.
    """
    sweep = Forward(Varied(inputs, outputs).mark(_ops(block)))
    pairs = zip(inputs, tangents, strict=True)
    sweep.tangents.update({x: t for x, t in pairs if x in sweep.varied})
    sweep.run(block)
    found = [sweep.renamed.get(x, x) for x in outputs]
    pushed = [sweep.tangents.get(x) for x in found]
    renamed = inline_used([block])
    values = [renamed.get(x, x) for x in found]
    return values, [None if x is None else renamed.get(x, x) for x in pushed]


def _ops(block: Block) -> Iterable[Operation]:
    return [op for op in block.ops if not isinstance(op, YieldOp)]
