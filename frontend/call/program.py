"""One traced program: a function's module for given shapes, and how values go in and out."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from types import FunctionType
from typing import Any, Literal

from numpy.typing import NDArray
from xdsl.dialects.builtin import LocationAttr, ModuleOp, UnknownLoc
from xdsl.ir import SSAValue

from mlc.cached_property import cached_property
from mlc.dialects.dims import Shape
from mlc.dialects.errors import DTypeError, MlcError
from mlc.dialects.program import entry_function
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.frontend.call.arguments import Call, Parameters, addressable
from mlc.frontend.call.counted import room, with_sizes
from mlc.frontend.call.donation import Donations, donated_leaves, matched
from mlc.frontend.call.remembered import guard_apart
from mlc.frontend.call.traced_arguments import rebuilt_arguments, spec_parts, traced_arguments
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.values import lift
from mlc.frontend.staging.between import look_no_more
from mlc.frontend.staging.exits import Fatal, fatal_error, value_of
from mlc.frontend.staging.joins import RAISED, Undecided
from mlc.frontend.staging.largest import limited
from mlc.frontend.staging.variants import narrowed
from mlc.frontend.trace import access
from mlc.frontend.trace.captures import is_constant, is_iterator, used_up
from mlc.frontend.trace.containers import Leaf as StructureLeaf
from mlc.frontend.trace.containers import (
    Structure,
    flatten,
    unflatten,
)
from mlc.frontend.trace.deferred import Chosen, Found, recipe_of, with_choices
from mlc.frontend.trace.effects import Outcome, catches, concluded, may_begin_again
from mlc.frontend.trace.kinds import is_array, is_one_of
from mlc.frontend.trace.leaks import check_released, errors_released
from mlc.frontend.trace.objects import comes_from_outside, drained
from mlc.frontend.trace.paths import Guard, HiddenInput, Path
from mlc.frontend.trace.program_sizes import Room
from mlc.frontend.trace.size_inputs import AsSize
from mlc.frontend.trace.source import Site, definition_of
from mlc.frontend.trace.stored import Stored, stored
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import Assumption, Trace, names_of, tracing
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.trace.transform import Again
from mlc.lazy_dataclass import dataclass
from mlc.runtime.returned import Axes

MISS = object()
"""What an entry gives, and a route, when the program does not serve the arguments."""

ResultKind = Literal["array", "number", "constant", "made"]


@dataclass(frozen=True)
class ResultLeaf:
    """
    A leaf of what the function returns: a result of the program, or a Python value. "made": what a
    recipe makes of several results.
    """

    kind: ResultKind
    value: Any = None
    count: int = 1  # results that it takes
    kept: tuple[Path, ...] = ()  # to objects among the arguments that are in it

    @property
    def takes(self) -> int:
        """How many results of the program it is made of."""
        return 0 if self.kind == "constant" else self.count


@dataclass(frozen=True)
class Ints:
    """Ints of Python's from outside."""

    ways: Mapping[str, Path]  # to those that are sizes, by symbol
    limits: Mapping[str, int]  # how large those are that the program takes, by name or symbol
    is_outside: bool  # whether those for which it was traced are larger

    @staticmethod
    def of(trace: Trace) -> Ints:
        """Those of a program that is traced. Raises SpecialiseSignal."""
        limits = limited(trace)
        look_no_more(trace)
        values = {name: value for name, (_, value) in trace.ints.known.items()}
        values |= {name: trace.ints.sizes[name] for name in trace.ints.ways}
        outside = any(abs(values.get(name, 0)) > most for name, most in limits.items())
        return Ints(dict(trace.ints.ways), limits, outside)


