"""
How ops move along axes: what of its operands an op needs for a tile of its result. A fact about the
graph, found by asking each op for one element (D22: legality).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

from xdsl.ir import Operation, SSAValue

from mlc.dialects.analysis.access import Affine, Reads, reads_of
from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import Dim, Shape, product, shape_of
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import OpaqueOp, TensorOp
from mlc.dialects.tensor.placing import PadOp
from mlc.dialects.tensor.reduce import ContractOp
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.lazy_dataclass import dataclass

NARROW = 16  # columns of a factor up to which a contraction reads its other factor once
MADE_UP = 64  # ops of a value that each tile computes anew
BLOCKED = -1
"""In place of an operand's axis: a tile of the result does not need a tile of the operand."""

Moves = tuple[tuple[int | None, ...], ...]
"""
For each axis of an op's iteration space and each operand: the operand's axis that moves with it,
None where the operand is read in full, BLOCKED where neither is so.
"""


@dataclass(frozen=True)
class Read:
    """A value that an op reads, directly or through views: for each axis of its space the value's
    axis, None or BLOCKED."""

    value: SSAValue
    axes: tuple[int | None, ...]


class AxisMaps:
    """The moves of a function's ops, each found once."""

    def __init__(self) -> None:
        self._moves: dict[TensorOp, Moves] = {}
        self._sources: dict[TensorOp, tuple[Read, ...]] = {}
        self._places: dict[TensorOp, dict[SSAValue, Mapping[int, int]]] = {}
        self._made_up: dict[SSAValue, int] = {}  # from how many ops
        self._views: dict[Operation, bool] = {}
        self._producers: dict[Operation, tuple[Operation, ...]] = {}
        self._narrow: dict[ContractOp, bool] = {}
        self._spaces: dict[TensorOp, tuple[Shape, int]] = {}
        self._facts: dict[tuple[Callable[[TensorOp], bool], TensorOp], bool] = {}

    def moves_of(self, op: TensorOp) -> Moves:
        """How the op's operands move with its result's axes, and then with those it reduces."""
        found = self._moves.get(op)
        if found is None:
            found = self._moves[op] = _moves(op)
        return found

    def space_of(self, op: TensorOp) -> tuple[Shape, int]:
        """The op's iteration space, and how many of its axes are the result's."""
        found = self._spaces.get(op)
        if found is None:
            found = self._spaces[op] = op.iteration(), len(op.shape)
        return found

    def once(self, fact: Callable[[TensorOp], bool], op: TensorOp) -> bool:
        """A fact of an op that neither its operands nor its readers change, found once."""
        found = self._facts.get((fact, op))
        if found is None:
            found = self._facts[fact, op] = fact(op)
        return found

    def forget(self, values: Iterable[SSAValue]) -> None:
        """To be called when ops were given these values as operands."""
        pending, seen = list(values), set[SSAValue]()
        while pending:
            value = pending.pop()
            if value in seen:
                continue
            seen.add(value)
            for use in value.uses:
                op = use.operation
                while op is not None:
                    self._producers.pop(op, None)
                    if isinstance(op, TensorOp):
                        self._sources.pop(op, None)
                        self._places.pop(op, None)
                    op = op.parent_op()
                if isinstance(use.operation, TensorOp) and self.is_view(use.operation):
                    pending += use.operation.results

    def is_view(self, op: Operation) -> bool:
        """Whether kernels hold a copy of the op."""
        found = self._views.get(op)
        if found is None:
            found = self._views[op] = is_view(op)
        return found

    def producers_of(self, op: Operation) -> tuple[Operation, ...]:
        """The ops whose results an op reads, in its regions too, each once."""
        found = self._producers.get(op)
        if found is None:
            owners = dict.fromkeys(x.owner for x in operands_of(op))
            found = tuple(o for o in owners if isinstance(o, Operation))
            self._producers[op] = found
        return found

    def sources_of(self, op: TensorOp) -> tuple[Read, ...]:
        """What the op reads, with views looked through."""
        found = self._sources.get(op)
        if found is None:
            moves = self.moves_of(op)
            reads: list[Read] = []
            for k, x in enumerate(op.operands):
                reads += self._through(x, tuple(move[k] for move in moves))
            found = self._sources[op] = tuple(dict.fromkeys(reads))
        return found

    def is_narrow(self, op: ContractOp) -> bool:
        """A contraction that reads one factor about once: the other has few columns."""
        found = self._narrow.get(op)
        if found is None:
            words, _, _ = op.words()
            sizes = op.sizes()
            columns = [
                product(sizes[c] for c in other if c not in mine).constant
                for mine, other in (words, words[::-1])
            ]
            found = self._narrow[op] = any(n is not None and n <= NARROW for n in columns)
        return found

    def places_in(self, user: TensorOp, value: SSAValue) -> Mapping[int, int]:
        """For axes of a value that an op reads where they are in its space, if in one place."""
        known = self._places.setdefault(user, {})
        found = known.get(value)
        if found is None:
            seen: dict[int, set[int]] = {}
            for read in self.sources_of(user):
                if read.value is value:
                    for k, axis in enumerate(read.axes):
                        if axis is not None:
                            seen.setdefault(axis, set()).add(k)
            found = known[value] = {a: ks.pop() for a, ks in seen.items() if len(ks) == 1}
        return found

    def is_free(self, op: Operation) -> bool:
        """Whether tiles have copies of the op, so that it goes where nobody else reads it."""
        return isinstance(op, TensorOp) and (is_view(op) or self.is_made_up(op.results[0]))

    def is_made_up(self, value: SSAValue) -> bool:
        """Whether a value is computed from positions and constants alone: anew in each tile."""
        pending = [value]
        while pending:
            x = pending[-1]
            owner = x.owner
            if x in self._made_up:
                pending.pop()
            elif isinstance(owner, TensorOp) and (is_view(owner) or isinstance(owner, Elementwise)):
                unknown = [below for below in owner.operands if below not in self._made_up]
                pending += unknown
                if not unknown:
                    self._made_up[x] = 1 + sum(self._made_up[below] for below in owner.operands)
            else:
                self._made_up[x] = MADE_UP + 1
        return self._made_up[value] <= MADE_UP

    def axes_in(
        self, op: TensorOp, operand: int, axes: tuple[int | None, ...]
    ) -> tuple[int | None, ...]:
        """Which of an operand's axes move with these of an op's."""
        moves = self.moves_of(op)
        return tuple(a if a is None or a == BLOCKED else moves[a][operand] for a in axes)

    def looks_at(self, value: SSAValue, ops: Collection[TensorOp]) -> bool:
        """Whether a view, or a view of it, looks at the result of one of these ops."""
        pending, seen = [value], set[TensorOp]()
        while pending:
            owner = pending.pop().owner
            if not isinstance(owner, TensorOp) or owner in seen:
                continue
            seen.add(owner)
            if self.is_view(owner):
                pending += owner.operands
            elif owner in ops:
                return True
        return False

    def _through(self, value: SSAValue, axes: tuple[int | None, ...]) -> Iterator[Read]:
        pending = [Read(value, axes)]
        seen: set[Read] = set()
        while pending:
            read = pending.pop()
            if read in seen:
                continue
            seen.add(read)
            owner, axes = read.value.owner, read.axes
            if (
                not isinstance(owner, TensorOp)
                or not (self.is_view(owner) or self.is_made_up(read.value))
                or (BLOCKED in axes and not owner.operands)
            ):
                yield read
                continue
            inner = [Read(x, self.axes_in(owner, k, axes)) for k, x in enumerate(owner.operands)]
            if BLOCKED not in axes and any(_cuts(owner, axes, x.axes) for x in inner):
                yield read  # a tile of the view itself: it has to lie in memory
            else:
                pending += reversed(inner)


