"""
A program at the tensor level as StableHLO text, for other compilers to run and to judge.

Ops are written in generic form, which every reader of MLIR has. What StableHLO has an op for is
that op; what else states its `element` is said of all elements at once. Run-time errors are not
said: StableHLO has none.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from xdsl.dialects.builtin import FileLineColLoc, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.errors import MlcError
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.control import ForOp, IfOp, WhileOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.markers import BarrierOp, StopGradientOp
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.rule import RuleOp
from mlc.lowering.stablehlo import folds, moves
from mlc.lowering.stablehlo.elements import Elements
from mlc.lowering.stablehlo.text import Unsaid, Value, Writer, typed

__all__ = ["UnsaidError", "stablehlo_of"]


class UnsaidError(MlcError):
    """A program with ops that StableHLO has no words for; the message lists them."""


def stablehlo_of(module: ModuleOp) -> str:
    """
    The entry function of a tensor-level module as a StableHLO module, whose function is `main`.
    Open sizes are dynamic shapes. UnsaidError, which lists every op that cannot be said.
    """
    function = entry_function(module)
    return _Export(function).text()


class _Export:
    def __init__(self, function: FuncOp) -> None:
        self.function = function
        self.w = Writer()
        self.refused: list[str] = []

    def text(self) -> str:
        w, block = self.w, self.function.body.block
        arguments = [w.fresh(*typed(x)) for x in block.args]
        w.learn(arguments)
        results = self.block(block, *arguments)
        if self.refused:
            listed = "\n".join(f"  {each}" for each in dict.fromkeys(self.refused))
            raise UnsaidError(f"what StableHLO cannot say:\n{listed}")
        head = ", ".join(f"{x.name}: {x.kind}" for x in arguments)
        kinds = ", ".join(x.kind for x in results)
        names = ", ".join(x.name for x in results)
        w.line(f"return {names} : {kinds}" if results else "return")
        body = "\n".join(f"    {line}" for line in w.blocks[0])
        return (
            f"module @{self.function.sym_name.data} {{\n"
            f"  func.func public @main({head}) -> ({kinds}) {{\n{body}\n  }}\n}}\n"
        )

    def block(self, block: Block, *values: Value) -> list[Value]:
        """Writes a block's ops, with values for its arguments; the values that it ends with."""
        self.w.values |= dict(zip(block.args, values, strict=True))
        *ops, end = block.ops
        for op in ops:
            self.op(op)
        return self._read(end.operands)

    def op(self, op: Operation) -> None:
        """One op; what cannot be said is noted, and stands for values of its types."""
        w = self.w
        try:
            found = self._said(op)
        except Unsaid as why:
            place = op.location
            line = (
                f"{place.filename.data}:{place.line.data}: "
                if isinstance(place, FileLineColLoc)
                else ""
            )
            self.refused.append(f"{line}{op.name}: {why}")
            found = [w.fresh(*typed(x)) for x in op.results]
        w.values |= dict(zip(op.results, found, strict=True))

    def _read(self, values: Sequence[SSAValue]) -> list[Value]:
        return [self.w.of(x) for x in values]

    def _said(self, op: Operation) -> Sequence[Value]:
        control = _CONTROL.get(type(op))
        if control is not None:
            return control(self, op)
        if (why := _UNSAID.get(op.name)) is not None:
            raise Unsaid(why)
        if not isinstance(op, TensorOp):
            raise Unsaid("an op of no kind that is known here")
        operands = self._read(op.operands)
        row = moves.ROWS.get(type(op)) or folds.ROWS.get(type(op))
        if row is not None:
            return [row(self.w, op, operands)]
        if isinstance(op, Elementwise):
            return [self._elementwise(op, operands)]
        if isinstance(op, OpaqueOp) or not type(op).states("element"):
            raise Unsaid("no op of StableHLO")
        b = Elements(self.w, op.shape)
        return [b.of(op.element(b, b.point()))]

    def _elementwise(self, op: Elementwise, operands: Sequence[Value]) -> Value:
        if (name := _PLAIN.get(op.name)) is not None:
            return self.w.emit(name, operands, op.dtype, op.shape)
        b = Elements(self.w, op.shape)
        found = b.of(op.scalar(b, *map(b.stands, operands)))
        return self.w.convert(found, op.dtype) if found.dtype is not op.dtype else found

    # control flow ---------------------------------------------------------------------------------

    def loop(self, op: Any) -> Sequence[Value]:
        """`mlc.for`: a loop that counts."""
        count, *starts = self._read([op.count, *op.inits])
        states = [self.w.integer(0), *starts]

        def goes_on(*values: Value) -> list[Value]:
            return [self.w.compare("LT", values[0], count)]

        def trip(*values: Value) -> list[Value]:
            results = self.block(op.body.block, *values)
            return [self.w.same("add", values[0], self.w.integer(1)), *results]

        return self._while(states, goes_on, trip)[1:]

    def while_(self, op: Any) -> Sequence[Value]:
        """`mlc.while`."""
        blocks = (op.condition.block, op.body.block)
        goes_on, trip = (functools.partial(self.block, each) for each in blocks)
        return self._while(self._read(op.inits), goes_on, trip)

    def _while(
        self,
        starts: Sequence[Value],
        goes_on: Callable[..., Sequence[Value]],
        trip: Callable[..., Sequence[Value]],
    ) -> list[Value]:
        kinds = [(x.dtype, x.shape) for x in starts]
        regions = [self.w.region(kinds, goes_on), self.w.region(kinds, trip)]
        return self.w.emit_all("stablehlo.while", starts, kinds, "", regions)

    def branch(self, op: Any) -> Sequence[Value]:
        """`mlc.if`."""
        blocks = (op.then.block, op.otherwise.block)
        regions = [self.w.region([], functools.partial(self.block, each)) for each in blocks]
        kinds = [typed(x) for x in op.results]
        return self.w.emit_all("stablehlo.if", self._read([op.condition]), kinds, "", regions)

    def rule(self, op: Any) -> Sequence[Value]:
        """`mlc.rule`: its body."""
        return self.block(op.body.block, *self._read(op.inputs))

    def as_it_is(self, op: Any) -> Sequence[Value]:
        """Markers for derivatives."""
        return self._read([op.x])

    def barrier(self, op: Any) -> Sequence[Value]:
        """`mlc.barrier`."""
        return [self.w.same("optimization_barrier", *self._read([op.x]))]