@dataclass(frozen=True, kw_only=True)
class Program:
    """A traced function."""

    name: str
    module: ModuleOp
    signature: EntrySignature
    inputs: tuple[int, ...]  # the argument leaf of each explicit input
    hidden: tuple[HiddenInput, ...]
    # dtype, shape and layout of each; None of one whose size is a symbol: room, or a number
    hidden_types: tuple[tuple[object, ...] | None, ...]
    guards: tuple[Guard, ...]
    assumptions: tuple[Assumption, ...]
    ints: Ints
    structure: Structure
    results: tuple[ResultLeaf, ...]
    written: tuple[int, ...]  # argument leaves that the function writes to: the last results
    written_at: Mapping[int, Site]  # where it does so, by argument leaf
    in_place: Mapping[int, int]  # argument leaf whose memory a result takes, by result
    stores: (
        Stored | None
    )  # what it changes of its arguments, from results before those of `outcome`
    outcome: Outcome | None  # what a call does beside its results, from results before `written`
    unused: tuple[str, ...]  # donated arguments whose place no result takes
    counted: Mapping[int, Axes]  # results whose sizes the program computes: the last ones
    room: Room | None  # for sizes that nothing bounds
    may_run_as_python: bool  # a call that has ended with an error, as if it had not begun
    trace_s: float

    @property
    def catches(self) -> bool:
        """Whether Python runs a call that ends with an error."""
        return self.outcome is not None and self.outcome.catches

    @property
    def tells(self) -> bool:
        """Whether it prints, or calls what else is told."""
        return self.outcome is not None and bool(self.outcome.calls)

    @property
    def direct_result(self) -> bool:
        """Whether the entry's own result is what the function returns."""
        return self.signature.returns_tuple is None

    @cached_property
    def needs_nothing_from_outside(self) -> bool:
        """Whether the arguments alone decide what the program computes."""
        guarded = any(guard.kind != "module" for guard in self.guards)
        return not (self.hidden or guarded or self.assumptions)

    def assumptions_hold(self, sizes: Mapping[str, int], values: Sequence[object]) -> bool:
        """Whether the symbols' values are such as tracing relied on."""
        if self.ints.ways and self.assumptions:
            try:
                read = {symbol: path.read(values) for symbol, path in self.ints.ways.items()}
            except (LookupError, AttributeError, ValueError, TypeError):
                return False
            if any(type(number) is not int for number in read.values()):
                return False
            sizes = {**sizes, **read}
        return all(
            a.dim.evaluate(sizes) >= 0 for a in self.assumptions if a.dim.symbols() <= sizes.keys()
        )

    def fits_outside(self, values: Sequence[object]) -> bool:
        """Whether guarded values and the types of captured arrays are those of tracing."""
        return all(g.holds(values) for g in self.guards) and (
            not self.hidden or self.read_hidden(values) is not None
        )

    def read_hidden(self, values: Sequence[object]) -> list[NDArray[Any]] | None:
        """The captured arrays now; None where one has another type than it had."""
        arrays: list[NDArray[Any]] = []
        for source, expected in zip(self.hidden, self.hidden_types, strict=True):
            try:
                array = source.read(values)
            except (LookupError, AttributeError, ValueError, TypeError):
                return None
            if not is_array(array) or (expected is not None and _hidden_type(array) != expected):
                return None
            arrays.append(addressable(array))
        return arrays

    def held(self, values: Sequence[object]) -> list[Any]:
        """The objects among the arguments that are results, before anything is stored to them."""
        return [path.read(values) for leaf in self.results for path in leaf.kept]

    def returned(self, values: Sequence[Any], held: Sequence[Any]) -> Any:
        """The user's result from the program's, and from `held`."""
        rest, objects = iter(values), iter(held)
        made: dict[int, Any] = {}
        leaves = [_returned_leaf(leaf, rest, objects, made) for leaf in self.results]
        return unflatten(self.structure, leaves)


def _returned_leaf(leaf: ResultLeaf, values: Any, held: Any, made: dict[int, Any]) -> Any:
    if leaf.kind == "constant":
        return leaf.value
    if leaf.kind == "made":
        objects = [next(held) for _ in leaf.kept]
        return leaf.value(Found((next(values) for _ in range(leaf.count)), objects, made))
    value = next(values)
    return value.item() if leaf.kind == "number" else value


