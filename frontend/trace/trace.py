"""
Tracing: a Python function runs on `Tracer`s, each operation on them becomes a tensor-level op.

`Trace` is the program being built; `Value` is what stands for an array in it. The names NumPy users
know (`x.T`, `x + y`, `x[1:]`) are in tracer.py, on `Tracer`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.dims import Dim, DimsAttr, Shape, shape_of, tensor_type
from mlc.dialects.dtypes import DType, dtype_of, numpy_dtype
from mlc.dialects.errors import DTypeError, MlcError
from mlc.dialects.program import DONATED, unrolled_attributes
from mlc.dialects.tensor.bitwise import AndOp, NotOp, OrOp
from mlc.dialects.tensor.comparison import SelectOp
from mlc.dialects.tensor.create import SizeOp
from mlc.dialects.tensor.op import OpBuilder, Tensor, TensorOp, tensor_of
from mlc.frontend.errors import (
    ALIASED,
    BESIDE,
    COPY,
    FOREIGN,
    INSIDE,
    OUTSIDE,
    LeakError,
    NotSupportedError,
    located,
    relocated,
)
from mlc.frontend.trace.bound import BoundSizes
from mlc.frontend.trace.paths import Guard, HiddenInput, Path
from mlc.frontend.trace.source import Site, user_site
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.frontend.staging.journal import Journal
    from mlc.frontend.trace.symbolic import SymbolicDim
    from mlc.frontend.trace.tracer import Tracer

Array = NDArray[Any]


@dataclass
class Assumption:
    """`dim >= 0` must hold for the traced program to mean what NumPy means."""

    dim: Dim
    because: str


class Trace:
    """A function under construction: one block of ops, with its arguments."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.block = Block()
        self.scopes: list[Block] = [self.block]
        self.inputs: set[Value] = set()  # arrays that the caller sees
        self.journals: list[Journal] = []  # of the bodies being traced, innermost last
        self.walked: list[Value] = []  # over whose elements loops go, which are read at each trip
        self.long_loops: set[CodeType] = set()  # bodies that were better as one loop
        self.facts: tuple[Any, ...] = ()  # what the branches being traced know of options
        self.meaning: dict[SSAValue, Any] = {}  # of a bool that is known by these: facts
        # objects that are changed: what they held, what the function sees of it, the way there
        self.stores: dict[int, tuple[Any, Any, dict[Any, Any], Path]] = {}
        self.receiver: object = None  # whose method is compiled
        self.states: set[Value] = set()  # of what a call does beside its results
        self.passing: list[Block] = []  # blocks that give these on
        self.argument_names, self.argument_layouts = list[str](), list[str]()
        self.symbols: list[str] = []
        self.limits: dict[str, Dim] = {}  # symbols of `mlc.bind`, with what they are at most
        self.room: Any = None  # for sizes that nothing bounds
        self.bound = BoundSizes(self.scopes, self.symbols, self.limits)
        self.counted: list[Any] = []  # masks whose true elements have a symbol
        self.naturals: list[tuple[Dim, SSAValue, Dim]] = []  # max(dim, 0), and its symbol
        self.hidden, self.hidden_arrays = list[HiddenInput](), list[Array]()
        self.guards: dict[Hashable, Guard] = {}
        self.assumptions: list[Assumption] = []
        self.arrays: dict[int, Tracer] = {}  # hidden inputs by the array's id
        self.keep: list[object] = []  # what the ids above belong to
        self.varying: Mapping[Hashable, str] = {}  # numbers from outside that are inputs
        self.integers: dict[str, tuple[Path, int]] = {}  # arguments that are Python ints, by name
        self.made: list[weakref.ref[Value]] = []
        self.unrolled: dict[str, str] = {}  # why loops, by file:line, were traced trip by trip
        self.staging: object = None
        self.functions: list[FunctionType] = []  # of the user, that run, innermost last
        self.effects: object = None  # what a call does beside its results
        self.derivatives = 0  # how many derivatives are being taken of what is traced
        self.examples = 0  # how many times what is traced is to be run for many examples
        self.rules = self.loops_unrolled = 0  # of the user's, being traced; traced trip by trip
        self.numbers: dict[Hashable, SSAValue] = {}  # constants that are in the program already
        self._last: tuple[Site, SSAValue] | None = None
        self.b = OpBuilder(self.insert)

    def insert(self, op: Operation) -> None:
        """Adds an op here, at the user's line."""
        site = user_site()
        if site is not None:
            op.location = site.location
            if op.results and site.target is not None and site.target.isidentifier():
                if self._last is not None and self._last[0] is site:
                    self._last[1].name_hint = None  # only the last op of an expression has its name
                op.results[0].name_hint = site.target
                self._last = (site, op.results[0])
        self.scopes[-1].add_op(op)

    def emit(
        self,
        op: type[TensorOp],
        *operands: SSAValue,
        declared: Tensor | None = None,
        **props: object,
    ) -> SSAValue:
        """The result of a new op here; errors carry the user's line."""
        try:
            return self.b(op, *operands, declared=declared, **props)
        except MlcError as error:
            raise relocated(error) from None

    def argument(
        self, name: str, dtype: DType, shape: Shape, *, layout: str = "c", hint: str | None = None
    ) -> SSAValue:
        """A new argument of the function, after those there are."""
        value = self.block.insert_arg(tensor_type(dtype.ir, shape), len(self.block.args))
        hint = hint or name
        value.name_hint = hint if hint.isidentifier() else None
        self.argument_names.append(name)
        self.argument_layouts.append(layout)
        for dim in shape:
            for symbol in sorted(dim.symbols()):
                if symbol not in self.symbols:
                    self.symbols.append(symbol)
        return value

    def hidden_argument(self, array: Array, source: HiddenInput) -> Tracer:
        """The traced value of an array from outside; it becomes an argument when it is used."""
        from mlc.frontend.trace.tracer import Tracer

        found = self.arrays.get(id(array))
        if found is None:
            from mlc.frontend.trace.stored import belongs

            text = None if belongs(source.path) else source.text
            found = Tracer(self, None, captured=text, pending=(array, source))
            self.arrays[id(array)] = found
            self.keep.append(array)
        return found

    def read_hidden(self, array: Array, source: HiddenInput) -> SSAValue:
        """The argument for an array that the function does use."""
        try:
            dtype = numpy_dtype(array.dtype.newbyteorder("="))  # copied at each call
        except TypeError as error:
            raise located(DTypeError, f"captured array {source.text}: {error}") from None
        shape = tuple(Dim.const(size) for size in array.shape)
        layout = "c" if array.flags.c_contiguous else "general"
        self.hidden.append(source)
        self.hidden_arrays.append(array)
        return self.argument(source.text, dtype, shape, layout=layout)

    def assume(self, dim: Dim, because: str) -> None:
        """Rely on dim >= 0; checked at every call before the compiled code runs."""
        if not self.limits.keys().isdisjoint(dim.symbols()):
            if self.bound.ranges.is_natural(dim):
                return
            message = f"{because}: whether there are enough is known only when the program runs."
            raise located(NotSupportedError, message)
        if dim.constant is None and all(a.dim != dim for a in self.assumptions):
            self.assumptions.append(Assumption(dim, because))

    @contextmanager
    def inside(self, block: Block) -> Generator[None, None, None]:
        """Ops go to the end of `block` until the end."""
        self.scopes.append(block)
        try:
            yield
        finally:
            self.scopes.pop()

    @contextmanager
    def walking(self, arrays: Sequence[Value]) -> Generator[None]:
        """A loop goes over the elements of arrays."""
        before = self.walked
        self.walked = [*before, *arrays]
        try:
            yield
        finally:
            self.walked = before

    def visible(self, value: SSAValue) -> bool:
        """Whether the value's block is one of those being built."""
        return block_of(value) in self.scopes

    def note_write(self, value: Value, before: SSAValue) -> None:
        """A write to a value; LeakError where it was made around a body that cannot give it on."""
        block = block_of(before)
        place = next(k for k, scope in enumerate(self.scopes) if scope is block)
        inner = self.scopes[place + 1 :]
        if not inner or (value in self.states and inner[-1] in self.passing):
            return
        journaled = [journal.block for journal in self.journals]
        if value in self.states and journaled and inner[-1] is journaled[-1]:
            inner = inner[-1:]
        if any(all(scope is not x for x in journaled) for scope in inner):
            if value in self.states:
                remedy = "Write it as Python's for, while or if."
                raise located(NotSupportedError, BESIDE, remedy=remedy)
            raise located(
                LeakError,
                "an array from outside a loop body is written inside it; make it part of the carry",
            )
        self.journals[-1].writes(value, before)

    def release(self) -> None:
        """Lets go of the traced values, when the program is finished."""
        from mlc.frontend.staging.journal import put_contents

        for obj, held, *_ in reversed(self.stores.values()):
            put_contents(obj, held)
        self.stores.clear()
        self.arrays.clear()
        self.counted.clear()
        self.inputs.clear()
        self.states.clear()
        self.meaning.clear()
        self.keep.clear()
        self.staging = self.effects = None

    def finish(
        self,
        results: Sequence[SSAValue],
        *,
        numerics: str = "standard",
        donated: Mapping[int, int] | None = None,
    ) -> ModuleOp:
        """The module with the finished function; `donated`: result that replaces an argument."""
        places = donated or {}
        self.block.add_op(ReturnOp(*results))
        inputs = [argument.type for argument in self.block.args]
        attributes = [
            _argument_attributes(name, layout, places.get(k))
            for k, (name, layout) in enumerate(
                zip(self.argument_names, self.argument_layouts, strict=True)
            )
        ]
        function = FuncOp(
            self.name,
            (inputs, [result.type for result in results]),
            Region(self.block),
            arg_attrs=ArrayAttr(attributes),
        )
        if self.symbols:
            function.attributes["mlc.symbols"] = ArrayAttr([StringAttr(s) for s in self.symbols])
        if self.assumptions:
            function.attributes["mlc.assume"] = DimsAttr(tuple(a.dim for a in self.assumptions))
        function.attributes.update(unrolled_attributes(self.unrolled))
        return ModuleOp([function], {"mlc.numerics": StringAttr(numerics)})


