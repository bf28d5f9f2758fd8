# pyright: basic
"""A module's functions, traced: each op as operations on arrays of ours."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from mlc.frontend.errors import NotSupportedError
from mlc.frontend.importers.stablehlo import library, shapes, windows
from mlc.frontend.importers.stablehlo.elementwise import (
    ROWS,
    bits_of,
    compare,
    converted,
    reduced_precision,
)
from mlc.frontend.importers.stablehlo.program import Function, Module, Op, Region, TensorKind
from mlc.frontend.importers.stablehlo.text import numpy_of
from mlc.frontend.trace.constant import written
from mlc.frontend.trace.control import cond
from mlc.frontend.trace.loops import while_loop

Array = Any
Results = tuple[Array, ...]
Around = Mapping[str, Array]
"""Values that stand around a region, by name."""


class Run:
    """One walk over a module. `checked`: what `check.…` calls compared, in order."""

    def __init__(self, module: Module) -> None:
        self.module = module
        self.checked: list[tuple[str, Results]] = []

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
            found = self.op(op, operands, values)
            for name, kind, value in zip(op.results, op.kinds, found, strict=True):
                values[name] = _fitting(kind, value)
        return ()

    def op(self, op: Op, operands: Sequence[Array], values: Around) -> Sequence[Array]:
        """The results of one op."""
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
        return lambda *arguments: self.region(region, arguments, values)

    # ops with regions, and calls ------------------------------------------------------------------

    def call(self, op: Op, operands: Sequence[Array], _: Around) -> Sequence[Array]:
        """A function of the module."""
        return self.function(self.module.functions[op.get("callee")], operands)

    def custom_call(self, op: Op, operands: Sequence[Array], _: Around) -> Sequence[Array]:
        """Checks of StableHLO's own tests, and calls that change nothing."""
        name = op.get("call_target_name")
        if name.startswith("check."):
            self.checked.append((name, tuple(operands)))
            return ()
        if name in library.ROUTINES:
            return library.ROUTINES[name](op, *operands)
        if name in ("Sharding", "SPMDFullToShardShape", "annotate_device_placement"):
            return operands
        raise NotSupportedError(unsupported([op]))

    def loop(self, op: Op, operands: Sequence[Array], values: Around) -> Sequence[Array]:
        """`while`."""
        condition, body = op.regions
        outside = dict(values)

        def goes_on(state: Results) -> Array:
            return self.region(condition, state, outside)[0]

        def trip(state: Results) -> Results:
            return self.region(body, state, outside)

        return while_loop(goes_on, trip, tuple(operands))

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

    def select_and_scatter(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`select_and_scatter`."""
        select, combine = op.regions
        how = windows.monoid_of(combine)
        return (windows.select_and_scatter(op, self.applied(select, values), how, *operands),)

    def sort(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`sort`."""
        return windows.sort(op, *operands)

    def scatter(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`scatter` of one operand."""
        how = windows.monoid_of(op.regions[0])
        if how is None or len(operands) != 3:
            raise NotSupportedError(
                f"line {op.line}: scatter with a region of its own; expected one op of both"
                " arguments, or the second one"
            )
        x, indices, update = operands
        return (shapes.scatter(op, x, indices, update, shapes.of_dtype(how, x.dtype)),)

    def map_(self, op: Op, operands: Sequence[Array], values: Around) -> Any:
        """`map`."""
        return self.region(op.regions[0], operands, values)

    def as_it_is(self, op: Op, operands: Sequence[Array], _: Around) -> Any:
        """`optimization_barrier`."""
        return operands


def _broadcast(op: Op, operands: Sequence[Array]) -> Sequence[Array]:
    """Operands of the result's shape: predicates and bounds may be single numbers."""
    kind = op.kinds[0]
    if isinstance(kind, TensorKind) and None not in kind.shape:
        shape = tuple(n or 0 for n in kind.shape)
        shapes_ = {x.shape for x in operands}
        if len(shapes_) > 1 and all(x.shape in ((), shape) for x in operands):
            return [x if x.shape == shape else np.broadcast_to(x, shape) for x in operands]
    return operands


def _fitting(kind: Any, value: Array) -> Array:
    """The result as the text says it is."""
    if not isinstance(kind, TensorKind):
        return value
    dtype = numpy_of(kind)
    value = written(np.asarray(value)) if isinstance(value, np.ndarray | np.generic) else value
    return value if value.dtype == dtype else value.astype(dtype)


def _constant(op: Op) -> Array:
    return written(np.array(op.get("value")))


def _reshape(op: Op, x: Array) -> Array:
    return x.reshape(shapes.sizes_of(op))


_SIMPLE: Mapping[str, Callable[..., Array]] = {
    "constant": _constant,
    "compare": compare,
    "convert": lambda op, x: converted(x, op.kinds[0]),
    "bitcast_convert": lambda op, x: bits_of(x, op.kinds[0]),
    "reduce_precision": reduced_precision,
    "reshape": _reshape,
    "broadcast_in_dim": shapes.broadcast_in_dim,
    "broadcast": lambda op, x: np.broadcast_to(x, shapes.sizes_of(op)),
    "iota": shapes.iota,
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
    "dynamic_broadcast_in_dim": lambda op, x, _: shapes.broadcast_in_dim(op, x),
    "dynamic_reshape": lambda op, x, _: _reshape(op, x),
    "dynamic_iota": lambda op, _: shapes.iota(op),
    "get_dimension_size": lambda op, x: np.array(x.shape[int(op.get("dim", 0))], np.int32),
    "convolution": windows.convolution,
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
    "chlo.top_k": lambda run, op, operands, _: library.top_k(op, *operands),
}

KNOWN = frozenset({*ROWS, *_SIMPLE, *_SPECIAL, "return"})


def unsupported(ops: Sequence[Op]) -> str:
    """What stands in the way, each with its line."""
    lines = [f"  line {op.line}: {op.get('call_target_name') or op.name}" for op in ops]
    return "ops of StableHLO that are not supported:\n" + "\n".join(lines)
