# pyright: basic
"""A module's functions, traced: each op as operations on arrays of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from mlc.dialects.errors import MlcError
from mlc.frontend import random
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.stablehlo import (
    bits,
    collectives,
    dynamic,
    library,
    norms,
    quantised,
    rng,
    shapes,
    sizes,
    sorting,
    windows,
)
from mlc.frontend.importers.stablehlo.elementwise import (
    ROWS,
    bits_of,
    compare,
    converted,
    reduced_precision,
)
from mlc.frontend.importers.stablehlo.program import Function, Module, Op, Region, TensorKind
from mlc.frontend.importers.stablehlo.quantised import is_quantised
from mlc.frontend.importers.stablehlo.sizes import Known
from mlc.frontend.importers.stablehlo.text import NARROW, StableHloError, numpy_of
from mlc.frontend.trace.called import called
from mlc.frontend.trace.constant import written
from mlc.frontend.trace.control import cond
from mlc.frontend.trace.loops import while_loop

Array = Any
Results = tuple[Array, ...]
Around = Mapping[str, Array]
"""Values that stand around a region, by name."""


_MEANINGLESS = (ArithmeticError, AssertionError, AttributeError, LookupError, TypeError, ValueError)
"""What an op raises whose text makes no sense."""


class Run:
    """
    One walk over a module. `checked`: what `check.…` calls compared, in order. `sizes`: by the
    identity of a value that is kept, its elements where they are integers that are known. `key`:
    of the numbers that the function draws.
    """

    def __init__(self, module: Module, key: Array = None) -> None:
        self.module = module
        self.drawing = rng.drawing(module)
        self._key, self._keys = key, 0
        self.checked: list[tuple[str, Results]] = []
        self.sizes: dict[int, tuple[Array, Known]] = {}

    def known(self, value: Array) -> Known | None:
        """Its elements, where it is an array of integers that are known."""
        return self.sizes.get(id(value), (None, None))[1]

    @contextmanager
    def keyed(self, key: Array) -> Iterator[None]:
        """Around ops whose keys are made of another one."""
        before = self._key, self._keys
        self._key, self._keys = key, 0
        try:
            yield
        finally:
            self._key, self._keys = before

    def new_key(self, op: Op) -> Array:
        """A key of its own for an op; NotSupportedError in what is a function of elements."""
        if self._key is None:
            raise NotSupportedError(
                f"line {op.line}: rng in a function of single elements, which is computed of all"
                " at once"
            )
        self._keys += 1
        return random.fold_in(self._key, self._keys)

    def function(self, function: Function, arguments: Sequence[Array]) -> Results:
        """The function's results."""
        return self.region(function.region, arguments, {})

    def region(self, region: Region, arguments: Sequence[Array], around: Around) -> Results:
        """What a region ends with."""
        values: dict[str, Array] = {**around, **dict(zip(region.arguments, arguments, strict=True))}
        for op in region.ops:
            operands = [values[name] for name in op.operands]
            if op.name == "return":
                return tuple(operands)
            try:
                _check_axes(op, operands)
                found = self.op(op, operands, values)
                for name, kind, value in zip(op.results, op.kinds, found, strict=True):
                    values[name] = _fitting(kind, value)
            except _MEANINGLESS as error:
                if isinstance(error, MlcError) and (
                    op.name == "custom_call"
                    or isinstance(error, NotSupportedError | StableHloError)
                ):
                    raise
                why = str(error).partition("\n")[0]
                text = f"line {op.line}: {op.name} of these operands and attributes: {why}"
                raise StableHloError(text) from error
            facts = [self.known(x) for x in operands]
            elements = sizes.known(op, facts, [getattr(x, "dims", ()) for x in operands])
            if elements is not None:
                result = values[op.results[0]]
                self.sizes[id(result)] = result, elements
        return ()

    def op(self, op: Op, operands: Sequence[Array], values: Around) -> Sequence[Array]:
        """The results of one op."""
        if op.name not in quantised.MOVING and any(map(is_quantised, (*op.takes, *op.kinds))):
            return quantised.computed(op, operands, lambda plain, xs: self.op(plain, xs, values))
        row = ROWS.get(op.name)
        if row is not None:
            return (row(*_broadcast(op, operands)),)
        simple = _SIMPLE.get(op.name)
        if simple is not None:
            return (simple(op, *operands),)
        special = _SPECIAL.get(op.name)
        if special is None:
            raise NotSupportedError(unsupported([op]))
        return special(self, op, operands, values)

    def applied(self, region: Region, values: Around) -> Callable[..., Results]:
        """A region as a function of arrays, of whose elements it says what becomes of them."""

        def apply(*arguments: Array) -> Results:
            with self.keyed(None):
                return self.region(region, arguments, values)

        return apply

    # ops with regions, and calls ------------------------------------------------------------------

    def composite(self, op: Op, operands: Sequence[Array], _: Around) -> Sequence[Array]:
        """`composite`: the function that says what it means."""
        return self.function(self.module.functions[op.get("decomposition")], operands)

    def call(self, op: Op, operands: Sequence[Array], _: Around) -> Sequence[Array]:
        """A function of the module, which is one of the program's."""
        function = self.module.functions[op.get("callee")]
        key = (self.new_key(op),) if function.name in self.drawing else ()
        arrays = all(isinstance(x, TensorKind) for x in (*function.inputs, *op.kinds))
        if not arrays or any(self.known(x) is not None for x in operands) or _checks(function):
            with self.keyed(*key or (self._key,)):
                return self.function(function, operands)
        facts: list[Known | None] = []
        before = set(self.sizes)

        def run(*arguments: Array) -> Results:
            given = arguments[: len(operands)]
            with self.keyed(*arguments[len(operands) :] or (None,)):
                found = self.function(function, given)
            facts[:] = map(self.known, found)
            for key in self.sizes.keys() - before:
                del self.sizes[key]
            return found

        results = called(function.name, run, *operands, *key)
        for result, elements in zip(results, facts, strict=True):
            if elements is not None:
                self.sizes[id(result)] = result, elements
        return results

    def custom_call(self, op: Op, operands: Sequence[Array], values: Around) -> Sequence[Array]:
        """Checks of StableHLO's own tests, and calls that change nothing."""
        name = op.get("call_target_name")
        if name.startswith("check."):
            self.checked.append((name, tuple(operands)))
            return ()
        if name == "stablehlo.dynamic_reduce_window":
            plain, count = dynamic.reduce_window(op, self.module, self.known, operands)
            return self.reduce_window(plain, operands[:count], values)
        if name == "ApproxTopK":
            return self.top(op, operands, values)
        if name in library.ROUTINES:
            return library.ROUTINES[name](op, *operands)
        if name == "shape_assertion":
            asserted, *said = (self.known(x) for x in operands)
            if asserted is None:
                raise NotSupportedError(f"line {op.line}: an assertion on what no sizes say")
            sizes.checked(asserted[()], str(op.get("error_message", "shape assertion")), said)
            return ()
        if (plain := _NAMED.get(name)) is not None:
            said = {**op.attributes, **(op.get("mhlo.attributes") or {})}
            return self.op(replace(op, name=plain, attributes=said), operands, values)
        if name in _NOTHING:
            return operands
        raise NotSupportedError(unsupported([op]))

    def loop(self, op: Op, operands: Sequence[Array], values: Around) -> Sequence[Array]:
        """`while`."""
        condition, body = op.regions
        outside, count = dict(values), len(operands)
        drawing = any(rng.draws(region, self.drawing) for region in op.regions)

        def goes_on(state: Results) -> Array:
            with self.keyed(self._part_of_key(state[count:], 0)):
                return self.region(condition, state[:count], outside)[0]

        def trip(state: Results) -> Results:
            with self.keyed(self._part_of_key(state[count:], 1)):
                found = self.region(body, state[:count], outside)
            return *found, *(random.fold_in(key, 2) for key in state[count:])

        start = *operands, *((self.new_key(op),) if drawing else ())
        return while_loop(goes_on, trip, start)[:count]

    def _part_of_key(self, carried: Results, part: int) -> Array:
        """Of the key that a trip is given, if it is: one for its test, or for its body."""
        return random.fold_in(carried[0], part) if carried else None

    def branch(self, op: Op, operands: Sequence[Array], values: Around) -> Sequence[Array]:
        """`if`."""
        chosen = [lambda r=region: self.region(r, (), values) for region in op.regions]
        return cond(operands[0], *chosen)

    def case(self, op: Op, operands: Sequence[Array], values: Around) -> Sequence[Array]:
        """`case`: the last branch for a number that is none."""
        (number,) = operands
        branches = [lambda r=region: self.region(r, (), values) for region in op.regions]

        def chosen(k: int) -> Any:
            if k == len(branches) - 1:
                return branches[k]()
            return cond(number == k, branches[k], lambda: chosen(k + 1))

        return chosen(0)

    def reduce(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`reduce`."""
        return windows.reduce(op, self.applied(op.regions[0], values), *operands)

    def reduce_window(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`reduce_window`."""
        return windows.reduce_window(op, self.applied(op.regions[0], values), *operands)

    def scan(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`chlo.scan`."""
        return windows.scanned(op, self.applied(op.regions[0], values), *operands)

    def select_and_scatter(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`select_and_scatter`."""
        select, combine = (self.applied(region, values) for region in op.regions)
        return (windows.select_and_scatter(op, select, combine, *operands),)

    def sort(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`sort`."""
        return sorting.sort(op, lambda region: self.applied(region, values), *operands)

    def top(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`ApproxTopK`: all that there is in order, of which the first ones are exact."""
        told = op.get("mhlo.backend_config") or {}
        (comparator,) = op.get("called_computations")
        axis = int(told.get("reduction_dim", -1))
        region = self.module.functions[comparator].region
        plain = replace(op, name="sort", attributes={"dimension": axis}, regions=(region,))
        count = shapes.sizes_of(op)[axis]
        found = self.sort(plain, operands[: len(operands) // 2], values)
        return tuple(np.take(x, np.arange(count), axis) for x in found)

    def scatter(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`scatter`."""
        count = len(operands) // 2
        xs, indices, updates = operands[:count], operands[count], operands[count + 1 :]
        how = windows.monoid_of(op.regions[0])
        if count == 1 and how is not None and shapes.scatters(how, xs[0].dtype):
            return (shapes.scatter(op, xs[0], indices, updates[0], how),)
        return shapes.scatter_by(op, self.applied(op.regions[0], values), xs, indices, updates)

    def map_(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`map`."""
        return self.applied(op.regions[0], values)(*operands)

    def rng(self, op: Op, operands: Sequence[Array], _: Around) -> Sequence[Array]:
        """`rng`."""
        shape = dynamic.shape_of(op, self.known, operands[2])
        return (rng.drawn(op, self.new_key(op), operands[0], operands[1], shape),)

    def sized(self, op: Op, operands: Sequence[Array], _: Around) -> Sequence[Array]:
        """Ops whose operands say sizes."""
        return (dynamic.ROWS[op.name](op, self.known, *operands),)

    def as_it_is(self, op: Op, operands: Sequence[Array], _: Around) -> Any:
        """`optimization_barrier`."""
        return operands


def _checks(function: Function) -> bool:
    """Whether a function is a test of StableHLO's, whose values are looked at."""
    names = (str(op.get("call_target_name")) for op in function.region.ops)
    return any(name.startswith("check.") for name in names)


def _broadcast(op: Op, operands: Sequence[Array]) -> Sequence[Array]:
    """Operands of the result's shape: predicates and bounds may be single numbers."""
    whole = next((x.shape for x in operands if x.ndim), None)
    if whole is None or all(x.ndim for x in operands):
        return operands
    return [x if x.ndim else np.broadcast_to(x, whole) for x in operands]


def _fitting(kind: Any, value: Array) -> Array:
    """The result as the text says it is."""
    if not isinstance(kind, TensorKind):
        return value
    dtype = numpy_of(kind)
    # in regions that say what becomes of one element, whole arrays stand for it
    if kind.shape and (
        len(kind.shape) != value.ndim
        or any(
            n is not None and isinstance(m, int) and n != m
            for n, m in zip(kind.shape, value.shape, strict=True)
        )
    ):
        raise ValueError(f"the result has the shape {value.shape}, its type says {kind.shape}")
    value = written(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value
    value = value if value.dtype == dtype else value.astype(dtype)
    return value if kind.dtype not in NARROW else _narrow(value, NARROW[kind.dtype])


_AXES = {
    "sort": "dimension", "concatenate": "dimension", "reverse": "dimensions",
    "reduce": "dimensions", "get_dimension_size": "dimension", "set_dimension_size": "dimension",
    "iota": "iota_dimension", "dynamic_iota": "iota_dimension",
}  # fmt: skip
"""Attributes that say axes of the first operand, or of what has none."""


def _check_axes(op: Op, operands: Sequence[Array]) -> None:
    """ValueError where an attribute says an axis that is not there; one of `sort` may be < 0."""
    name = _AXES.get(op.name, "")
    said, kind = op.get(name), next(iter(op.kinds), None)
    if said is None or not isinstance(kind, TensorKind):
        return
    rank = len(kind.shape) if "iota" in name else operands[0].ndim
    least = -rank if op.name == "sort" else 0
    for axis in np.ravel(np.array(said, object)):
        if not least <= int(axis) < rank:
            raise ValueError(f"{name} = {said}; expected {least} to {rank - 1}")


def _narrow(value: Array, bits: int) -> Array:
    """The lowest bits of each byte, as a number of the same sign or none."""
    by = value.dtype.type(8 - bits)
    return (value << by) >> by


def _constant(op: Op) -> Array:
    return written(np.array(op.get("value")))


_SIMPLE: Mapping[str, Callable[..., Array]] = {
    "constant": _constant,
    "chlo.constant": _constant,
    "compare": compare,
    "convert": lambda op, x: converted(x, op.kinds[0]),
    "bitcast_convert": lambda op, x: bits_of(x, op.kinds[0]),
    "reduce_precision": reduced_precision,
    "reshape": lambda op, x: x.reshape(shapes.sizes_of(op)),
    "broadcast_in_dim": lambda op, x: shapes.broadcast_in_dim(op, x, shapes.sizes_of(op)),
    "broadcast": lambda op, x: np.broadcast_to(x, shapes.sizes_of(op)),
    "iota": lambda op: shapes.iota(op, shapes.sizes_of(op)),
    "slice": shapes.slice_,
    "dynamic_slice": shapes.dynamic_slice,
    "dynamic_update_slice": shapes.dynamic_update_slice,
    "pad": shapes.pad_op,
    "concatenate": shapes.concatenate,
    "reverse": shapes.reverse,
    "transpose": shapes.transpose,
    "gather": shapes.gather,
    "dot_general": windows.dot_general,
    "dot": lambda op, x, y: x @ y,
    "fft": library.fft,
    "cholesky": library.cholesky_op,
    "triangular_solve": library.triangular_solve,
    "convolution": windows.convolution,
    "chlo.constant_like": lambda op, x: np.full_like(x, op.get("value")),
}


def _ranked(op: Op, operands: Sequence[Array]) -> list[Array]:
    """Operands of an op of CHLO that broadcasts: `broadcast_dimensions` are those of the lower."""
    dims = op.get("broadcast_dimensions")
    rank = max(x.ndim for x in operands)
    if dims is None:
        return list(operands)
    return [
        x if x.ndim == rank else shapes.spread(x, [int(d) for d in dims], rank) for x in operands
    ]


_BROADCAST = (
    "add", "and", "atan2", "complex", "divide", "maximum", "minimum", "multiply", "or", "power",
    "remainder", "select", "shift_left", "shift_right_arithmetic", "shift_right_logical",
    "subtract", "xor",
)  # fmt: skip
_BROADCAST_ROWS = {
    **{name: ROWS[name] for name in _BROADCAST},
    **{name: ROWS[f"chlo.{name}"] for name in ("next_after", "polygamma", "zeta")},
}
_SPECIAL: Mapping[str, Callable[..., Sequence[Array]]] = {
    "call": Run.call,
    "custom_call": Run.custom_call,
    "while": Run.loop,
    "if": Run.branch,
    "case": Run.case,
    "reduce": Run.reduce,
    "reduce_window": Run.reduce_window,
    "select_and_scatter": Run.select_and_scatter,
    "sort": Run.sort,
    "scatter": Run.scatter,
    "map": Run.map_,
    "optimization_barrier": Run.as_it_is,
    "sdy.sharding_constraint": Run.as_it_is,
    "chlo.scan": Run.scan,
    "chlo.top_k": lambda run, op, operands, _: library.top_k(op, *operands),
    "rng": Run.rng,
    "rng_bit_generator": lambda run, op, operands, _: bits.rng_bit_generator(op, *operands),
    "composite": Run.composite,
    "tuple": lambda run, op, operands, _: (tuple(operands),),
    "get_tuple_element": lambda run, op, operands, _: (operands[0][int(op.get("index"))],),
    "create_token": lambda run, op, operands, _: ((),),
    "after_all": lambda run, op, operands, _: ((),),
    "chlo.broadcast_compare": lambda run, op, xs, _: (compare(op, *_ranked(op, xs)),),
    **{
        f"chlo.broadcast_{name}": lambda run, op, xs, _, row=row: (row(*_ranked(op, xs)),)
        for name, row in _BROADCAST_ROWS.items()
    },
    **{name: lambda run, op, xs, _: collectives.computed(op, xs) for name in collectives.OPS},
    **{name: lambda run, op, xs, _, row=row: row(op, *xs) for name, row in norms.ROWS.items()},
    **dict.fromkeys(dynamic.ROWS, Run.sized),
}

KNOWN = frozenset({*ROWS, *_SIMPLE, *_SPECIAL, "return", "uniform_quantize", "uniform_dequantize"})

_NAMED = {
    **{f"mhlo.{name.removeprefix('chlo.')}": name for name in KNOWN if name.startswith("chlo.")},
    "mhlo.topk": "chlo.top_k",
}
"""Calls that stand for an op of CHLO, as StableHLO of older versions says them."""


_NOTHING = ("Sharding", "SPMDFullToShardShape", "annotate_device_placement")
"""Calls that say where a value is to be."""
_CALLS = frozenset(
    {*library.ROUTINES, *_NAMED, *_NOTHING, "shape_assertion", "ApproxTopK",
     "stablehlo.dynamic_reduce_window"}
)  # fmt: skip
_WIDE = frozenset({"popcnt", "count_leading_zeros", "shift_right_logical", "bitcast_convert"})
"""Ops that see the bits of a number, which are not there of one that is narrower than a byte."""


def is_known(op: Op, module: Module) -> bool:
    """Whether the op can be computed, as far as its name and its module say."""
    if op.name in collectives.OPS:
        return collectives.is_alone(op, module)
    if op.name == "custom_call":
        name = str(op.get("call_target_name"))
        return name.startswith("check.") or name in _CALLS
    narrow = any(isinstance(k, TensorKind) and k.dtype in NARROW for k in (*op.kinds, *op.takes))
    return op.name in KNOWN and not (narrow and op.name in _WIDE)


def unsupported(ops: Sequence[Op]) -> str:
    """What stands in the way, each with its line."""
    lines = [f"  line {op.line}: {op.get('call_target_name') or op.name}" for op in ops]
    return "ops of StableHLO that are not supported:\n" + "\n".join(lines)
