"""
Tracing: a Python function runs on `Tracer`s, each operation on them becomes a tensor-level op.

`Trace` is the program being built; what stands for an array in it is in value.py. The names NumPy
users know (`x.T`, `x + y`, `x[1:]`) are in tracer.py, on `Tracer`.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Generator, Hashable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, IntegerAttr, ModuleOp, StringAttr, i64
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.dims import Dim, DimsAttr, Shape, tensor_type
from mlc.dialects.dtypes import DType, numpy_dtype
from mlc.dialects.errors import DTypeError, MlcError
from mlc.dialects.program import ASSUME, DONATED, RESULTS, UNIT, unrolled_attributes
from mlc.dialects.tensor.calls import FunctionUse, used_by
from mlc.dialects.tensor.create import SizeOp
from mlc.dialects.tensor.op import OpBuilder, Tensor, TensorOp
from mlc.frontend.errors import (
    BESIDE,
    OUTSIDE,
    LeakError,
    NotSupportedError,
    located,
    relocated,
)
from mlc.frontend.trace.bound import BoundSizes
from mlc.frontend.trace.draws import Draws
from mlc.frontend.trace.paths import Guard, HiddenInput, Path
from mlc.frontend.trace.python_ints import PythonInts
from mlc.frontend.trace.source import Site, user_site
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from mlc.frontend.staging.journal import Journal
    from mlc.frontend.trace.symbolic import SymbolicDim
    from mlc.frontend.trace.tracer import Tracer
    from mlc.frontend.trace.value import Value

Array = NDArray[Any]


@dataclass
class Assumption:
    """`dim >= 0` must hold for the traced program to mean what NumPy means."""

    dim: Dim
    because: str
    decided: bool = False  # by sizes of one call: for others the function does something else


RESULT_NAMES = "__mlc_results__"
"""Of a function: what its first results are called."""


def names_of(function: Callable[..., Any]) -> Sequence[str]:
    """The names of a function's first results, where whoever made it gave them."""
    return getattr(function, RESULT_NAMES, ())


