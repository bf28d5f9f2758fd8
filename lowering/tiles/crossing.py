"""
Vectors that cross from one row to the next: their lanes go along `n` and lie at `n floordiv P` and
`n mod P`. What lies in the first row and in the second is read or written apart, side by side.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, FloorDiv
from mlc.dialects.dtypes import BOOL
from mlc.dialects.tile.expression import Condition
from mlc.lazy_dataclass import dataclass
from mlc.lowering.loops.buffer import Position
from mlc.lowering.tiles.scope import Atoms, TileScope

ROW = ".row"
"""Stands for the quotient in the subscripts of one piece."""


@dataclass(frozen=True)
class Piece:
    """What a vector has of one row."""

    at: tuple[Dim, ...]
    where: tuple[Condition, ...]
    atoms: Atoms
    there: SSAValue | bool = True  # whether it has any lanes
    mask: SSAValue | None = None  # these; else all


def pieces_of(
    s: TileScope, at: tuple[Dim, ...], where: Sequence[Condition], atoms: Atoms, lanes: int
) -> Iterator[Piece]:
    """The pieces of a vector; none where it does not cross rows so."""
    dims = [*at, *(x for c in where for x in (c.left, c.right))]
    moving = {name for name, place in atoms.items() if place.step or place.lanes is not None}
    found = {x for dim in dims for x in _quotients(dim) if moving & x.numerator.symbols()}
    if lanes == 1 or len(found) != 1 or any(atoms[name].lanes is not None for name in moving):
        return
    (row,) = found
    inside = s.position(row.numerator, atoms)
    if inside.step != 1 or row.divisor < lanes:
        return
    b = s.b
    first = b.div(inside.base, row.divisor)
    left = b.sub(b.mul(b.add(first, 1), row.divisor), inside.base)  # of the first row
    moved = tuple(_replaced(dim, row) for dim in at)
    conditions = tuple(
        Condition(c.relation, _replaced(c.left, row), _replaced(c.right, row)) for c in where
    )
    for k in range(2):
        known = {**atoms, ROW: Position(b.add(first, k))}
        mask = b.mask(left, lanes)
        if k:
            every = b.element(True, BOOL, lanes)
            mask = b.once(
                arith.XOrIOp.create(operands=[mask, every], result_types=[mask.type]), stays=True
            )
        there = True if k == 0 else b.compare("lt", left, lanes)
        yield Piece(moved, conditions, known, there, mask)


def _quotients(dim: Dim) -> Iterator[FloorDiv]:
    for monomial, _ in dim.terms:
        for atom in monomial:
            if isinstance(atom, FloorDiv):
                yield atom


def _replaced(dim: Dim, row: FloorDiv) -> Dim:
    """With the row in place of the quotient."""
    total = Dim.const(0)
    for monomial, coefficient in dim.terms:
        term = Dim.const(coefficient)
        for atom in monomial:
            term = term * (Dim((((ROW,), 1),)) if atom == row else Dim((((atom,), 1),)))
        total = total + term
    return total