def _hidden_types(trace: Trace) -> tuple[tuple[object, ...] | None, ...]:
    dims = [trace.arrays[id(x)].dims for x in trace.hidden_arrays]
    return tuple(
        _hidden_type(x) if all(d.constant is not None for d in shape) else None
        for x, shape in zip(trace.hidden_arrays, dims, strict=True)
    )


def _hidden_type(array: NDArray[Any]) -> tuple[object, ...]:
    return (array.dtype.str, array.shape, bool(array.flags.c_contiguous))


@dataclass(frozen=True, kw_only=True)
class Tracing:
    """How a call is traced."""

    numerics: str
    donated: Sequence[str]
    varying: Mapping[Hashable, str]  # numbers from outside that are inputs
    as_sizes: Mapping[Hashable, AsSize]  # those that are sizes
    limits: Mapping[str, int]  # how large others are at most
    sizes: Mapping[str, int]  # what the symbols are in this call, where that is known
    guarded: bool  # calls ask the program's guards
    fatal: frozenset[Fatal] = frozenset()  # errors that tracing has ended with: it raises them
    carries: bool = False  # it draws random numbers itself

    def begin(self, name: str, parameters: Parameters) -> Trace:
        """A trace that has yet to begin."""
        trace = Trace(name if name.isidentifier() else "function")
        trace.on_gpu, trace.fatal = parameters.on_gpu, self.fatal
        trace.draws.carries = self.carries
        ints = trace.ints
        ints.varying, ints.as_sizes, ints.limits = dict(self.varying), self.as_sizes, self.limits
        ints.sizes, ints.guarded = self.sizes, self.guarded
        return trace


def trace_program(
    function: Callable[..., Any],
    name: str,
    parameters: Parameters,
    call: Call,
    shapes: Sequence[Shape],
    how: Tracing,
) -> Program:
    """The program of one call, whose array leaves have the given (perhaps symbolic) shapes."""
    begin = time.perf_counter()
    trace = how.begin(name, parameters)
    made, site = trace.made, definition_of(function)
    try:
        with tracing(trace), errors_released(trace):
            program = _traced(trace, function, parameters, call, shapes, how)
    except Again:
        program = None
    except Exception as error:
        program, found = None, fatal_error(error)
        open_ = (
            trace.symbols or trace.ints.varying or (trace.limits and type(error) is not DTypeError)
        )
        refused = (isinstance(error, MlcError) and open_) or trace.ints.ways
        if found is None or found in how.fatal or refused:
            raise  # one for these sizes and numbers alone may not; what is counted is of one dtype
        how = replace(how, fatal=how.fatal | {found})
    how = replace(how, carries=trace.draws.carries)
    del trace
    if program is None:
        return trace_program(function, name, parameters, call, shapes, how)
    check_released(made, site)
    return replace(program, trace_s=time.perf_counter() - begin)