def _cuts(op: TensorOp, axes: tuple[int | None, ...], inner: tuple[int | None, ...]) -> bool:
    """Whether some axis of these that is no axis of the operand has more than one element."""
    one = Dim.const(1)
    pairs = zip(axes, inner, strict=True)
    return any(b == BLOCKED and a is not None and op.shape[a] != one for a, b in pairs)


def _moves(op: TensorOp) -> Moves:
    if isinstance(op, ReshapeOp):
        return tuple((axis,) for axis in _kept(shape_of(op.x.type), op.shape))
    if isinstance(op, OpaqueOp):
        return _of_whole(op)
    if isinstance(op, ConstantOp | SizeOp | IotaOp):
        return ((),) * len(op.shape)
    if isinstance(op, Elementwise):
        return tuple((axis,) * len(op.operands) for axis in range(len(op.shape)))
    moves = _by_element(op, reads_of(op))
    return _of_pad(op, moves) if isinstance(op, PadOp) else moves


def _of_pad(op: PadOp, moves: Moves) -> Moves:
    """A tile of what has lost its last elements is a tile of the operand with none lost."""
    ends = zip(op.low.data, op.high.data, moves, strict=True)
    none, blocked = Dim.const(0), (BLOCKED,) * len(op.operands)
    return tuple(own if low == high == none else blocked for low, high, own in ends)