_CONTROL: Mapping[type[Operation], Callable[[_Export, Any], Sequence[Value]]] = {
    ForOp: _Export.loop, WhileOp: _Export.while_, IfOp: _Export.branch, RuleOp: _Export.rule,
    StopGradientOp: _Export.as_it_is, BarrierOp: _Export.barrier,
}  # fmt: skip
_UNSAID: Mapping[str, str] = {
    "mlc.library": "a routine of a library", "mlc.bind": "a size that data decide",
}  # fmt: skip

_PLAIN: Mapping[str, str] = {
    "mlc.neg": "negate", "mlc.exp": "exponential", "mlc.log": "log", "mlc.tanh": "tanh",
    "mlc.sqrt": "sqrt", "mlc.add": "add", "mlc.sub": "subtract", "mlc.mul": "multiply",
    "mlc.div": "divide", "mlc.select": "select", "mlc.real": "real", "mlc.imag": "imag",
    "mlc.magnitude": "abs", "mlc.complex": "complex", "mlc.abs": "abs", "mlc.floor": "floor",
    "mlc.ceil": "ceil", "mlc.round": "round_nearest_even", "mlc.isfinite": "is_finite",
    "mlc.rsqrt": "rsqrt", "mlc.cbrt": "cbrt", "mlc.expm1": "exponential_minus_one",
    "mlc.sigmoid": "logistic", "mlc.log1p": "log_plus_one", "mlc.sin": "sine",
    "mlc.cos": "cosine", "mlc.tan": "tan", "mlc.atan2": "atan2", "mlc.and": "and",
    "mlc.or": "or", "mlc.xor": "xor", "mlc.not": "not",
}  # fmt: skip
"""Elementwise ops that are StableHLO's own; what else there is, is made of these."""
