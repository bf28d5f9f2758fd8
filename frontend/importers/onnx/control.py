# pyright: basic
"""`If`, `Loop`, `Scan`, sequences and optionals of ONNX."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.frontend.importers.onnx.run import At, is_known, row, traced
from mlc.frontend.numpy.creation import zeros
from mlc.frontend.trace.control import cond
from mlc.frontend.trace.loops import scan, while_loop

Array = Any
UNROLLED, ITEMS = 64, 4096
"""Trips that are traced one by one at most; more where a sequence is handed on."""


@row("If")
def _if(at: At, condition: Array) -> Any:
    chosen = at.get("then_branch"), at.get("else_branch")
    if is_known(condition):
        return at.inner(chosen[0] if bool(np.ravel(condition)[0]) else chosen[1])
    branches = [lambda g=graph: tuple(map(_recorded, at.inner(g))) for graph in chosen]
    return tuple(cond(condition.reshape(()), *branches))


def _recorded(value: Array) -> Any:
    return [_recorded(x) for x in value] if isinstance(value, list) else traced(value)


@row("Loop")
def _loop(at: At, trips: Array = None, condition: Array = None, *carried: Array) -> Any:
    body = at.get("body")
    count = len(carried)
    most = None if trips is None else at.number(trips, "the number of trips")
    going = True if condition is None else condition
    most_unrolled = UNROLLED if not any(isinstance(x, list) for x in carried) else ITEMS
    if most is not None and is_known(going) and most <= most_unrolled:
        found = _unrolled(at, body, most, bool(np.ravel(going)[0]), list(carried))
        if found is not None:
            return found
    first = tuple(traced(x) for x in carried)
    piles: tuple[Array, ...] = ()
    if len(body.outputs) > 1 + count:
        if most is None:
            raise at.refuse(
                "it stacks results of trips whose number the model computes; expected a number of"
                " trips that is known, which they are at most"
            )
        _, *new = at.inner(body, [traced(np.int64(0)), traced(True), *first])
        piles = tuple(zeros((most, *x.shape), x.dtype) for x in map(traced, new[count:]))

    def goes_on(state: Any) -> Array:
        k, go, *_ = state
        return go if most is None else go & (k < most)

    def trip(state: Any) -> Any:
        k, _, values, piles = state
        go, *new = (traced(x) for x in at.inner(body, [k, traced(True), *values]))
        higher = tuple(pile.copy() for pile in piles)
        for pile, x in zip(higher, new[count:], strict=True):
            pile[k] = x
        return k + 1, go.reshape(()), tuple(new[:count]), higher

    state = traced(np.int64(0)), traced(going).reshape(()), first, piles
    trips, _, values, piles = while_loop(goes_on, trip, state)
    return (*values, *(pile[:trips] for pile in piles))


def _unrolled(
    at: At, body: Any, most: int, going: bool, values: list[Array]
) -> tuple[Array, ...] | None:
    """Trip by trip; None where the program computes whether there is another one."""
    stacked: list[list[Array]] = [[] for _ in body.outputs[1 + len(values) :]]
    k = 0
    while going and k < most:
        go, *found = at.inner(body, [np.array(k, np.int64), np.array(True), *values])
        if not is_known(go):
            return None
        values = found[: len(values)]
        for pile, x in zip(stacked, found[len(values) :], strict=True):
            pile.append(x)
        going = bool(np.ravel(go)[0])
        k += 1
    return (*values, *(np.stack(pile) if pile else np.zeros(0, np.float32) for pile in stacked))


@row("Scan")
def _scan(at: At, *given: Array) -> Any:
    body = at.get("body")
    if at.version < 9:
        return _scan_batched(at, body, given[1:])
    count = int(at.get("num_scan_inputs"))
    states, xs = list(given[: len(given) - count]), list(given[len(given) - count :])
    return _scanned(at, body, states, xs)


def _scanned(at: At, body: Any, states: list[Array], xs: list[Array]) -> tuple[Array, ...]:
    axes = [a % x.ndim for a, x in zip(at.get("scan_input_axes") or [0] * len(xs), xs, strict=True)]
    backwards = at.get("scan_input_directions") or [0] * len(xs)
    turned = [
        np.flip(np.moveaxis(traced(x), a, 0), 0) if b else np.moveaxis(traced(x), a, 0)
        for x, a, b in zip(xs, axes, backwards, strict=True)
    ]

    def trip(carry: Any, items: Any) -> Any:
        found = at.inner(body, [*carry, *items])
        values = tuple(traced(x) for x in found)
        return values[: len(states)], values[len(states) :]

    last, ys = scan(trip, tuple(traced(s) for s in states), tuple(turned))
    outward = at.get("scan_output_directions") or [0] * len(ys)
    places = at.get("scan_output_axes") or [0] * len(ys)
    return (
        *last,
        *(
            np.moveaxis(np.flip(y, 0) if b else y, 0, a)
            for y, a, b in zip(ys, places, outward, strict=True)
        ),
    )


def _scan_batched(at: At, body: Any, given: tuple[Array, ...]) -> tuple[Array, ...]:
    """Scan-8: all inputs have a batch in front."""
    count = int(at.get("num_scan_inputs"))
    states, xs = given[: len(given) - count], given[len(given) - count :]
    rows = [
        _scanned(at, body, [s[k] for s in states], [x[k] for x in xs])
        for k in range(given[0].shape[0])
    ]
    return tuple(np.stack(parts) for parts in zip(*rows, strict=True))


# sequences, which are lists while tracing


@row("SequenceEmpty")
def _empty(at: At) -> Any:
    return ([],)


@row("SequenceConstruct")
def _sequence(at: At, *xs: Array) -> Any:
    return (list(xs),)


@row("SequenceInsert")
def _insert(at: At, xs: list[Array], x: Array, place: Array = None) -> Any:
    k = len(xs) if place is None else at.number(place, "the place")
    k = k + len(xs) if k < 0 else k
    return ([*xs[:k], x, *xs[k:]],)


@row("SequenceErase")
def _erase(at: At, xs: list[Array], place: Array = None) -> Any:
    k = -1 if place is None else at.number(place, "the place")
    k = k % len(xs)
    return ([*xs[:k], *xs[k + 1 :]],)


@row("SequenceAt")
def _at(at: At, xs: list[Array], place: Array) -> Array:
    return xs[at.number(place, "the place")]


@row("SequenceLength")
def _length(at: At, xs: list[Array]) -> Array:
    return np.array(len(xs), np.int64)


@row("ConcatFromSequence")
def _concat(at: At, xs: list[Array]) -> Array:
    axis = at.get("axis")
    return np.stack(xs, axis) if at.get("new_axis", 0) else np.concatenate(xs, axis)


@row("SplitToSequence")
def _split(at: At, x: Array, parts: Array = None) -> Any:
    axis = at.get("axis", 0)
    n = x.shape[axis]
    if parts is None:
        found = np.split(x, n, axis)
        if not at.get("keepdims", 1):
            found = [part.squeeze(axis) for part in found]
        return (list(found),)
    given = at.known(parts, "split")
    if given.ndim == 0:
        each = int(given)
        edges = list(range(each, n, each))
    else:
        edges = [int(e) for e in np.cumsum(given)[:-1]]
    return (list(np.split(x, edges, axis)),)


@row("Optional")
def _optional(at: At, x: Any = None) -> Any:
    return (x,)


@row("OptionalGetElement")
def _element(at: At, x: Any) -> Any:
    return (x,)


@row("OptionalHasElement")
def _has_element(at: At, x: Any = None) -> Array:
    return np.array(x is not None)