def _of_whole(op: OpaqueOp) -> Moves:
    """Scans and sorts leave the axes alone along which they do not run."""
    rank, busy = len(op.shape), op.runs_along
    return tuple(
        tuple(
            BLOCKED if busy is None or axis == busy or len(shape_of(x.type)) != rank else axis
            for x in op.operands
        )
        for axis in range(rank)
    )


def _kept(source: Shape, result: Shape) -> Iterator[int]:
    """The operand's axis for each axis of a reshape's result: it has as much before it, and its
    size."""
    for axis, size in enumerate(result):
        before = product(result[:axis])
        found = [
            k for k, other in enumerate(source) if other == size and product(source[:k]) == before
        ]
        yield found[0] if len(found) == 1 else BLOCKED


def _by_element(op: TensorOp, reads: Reads) -> Moves:
    found: list[tuple[int | None, ...]] = []
    for axis in range(len(op.iteration())):
        if axis in reads.counted:
            found.append((BLOCKED,) * len(op.operands))
            continue
        found.append(
            tuple(
                _moved(op, x, points, axis)
                if (points := reads.points.get(k))
                else _beside(op, x, axis)
                for k, x in enumerate(op.operands)
            )
        )
    return tuple(found)


def _beside(op: TensorOp, operand: SSAValue, axis: int) -> int | None:
    """The axis of an operand that is not read, whose shape the op's follows all the same."""
    size, dims = op.iteration()[axis], shape_of(operand.type)
    return axis if axis < len(dims) == len(op.shape) and dims[axis] == size else None


def _moved(
    op: TensorOp, operand: SSAValue, points: tuple[tuple[Affine, ...], ...], axis: int
) -> int | None:
    """The operand's axis that is at `axis` wherever it is read, if it is known to be as long."""
    places: set[int | None] = set()
    for point in points:
        moving = [k for k, p in enumerate(point) if p.coefficient(axis)]
        if not moving:
            places.add(None)
        elif len(moving) == 1 and point[moving[0]].is_axis == axis:
            places.add(moving[0])
        else:
            places.add(BLOCKED)
    place = places.pop() if len(places) == 1 else BLOCKED
    if place is None or place == BLOCKED:
        return place
    more = (shape_of(operand.type)[place] - op.iteration()[axis]).constant
    return place if more is not None and more >= 0 else BLOCKED


def operands_of(op: Operation) -> Iterator[SSAValue]:
    """What an op reads, in its regions too."""
    yield from op.operands
    for region in op.regions:
        for inner in region.walk():
            yield from inner.operands
