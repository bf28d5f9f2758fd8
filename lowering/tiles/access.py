"""Elements of memory at the subscripts of a tile program, and what stands in for those outside."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial, reduce

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tile.bounds import Bounds, is_inside, may_be_below
from mlc.dialects.tile.element import ElementsOp, MapOp, PositionOp, ReadOp
from mlc.dialects.tile.expression import Condition, letters_in
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import view_of
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.buffer import Position
from mlc.lowering.loops.element import Lanes
from mlc.lowering.tiles.crossing import Piece, pieces_of
from mlc.lowering.tiles.scope import Atoms, TileScope


@dataclass(frozen=True)
class Access:
    """Subscripts of a view, with what is known of them wherever the op runs."""

    view: SSAValue
    at: tuple[Dim, ...]
    open: tuple[int, ...]  # axes along which it may lie outside
    clamped: frozenset[int] = frozenset()  # of these, those where the last element is taken
    low: tuple[int, ...] = ()  # of these, those along which it may begin before the first element

    @staticmethod
    def of(
        view: SSAValue,
        at: tuple[Dim, ...],
        values: Sequence[SSAValue],
        letters: Bounds,
        clamp: str = "",
    ) -> Access:
        """An access by an op with these positions, whose letters have these sizes."""
        sizes = view_of(view).shape
        unknown = tuple(
            axis
            for axis, (dim, size) in enumerate(zip(at, sizes, strict=True))
            if not is_inside(dim, values, size, letters)
        )
        clamped = frozenset(a for a in unknown if letters_in([at[a]]) & frozenset(clamp))
        low = tuple(a for a in unknown if may_be_below(at[a], values, letters))
        return Access(view, at, unknown, clamped, low)


def point_of(s: TileScope, access: Access, atoms: Atoms, lanes: int = 1) -> tuple[Position, ...]:
    """The position on each axis, clamped where that is asked for."""
    sizes = view_of(access.view).shape
    e = s.element_builder(lanes)
    found: list[Position] = []
    for axis, (dim, size) in enumerate(zip(access.at, sizes, strict=True)):
        place = s.position(dim, atoms, e)
        if axis in access.clamped:
            last = s.b.sub(s.b.dim(size), 1)
            place = replace(place, base=s.b.min(place.base, last))
        found.append(place)
    return tuple(found)


@dataclass(frozen=True)
class Guard:
    """What must hold of an element for it to be there: for all lanes, and lane by lane."""

    whole: SSAValue | bool
    lanes: SSAValue | None


def guard_of(s: TileScope, access: Access, point: Sequence[Position], lanes: int) -> Guard:
    """Whether the elements at a point are there."""
    b, sizes = s.b, view_of(access.view).shape
    whole: SSAValue | bool = True
    mask: SSAValue | None = None
    for axis in access.open:
        if axis in access.clamped:
            continue
        place = point[axis]
        negative = axis in access.low
        if lanes == 1 or (place.step == 0 and place.lanes is None):
            whole = b.both(whole, b.compare("lt", place.base, b.dim(sizes[axis])))
            if negative:
                whole = b.both(whole, b.compare("ge", place.base, 0))
            continue
        e = s.element_builder(lanes)
        at = e.position(place)
        found = [e.compare("lt", at, e.size(sizes[axis]), I64)]
        if negative:
            found.append(e.compare("ge", at, e.constant(0, I64), I64))
        mask = reduce(partial(e.apply, arith.AndIOp), [*filter(None, (mask,)), *found])
    return Guard(whole, mask)


def fetch(s: TileScope, access: Access, atoms: Atoms, lanes: int, fill: float = 0) -> SSAValue:
    """The elements at a point; `fill` for those outside."""
    point = point_of(s, access, atoms, lanes)
    guard = guard_of(s, access, point, lanes)
    dtype = view_of(access.view).dtype
    e = s.element_builder(lanes, guard.lanes)

    def inside() -> SSAValue:
        value = _element(s, e, access.view, point)
        if guard.lanes is not None and (fill != 0 or isinstance(s.memory[access.view], ElementsOp)):
            value = e.select(guard.lanes, value, e.constant(fill, dtype))
        return value

    if guard.whole is True:
        return inside()
    outside = s.b.element(fill, dtype, lanes)
    if guard.whole is False:
        return outside
    return s.b.pick(guard.whole, inside, lambda: outside)


def _element(s: TileScope, e: Lanes, view: SSAValue, point: tuple[Position, ...]) -> SSAValue:
    """Elements where they lie, or computed where they are wanted."""
    found = s.memory[view]
    if not isinstance(found, ElementsOp):
        return e.load(found, point)
    block = found.body.block
    places: dict[SSAValue, Position] = dict(zip(block.args, point, strict=True))
    return run_elements(s, e, found, {}, places)[0]


def run_elements(
    s: TileScope,
    e: Lanes,
    op: ElementsOp | MapOp,
    values: dict[SSAValue, SSAValue],
    places: dict[SSAValue, Position],
) -> list[SSAValue]:
    """What a region of elements yields, for values and coordinates of its arguments."""
    bound = e.bound = dict(values)
    block = op.body.block
    for inner in block.ops:
        if isinstance(inner, YieldOp):
            return [_value(e, bound, places, x) for x in inner.values]
        if isinstance(inner, ReadOp):
            bound[inner.result] = _read(s, e, inner, bound, places)
            continue
        if isinstance(inner, PositionOp):
            place = s.position(inner.at.data[0], _atoms(s, e, inner, bound, places), e)
            bound[inner.result] = e.position(place)
            continue
        assert isinstance(inner, TensorOp)
        for x in inner.operands:
            _value(e, bound, places, x)
        bound[inner.results[0]] = inner.element(e, ())
    raise AssertionError("a region of elements without its end")


def _value(
    e: Lanes, bound: dict[SSAValue, SSAValue], places: dict[SSAValue, Position], x: SSAValue
) -> SSAValue:
    """A value of the region; a coordinate becomes an i64 element where it is computed with."""
    if x not in bound:
        bound[x] = e.position(places[x])
    return bound[x]


def _atoms(
    s: TileScope,
    e: Lanes,
    op: ReadOp | PositionOp,
    bound: dict[SSAValue, SSAValue],
    places: dict[SSAValue, Position],
) -> dict[str, Position]:
    """What the expressions of an op in a region are made of."""
    atoms: dict[str, Position] = {}
    for k, x in enumerate(op.positions):
        if x in places:
            atoms[f"%{k}"] = places[x]
        elif x in s.indices:
            atoms[f"%{k}"] = Position(s.indices[x])
        else:
            found = e.at_element(bound[x])
            assert isinstance(found, Position)
            atoms[f"%{k}"] = found
    return atoms


def _read(
    s: TileScope,
    e: Lanes,
    op: ReadOp,
    bound: dict[SSAValue, SSAValue],
    places: dict[SSAValue, Position],
) -> SSAValue:
    atoms = _atoms(s, e, op, bound, places)
    access = s.reads.get(op)
    if access is None:
        access = s.reads[op] = Access.of(op.view, op.at.data, op.positions, {})
    where = bound[op.where] if op.where is not None else None
    total: SSAValue | None = None
    for piece in pieces_of(s, access.at, (), atoms, e.lanes):
        narrow = s.element_builder(e.lanes, e.masked(piece.mask))
        part = replace(access, at=piece.at)
        found = _read_at(s, narrow, part, piece.atoms, where, there=piece.there)
        assert piece.mask is not None
        total = found if total is None else e.select(piece.mask, found, total)
    return _read_at(s, e, access, atoms, where) if total is None else total


def _read_at(
    s: TileScope,
    e: Lanes,
    access: Access,
    atoms: Atoms,
    where: SSAValue | None,
    *,
    there: SSAValue | bool = True,
) -> SSAValue:
    """Elements of memory at subscripts, 0 where there are none."""
    point = tuple(s.position(dim, atoms, e) for dim in access.at)
    guard = guard_of(s, access, point, e.lanes)
    narrow = e if guard.lanes is None else s.element_builder(e.lanes, e.masked(guard.lanes))
    zero = s.b.element(0, view_of(access.view).dtype, e.lanes)

    def inside() -> SSAValue:
        found = s.memory[access.view]
        if isinstance(found, ElementsOp):  # whose region binds values of its own
            return _element(s, s.element_builder(e.lanes, narrow.mask), access.view, point)
        return narrow.load(found, point, where)

    whole = s.b.both(there, guard.whole)
    if isinstance(whole, bool):
        return inside() if whole else zero
    return s.b.pick(whole, inside, lambda: zero)


def put(
    s: TileScope,
    access: Access,
    atoms: Atoms,
    lanes: int,
    value: SSAValue,
    where: Sequence[Condition] = (),
) -> None:
    """Writes elements that are there, and for which conditions in the tile's letters hold."""
    buffer = s.memory[access.view]
    if isinstance(buffer, ElementsOp):
        raise MlcError("tiles to loops: what mlc_tile.elements computes is not written")
    pieces = list(pieces_of(s, access.at, where, atoms, lanes))
    for piece in pieces or [Piece(access.at, tuple(where), atoms)]:
        part = replace(access, at=piece.at)
        point = point_of(s, part, piece.atoms, lanes)
        guard = guard_of(s, part, point, lanes)
        guard = _limited(s, guard, piece.where, piece.atoms, lanes)
        mask = s.b.both_masks(guard.lanes, piece.mask)
        store = partial(s.element_builder(lanes, mask).store, value, buffer, point)
        s.b.when(s.b.both(piece.there, guard.whole), store)


_PREFIX = ("lt", 1, 0, None, None)
"""A condition that holds for the first lanes."""


def _limited(
    s: TileScope, guard: Guard, where: Sequence[Condition], atoms: Atoms, lanes: int
) -> Guard:
    """The guard, and conditions."""
    b, e = s.b, s.element_builder(lanes)
    whole, mask = guard.whole, guard.lanes
    for condition in where:
        left, right = (s.position(x, atoms, e) for x in (condition.left, condition.right))
        if all(x.step == 0 and x.lanes is None for x in (left, right)):
            whole = b.both(whole, b.compare(condition.relation, left.base, right.base))
            continue
        if (condition.relation, left.step, right.step, left.lanes, right.lanes) == _PREFIX:
            found = b.mask(b.sub(right.base, left.base), lanes)
        else:
            found = e.compare(condition.relation, e.position(left), e.position(right), I64)
        mask = b.both_masks(mask, found)
    return Guard(whole, mask)
