"""
Where a kernel reads values: points as functions of its own, numbered, so that equal ones are equal.

A value that a kernel reads at several points is computed for each of them. Where a value is read
through several views of the one before, again and again, their number may double with each step:
it is part of what a plan costs, and of the size of a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from xdsl.ir import Operation

from mlc.dialects.analysis.access import Affine, places_of
from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction

OWN = 0
"""The kernel's own point, of whatever rank."""

HERE = (OWN,)

_UNKNOWN = 1 << 20  # terms from here on: positions that are known only at run time


class _Point(NamedTuple):
    """`loop`: which of the loops that one kernel walks; 0 is that over its result."""

    loop: int
    positions: tuple[tuple[tuple[tuple[int, int], ...], Dim], ...]  # terms, and a constant
    guards: frozenset[tuple[int, int]] = frozenset()
    """What must hold for it to be read: the number of a condition, and the point at which."""


class Points:
    """The points of one block's kernels."""

    def __init__(self) -> None:
        self._points = [_Point(0, ())]
        self._numbers: dict[_Point, int] = {}
        self._read: dict[tuple[Operation, int], tuple[int, ...]] = {}
        self._behind: dict[tuple[int, int], int] = {}
        self._loops: dict[tuple[Operation, int], int] = {}
        self._guards: dict[tuple[Operation, int], int] = {}
        self._unknown: list[tuple[object, int]] = []
        self._unknown_numbers: dict[tuple[object, int], int] = {}

    def read(self, op: TensorOp, operand: int) -> tuple[int, ...]:
        """
        Where an op reads an operand, as functions of its own point. What it never reads, such as
        the value of a padding that only takes elements away, is an operand all the same: somebody
        must make it, so it counts as read at its first element.
        """
        is_fold = isinstance(op, Reduction)
        if not is_fold and not isinstance(op, GatherOp) and not op.only_moves:
            return HERE
        if (op, operand) not in self._read:
            loop = self._loop(op, -1) if is_fold else 0
            found, guarded = places_of(op)
            for k in range(len(op.operands)):
                guard = self._guards.setdefault((op, k), len(self._guards)), OWN
                guards = frozenset((guard,) if k in guarded else ())
                local = (self._local(op, loop, p)._replace(guards=guards) for p in found.get(k, ()))
                places = tuple(dict.fromkeys(map(self._number, local)))
                self._read[op, k] = places or (self._first(op, k, loop),)
        return self._read[op, operand]

    def alone(self, op: Operation, operand: int, rank: int) -> tuple[int, ...]:
        """As `read`, of an op that walks each operand by itself."""
        axes = tuple((((axis, 1),), Dim.const(0)) for axis in range(rank))
        return (self._number(_Point(self._loop(op, operand), axes)),)

    def _first(self, op: TensorOp, operand: int, loop: int) -> int:
        rank = len(shape_of(op.operands[operand].type))
        return self._number(_Point(loop, (((), Dim.const(0)),) * rank))

    def chained(self, points: Sequence[int], reads: Sequence[int]) -> tuple[int, ...]:
        """What is read at some of the points that are read."""
        if points == HERE:
            return tuple(reads)
        return tuple(dict.fromkeys(self._through(p, read) for p in points for read in reads))

    def behind(self, point: int, read: int) -> int:
        """The point of an operand that a reader at a point of the kernel reads so."""
        if read == OWN:
            return point
        found = self._behind.get((point, read))
        if found is None:
            found = self._behind[point, read] = self._canonical(self._through(point, read))
        return found

    def _through(self, point: int, read: int) -> int:
        if point == OWN or read == OWN:
            return read or point
        at, inner = self._points[point], self._points[read]
        positions: list[tuple[tuple[tuple[int, int], ...], Dim]] = []
        for terms, start in inner.positions:
            offset, total = start, dict[int, int]()
            for term, factor in terms:
                if term >= _UNKNOWN:
                    key, before = self._unknown[term - _UNKNOWN]
                    known = self._unknown_of(key, self._through(point, before))
                    total[known] = total.get(known, 0) + factor
                    continue
                more, constant = at.positions[term]
                offset += constant * factor
                for axis, scale in more:
                    total[axis] = total.get(axis, 0) + scale * factor
            positions.append((tuple(sorted((t, c) for t, c in total.items() if c)), offset))
        guards = at.guards
        if inner.guards:
            guards |= {(g, self._bare(self._through(point, p))) for g, p in inner.guards}
        return self._number(_Point(inner.loop or at.loop, tuple(positions), guards))

    def _bare(self, number: int) -> int:
        """The point, whatever must hold."""
        point = self._points[number]
        return self._number(point._replace(guards=frozenset())) if point.guards else number

    def _canonical(self, number: int) -> int:
        point = self._points[number]
        own = all(
            terms == ((axis, 1),) and not offset.terms
            for axis, (terms, offset) in enumerate(point.positions)
        )
        return OWN if own and not point.loop and not point.guards else number

    def _local(self, op: Operation, loop: int, point: tuple[Affine, ...]) -> _Point:
        positions: list[tuple[tuple[tuple[int, int], ...], Dim]] = []
        for p in point:
            total: dict[int, int] = {}
            for term, factor in p.terms:
                known = term if term >= 0 else self._unknown_of((op, term), OWN)
                total[known] = total.get(known, 0) + factor
            positions.append((tuple(sorted((t, c) for t, c in total.items() if c)), p.offset))
        return _Point(loop, tuple(positions))

    def _number(self, point: _Point) -> int:
        found = self._numbers.get(point)
        if found is None:
            found = self._numbers[point] = len(self._points)
            self._points.append(point)
        return found

    def _loop(self, op: Operation, operand: int) -> int:
        return self._loops.setdefault((op, operand), len(self._loops) + 1)

    def _unknown_of(self, key: object, point: int) -> int:
        """The term for what an op finds at run time, at a point."""
        found = self._unknown_numbers.get((key, point))
        if found is None:
            found = self._unknown_numbers[key, point] = len(self._unknown) + _UNKNOWN
            self._unknown.append((key, point))
        return found
