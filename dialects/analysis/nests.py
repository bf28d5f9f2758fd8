"""
Where the arrays of a nest lie: which memory each of its values is, and whether it still holds that
value when it is read.

A nest runs its loops as they stand, with numbers in registers and arrays in memory that stores
change in place. Each array that its loop carries has one place; every version of it lies there. A
version may be read as long as it is the last one written: so no place is ever copied.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field

from xdsl.ir import Block, BlockArgument, Operation, SSAValue

from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, YieldOp, yield_of
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.placing import DynamicUpdateOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.rule import RuleOp
from mlc.lazy_dataclass import dataclass

ONE = Dim.const(1)

Place = int | BlockArgument
"""The number of a result of the nest, or an input that nobody writes."""


class NotANestError(Exception):
    """Why the ops are not a nest."""


def is_number(value: SSAValue) -> bool:
    """Whether a value is one element, which a nest has in a register."""
    return product(shape_of(value.type)) == ONE


def loop_of(block: Block) -> ControlOp | None:
    """The loop that a nest consists of: all else stands before it, and it gives the results."""
    loops = [op for op in block.ops if isinstance(op, ControlOp)]
    if len(loops) != 1 or not isinstance(loops[0], ForOp | WhileOp):
        return None
    last = block.last_op
    gives = isinstance(last, YieldOp) and list(last.values) == list(loops[0].results)
    return loops[0] if gives else None


def places_of(block: Block) -> dict[SSAValue, Place]:
    """The memory of each array in the body of a nest. Raises NotANestError."""
    return _Walk().run(block)


def ops_in(block: Block) -> Iterator[Operation]:
    """The ops of a block and of the regions in it, in order."""
    for op in block.ops:
        yield from op.walk()


@dataclass
class _Walk:
    places: dict[SSAValue, Place] = field(default_factory=dict[SSAValue, Place])
    now: dict[Place, SSAValue] = field(default_factory=dict[Place, SSAValue])  # what a place holds

    def run(self, block: Block) -> dict[SSAValue, Place]:
        loop = loop_of(block)
        if loop is None:
            raise NotANestError("expected one loop, whose results are those of the kernel")
        for argument in block.args:
            if not is_number(argument):
                self.places[argument] = argument
                self.now[argument] = argument
        for op in block.ops:
            if op is loop:
                break
            if not isinstance(op, TensorOp) or isinstance(op, OpaqueOp | Reduction | RuleOp):
                raise NotANestError(f"holds {op.name} before the loop")
        for k, start in enumerate(loop.starts):
            if not is_number(start):
                self._begin(loop, k, k, start)
        self._loop(loop)
        return self.places

    def _begin(self, loop: ControlOp, k: int, place: Place, start: SSAValue) -> None:
        """The k-th carried value lies there, and so does the k-th result."""
        for block in loop.blocks:
            self.places[loop.carried_in(block)[k]] = place
        self.places[loop.results[k]] = place
        self.now[place] = start

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case YieldOp():
                    self._read(op, (x for x in op.values if not is_number(x)))
                case IfOp():
                    self._if(op)
                case ForOp() | WhileOp():
                    self._inner(op)
                case TensorOp():
                    self._tensor(op)
                case _:
                    raise NotANestError(f"holds {op.name}")

    def _tensor(self, op: TensorOp) -> None:
        if isinstance(op, OpaqueOp | Reduction | RuleOp):
            raise NotANestError(f"holds {op.name}, which has a nest of its own")
        self._read(op, (x for x in op.operands if not is_number(x)))
        result = op.results[0]
        if is_number(result):
            return
        if not isinstance(op, DynamicUpdateOp) or not is_number(op.update):
            raise NotANestError(f"{op.name} makes an array of {result.type}")
        place = self.places[op.x]
        if not isinstance(place, int):
            raise NotANestError("an array is written that the loop does not carry")
        self.places[result], self.now[place] = place, result

    def _read(self, op: Operation, arrays: Iterator[SSAValue]) -> None:
        for x in arrays:
            place = self.places.get(x)
            if place is None:
                raise NotANestError(f"{op.name} reads an array that has no place")
            if self.now[place] is not x:
                raise NotANestError(f"{op.name} reads what has been written over")

    def _inner(self, loop: ControlOp) -> None:
        taken: set[Place] = set()
        for k, start in enumerate(loop.starts):
            if is_number(start):
                continue
            self._read(loop, iter((start,)))
            place = self.places[start]
            if place in taken or not isinstance(place, int):
                raise NotANestError("an array is carried twice, or made in each trip")
            taken.add(place)
            self._begin(loop, k, place, start)
        self._loop(loop)

    def _loop(self, loop: ControlOp) -> None:
        """Runs the regions once: each trip finds what the one before has left."""
        before = dict(self.now)
        arrays = [k for k, x in enumerate(loop.starts) if not is_number(x)]
        for block in loop.blocks:
            arguments = loop.carried_in(block)
            entered = {self.places[arguments[k]]: arguments[k] for k in arrays}
            self.now = before | entered
            self._block(block)
            if block in loop.yielding():
                values = yield_of(block).values
                entered = {self.places[arguments[k]]: values[k] for k in arrays}
                if any(self.places[values[k]] != self.places[arguments[k]] for k in arrays):
                    raise NotANestError("arrays change places from trip to trip")
            if self.now != before | entered:
                raise NotANestError("an array is written that the loop does not carry")
        self.now = before | {self.places[loop.results[k]]: loop.results[k] for k in arrays}

    def _if(self, op: IfOp) -> None:
        before = dict(self.now)
        ends: list[dict[Place, SSAValue]] = []
        found: list[list[Place]] = []
        arrays = [k for k, x in enumerate(op.results) if not is_number(x)]
        for block in op.blocks:
            self.now = dict(before)
            self._block(block)
            values = yield_of(block).values
            found.append([self.places[values[k]] for k in arrays])
            ends.append(self.now)
        if found[0] != found[1] or len(set(found[0])) != len(arrays):
            raise NotANestError("branches give different arrays")
        for k, place in zip(arrays, found[0], strict=True):
            self.places[op.results[k]] = place
            for end in ends:
                end[place] = op.results[k]
        if ends[0] != ends[1]:
            raise NotANestError("a branch writes an array that it does not give")
        self.now = ends[0]