def _argument_attributes(name: str, layout: str, donated: int | None) -> DictionaryAttr:
    data: dict[str, Attribute] = {"mlc.name": StringAttr(name)}
    if layout == "general":
        data["mlc.layout"] = StringAttr(layout)
    if donated is not None:
        data[DONATED] = IntegerAttr(donated, i64)
    return DictionaryAttr(data)


@dataclass
class _Active(threading.local):
    """The traces of this thread, innermost last."""

    stack: list[Trace] = field(default_factory=list[Trace])


_active = _Active()


def current() -> Trace | None:
    """The trace that operations go to; None outside a compiled function."""
    return _active.stack[-1] if _active.stack else None


@contextmanager
def tracing(trace: Trace) -> Generator[Trace, None, None]:
    """Operations on traced values go to `trace` until the end."""
    _active.stack.append(trace)
    try:
        yield trace
    finally:
        _active.stack.pop()


def here() -> Trace:
    """The trace that operations go to."""
    trace = current()
    if trace is None:
        raise located(LeakError, OUTSIDE)
    return trace


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

    def read(self) -> SSAValue:
        """The elements now."""
        (first, _), *rest = self.sides
        found = first.value
        for array, condition in rest:
            found = self._chosen(condition, array.value, found)
        return found

    def write(self, new: SSAValue) -> None:
        """Writes to the one that it is."""
        for array, condition in self.sides:
            array.write(self._chosen(condition, new, array.value))

    @staticmethod
    def _chosen(condition: SSAValue, then: SSAValue, otherwise: SSAValue) -> SSAValue:
        from mlc.frontend.numpy.values import spread

        return here().emit(SelectOp, spread(condition, shape_of(then.type)), then, otherwise)


