"""
Programs as terms, and their most general types.

A term is the number of an input, or an op's name with its operands. An axis is as long as a size
that nobody knows, as two parts together, or as the places of a window: what a split cuts is what a
concat has joined, wherever that was.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from mlc.lazy_dataclass import dataclass
from mlc.passes.discovery.words import ELEMENTWISE, Word

VALUES = ("x", "y", "z", "w", "u", "v")
Term = int | tuple[str, *tuple["Term", ...]]


@dataclass(frozen=True)
class Size:
    """A size that is a variable."""

    number: int


@dataclass(frozen=True)
class Parts:
    """Two parts of an axis, one behind the other."""

    first: Axis
    second: Axis


@dataclass(frozen=True)
class Windows:
    """An axis that a window passes over: as long as both together, less one."""

    places: Axis
    window: Axis


Axis = Size | Parts | Windows


class NoTypeError(Exception):
    """Both sides have no type in common."""


def operands_of(term: Term) -> tuple[Term, ...]:
    """The operands of an op."""
    return () if isinstance(term, int) else term[1:]


def subterms(term: Term) -> Iterator[Term]:
    """A term and what it is made of, operands first."""
    if not isinstance(term, int):
        for operand in term[1:]:
            yield from subterms(operand)
    yield term


def variables(*terms: Term) -> list[int]:
    """The inputs, in the order in which they are met."""
    return list(dict.fromkeys(t for term in terms for t in subterms(term) if isinstance(t, int)))


def renamed(term: Term, names: dict[int, int]) -> Term:
    """A term with other inputs."""
    if isinstance(term, int):
        return names[term]
    return (term[0], *(renamed(operand, names) for operand in term[1:]))


def count(terms: Sequence[Term]) -> int:
    """How many ops terms are made of, each counted once."""
    return len({t for term in terms for t in subterms(term) if not isinstance(t, int)})


def weight(term: Term, weights: dict[str, int]) -> int:
    """What a term costs if nothing in it is shared; an input is 1."""
    if isinstance(term, int):
        return 1
    return weights[term[0]] + sum(weight(operand, weights) for operand in term[1:])


def occurrences(term: Term) -> dict[int, int]:
    """How often each input is read."""
    found: dict[int, int] = {}
    for each in subterms(term):
        if isinstance(each, int):
            found[each] = found.get(each, 0) + 1
    return found


def spelled(term: Term, names: Sequence[str] = VALUES) -> str:
    """`add(x, y)`"""
    if isinstance(term, int):
        return names[term]
    return f"{term[0]}({', '.join(spelled(operand, names) for operand in term[1:])})"


@dataclass(frozen=True)
class Pair:
    """
    Programs that are equal, as many on each side; `ranks` of their inputs. The right side reads
    nothing that the left one does not.
    """

    left: tuple[Term, ...]
    right: tuple[Term, ...]
    ranks: tuple[tuple[int, int], ...]

    @property
    def is_of_one(self) -> bool:
        """Whether it has one result."""
        return len(self.left) == 1

    @property
    def sides(self) -> tuple[Term, Term]:
        """Both sides, of one result."""
        (left,), (right,) = self.left, self.right
        return left, right

    def canonical(self) -> Pair:
        """With inputs numbered in the order in which the left side reads them."""
        names = {k: n for n, k in enumerate(variables(*self.left, *self.right))}
        left, right = (
            tuple(renamed(term, names) for term in side) for side in (self.left, self.right)
        )
        ranks = sorted((names[k], rank) for k, rank in self.ranks if k in names)
        return Pair(left, right, tuple(ranks))

    def __str__(self) -> str:
        left, right = (", ".join(spelled(t, VALUES) for t in s) for s in (self.left, self.right))
        return f"{left} -> {right}"


class Typing:
    """The most general types of terms: `inputs` by number, `of` by term."""

    def __init__(self, ranks: dict[int, int], words: dict[str, Word]) -> None:
        self.words = words
        self.known: dict[Size, Axis] = {}
        self.fresh = 0
        self.inputs = {k: [self.size() for _ in range(rank)] for k, rank in ranks.items()}
        self.of: dict[Term, list[Axis]] = {k: list(axes) for k, axes in self.inputs.items()}

    def size(self) -> Size:
        """A new one."""
        self.fresh += 1
        return Size(self.fresh)

    def resolved(self, axis: Axis) -> Axis:
        """An axis as far as it is known."""
        while isinstance(axis, Size) and axis in self.known:
            axis = self.known[axis]
        match axis:
            case Size():
                return axis
            case Parts(first, second):
                return Parts(self.resolved(first), self.resolved(second))
            case Windows(places, window):
                return Windows(self.resolved(places), self.resolved(window))

    def shape(self, term: Term) -> list[Axis]:
        """The axes of a term, as far as they are known. Raises NoTypeError."""
        if term not in self.of:
            assert not isinstance(term, int)
            shapes = [self.shape(operand) for operand in term[1:]]
            self.of[term] = self._typed(self.words[term[0]], shapes)
        return [self.resolved(axis) for axis in self.of[term]]

    def equal(self, one: Sequence[Axis], other: Sequence[Axis]) -> None:
        """Makes shapes the same. Raises NoTypeError."""
        if len(one) != len(other):
            raise NoTypeError
        for x, y in zip(one, other, strict=True):
            self._unify(x, y)

    def _unify(self, one: Axis, other: Axis) -> None:
        x, y = self.resolved(one), self.resolved(other)
        if x == y:
            return
        if isinstance(x, Size) or isinstance(y, Size):
            size, axis = (x, y) if isinstance(x, Size) else (y, x)
            assert isinstance(size, Size)
            if size in leaves(axis):
                raise NoTypeError
            self.known[size] = axis
        elif isinstance(x, Parts) and isinstance(y, Parts):
            if pieces(x) == pieces(y):  # joined in another order
                return
            self._unify(x.first, y.first)
            self._unify(x.second, y.second)
        elif isinstance(x, Windows) and isinstance(y, Windows):
            self._unify(x.places, y.places)
            self._unify(x.window, y.window)
        else:
            raise NoTypeError

    def _typed(self, word: Word, shapes: list[list[Axis]]) -> list[Axis]:
        """The shape of an op's result."""
        if word.name in ELEMENTWISE:
            for other in shapes[1:]:
                self.equal(shapes[0], other)
            return shapes[0]
        x, y = shapes[0], shapes[-1]
        k = word.axis
        match word.name:
            case "transpose":
                return x[::-1]
            case "matmul":
                self._unify(x[1], y[0])
                return [x[0], y[1]]
            case "conv":
                self._unify(x[1], y[1])
                places: list[Axis] = [self.size(), self.size()]
                for axis, at, window in zip(x[2:], places, y[2:], strict=True):
                    self._unify(axis, Windows(at, window))
                return [x[0], y[0], *places]
            case "concat0" | "concat1":
                self.equal([*x[:k], *x[k + 1 :]], [*y[:k], *y[k + 1 :]])
                return [*x[:k], Parts(x[k], y[k]), *x[k + 1 :]]
            case _:
                parts = Parts(self.size(), self.size())
                self._unify(x[k], parts)
                part = parts.first if word.name.startswith("first") else parts.second
                return [*x[:k], part, *x[k + 1 :]]


def pieces(axis: Axis) -> list[Axis]:
    """What an axis is joined of, one behind the other."""
    return pieces(axis.first) + pieces(axis.second) if isinstance(axis, Parts) else [axis]


def leaves(axis: Axis) -> list[Size]:
    """The sizes that an axis is made of."""
    match axis:
        case Size():
            return [axis]
        case Parts(one, other) | Windows(one, other):
            return leaves(one) + leaves(other)
