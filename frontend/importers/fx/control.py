# pyright: basic
"""Rows of PyTorch's control flow: ops whose arguments are graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from mlc.frontend.importers.fx.run import At, Run, row
from mlc.frontend.numpy.values import strong
from mlc.frontend.trace import control, loops

Array = Any
Function = Callable[..., tuple[Array, ...]]


def function_of(graph: Any) -> Function:
    """The graph of a branch, or of a loop's trip, as a function of arrays."""
    nodes = list(graph.graph.nodes)
    places = [n for n in nodes if n.op == "placeholder"]
    (output,) = (n for n in nodes if n.op == "output")
    inner = [n for n in nodes if n.op == "call_function"]
    results = output.args[0]

    def function(*arrays: Array) -> tuple[Array, ...]:
        run = Run(dict(zip(places, arrays, strict=True)))
        run.nodes(inner)
        found = results if isinstance(results, tuple | list) else (results,)
        return tuple(run.value(x, output) for x in found)

    return function


@row("higher_order.cond")
def _cond(at: At, test: Any, there: Any, otherwise: Any, operands: Sequence[Array]) -> Any:
    f, g = function_of(there), function_of(otherwise)
    if isinstance(test, bool):
        return (f if test else g)(*operands)
    return control.cond(strong(test).reshape(()) != 0, f, g, *operands)


@row("higher_order.while_loop")
def _while_loop(
    at: At, test: Any, trip: Any, carried: Sequence[Array], beside: Sequence[Array]
) -> tuple[Array, ...]:
    asked, run = function_of(test), function_of(trip)

    def goes_on(state: tuple[Array, ...]) -> Array:
        return strong(asked(*state, *beside)[0]).reshape(()) != 0

    start = tuple(strong(x) for x in carried)
    return tuple(loops.while_loop(goes_on, lambda state: run(*state, *beside), start))


@row("higher_order.scan")
def _scan(
    at: At, trip: Any, start: Sequence[Array], xs: Sequence[Array], beside: Sequence[Array] = ()
) -> tuple[Array, ...]:
    run, count = function_of(trip), len(start)

    def step(state: tuple[Array, ...], parts: tuple[Array, ...]) -> Any:
        found = run(*state, *parts, *beside)
        return found[:count], found[count:]

    last, stacked = loops.scan(step, tuple(start), tuple(xs))
    return (*last, *stacked)


@row("higher_order.map_impl")
def _map(at: At, trip: Any, xs: Sequence[Array], beside: Sequence[Array]) -> tuple[Array, ...]:
    run = function_of(trip)
    return tuple(loops.map_(lambda parts: run(*parts, *beside), tuple(xs)))
