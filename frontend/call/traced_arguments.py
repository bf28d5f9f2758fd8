"""What a traced function gets: traced values for the leaves of a call, and what is made of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import F64, I64
from mlc.dialects.signature import ArgKind, ArgSpec
from mlc.frontend.call.arguments import Call, Parameters, row_of
from mlc.frontend.call.remembered import remember_objects
from mlc.frontend.trace.containers import Made, first_places, rebuilt_like
from mlc.frontend.trace.kinds import is_scalar
from mlc.frontend.trace.symbolic import SymbolicDim
from mlc.frontend.trace.trace import Trace
from mlc.frontend.trace.tracer import Tracer


def spec_parts(value: Tracer) -> tuple[str, tuple[int | Dim, ...]]:
    """The dtype and the sizes of a value, as the entry says them."""
    return value.row.name, tuple(d if d.constant is None else d.constant for d in value.dims)


def traced_arguments(
    trace: Trace, call: Call, shapes: Sequence[Shape], *, apart: bool
) -> tuple[list[Any], list[ArgSpec], list[int]]:
    """
    Traced values for the leaves, the entry's arguments, and the leaf of each. `apart`: each leaf is
    an argument, so that one whose memory another has, too, is refused.
    """
    leaves: list[Any] = []
    specs: list[ArgSpec] = []
    inputs: list[int] = []
    places = range(len(call.leaves)) if apart else _first_places(call)
    for k, (leaf, shape, first) in enumerate(zip(call.leaves, shapes, places, strict=True)):
        if first != k:
            leaves.append(leaves[first])
            continue
        if leaf.kind in ("static", "opaque"):
            leaves.append(leaf.value)
            continue
        if leaf.number is not None:
            leaves.append(SymbolicDim(Dim.symbol(leaf.number.symbol)))
            continue
        inputs.append(k)
        kind: ArgKind = "array"
        if leaf.kind in ("float", "int"):
            kind = "float" if leaf.kind == "float" else "int"
            row = F64 if kind == "float" else I64
            value = trace.argument(leaf.name, row, ())
            leaves.append(Tracer(trace, value, weak=True, origins=frozenset({leaf.name})))
            trace.ints.arguments.append(leaves[-1])
        else:
            unit = leaf.value.unit if leaf.kind == "spec" else ""
            value = trace.argument(leaf.name, row_of(leaf), shape, layout=leaf.layout, unit=unit)
            leaves.append(Tracer(trace, value))
            if not is_scalar(leaf.given):
                trace.inputs.add(leaves[-1])
        specs.append(ArgSpec(kind, *spec_parts(leaves[-1])))
    return leaves, specs, inputs


def _first_places(call: Call) -> list[int]:
    """For each leaf the first one in whose place it is: two ways may lead to one list."""
    met: Made = {}
    places: list[int] = []
    for value, structure in zip(call.values, call.structures, strict=True):
        places += first_places(value, structure, met, len(places))
    return places


def rebuilt_arguments(
    trace: Trace,
    call: Call,
    leaves: Sequence[Any],
    parameters: Parameters,
    function: Callable[..., Any],
) -> list[Any]:
    """What the function gets, with the ways that lead to it."""
    rest, made = iter(leaves), Made()
    values = [
        rebuilt_like(value, structure, rest, made)
        for value, structure in zip(call.values, call.structures, strict=True)
    ]
    remember_objects(trace, call, parameters, values, function, made)
    return values