def _traced(
    trace: Trace,
    function: Callable[..., Any],
    parameters: Parameters,
    call: Call,
    shapes: Sequence[Shape],
    how: Tracing,
) -> Program:
    """The program, while its trace is the current one."""
    leaves, specs, inputs = traced_arguments(trace, call, shapes, apart=bool(how.donated))
    values = rebuilt_arguments(trace, call, leaves, parameters, function)
    given_dims = {k: leaves[k].dims for k in inputs}
    returned, structure = flatten(_returned(function, parameters, values))
    results, ssa = _results(trace, returned)
    _check_shapes(call, leaves, given_dims)
    groups = donated_leaves(call, () if catches(trace) else how.donated, parameters.names)
    given = _donations(call, leaves, groups, structure, results, ssa)
    written = tuple(k for k in _written(call, leaves, inputs) if k not in given.result_of)
    ints = Ints.of(trace)  # before what the program looks at is collected
    stores = stored(trace, ssa)
    outcome = concluded(trace, ssa, [leaves[k].value for k in written])
    in_place = {number: k for k, number in given.result_of.items()} | {
        number: k
        for number, k in enumerate(written, len(ssa) - len(written))
        if call.leaves[k].layout == "c" and not may_begin_again(trace)
    }
    places = {inputs.index(k): number for number, k in in_place.items()}
    guard_apart(trace)
    counted = with_sizes(trace, ssa)
    module = trace.finish(ssa, numerics=how.numerics, donated=places, names=names_of(function))
    entry_function(module).location = _location(function)
    plain = not (written or counted or outcome or stores) and _is_plain(structure, results)
    signature = _entry_signature(trace, specs, ssa, places, None if plain else True)
    return Program(
        name=trace.name,
        module=module,
        signature=signature,
        inputs=tuple(inputs),
        hidden=tuple(trace.hidden),
        hidden_types=_hidden_types(trace),
        guards=tuple(trace.guards.values()),
        assumptions=tuple(trace.assumptions),
        ints=ints,
        structure=structure,
        results=tuple(results),
        written=written,
        written_at=_written_at(leaves, inputs),
        in_place=in_place,
        outcome=outcome,
        stores=stores,
        unused=tuple(call.leaves[k].name for k in given.unused if k not in written),
        counted=counted,
        room=trace.room,
        may_run_as_python=not (groups or trace.stricter) and _may_run_as_python(function, call),
        trace_s=0.0,
    )


def _may_run_as_python(function: Callable[..., Any], call: Call) -> bool:
    """Whether Python computes the same: not a derivative or a grid's kernel, nor on a GPU."""
    here = all(leaf.kind != "array" or is_array(leaf.value) for leaf in call.leaves)
    inner: object = getattr(function, "__func__", function)
    maker: Any = inner if isinstance(inner, FunctionType) else type(inner)
    return here and not (maker.__module__ or "").startswith("mlc.")


def _written(call: Call, leaves: Sequence[Any], inputs: Sequence[int]) -> Iterator[int]:
    """The argument leaves that are written: arrays, of no axes too."""
    arrays = (k for k in inputs if leaves[k].ndim or is_array(call.leaves[k].given))
    return (k for k in arrays if leaves[k].version)


def _written_at(leaves: Sequence[Any], inputs: Sequence[int]) -> dict[int, Site]:
    """Where argument leaves are written."""
    places = {k: leaves[k].written_at for k in inputs if leaves[k].version}
    return {k: site for k, site in places.items() if site is not None}


def _location(function: Callable[..., Any]) -> LocationAttr:
    """Where the function is defined."""
    site = definition_of(function)
    return UnknownLoc() if site is None else site.location


def _returned(function: Callable[..., Any], parameters: Parameters, values: Sequence[Any]) -> Any:
    """What the function returns; None where it surely raises an error."""

    def run(*args: Any, **kwargs: Any) -> Any:
        return access.call(function, args, kwargs)

    found = value_of(lambda: drained(parameters.invoke(run, values)))
    return None if found is RAISED else with_choices(narrowed(found))


def _check_shapes(call: Call, leaves: Sequence[Any], given: Mapping[int, Shape]) -> None:
    """Refuses ``x.shape = …`` of an argument: the caller's array would keep its shape."""
    for k, dims in given.items():
        if leaves[k].dims != dims:
            raise located(
                NotSupportedError,
                f"the shape of the argument {call.leaves[k].name} is assigned to; the caller's"
                " array would keep its own.",
                remedy="Use x = x.reshape(…), which is another array.",
            )


