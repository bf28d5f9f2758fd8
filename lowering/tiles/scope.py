"""What the lowering of one tile program knows: where its values lie, and numbers in its text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import TYPE_CHECKING

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.dims import Dim, FloorDiv
from mlc.dialects.dtypes import I64
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.control import ForOp
from mlc.dialects.tile.element import ElementsOp, ReadOp
from mlc.dialects.tile.expression import ConditionsAttr
from mlc.dialects.tile.types import FragType
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.buffer import Buffer, Position
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.element import Lanes
from mlc.lowering.tiles.fragment import Fragment

if TYPE_CHECKING:
    from mlc.lowering.tiles.access import Access

Atoms = Mapping[str, Position]
"""Positions by the atom that an expression has for them."""


@dataclass
class TileScope:
    """One tile program on its way down."""

    b: LoopBuilder
    context: SSAValue
    widest: int  # lanes of a vector of the kernel's widest elements
    sites: dict[Operation, int]
    thread: Index = 0
    threads: Index = 1  # that share the kernel's work
    workers: Index = 1  # of the team, which all wait
    vector_bits: int = 0  # of the machine's vectors
    rounds: bool = False  # whether it rounds them to bf16, subnormal numbers to zero
    polls: bool = True  # whether trips that workers share ask if the call is cancelled
    memory: dict[SSAValue, Buffer | ElementsOp] = field(
        default_factory=dict[SSAValue, Buffer | ElementsOp]
    )
    states: dict[ForOp, list[Buffer]] = field(default_factory=dict[ForOp, list[Buffer]])
    indices: dict[SSAValue, Index] = field(default_factory=dict[SSAValue, Index])
    ends: dict[SSAValue, SSAValue | bool] = field(default_factory=dict[SSAValue, SSAValue | bool])
    fragments: dict[SSAValue, Fragment] = field(default_factory=dict[SSAValue, Fragment])
    reads: dict[ReadOp, Access] = field(default_factory=dict[ReadOp, "Access"])

    def __post_init__(self) -> None:
        self.home: Block = self.b.block  # where the ops of the program's block at hand are lowered

    def lanes_of(self, kind: FragType) -> int:
        """Elements of a vector of a tile's last axis."""
        if not kind.shape:
            return 1
        lanes = self.widest
        while kind.shape[-1] % lanes:
            lanes //= 2
        return lanes

    def element_builder(self, lanes: int, mask: SSAValue | None = None) -> Lanes:
        """A builder of elements for the current block."""
        return Lanes(self.b, {}, lanes, mask=mask, context=self.context, sites=self.sites)

    # numbers --------------------------------------------------------------------------------

    def atoms(self, values: Sequence[SSAValue]) -> dict[str, Position]:
        """An op's positions as expressions name them."""
        return {f"%{k}": Position(self.indices[x]) for k, x in enumerate(values)}

    def index(self, dim: Dim, values: Sequence[SSAValue]) -> Index:
        """An expression without letters."""
        return self.position(dim, self.atoms(values)).base

    def position(self, dim: Dim, atoms: Atoms, e: Lanes | None = None) -> Position:
        """
        An expression as a position: some of its atoms may move from lane to lane, and where there
        is a builder of elements lie anywhere.
        """
        total: Index = 0
        step = 0
        anywhere: Position | None = None
        for monomial, coefficient in dim.terms:
            term: Index = 1
            moving = 0
            for atom in monomial:
                found = self._atom(atom, atoms, e)
                if found.lanes is not None and e is not None and len(monomial) == 1:
                    part = e.affine(found, coefficient, Dim.const(0))
                    both = part if anywhere is None else e.plus(anywhere, part)
                    assert isinstance(both, Position)
                    anywhere, term = both, 0
                    continue
                if found.lanes is not None or (found.step and len(monomial) > 1):
                    raise _unordered(dim)
                moving = moving or found.step
                term = self.b.mul(term, found.base)
            step += coefficient * moving
            if coefficient < 0:
                total = self.b.sub(total, self.b.mul(term, -coefficient))
            else:
                total = self.b.add(total, self.b.mul(term, coefficient))
        place = Position(total, step)
        if anywhere is not None and e is not None:
            place = e.plus(anywhere, place)
            assert isinstance(place, Position)
        return place

    def _atom(self, atom: str | FloorDiv, atoms: Atoms, e: Lanes | None) -> Position:
        if isinstance(atom, FloorDiv):
            inside = self.position(atom.numerator, atoms, e)
            if not inside.step and inside.lanes is None:
                return Position(self.b.div(inside.base, atom.divisor))
            if e is None:
                raise _unordered(Dim((((atom,), 1),)))
            return _divided(e, inside, atom.divisor)
        if atom in atoms:
            return atoms[atom]
        return Position(self.threads if atom == ".workers" else self.b.symbols[atom])

    def least(self, dims: Sequence[Dim], values: Sequence[SSAValue]) -> Index:
        """The least of some expressions."""
        found = self.index(dims[0], values)
        for dim in dims[1:]:
            found = self.b.min(found, self.index(dim, values))
        return found

    def holds(self, conditions: ConditionsAttr, values: Sequence[SSAValue]) -> SSAValue | bool:
        """Whether all conditions hold."""
        result: SSAValue | bool = True
        for condition in conditions.data:
            if condition.relation == "last":
                value = values[int(next(iter(condition.left.symbols()))[1:])]
                found = self.ends[value]
            else:
                relation = "eq" if condition.relation == "first" else condition.relation
                left, right = (self.index(x, values) for x in (condition.left, condition.right))
                found = self.b.compare(relation, left, right)
            result = self.b.both(result, found)
        return result


def _divided(e: Lanes, at: Position, divisor: int) -> Position:
    """Of positions that lanes have, none of them negative, the quotients."""
    if at.lanes is None and 0 < at.step * (e.lanes - 1) < divisor:
        # one quotient and the next: the lanes of the next are those past the end of the first
        first = e.b.div(at.base, divisor)
        rest = Position(e.b.sub(at.base, e.b.mul(first, divisor)), at.step)
        past = e.compare("ge", e.position(rest), e.constant(divisor, I64), I64)
        one, none = (e.spread(e.b.index(k)) for k in (1, 0))
        return Position(first, lanes=e.select(past, one, none))
    found = e.apply(arith.DivUIOp, e.position(at), e.constant(divisor, I64))
    return Position(0, lanes=e.cast("index_cast", found, INDEX))


def _unordered(dim: Dim) -> MlcError:
    return MlcError(
        f"tiles to loops: {dim} is not affine along the axis that vectors hold; expected another"
        " axis last, or such subscripts where single elements are copied"
    )
