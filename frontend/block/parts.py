"""
What a value is: an array over the part of all positions that its mask let through, and what the
value is elsewhere. What is computed of masked values is computed of that part alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

import mlc.frontend.numpy as mnp
from mlc.frontend.block.spans import Region, Span, cut, whole_region
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

Outside = Tracer | bool | int | float | None


@dataclass(frozen=True)
class Part:
    """
    `core`: one axis for each span of the region, of size 1 where the value does not depend on it.
    `outside`: the value where the region is not: a number, or an array like `core` whose axes
    have size 1 where spans are cut. None where there is no outside.
    """

    core: Tracer
    region: Region
    outside: Outside = None


def sizes_of(array: Tracer) -> tuple[int, ...]:
    """The sizes of an array's axes, which are known."""
    return tuple(int(size) for size in array.shape)


def whole(part: Part, sizes: Sequence[int]) -> Part:
    """The same value over all positions, each axis by itself."""
    core, region = part.core, part.region
    for k, span in enumerate(region):
        if not span.whole and sizes_of(core)[k] == 1 != span.count:
            core = mnp.broadcast_to(
                core, (*sizes_of(core)[:k], span.count, *sizes_of(core)[k + 1 :])
            )
    if cut(region):
        core = _padded(core, part)
    order = [axis for span in region for axis in span.axes]
    shape: list[int] = []
    for k, span in enumerate(region):
        alone = sizes_of(core)[k] == 1
        shape += [1 if alone else sizes[axis] for axis in span.axes]
    core = core.reshape(tuple(shape))
    if order != sorted(order):
        core = mnp.transpose(core, [order.index(axis) for axis in range(len(sizes))])
    return Part(core, whole_region(sizes))


def _padded(core: Tracer, part: Part) -> Tracer:
    """The core with what is outside of it around."""
    widths = [(span.first, span.size - span.end) for span in part.region]
    outside = part.outside
    if not isinstance(outside, Tracer):
        return mnp.pad(core, widths, constant_values=core.dtype.type(outside or 0))
    inside: Any = None
    for k, span in enumerate(part.region):
        if not span.whole:
            at: Any = mnp.arange(span.size).reshape(_single(k, span.size, len(part.region)))
            here = (at >= span.first) & (at < span.end)
            inside = here if inside is None else inside & here
    return mnp.where(inside, mnp.pad(core, widths), outside)


def _single(axis: int, size: int, rank: int) -> tuple[int, ...]:
    return tuple(size if k == axis else 1 for k in range(rank))


def combined(function: Callable[..., Any], parts: Sequence[Part], sizes: Sequence[int]) -> Part:
    """An elementwise function of values."""
    frame = next((p.region for p in parts if cut(p.region)), None)
    frame = frame or max((p.region for p in parts), key=lambda r: -len(r))
    framed = [_in_frame(p, frame, sizes) for p in parts]
    fitting = [p for p in framed if p is not None]
    if len(fitting) < len(parts):
        frame = whole_region(sizes)
        fitting = [whole(p, sizes) for p in parts]
    core: Tracer = function(*(p.core for p in fitting))
    if not cut(frame):
        return Part(core, frame)
    with np.errstate(all="ignore"):  # of numbers; nobody may look there
        outside: Outside = function(*(_elsewhere(p) for p in fitting))
    if isinstance(outside, Tracer) and not outside.shape:
        outside = outside.reshape((1,) * len(frame))
    return Part(core, frame, outside)


def _elsewhere(part: Part) -> Any:
    """The value outside of the region; a number with the dtype that the value has."""
    if not cut(part.region) or part.outside is None:
        return part.core
    if isinstance(part.outside, Tracer):
        return part.outside
    return part.core.dtype.type(part.outside)


def over(part: Part, region: Region, sizes: Sequence[int]) -> Tracer:
    """The value over a region: one axis for each of its spans, of size 1 where it is constant."""
    if part.region == region:
        return part.core
    found = whole(part, sizes).core
    order = [axis for span in region for axis in span.axes]
    if order != sorted(order):
        found = mnp.transpose(found, order)
    shape: list[int] = []
    at = 0
    for span in region:
        own = sizes_of(found)[at : at + len(span.axes)]
        sized = tuple(sizes[axis] for axis in span.axes)
        if tuple(own) != sized and any(n != 1 for n in own):
            found = mnp.broadcast_to(
                found, (*sizes_of(found)[:at], *sized, *sizes_of(found)[at + len(sized) :])
            )
        shape.append(prod(sizes_of(found)[at : at + len(sized)]))
        at += len(sized)
    found = found.reshape(tuple(shape))
    taken = tuple(
        slice(span.first, span.end) if n > 1 else slice(None)
        for n, span in zip(shape, region, strict=True)
    )
    return found if not cut(region) else found[taken]


def _in_frame(part: Part, frame: Region, sizes: Sequence[int]) -> Part | None:
    """The value over a region: it has that region, or does not vary where the region is cut."""
    if part.region == frame:
        return part
    if cut(part.region):
        return None
    core = whole(part, sizes).core
    order = [axis for span in frame for axis in span.axes]
    if order != sorted(order):
        core = mnp.transpose(core, order)
    shape: list[int] = []
    at = 0
    for span in frame:
        own = sizes_of(core)[at : at + len(span.axes)]
        at += len(span.axes)
        single = all(n == 1 for n in own)
        if not single and (not span.whole or tuple(own) != tuple(sizes[a] for a in span.axes)):
            return None
        shape.append(1 if single else prod(own))
    return Part(core.reshape(tuple(shape)), frame, None)


def reduced(part: Part, axis: int, sizes: Sequence[int], kind: str) -> Part:
    """A value's "sum", "max" or "min" along an axis, which stays with size 1."""
    number = next((k for k, span in enumerate(part.region) if span.axes == (axis,)), None)
    if number is None:
        part, number = whole(part, sizes), axis
    span, core = part.region[number], part.core
    if sizes_of(core)[number] == 1 != span.count and kind == "sum":
        core = core * span.count
    made: Any = getattr(core, kind)(axis=number, keepdims=True) if span.count else None
    region = tuple(Span((axis,), 0, 1, 1) if k == number else s for k, s in enumerate(part.region))
    outside = part.outside
    if not span.whole and not _is_identity(outside, kind):
        left = span.size - span.count
        rest = _elsewhere(part) * left if kind == "sum" else _elsewhere(part)
        joined = {"sum": mnp.add, "max": mnp.maximum, "min": mnp.minimum}[kind]
        made = rest if made is None else joined(made, rest)
    if made is None:
        identity = {"sum": 0, "max": -np.inf, "min": np.inf}[kind]
        made = mnp.full((1,) * len(region), identity, core.dtype)
    if not cut(region):
        return Part(made, region)
    if outside is not None and kind == "sum":
        outside = outside * span.size
    return Part(made, region, outside)


def _is_identity(outside: Outside, kind: str) -> bool:
    if isinstance(outside, Tracer) or outside is None:
        return False
    return outside == {"sum": 0, "max": -np.inf, "min": np.inf}[kind]
