"""
Where the arrays of a nest lie: which memory each of its values is, and whether it still holds that
value when it is read.

A nest runs its loops as they stand, with numbers in registers and arrays in memory that stores
change in place. Each array that its loop carries has one place; every version of it lies there. A
version may be read as long as it is the last one written: so no place is ever copied.

Other arrays are not stored: whoever reads an element computes it. Those that are marked `HELD` have
memory of their own and are computed where they stand, since what they are made of is written over
before they are read, or since elements are read again and again.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import NamedTuple

from xdsl.ir import Block, BlockArgument, Operation, OpResult, SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.dims import Dim, product, shape_of
from mlc.dialects.tensor.bind import BindOp
from mlc.dialects.tensor.control import ControlOp, ForOp, IfOp, WhileOp, YieldOp, yield_of
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.rule import RuleOp
from mlc.dialects.tensor.shape import ReshapeOp, TransposeOp
from mlc.lazy_dataclass import dataclass

ZERO, ONE = Dim.const(0), Dim.const(1)
HELD = "mlc.held"
"""Attribute of an op in a nest whose result is an array with memory of its own."""

MOST_REDUCED = 2
"""Axes of a reduction in a nest: products of matrices are for kernels of their own."""

DEAR = 8.0
"""Work of an element, in additions, from which it is not computed for each of its readers."""

Place = int | BlockArgument | OpResult
"""The number of a result of the nest, an input that nobody writes, or an op that is `HELD`."""


class NotANestError(Exception):
    """Why the ops are not a nest."""


class _Held(Exception):  # noqa: N818 - caught here
    """A value that must be held."""

    def __init__(self, value: SSAValue, why: str) -> None:
        super().__init__(why)
        self.value = value


class Leaf(NamedTuple):
    """An array that is read for elements of another one."""

    place: Place
    version: SSAValue
    straight: bool  # each element of the other one is made of the leaf's element at its own point


Leaves = dict[tuple[SSAValue, Place], Leaf]
"""What the elements of an array that is not stored are made of, by who reads it and where."""


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
    loop = loop_of(block)
    if loop is None:
        raise NotANestError("expected one loop, whose results are those of the kernel")
    walk = _Walk(loop, {op for op in loop.walk() if HELD in op.attributes})
    for argument in block.args:
        walk.input(argument)
    for op in block.ops:
        if op is loop:
            break
        if not isinstance(op, TensorOp) or isinstance(op, OpaqueOp | Reduction | RuleOp):
            raise NotANestError(f"holds {op.name} before the loop")
        if isinstance(op, ConstantOp):
            walk.input(op.results[0])
    try:
        walk.run()
    except _Held as error:
        raise NotANestError(str(error)) from None
    return walk.places


def held_in(loop: ControlOp) -> set[Operation]:
    """What must be held for a loop to be a nest. Raises NotANestError."""
    held = set[Operation](x for x in loop.walk() if isinstance(x, TensorOp) and _is_dear(x))
    inside = {x for op in loop.walk() for x in op.results}
    inside |= {x for op in loop.walk() for r in op.regions for x in r.block.args}
    outer = {x for op in loop.walk() for x in op.operands if x not in inside}
    while True:
        walk = _Walk(loop, held)
        for value in outer:
            walk.input(value)
        try:
            walk.run()
        except _Held as error:
            owner = error.value.owner
            if not isinstance(owner, TensorOp) or owner in held:
                raise NotANestError(str(error)) from None
            held.add(owner)
        else:
            return held


def ops_in(block: Block) -> Iterable[Operation]:
    """The ops of a block and of the regions in it, in order."""
    return block.walk()


def fold_axis(op: Reduction) -> int:
    """
    The axis that carries the vector of a reduction in a nest: the one along which the largest
    operands lie in memory, of the last that is reduced and the last that is kept.
    """
    space, rank = op.iteration(), len(op.shape)
    words, result, reduced = op.words()
    letters = result + reduced
    lying = [_in_memory(x, word) for x, word in zip(op.operands, words, strict=False)]
    candidates = [len(space) - 1] if reduced else []
    candidates += [rank - 1] if rank else []

    def dense(k: int) -> int:
        return sum(len(word) for word in lying if word.endswith(letters[k]))

    return max((k for k in candidates if space[k] != ONE), key=dense, default=len(space) - 1)


def _in_memory(value: SSAValue, word: str) -> str:
    """The letters of an operand in the order in which its axes lie."""
    while isinstance(op := value.owner, TransposeOp) and HELD not in op.attributes:
        places = op.permutation()
        word = "".join(word[places.index(k)] for k in range(len(places)))
        value = op.x
    return word


def _is_dear(op: TensorOp) -> bool:
    """Whether its elements are read again and again, and cost more than memory."""
    result = op.results[0]
    if is_number(result):
        return False
    if isinstance(op, Reduction):  # of nothing reduced, an element is a summand
        return bool(op.words()[2]) or op.summand() is not op.dtype
    uses = len({use.operation for use in result.uses})
    return uses > 1 and isinstance(op, Elementwise) and op.FLOPS * op.WEIGHT >= DEAR


@dataclass
class _Walk:
    loop: ControlOp
    held: set[Operation]
    places: dict[SSAValue, Place] = field(default_factory=dict[SSAValue, Place])
    now: dict[Place, SSAValue] = field(default_factory=dict[Place, SSAValue])  # what a place holds
    leaves: dict[SSAValue, Leaves] = field(default_factory=dict[SSAValue, "Leaves"])

    @cached_property
    def ranges(self) -> Ranges:
        """What is known of positions."""
        found = Ranges()
        found.bind_all(self.loop)
        return found

    def input(self, value: SSAValue) -> None:
        """An array from outside."""
        if is_number(value):
            return
        if isinstance(value.owner, ConstantOp):
            self.leaves[value] = {}
        else:
            assert isinstance(value, BlockArgument | OpResult)
            self.places[value] = value
            self.now[value] = value

    def run(self) -> None:
        for k, start in enumerate(self.loop.starts):
            if not is_number(start):
                self._begin(self.loop, k, k, start)
        self._loop(self.loop)

    def _begin(self, loop: ControlOp, k: int, place: Place, start: SSAValue) -> None:
        """The k-th carried value lies there, and so does the k-th result."""
        for block in loop.blocks:
            self.places[loop.carried_in(block)[k]] = place
        self.places[loop.results[k]] = place
        self.now[place] = start

    def _block(self, block: Block) -> None:
        for op in block.ops:
            match op:
                case YieldOp() | BindOp():
                    continue
                case IfOp():
                    self._if(op)
                case ForOp() | WhileOp():
                    self._inner(op)
                case TensorOp():
                    self._tensor(op)
                case _:
                    raise NotANestError(f"holds {op.name}")

    def _tensor(self, op: TensorOp) -> None:
        if isinstance(op, OpaqueOp | RuleOp):
            raise NotANestError(f"holds {op.name}, which has a nest of its own")
        if isinstance(op, Reduction) and len(op.iteration()) > MOST_REDUCED:
            raise NotANestError(f"holds {op.name} over {len(op.iteration())} axes")
        result = op.results[0]
        if isinstance(op, DynamicUpdateOp) and not is_number(result):
            self._update(op)
        elif is_number(result):
            self._read(op, op.operands)
        elif op in self.held:
            if sum(dim != ONE for dim in op.shape) > 1:
                raise NotANestError(f"{op.name} makes an array of {result.type}")
            self._read(op, op.operands)
            assert isinstance(result, OpResult)
            self.places[result], self.now[result] = result, result
        else:
            self.leaves[result] = self._leaves_of(op)

    def _leaves_of(self, op: TensorOp) -> Leaves:
        if isinstance(op, ReshapeOp) and not op.unit_axes_only():
            raise NotANestError(f"{op.name} regroups the axes of an array")
        straight = isinstance(op, Elementwise | ReshapeOp)
        result = op.results[0]
        found: Leaves = {}
        for x in op.operands:
            if is_number(x):
                continue
            if (place := self.places.get(x)) is not None:
                found[result, place] = Leaf(place, x, True)
                continue
            if x not in self.leaves:
                raise NotANestError(f"{op.name} reads an array that has no place")
            for key, leaf in self.leaves[x].items():
                both = leaf.straight and straight and (key not in found or found[key].straight)
                found[key] = leaf._replace(straight=both)
        return found

    def _update(self, op: DynamicUpdateOp) -> None:
        place = self.places.get(op.x)
        if place is None:
            raise _Held(op.x, f"{op.name} writes into an array that has no place")
        if isinstance(place, BlockArgument) or (
            isinstance(place, OpResult) and place.owner not in self.held
        ):
            raise NotANestError("an array is written that the loop does not carry")
        self._read(op, op.operands)
        for (leaf, _), found in self.leaves.get(op.update, {}).items():
            if found.place == place and self._clashes(op, leaf, found):
                raise _Held(leaf, f"{op.name} reads what it writes")
        self.places[op.result], self.now[place] = place, op.result

    def _clashes(self, op: DynamicUpdateOp, leaf: SSAValue, found: Leaf) -> bool:
        """Whether an element may be written before it is read for another one."""
        part = shape_of(op.update.type)
        written = [(self.ranges.of(o), n) for o, n in zip(op.offsets, part, strict=True)]
        read = self._region(leaf, found.version)
        if read is None or len(read) != len(written):
            return True
        natural = self.ranges.is_natural
        for (low, count), (start, size) in zip(read, written, strict=True):
            if natural(low - start - size) or natural(start - low - count):
                return False
        return not (found.straight and read == written)

    def _region(self, leaf: SSAValue, version: SSAValue) -> list[tuple[Dim, Dim]] | None:
        """From where and how far a leaf reads along each axis."""
        op = leaf.owner
        if isinstance(op, DynamicSliceOp) and op.x is version:
            return [(self.ranges.of(o), n) for o, n in zip(op.offsets, op.shape, strict=True)]
        if isinstance(op, Elementwise):
            return [(ZERO, n) for n in op.shape]
        return None

    def _read(self, op: Operation, values: Iterable[SSAValue]) -> None:
        """Elements are read now: of what lies in memory, and of what others are made of."""
        for x in values:
            if is_number(x):
                continue
            if (place := self.places.get(x)) is not None:
                if self.now[place] is not x:
                    raise NotANestError(f"{op.name} reads what has been written over")
                continue
            if x not in self.leaves:
                raise NotANestError(f"{op.name} reads an array that has no place")
            for (leaf, _), found in self.leaves[x].items():
                if self.now[found.place] is not found.version:
                    raise _Held(leaf, f"{op.name} reads what has been written over")

    def _inner(self, loop: ControlOp) -> None:
        taken: set[Place] = set()
        for k, start in enumerate(loop.starts):
            if is_number(start):
                continue
            if start in self.leaves:
                raise _Held(start, "an array is made in each trip")
            self._read(loop, (start,))
            place = self.places[start]
            written = isinstance(place, int) or (
                isinstance(place, OpResult) and place.owner in self.held
            )
            if place in taken or not written:
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
                self._leave(yield_of(block), [self.places[arguments[k]] for k in arrays], arrays)
                entered = {self.places[arguments[k]]: values[k] for k in arrays}
            if any(self.now[place] is not x for place, x in (before | entered).items()):
                raise NotANestError("an array is written that the loop does not carry")
        self.now = before | {self.places[loop.results[k]]: loop.results[k] for k in arrays}

    def _leave(self, op: YieldOp, places: Sequence[Place], arrays: Sequence[int]) -> None:
        """What a trip ends with is written to its place, unless it lies there: one by one."""
        for place, k in zip(places, arrays, strict=True):
            value = op.values[k]
            self._read(op, (value,))
            if self.places.get(value) == place:
                continue
            if value in self.places:
                raise NotANestError("arrays change places from trip to trip")
            for (leaf, _), found in self.leaves[value].items():
                whole = [(ZERO, n) for n in shape_of(value.type)]
                aligned = found.straight and self._region(leaf, found.version) == whole
                if found.place == place and not aligned:
                    raise _Held(leaf, f"{op.name} reads what it writes")
            self.now[place] = value

    def _if(self, op: IfOp) -> None:
        before = dict(self.now)
        ends: list[dict[Place, SSAValue]] = []
        found: list[list[Place]] = []
        arrays = [k for k, x in enumerate(op.results) if not is_number(x)]
        for block in op.blocks:
            self.now = dict(before)
            self._block(block)
            values = yield_of(block).values
            self._read(yield_of(block), values)
            if any(values[k] not in self.places for k in arrays):
                raise NotANestError("branches give different arrays")
            found.append([self.places[values[k]] for k in arrays])
            ends.append(self.now)
        if found[0] != found[1] or len(set(found[0])) != len(arrays):
            raise NotANestError("branches give different arrays")
        for k, place in zip(arrays, found[0], strict=True):
            self.places[op.results[k]] = place
            for end in ends:
                end[place] = op.results[k]
        kept = before.keys()  # what a branch holds is its own
        if any(ends[0][place] is not ends[1][place] for place in kept):
            raise NotANestError("a branch writes an array that it does not give")
        self.now = {place: ends[0][place] for place in kept}