class Value:
    """
    An array in a trace. Writing to it (`x[i] = v`, `x += v`) replaces the SSA value it stands for.

    `weak`: a Python number, which takes the other operand's dtype (NEP 50). `origins`: the Python
    scalar arguments it is computed from, when from nothing else. `captured`: read from outside.
    `part_of`: of a view, the array that it shows. `shows`: arrays of which it may be a part, as
    they were; None: that is not asked where it is read. `either`: of what one branch or the other
    gave, the arrays that it may be.
    """

    __slots__ = (
        *("__weakref__", "_pending", "_root", "_seen", "_value", "_version"),
        *("captured", "either", "origins", "owner", "part_of", "shares", "shows", "weak"),
        "written_at",
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
            self._root = view.base if view.base._root is None else view.base._root
        self.either: Either | None = None
        self._seen = self.version
        self.weak = weak
        self.origins = origins
        self.captured = captured
        self.part_of = view
        self.written_at: Site | None = None
        self.shares: tuple[tuple[weakref.ref[Value], int], ...] = ()
        self.shows: tuple[tuple[Value, SSAValue | None], ...] = ()

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
        if self.may_be_written():
            raise located(NotSupportedError, ALIASED.format("is read here"), remedy=COPY)
        value = self.known
        if not self.owner.visible(value):
            raise located(LeakError, INSIDE)
        return value

    def may_be_written(self) -> bool:
        """Whether it may be an array that has been written since, or a part of one."""
        if any(before is not None and x.known is not before for x, before in self.shows):
            return True
        pairs = ((reference(), version) for reference, version in self.shares)
        return any(x is not None and x.version != version and _is_seen(x) for x, version in pairs)

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
            at._value, at._seen = at.either.read(), at.version
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

    def from_outside(self) -> tuple[Array, HiddenInput] | None:
        """The array from outside that this is, with the way to it; None of what was computed."""
        return self._pending

    def share(self, other: Value) -> None:
        """On some way to here, but not on all, this is the same array as another one."""
        if shape_of(other.type) and other is not self:
            self.shares = (*self.shares, (weakref.ref(other), other.version))

    def show(self, other: Value, *, read: bool = True) -> None:
        """
        On some way to here this is a part of an array, at places that nobody knows here: it is not
        written, nor read when the array has been written; or it is read all the same.
        """
        root = other if other._root is None else other._root
        if root.either is not None:
            for side in root.either.arrays:
                self.show(side, read=read)
        elif self.owner.visible(root.known):
            self.shows = (*self.shows, (root, root.known if read else None))

    def may_show(self, array: Value) -> bool:
        """Whether this is an array, or a view of it, on some way to here."""
        root = self if self._root is None else self._root
        sides = [] if root.either is None else root.either.arrays
        return root is array or any(x.may_show(array) for x in sides)

    def become(self, value: SSAValue) -> None:
        """Stands for another SSA value from now on, as in another body: views are read again."""
        self._version += 1
        self._value, self._seen = value, -1 if self.is_another else self._version

    def may_be(self, either: Either) -> None:
        """This is one of several arrays: it is read and written as the one that it is."""
        self.either, self._seen = either, self._version + either.version

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
        written: list[tuple[Value, SSAValue]] = [(self, new)]
        at = self
        at._may_be_written()
        while (view := at.part_of) is not None:
            new = view.put(view.base.value, new)
            at = view.base
            at._may_be_written()
            written.append((at, new))
        if at.either is not None:
            at.either.write(new)
        at._version += 1
        for value, after in written:
            value._value, value._seen = after, at.version

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
        self._root = store if store._root is None else store._root
        self._value, self._seen = get(store.value), self.version

    def _may_be_written(self) -> None:
        """Notes who writes. Raises LeakError, NotSupportedError."""
        old = self.value
        others = [*(reference() for reference, _ in self.shares), *(x for x, _ in self.shows)]
        if any(map(_is_seen, others)):
            raise located(NotSupportedError, ALIASED.format("is written"), remedy=COPY)
        self.written_at = self.written_at or user_site()
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
        return dtype_of(tensor_of(self.known).element_type)


def _is_seen(value: Value | None) -> bool:
    """Whether the function can still see the array under another name."""
    from mlc.frontend.staging.journal import reachable

    if value is None:
        return False
    owner = value.owner
    return any(x.may_show(value) for x in owner.walked) or value in owner.inputs or reachable(value)


def lift_size(size: SymbolicDim | Dim) -> Tracer:
    """A size as a traced number, with the weak dtype of a Python int."""
    from mlc.frontend.trace.tracer import Tracer

    dim = size if isinstance(size, Dim) else size.dim
    trace = here()
    return Tracer(trace, trace.emit(SizeOp, dims=(dim,)), weak=True)