def _entry_signature(
    trace: Trace,
    specs: Sequence[ArgSpec],
    results: Sequence[SSAValue],
    places: Mapping[int, int],
    returns_tuple: bool | None,
) -> EntrySignature:
    """`specs`: of the explicit inputs; `places`: the result that replaces an argument."""
    hidden = [ArgSpec("array", *spec_parts(trace.arrays[id(a)])) for a in trace.hidden_arrays]
    alias_of = {result: argument for argument, result in places.items()}
    return EntrySignature(
        args=tuple(
            ArgSpec(s.kind, s.dtype, s.dims, "general" if layout == "general" else "c", k in places)
            for k, (s, layout) in enumerate(
                zip([*specs, *hidden], trace.argument_layouts, strict=True)
            )
        ),
        results=tuple(
            ResultSpec(dtype, room(trace, dims), alias_of.get(k))
            for k, (dtype, dims) in enumerate(spec_parts(Tracer(trace, x)) for x in results)
        ),
        symbols=tuple(trace.symbols),
        returns_tuple=returns_tuple,
        assumed=tuple(assumption.dim for assumption in trace.assumptions),
    )


def _donations(
    call: Call,
    leaves: Sequence[Any],
    groups: Sequence[Sequence[int]],
    structure: Structure,
    results: Sequence[ResultLeaf],
    ssa: Sequence[SSAValue],
) -> Donations:
    """Which results, by their number in the program, take the place of donated arguments."""
    if not groups:
        return Donations()
    places = accumulate((leaf.takes for leaf in results), initial=0)
    numbers = [n if leaf.takes else None for leaf, n in zip(results, places, strict=False)]
    arrays = [n if leaf.kind == "array" else None for n, leaf in zip(numbers, results, strict=True)]
    donated = [k for group in groups for k in group if call.leaves[k].kind in ("array", "spec")]
    kept: dict[int, int] = {}
    for k in donated:
        same = (n for n, r in enumerate(arrays) if r is not None and ssa[r] is leaves[k].value)
        if (place := next((n for n in same if n not in kept.values()), None)) is not None:
            kept[k] = place
    kinds = [None if n is None else ssa[n].type for n in arrays]
    types = {k: leaves[k].value.type for k in donated}
    found = matched(call, groups, types, structure, kinds, kept)
    at = {k: numbers[n] for k, n in found.result_of.items()}
    return Donations({k: n for k, n in at.items() if n is not None}, found.unused)


def _is_plain(structure: Structure, results: Sequence[ResultLeaf]) -> bool:
    """One array, or a tuple of several: what the native entry returns by itself."""
    if any(leaf.kind != "array" for leaf in results):
        return False
    if isinstance(structure, StructureLeaf):
        return True
    flat = all(isinstance(child, StructureLeaf) for child in structure.children)
    return structure.kind is tuple and flat and len(results) > 1


def _results(trace: Trace, returned: Sequence[Any]) -> tuple[list[ResultLeaf], list[Any]]:
    leaves: list[ResultLeaf] = []
    values: list[Any] = []
    for value in returned:
        whole = isinstance(value, Tracer) and value.whole is not None
        if not whole and (isinstance(value, Tracer | SymbolicDim) or is_array(value)):
            tracer = lift(value)
            leaves.append(ResultLeaf("number" if tracer.weak and not tracer.ndim else "array"))
            values.append(tracer.value)
        elif isinstance(value, Undecided):
            value.fail()
        elif is_iterator(value):
            raise used_up("the result")
        elif is_one_of(value, (FunctionType, partial)) and not comes_from_outside(value):
            message = (
                f"{trace.name} returns a function that it makes, which may hold traced values;"
                " expected arrays, numbers, and containers and objects of them."
            )
            remedy = "Return what the function needs, and make it where the result arrives."
            raise located(NotSupportedError, message, remedy=remedy)
        elif is_constant(value):
            leaves.append(ResultLeaf("constant", value))
        else:
            recipe = recipe_of(value.value if isinstance(value, Chosen) else value)
            count = len(recipe.leaves)
            leaves.append(ResultLeaf("made", recipe.make, count, recipe.kept))
            values += [x.value for x in recipe.leaves]
    return leaves, values
