"""
What stands for an array in a trace: a value of the program that writes replace, a view of another
one, or one of several that branches chose.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Container, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from xdsl.ir import Attribute, Block, SSAValue

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.dims import Shape, shape_of
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.bitwise import AndOp, NotOp, OrOp
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.op import element_dtype
from mlc.frontend.errors import (
    ALIASED,
    COPY,
    FOREIGN,
    INSIDE,
    LeakError,
    NotSupportedError,
    located,
)
from mlc.frontend.trace.paths import HiddenInput
from mlc.frontend.trace.source import Site, user_site
from mlc.frontend.trace.trace import here
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.frontend.trace.trace import Trace

Array = NDArray[Any]


@dataclass(frozen=True)
class View:
    """How a value is part of another one, as NumPy's views are: `get` reads, `put` writes back."""

    base: Value
    get: Callable[[SSAValue], SSAValue]
    put: Callable[[SSAValue, SSAValue], SSAValue]  # (base, new part) -> new base
    key: object = None  # of an indexed part

    @property
    def is_fixed(self) -> bool:
        """Whether it shows the same places wherever it is read again."""
        from mlc.frontend.numpy.indexing import is_fixed

        return self.key is None or is_fixed(self.key)


@dataclass(frozen=True)
class Either:
    """One of several arrays, none of which is such a choice: each with the condition that it is."""

    sides: tuple[tuple[Value, SSAValue], ...]

    @staticmethod
    def of(condition: SSAValue, then: Value, otherwise: Value) -> Either:
        """One of two arrays: which of them, the condition says."""
        emit = here().emit
        found: dict[int, tuple[Value, SSAValue]] = {}
        for array, way in ((then, condition), (otherwise, emit(NotOp, condition))):
            inner = [(array, way)]
            if array.either is not None:
                inner = [(x, emit(AndOp, way, c)) for x, c in array.either.sides]
            for x, c in inner:
                known = found.get(id(x))
                found[id(x)] = x, c if known is None else emit(OrOp, known[1], c)
        return Either(tuple(found.values()))

    @property
    def arrays(self) -> list[Value]:
        """All of them."""
        return [x for x, _ in self.sides]

    @property
    def version(self) -> int:
        """Grows with every write to one of them."""
        return sum(x.version for x in self.arrays)

    def read(self, views: Sequence[View] = ()) -> SSAValue:
        """The elements now, or those of a part: of views, innermost first."""
        found: SSAValue | None = None
        for array, condition in self.sides:
            part = array.value
            for view in reversed(views):
                part = view.get(part)
            found = part if found is None else self._chosen(condition, part, found)
        assert found is not None
        return found

    def write(self, new: SSAValue, views: Sequence[View]) -> None:
        """Writes to the one that it is, in a part: of views, innermost first. No other is read."""
        for array, condition in self.sides:
            around = [array.value]
            for view in reversed(views):
                around.append(view.get(around[-1]))
            made = self._chosen(condition, new, around.pop())
            for view in views:
                made = view.put(around.pop(), made)
            array.write(made)

    @staticmethod
    def _chosen(condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
        from mlc.frontend.numpy.values import spread

        return here().emit(SelectOp, spread(condition, shape_of(then.type)), then, otherwise)


@dataclass(frozen=True)
class Whole:
    """Where a number is one of Python's, and not what its dtype says."""

    condition: SSAValue
    kind: type[Any]


class Value:
    """
    An array in a trace. Writing to it (`x[i] = v`, `x += v`) replaces the SSA value it stands for.

    `weak`: a Python number, which takes the other operand's dtype (NEP 50). `origins`: the Python
    scalar arguments it is computed from, when from nothing else. `captured`: read from outside.
    `part_of`: of a view, the array that it shows. `shows`: arrays of which it may be a part, as
    they were; None: that is not asked where it is read. `either`: of what one branch or the other
    gave, the arrays that it may be. `whole`: of a number, where it is an int all the same.
    """

    __slots__ = (
        *("__weakref__", "_pending", "_root", "_seen", "_value", "_version"),
        *("captured", "either", "origins", "owner", "part_of", "shares", "shows", "weak"),
        *("whole", "written_at"),
    )

    def __init__(
        self,
        trace: Trace,
        value: SSAValue | None,
        *,
        weak: bool = False,
        origins: frozenset[str] = frozenset(),
        captured: str | None = None,
        view: View | None = None,
        pending: tuple[Array, HiddenInput] | None = None,
    ) -> None:
        trace.made.append(weakref.ref(self))
        self.owner = trace
        self._value = value
        self._pending = pending  # of an array from outside that nothing has used yet
        self._version = 0
        self._root: Value | None = None  # of a view: what all views behind it show
        if view is not None:
            self._root = view.base.root
        self.either: Either | None = None
        self._seen = self.version
        self.weak = weak
        self.origins = origins
        self.captured = captured
        self.part_of = view
        self.whole: Whole | None = None
        self.written_at: Site | None = None
        self.shares: tuple[tuple[Value, int], ...] = ()
        self.shows: tuple[tuple[Value, SSAValue | None], ...] = ()

    @property
    def root(self) -> Value:
        """The array that this is, or in the end a view of."""
        return self if self._root is None else self._root

    @property
    def version(self) -> int:
        """Grows with every write, to this value or to what it is a view of."""
        if self._root is not None:
            return self._root.version
        return self._version if self.either is None else self._version + self.either.version

    @property
    def value(self) -> SSAValue:
        """The SSA value now; a view is read again after its base was written."""
        if self.owner is not here():
            raise located(LeakError, FOREIGN)
        if self._is_stale():
            self._read_again()
        self._check_read()
        value = self.known
        if not self.owner.visible(value):
            raise located(LeakError, INSIDE)
        return value

    def _check_read(self) -> None:
        if self.may_be_written():
            raise located(NotSupportedError, ALIASED.format("is read here"), remedy=COPY)

    def seen_in(self, view: View) -> SSAValue:
        """What a view of it shows: of what may be several arrays, the part of each alone."""
        at, views = self, [view]
        while at.part_of is not None:
            views.append(at.part_of)
            at = at.part_of.base
        if at.either is None or not at._is_stale():
            return view.get(self.value)
        self._check_read()
        return at.either.read(views)

    def may_be_written(self) -> bool:
        """Whether it may be an array that has been written since, or a part of one."""
        if any(before is not None and x.known is not before for x, before in self.shows):
            return True
        return any(x.version != version for x, version in self.shares)

    @property
    def is_another(self) -> bool:
        """Whether its elements are those of another array: it is a view of it, or one of two."""
        return self.part_of is not None or self.either is not None

    def _is_stale(self) -> bool:
        """Whether it is a view that was read before a write, or in a body that has ended."""
        if self._seen != self.version:
            return True
        return self.is_another and self._value is not None and not self.owner.visible(self._value)

    def _read_again(self) -> None:
        """Reads the view, and those that it is seen through, after what they show was written."""
        stale: list[tuple[Value, View]] = []
        at = self
        while at.part_of is not None and at._is_stale():
            stale.append((at, at.part_of))
            at = at.part_of.base
        if at.either is not None and at._is_stale():
            self._value = at.either.read([view for _, view in stale])
            self._seen = self.version
            return
        for value, view in reversed(stale):
            value._value = view.get(view.base.value)
            value._seen = self.version

    @property
    def known(self) -> SSAValue:
        """The SSA value, of whose type no write changes anything."""
        if self._value is None:
            assert self._pending is not None
            self._value = self.owner.read_hidden(*self._pending)
        return self._value

    def is_made_in(self, blocks: Container[Block | None]) -> bool:
        """Whether it stands for a value of one of these blocks."""
        return self._value is not None and block_of(self._value) in blocks

    def from_outside(self) -> tuple[Array, HiddenInput] | None:
        """The array from outside that this is, with the way to it; None of what was computed."""
        return self._pending

    def share(self, other: Value) -> None:
        """On some way to here, but not on all, this is what another one is, or may be."""
        if shape_of(other.type) and other is not self:
            shares = (*self.shares, (other, other.version), *other.shares)
            self.shares = tuple(dict.fromkeys(shares))
            self.shows = tuple(dict.fromkeys((*self.shows, *other.shows)))

    def show(self, other: Value, *, read: bool = True) -> None:
        """
        On some way to here this is a part of an array, at places that nobody knows here: it is not
        written, nor read when the array has been written; or it is read all the same.
        """
        root = other.root
        if root.either is not None:
            for side in root.either.arrays:
                self.show(side, read=read)
        elif self.owner.visible(root.known):
            self.shows = (*self.shows, (root, root.known if read else None))

    def may_show(self, array: Value) -> bool:
        """Whether this is an array, or a view of it, on some way to here."""
        sides = [] if self.root.either is None else self.root.either.arrays
        return self.root is array or any(x.may_show(array) for x in sides)

    def become(self, value: SSAValue) -> None:
        """Stands for another SSA value from now on, as in another body: views are read again."""
        self._version += 1
        self._value, self._seen = value, -1 if self.is_another else self._version

    def may_be(self, either: Either) -> None:
        """This is one of several arrays: it is read and written as the one that it is."""
        self.either, self._seen = either, self._version + either.version

    @property
    def is_place(self) -> bool:
        """Whether it is written in place, as arrays are; of no axes, arguments of that kind."""
        return bool(shape_of(self.known.type)) or self in self.owner.inputs

    def lasts(self) -> bool:
        """
        Whether it can be read and written behind the body that made it: an array from before, or a
        view of one at places that are numbers.
        """
        at = self
        while at.part_of is not None:
            if not at.part_of.is_fixed:
                return False
            at = at.part_of.base
        if at.either is not None:
            return all(self.owner.visible(c) and x.lasts() for x, c in at.either.sides)
        return self.owner.visible(at.known)

    def write(self, new: SSAValue) -> None:
        """The array's elements become those of `new`, also in what this is a view of."""
        views: list[View] = []
        around: list[Value] = [self]
        while (view := around[-1].part_of) is not None:
            views.append(view)
            around.append(view.base)
        for value in around:
            value._may_be_written()
        written: list[tuple[Value, SSAValue]] = [(self, new)]
        root = around[-1]
        if root.either is not None:
            root.either.write(new, views)
        else:
            for view in views:
                new = view.put(view.base.value, new)
                written.append((view.base, new))
        root._version += 1
        for value, after in written:
            value._value, value._seen = after, root.version

    def seen_through(
        self, get: Callable[[SSAValue], SSAValue], put: Callable[[SSAValue, SSAValue], SSAValue]
    ) -> None:
        """The array is a view of its own elements from now on; what is a view of it stays one."""
        store = type(self)(self.owner, self.value, captured=self.captured)
        store.part_of, store._root = self.part_of, self._root
        store._version, store._seen = self._version, self.version
        for other in (ref() for ref in self.owner.made):
            if other is None or other is store:
                continue
            if other.part_of is not None and other.part_of.base is self:
                other.part_of = replace(other.part_of, base=store)
            if other._root is self:
                other._root = store
        self.part_of = View(store, get, put)
        self._root = store.root
        self._value, self._seen = get(store.value), self.version

    def _may_be_written(self) -> None:
        """Notes who writes. Raises LeakError, NotSupportedError."""
        old = self.value if self.either is None else None
        self._check_read()
        others = [x for x, _ in (*self.shares, *self.shows)]
        if any(map(_is_seen, others)):
            raise located(NotSupportedError, ALIASED.format("is written"), remedy=COPY)
        self.written_at = self.written_at or user_site()
        if old is not None:  # what it may be notes that by itself
            self.owner.note_write(self, old)
        if self.captured is not None:
            raise located(
                NotSupportedError,
                f"{self.captured} is read from outside the function; writing to it is not"
                " supported yet",
                remedy=f"Write to a copy ({self.captured}.copy()) and return it.",
            )

    @property
    def type(self) -> Attribute:
        """The tensor type."""
        return self.known.type

    @property
    def hint(self) -> str | None:
        """What the value is called in the program's text."""
        return self.known.name_hint

    @property
    def dims(self) -> Shape:
        """The sizes of the axes."""
        return shape_of(self.known.type)

    @property
    def row(self) -> DType:
        """The dtype, as our table has it."""
        return element_dtype(self.known)


def _is_seen(value: Value) -> bool:
    """Whether the function can still see the array under another name."""
    from mlc.frontend.staging.journal import reachable

    owner = value.owner
    return any(x.may_show(value) for x in owner.walked) or value in owner.inputs or reachable(value)