class Trace:
    """A function under construction: one block of ops, with its arguments."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.block = Block()
        self.scopes: list[Block] = [self.block]
        self.inputs: set[Value] = set()  # arrays that the caller sees
        self.journals: list[Journal] = []  # of the bodies being traced, innermost last
        self.walked: list[Value] = []  # over whose elements loops go, which are read at each trip
        self.loops, self.on_gpu = 0, False  # of the user's, that run; what the program is for
        self.private: list[FuncOp] = []  # functions of the module that others name
        self.alike: dict[Hashable, list[FuncOp]] = {}  # those of them that were traced here
        self.imported: dict[FuncOp, FuncOp] = {}  # of other modules, by what they were
        self.long_loops: set[CodeType] = set()  # bodies that were better as one loop
        self.tried: dict[CodeType, Any] = {}  # what a trip of a loop's body is
        self.changed_in: dict[CodeType, Sequence[Any]] = {}  # what trips of a loop's body carried
        self.trial: Any = None  # a trip that is tried, which counts its ops
        self.facts: tuple[Any, ...] = ()  # what the branches being traced know of options
        self.meaning: dict[SSAValue, Any] = {}  # of a bool that is known by these: facts
        # objects that are changed: what they held, what the function sees of it, the way there
        self.stores: dict[int, tuple[Any, Any, dict[Any, Any], Path]] = {}
        self.receiver: object = None  # whose method is compiled
        self.checks = False  # whether an op may end a call with an error
        # errors in which tracing has ended, where a call may do something before: class, place
        self.fatal: frozenset[tuple[type[Exception], Site]] = frozenset()
        self.states: set[Value] = set()  # of what a call does beside its results
        self.passing: list[Block] = []  # blocks that give these on
        self.argument_names, self.argument_layouts = list[str](), list[str]()
        self.argument_units, self.symbols = list[str](), list[str]()
        self.limits: dict[str, Dim] = {}  # symbols of `mlc.bind`, with what they are at most
        self.room: Any = None  # for sizes that nothing bounds
        self.bound = BoundSizes(self.scopes, self.symbols, self.limits)
        self.holders: set[type] = set()  # kinds of what stands in lists and dicts for what is there
        self.counted: list[Any] = []  # masks whose true elements have a symbol
        self.counts: list[tuple[SSAValue, Dim, Operation, Dim]] = []  # numbers, ends, and symbols
        self.rooms: list[tuple[SSAValue, SSAValue, Dim]] = []  # numbers of no bound, and symbols
        self.naturals: list[tuple[Dim, SSAValue, Dim]] = []  # max(dim, 0), and its symbol
        self.hidden, self.hidden_arrays = list[HiddenInput](), list[Array]()
        self.pythons: dict[SSAValue, int] = {}  # what Python's integers of operators are at most
        self.guards: dict[Hashable, Guard] = {}
        self.assumptions: list[Assumption] = []
        self.arrays: dict[int, Tracer] = {}  # hidden inputs by the array's id
        self.keep: list[object] = []  # what the ids above belong to
        self.literal = -1  # arrays of so many elements or fewer are constants of the program
        self.ints = PythonInts()
        self.made: list[weakref.ref[Value]] = []
        self.unrolled: dict[str, str] = {}  # why loops, by file:line, were traced trip by trip
        self.staging: object = None
        self.functions: list[FunctionType] = []  # of the user, that run, innermost last
        self.effects: object = None  # what a call does beside its results
        self.draws = Draws()
        self.derivatives = 0  # how many derivatives are being taken of what is traced
        self.examples = 0  # how many times what is traced is to be run for many examples
        self.twins: list[tuple[Any, tuple[Any, ...]]] = []  # what may be one of others
        self.marks: Any = None  # who reads and writes which elements
        self.stricter = False  # whether a call may end with an error that Python has not
        self.at_once = 0  # loops whose trips run at once, around what is traced
        self.rules = self.loops_unrolled = 0  # of the user's, being traced; traced trip by trip
        self.numbers: dict[Hashable, SSAValue] = {}  # constants that are in the program already
        self._last: tuple[Site, SSAValue] | None = None
        self.b = OpBuilder(self.insert)

    @property
    def sizes_of_trips(self) -> bool:
        """
        Whether sizes may be numbers of trips: those of derivatives and batches must be known, and
        GPUs have none that a program computes.
        """
        return not (self.on_gpu or self.examples or self.derivatives)

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
        self.checks = self.checks or (isinstance(op, TensorOp) and op.may_fail)
        self.scopes[-1].add_op(op)
        if self.trial is not None:
            self.trial.add(op)

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
        self,
        name: str,
        dtype: DType,
        shape: Shape,
        *,
        layout: str = "c",
        hint: str | None = None,
        unit: str = "",
    ) -> SSAValue:
        """A new argument of the function, after those there are."""
        value = self.block.insert_arg(tensor_type(dtype.ir, shape), len(self.block.args))
        hint = hint or name
        value.name_hint = hint if hint.isidentifier() else None
        self.argument_names.append(name)
        self.argument_layouts.append(layout)
        self.argument_units.append(unit)
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

    def assume(self, dim: Dim, because: str, *, decided: bool = False) -> None:
        """Rely on dim >= 0; checked at every call before the compiled code runs."""
        if not self.limits.keys().isdisjoint(dim.symbols()):
            if self.bound.ranges.is_natural(dim):
                return
            message = f"{because}: whether there are enough is known only when the program runs."
            raise located(NotSupportedError, message)
        if dim.constant is None and all(a.dim != dim for a in self.assumptions):
            self.assumptions.append(Assumption(dim, because, decided))

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
        """A loop runs, over the elements of arrays if of any."""
        before = self.walked
        self.walked = [*before, *arrays]
        self.loops += 1
        try:
            yield
        finally:
            self.walked = before
            self.loops -= 1

    @contextmanager
    def trips_at_once(self) -> Generator[None]:
        """Around the body of a loop whose trips run at once."""
        self.at_once += 1
        try:
            yield
        finally:
            self.at_once -= 1

    def note_part(self, x: Value, key: object, *, writes: bool) -> None:
        """x[key] is read or written; by what notes that, it is not."""
        if (marks := self.marks) is None:
            return
        self.marks = None
        try:
            marks.notes(x, key, writes=writes)
        finally:
            self.marks = marks

    def visible(self, value: SSAValue) -> bool:
        """Whether the value's block is one of those being built."""
        return block_of(value) in self.scopes

    def block_of(self, use: FunctionUse) -> Block:
        """That of the function which an op of the program names."""
        return next(f for f in self.private if f.sym_name.data == use.callee_name).body.block

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
        self.changed_in.clear()  # what it names may lead to functions whose variables lead here
        self.staging = self.effects = None

    def finish(
        self,
        results: Sequence[SSAValue],
        *,
        numerics: str = "standard",
        donated: Mapping[int, int] | None = None,
        names: Sequence[str] = (),
    ) -> ModuleOp:
        """
        The module with the finished function; `donated`: result that replaces an argument;
        `names`: of results, where they are of all.
        """
        places = donated or {}
        self.block.add_op(ReturnOp(*results))
        inputs = [argument.type for argument in self.block.args]
        said = zip(self.argument_names, self.argument_layouts, self.argument_units, strict=True)
        attributes = [_argument_attributes(*x, places.get(k)) for k, x in enumerate(said)]
        function = FuncOp(
            self.name,
            (inputs, [result.type for result in results]),
            Region(self.block),
            arg_attrs=ArrayAttr(attributes),
        )
        if self.symbols:
            function.attributes["mlc.symbols"] = ArrayAttr([StringAttr(s) for s in self.symbols])
        if len(names) == len(results) > 0:
            function.attributes[RESULTS] = ArrayAttr([StringAttr(name) for name in names])
        if self.assumptions:
            function.attributes[ASSUME] = DimsAttr(tuple(a.dim for a in self.assumptions))
        function.attributes.update(unrolled_attributes(self.unrolled))
        used = used_by(function, self.private)
        return ModuleOp([function, *used], {"mlc.numerics": StringAttr(numerics)})


def _argument_attributes(name: str, layout: str, unit: str, donated: int | None) -> DictionaryAttr:
    data: dict[str, Attribute] = {"mlc.name": StringAttr(name)}
    if unit:
        data[UNIT] = StringAttr(unit)
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


def lift_size(size: SymbolicDim | Dim) -> Tracer:
    """A size as a traced number, with the weak dtype of a Python int."""
    from mlc.frontend.trace.tracer import Tracer

    dim = size if isinstance(size, Dim) else size.dim
    trace = here()
    return Tracer(trace, trace.emit(SizeOp, dims=(dim,)), weak=True)
