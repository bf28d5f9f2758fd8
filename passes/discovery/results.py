"""
Equal programs of two results: two ops become parts of one.

`x y` and `x z` are the halves of `x (y z)`. Each half alone reads an input that its own product
does not, so that no rule of one result can find it; both together do.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.passes.discovery.implied import term_of
from mlc.passes.discovery.table import Table
from mlc.passes.discovery.terms import Pair, count, spelled, subterms, variables


def pairs_of_two(table: Table) -> list[Pair]:
    """
    Pairs of two results whose right sides have at most as many ops as the table goes, each once
    up to the names of inputs; the smallest first.
    """
    found: dict[str, Pair] = {}
    for first, second in _sharing(table):
        for pair in _stated(table, int(first), int(second)):
            found.setdefault(str(pair), pair)
    order = sorted(found.values(), key=lambda pair: (count(pair.right), str(pair)))
    return [pair for k, pair in enumerate(order) if not _is_inside(pair, order[:k])]


def _sharing(table: Table) -> Iterator[tuple[int, int]]:
    """Rows that read an input which the first of their class does not, and share an operand."""
    rows = np.arange(table.starts[1], table.starts[table.level + 1], dtype=np.int32)
    reps = table.rep[rows]
    more = (table.inputs[rows] & ~table.inputs[reps]) != 0
    rows = rows[more & (table.op[reps] >= 0) & (table.size[rows] < table.level)]
    pairs: set[tuple[int, int]] = set()
    for operands in (table.a[rows], table.b[rows]):
        shared = (operands >= 0) & (table.size[operands] > 0)
        pairs |= set(_alike(table, rows[shared], operands[shared]))
    yield from sorted(pairs)


def _alike(table: Table, rows: Array, operands: Array) -> Iterator[tuple[int, int]]:
    order = np.argsort(operands, kind="stable")
    cuts = np.flatnonzero(np.diff(operands[order])) + 1
    for group in np.split(rows[order], cuts):
        for k, one in enumerate(group.tolist()):
            for other in group[k + 1 :].tolist():
                ops = np.union1d(table.cone[one], table.cone[other])
                if (ops >= 0).sum() <= table.level:
                    yield one, other


def _stated(table: Table, first: int, second: int) -> Iterator[Pair]:
    """The pair with its results in either order, if both sides can be looked for."""
    reps = [int(table.rep[k]) for k in (first, second)]
    known = [int(table.inputs[k]) for k in reps]
    needed = [int(table.inputs[k]) for k in (first, second)]
    if (needed[0] | needed[1]) & ~(known[0] | known[1]) or not known[0] & known[1]:
        return
    if reps[0] == reps[1] or {first, second} & set(reps):
        return
    ranks = tuple((k, len(shape)) for k, shape in enumerate(table.space.inputs))
    orders = ((first, second), (second, first))
    found = [
        Pair(
            tuple(term_of(table, int(table.rep[k])) for k in order),
            tuple(term_of(table, k) for k in order),
            ranks,
        ).canonical()
        for order in orders
    ]
    yield min(found, key=lambda pair: ("second" in spelled(pair.right[0]), str(pair)))


def _is_inside(pair: Pair, smaller: list[Pair]) -> bool:
    """Whether a smaller pair is the same but that an input of it is an op here."""
    ops = {t[0] for side in (pair.left, pair.right) for r in side for t in subterms(r)
           if not isinstance(t, int)}  # fmt: skip
    for other in smaller:
        names = {t[0] for r in other.right for t in subterms(r) if not isinstance(t, int)}
        if names < ops and _matches(other, pair):
            return True
    return False


def _matches(general: Pair, special: Pair) -> bool:
    binding: dict[int, object] = {}

    def fits(pattern: object, term: object) -> bool:
        if isinstance(pattern, int):
            return binding.setdefault(pattern, term) == term
        if not isinstance(pattern, tuple) or not isinstance(term, tuple):
            return False
        if len(pattern) != len(term) or pattern[0] != term[0]:  # pyright: ignore[reportUnknownArgumentType]
            return False
        return all(map(fits, pattern[1:], term[1:]))  # pyright: ignore[reportUnknownArgumentType]

    assert variables(*general.left)
    return fits(("", *general.left, *general.right), ("", *special.left, *special.right))
