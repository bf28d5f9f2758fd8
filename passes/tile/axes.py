"""
The axes of a product's tile, and the letters of the plan's op that each stands for.

Letters that memory walks as one are one axis: of `"btd,de->bte"` rows are `m`, of which b is
`m floordiv T` and t is `m mod T` where something lies by b alone, and where nothing does the views
have one axis for both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from mlc.dialects.analysis.matmul_axes import ContractionRoles
from mlc.dialects.dims import Dim, Shape, product
from mlc.dialects.errors import MlcError
from mlc.dialects.tile.expression import renamed
from mlc.lazy_dataclass import dataclass

SPARE = "kijhlopqrtuvwxyz"
"""Names of summed axes, where there are several."""
Accesses = Sequence[Sequence[tuple[Dim, ...]]]
"""Of each argument, the subscripts at which it is read or written, in letters of the plan's op."""
Groups = tuple[tuple[tuple[int, ...], ...], ...]
"""Of each argument, which of its axes are one."""


def source(c: str) -> Dim:
    """The position along a letter of the plan's op."""
    return Dim((((f"?{c}",), 1),))


def _sources_in(dim: Dim) -> frozenset[str]:
    return frozenset(s[1:] for s in dim.symbols() if s[0] == "?")


@dataclass(frozen=True)
class Axes:
    """The axes of a tile program's product."""

    letters: Mapping[str, str]
    """Of each axis the letters that it stands for, the slowest first."""
    sizes: Mapping[str, Dim]
    """Of the letters."""

    def size(self, axis: str) -> Dim:
        """Of an axis."""
        return product(self.sizes[c] for c in self.letters[axis])

    def of(self, letters: Iterable[str]) -> list[str]:
        """The axes that stand for some letters."""
        wanted = frozenset(letters)
        return [axis for axis, word in self.letters.items() if wanted & frozenset(word)]

    def resolved(self, dim: Dim, places: Mapping[str, Dim]) -> Dim:
        """An expression over letters as one over where each axis is; letters without one are 0."""
        sources = _sources_in(dim)
        if without := sources.difference(*self.letters.values()):
            dim = renamed(dim, {f"?{c}": Dim.const(0) for c in without})
            sources = _sources_in(dim)
        for axis, word in self.letters.items():
            for length in range(len(word), 0, -1):
                for first in range(len(word) - length + 1):
                    run = word[first : first + length]
                    if sources.issuperset(run) and self.is_walked(dim, run):
                        to = dict.fromkeys((f"?{c}" for c in run), Dim.const(0))
                        to[f"?{run[-1]}"] = self._part(word, first, length, places[axis])
                        dim = renamed(dim, to)
                        sources = _sources_in(dim)
        return dim

    def is_walked(self, dim: Dim, run: str) -> bool:
        """Whether letters stand in an expression only as the position along all of them."""
        if len(run) == 1:
            return True
        alone = renamed(dim, {f"?{c}": Dim.const(0) for c in run[:-1]})
        return renamed(alone, {f"?{run[-1]}": self.position(run)}) == dim

    def position(self, run: str) -> Dim:
        """The position along letters that follow one another."""
        total = Dim.const(0)
        for c in run:
            total = total * self.sizes[c] + source(c)
        return total

    def _part(self, word: str, first: int, length: int, place: Dim) -> Dim:
        """The position along some letters of an axis."""
        inner = self._number(word[first + length :])
        if first == 0:
            return place // inner
        size = self._number(word[first : first + length])
        return place // inner - place // (inner * size) * size

    def _number(self, letters: str) -> int:
        size = product(self.sizes[c] for c in letters)
        if size.constant is None:
            raise MlcError(
                f"plan to tiles: letters {letters!r} have the size {size}, and what lies by those"
                " before them does not lie by them; expected a number, or one axis for all"
            )
        return max(size.constant, 1)


def apart(roles: ContractionRoles, sizes: Mapping[str, Dim]) -> Axes:
    """An axis for each letter."""
    return Axes({c: c for c in roles.batch + roles.m + roles.n + roles.k}, sizes)


def joined(
    roles: ContractionRoles,
    sizes: Mapping[str, Dim],
    shapes: Sequence[Shape],
    whole: Sequence[bool],
    accesses: Accesses,
) -> tuple[Axes, Groups]:
    """
    As few axes as permit that vectors run along columns; arguments with as few axes as they are
    read by. `whole`: arguments that lie row by row, all elements side by side.
    """

    def grouped(words: Iterable[str]) -> Groups:
        return tuple(
            _groups(shape, seen, words, sizes) if dense else tuple((k,) for k in range(len(shape)))
            for shape, dense, seen in zip(shapes, whole, accesses, strict=True)
        )

    groups = grouped((roles.batch, roles.m, roles.n, roles.k))
    known = Axes({}, sizes)
    dims = [
        dim
        for shape, seen, parts in zip(shapes, accesses, groups, strict=True)
        for at in seen
        for dim in collapsed(at, shape, parts)
    ]

    def is_one(run: str) -> bool:
        """Whether all that has a letter of these has all of them, as one position."""
        mine = frozenset(run)
        return len(run) == 1 or all(
            not mine & _sources_in(dim) or known.is_walked(dim, run) for dim in dims
        )

    n = next(roles.n[k:] for k in range(len(roles.n)) if is_one(roles.n[k:]))
    outer = roles.batch + roles.n[: len(roles.n) - len(n)]
    batch = "".join(c for c in outer if sizes[c] != Dim.const(1))
    summed = [roles.k] if is_one(roles.k) else [*roles.k]
    if len(summed) > len(SPARE):
        raise MlcError(f"plan to tiles: {len(summed)} summed axes; expected {len(SPARE)} at most")
    m = roles.m if is_one(roles.m) else _open_first(roles.m, sizes)
    letters = {**({"g": batch} if batch else {}), "m": m, "n": n}
    # what ends within an axis of a view, its loads and stores must not pass; sums end by themselves
    groups = grouped((*letters.values(), roles.k))
    return Axes({**letters, **dict(zip(SPARE, summed, strict=False))}, sizes), groups


def _open_first(rows: str, sizes: Mapping[str, Dim]) -> str:
    """Rows in an order in which each is known by division: by sizes that are numbers."""
    return "".join(sorted(rows, key=lambda c: sizes[c].constant is not None))


def collapsed(
    at: Sequence[Dim], shape: Shape, groups: Sequence[tuple[int, ...]]
) -> tuple[Dim, ...]:
    """Subscripts of a tensor, for a view that joins its axes so."""
    found: list[Dim] = []
    for group in groups:
        total = Dim.const(0)
        for axis in group:
            total = total * shape[axis] + at[axis]
        found.append(total)
    return tuple(found)


def _groups(
    shape: Shape,
    seen: Sequence[tuple[Dim, ...]],
    words: Iterable[str],
    sizes: Mapping[str, Dim],
) -> tuple[tuple[int, ...], ...]:
    """The axes that are always walked as one."""
    follow = {source(d): (source(c), sizes[d]) for w in words for c, d in pairwise(w)}
    groups: list[list[int]] = []
    for axis, size in enumerate(shape):
        if axis and seen and all(follow.get(at[axis]) == (at[axis - 1], size) for at in seen):
            groups[-1].append(axis)
        else:
            groups.append([axis])
    return tuple(map(tuple, groups))
