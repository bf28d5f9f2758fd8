"""Addresses of a block program, what it loads from them, and what it stores there."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import mlc.frontend.numpy as mnp
from mlc.dialects.dtypes import I32
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.frontend.block import parts
from mlc.frontend.block.frame import note_store
from mlc.frontend.block.parts import Part
from mlc.frontend.block.spans import Line, Region, Window, region_of, whole_region, window_of
from mlc.frontend.block.value import (
    Block,
    broadcast,
    elementwise,
    is_whole_number,
    of_conditions,
    of_line,
)
from mlc.frontend.errors import NotSupportedError, OutOfBoundsError, located
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class PointerType:
    """`x_ptr.dtype`: what an address leads to."""

    element_ty: np.dtype[Any]


@dataclass(frozen=True, eq=False)
class Pointer:
    """Addresses of elements of an array, whose memory is `flat`: one for each of a block."""

    name: str
    flat: Tracer
    offsets: Block

    @property
    def dtype(self) -> PointerType:
        """The type of the address."""
        return PointerType(self.flat.dtype)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of the block of addresses."""
        return self.offsets.shape

    def __add__(self, other: Any) -> Pointer:
        return Pointer(self.name, self.flat, self.offsets + _offsets(other))

    __radd__ = __add__

    def __sub__(self, other: Any) -> Pointer:
        return Pointer(self.name, self.flat, self.offsets - _offsets(other))

    def __getitem__(self, key: object) -> Pointer:
        return Pointer(self.name, self.flat, self.offsets[key])

    def spread(self, shape: tuple[int, ...]) -> Pointer:
        """The addresses repeated along axes of size 1."""
        return Pointer(self.name, self.flat, self.offsets.spread(shape))


def _offsets(value: Any) -> Any:
    if is_whole_number(value) or (isinstance(value, Block) and value.row.is_integer):
        return value
    kind = value.row.name if isinstance(value, Block) else type(value).__name__
    message = f"an address is moved by {kind}; expected integers"
    raise located(DTypeError, message, remedy="Convert it: offsets.to(tl.int32).")


@dataclass(frozen=True)
class _Access:
    """The positions that an access reaches, and where they lie."""

    region: Region
    window: Window


def load(pointer: Any, mask: Any, other: Any) -> Block:
    """The elements at the addresses; where the mask is false, `other`, or 0."""
    pointer, mask, other = _fitted("tl.load", pointer, mask, other)
    offsets, row = pointer.offsets, pointer.flat.row
    rest = None if isinstance(other, Block) else other
    if (part := _loaded(pointer, mask, 0 if rest is None else rest)) is None:
        at = offsets.whole()
        if mask is not None:
            at = mnp.where(mask.whole(), at, 0)
        part = Part(pointer.flat[at], whole_region(offsets.sizes))
        masked = False
    else:
        masked = mask is None or mask.conditions is not None
    read = Block(offsets.grid, offsets.shape, row, part)
    if mask is None or (masked and other is rest):
        return read
    filled = row.numpy.type(0) if other is None else other
    filled = filled.to(row.numpy) if isinstance(filled, Block) else row.numpy.type(filled)
    return elementwise(mnp.where, mask, read, filled)


def _loaded(pointer: Pointer, mask: Block | None, other: Any) -> Part | None:
    """The elements that lie in a window, with `other` around it; None where they do not."""
    known = mask is None or mask.conditions is not None
    found = _access("tl.load", pointer, mask if known else None, asked=known)
    core = None if found is None else _view(pointer.flat, found.window, padded=True)
    if found is None or core is None:
        return None
    return Part(core, found.region, _number(other, pointer.flat.dtype))


def _number(value: Any, dtype: np.dtype[Any]) -> Any:
    return dtype.type(value).item() if dtype.kind in "biu" else float(value)


def store(pointer: Pointer, value: Any, mask: Any) -> None:
    """Writes elements to the addresses where the mask is true."""
    note_store()
    pointer, mask, value = _fitted("tl.store", pointer, mask, value)
    offsets, row = pointer.offsets, pointer.flat.row
    if not isinstance(value, Block):
        number = mnp.full((1,) * len(offsets.sizes), value, dtype=row.numpy)
        value = Block(offsets.grid, offsets.shape, row, Part(number, whole_region(offsets.sizes)))
    value = value.to(row.numpy)
    found = _access("tl.store", pointer, mask)
    if found is not None and found.window.empty:
        return
    if found is not None and _apart(found.window):
        core = parts.over(value.part, found.region, value.sizes)
        if _write(pointer.flat, found.window, core):
            return
    _scatter(pointer, value, mask)


def _fitted(what: str, pointer: Any, mask: Any, value: Any) -> tuple[Pointer, Block | None, Any]:
    """Addresses, mask and values in their common shape."""
    if not isinstance(pointer, Pointer):
        message = f"{what}: the first argument is {type(pointer).__name__}; expected addresses"
        remedy = "Addresses are a pointer parameter plus offsets: x_ptr + tl.arange(0, 1024)."
        raise located(DTypeError, message, remedy=remedy)
    blocks = [pointer.offsets, *(x for x in (mask, value) if isinstance(x, Block))]
    shape = broadcast(blocks)
    if what == "tl.store" and shape != pointer.shape:
        message = f"{what}: addresses of shape {pointer.shape} take values of shape {shape}"
        raise located(ShapeError, message, remedy="Give each element its own address.")
    if isinstance(mask, bool | np.bool_):
        like = of_line(pointer.offsets, Line(0, (0,) * len(pointer.offsets.sizes)))
        yes = Line(0 if mask else -1, (0,) * len(like.sizes))
        mask = None if mask else of_conditions(like, (yes,))
    if mask is not None and not (isinstance(mask, Block) and mask.dtype == np.bool_):
        message = f"{what}: mask is {_kind(mask)}; expected a comparison such as offsets < n"
        raise located(DTypeError, message)
    return (
        pointer.spread(shape),
        None if mask is None else mask.spread(shape),
        value.spread(shape) if isinstance(value, Block) else value,
    )


def _kind(value: Any) -> str:
    return f"of {value.row.name}" if isinstance(value, Block) else type(value).__name__


def _access(
    what: str, pointer: Pointer, mask: Block | None, *, asked: bool = True
) -> _Access | None:
    """
    Where the addresses lie; None where they are not linear. Raises OutOfBoundsError where all that
    the mask lets through is asked for, and some of it lies outside.
    """
    offsets = pointer.offsets
    conditions = () if mask is None else mask.conditions
    if offsets.line is None or conditions is None:
        return None
    region = region_of(conditions, offsets.sizes)
    window = None if region is None else window_of(offsets.line, region, offsets.sizes)
    if region is None or window is None:
        return None
    low, high = window.bounds
    length = _length(pointer)
    if not window.empty and not (low >= 0 and high < length):
        if not asked:
            return None
        unmasked = "" if mask is not None else ", without a mask"
        message = (
            f"{what} reaches elements {low} to {high} of {pointer.name}, which has {length}"
            f"{unmasked}"
        )
        remedy = "Mask what lies outside: mask=offsets < n."
        raise located(OutOfBoundsError, message, remedy=remedy)
    return _Access(region, window)


def _length(pointer: Pointer) -> int:
    return int(pointer.flat.shape[0])


def _apart(window: Window) -> bool:
    """Whether each position has an element of its own. Raises where none has."""
    varies = sorted((abs(s), n) for s, n in zip(window.steps, window.counts, strict=True) if n > 1)
    reach = 0
    for step, count in varies:
        if step == 0:
            message = (
                f"tl.store: {count} positions are stored to one element, in no order that the"
                " program says"
            )
            remedy = "Reduce them first (tl.sum, tl.max), or let the address depend on the program."
            raise located(NotSupportedError, message, remedy=remedy)
        if step <= reach:
            return False
        reach += step * (count - 1)
    return True


def _view(flat: Tracer, window: Window, *, padded: bool) -> Tracer | None:
    """
    The elements of a window as a view, with its axes; None where they are no part of an array.
    `padded`: what lies behind the array may be read into, as long as nobody uses it.
    """
    if window.empty:
        return flat[0:0].reshape(tuple(window.counts)) if prod(window.counts) == 0 else None
    if any(step < 0 for step in window.steps):
        return None
    moving = [k for k, n in enumerate(window.counts) if n > 1 and window.steps[k]]
    moving.sort(key=lambda k: -window.steps[k])
    view, start = flat, window.start
    for number, k in enumerate(moving):
        step, count = window.steps[k], window.counts[k]
        inner = [(window.steps[j], window.counts[j]) for j in moving[number + 1 :]]
        reach = 1 + sum(s * (n - 1) for s, n in inner)
        length = int(view.shape[-1])
        at = max(min(start, length - count * step), 0)
        if reach + start - at > step:
            return None
        if at + count * step > length:
            if not padded:
                return None
            view = mnp.pad(view, [(0, 0)] * number + [(0, at + count * step - length)])
        if (at, at + count * step) != (0, int(view.shape[-1])):
            view = view[(*(slice(None),) * number, slice(at, at + count * step))]
        start -= at
        if step > 1:
            view = view.reshape((*view.shape[:-1], count, step))
        else:
            view = view.reshape((*view.shape, 1))
    rest = int(view.shape[-1])
    view = view.reshape(view.shape[:-1]) if rest == 1 else view[..., start]
    if moving != sorted(moving):
        view = mnp.transpose(view, [moving.index(k) for k in sorted(moving)])
    shape = [n if k in moving else 1 for k, n in enumerate(window.counts)]
    return view.reshape(tuple(shape))


def _write(flat: Tracer, window: Window, core: Tracer) -> bool:
    """Writes a window; in two parts where the last row is shorter than the others' distance."""
    view = _view(flat, window, padded=False)
    if view is not None:
        view[...] = core
        return True
    k = max(range(len(window.steps)), key=lambda k: window.steps[k] * (window.counts[k] > 1))
    count, step = window.counts[k], window.steps[k]
    if count < 2 or min(window.steps) < 0:
        return False
    for first, end in ((0, count - 1), (count - 1, count)):
        counts = (*window.counts[:k], end - first, *window.counts[k + 1 :])
        view = _view(flat, Window(window.start + first * step, window.steps, counts), padded=False)
        if view is None:
            return False
        own = (slice(None),) * k
        view[...] = core if core.shape[k] == 1 else core[(*own, slice(first, end))]
    return True


def _scatter(pointer: Pointer, value: Block, mask: Block | None) -> None:
    """Stores to addresses that are not linear: masked ones go behind the array's end."""
    at = mnp.broadcast_to(pointer.offsets.whole(), value.sizes)
    data = mnp.broadcast_to(value.whole(), value.sizes)
    flat, length = pointer.flat, _length(pointer)
    if mask is None:
        flat[at] = data
        return
    longer = mnp.concatenate([flat, mnp.zeros(1, dtype=flat.dtype)])
    longer[mnp.where(mask.whole(), at, length)] = data
    flat[...] = longer[:length]


def address(name: str, flat: Tracer, grid: tuple[int, ...]) -> Pointer:
    """The pointer parameter of an array."""
    start = Line(0, (0,) * len(grid))
    return Pointer(name, flat, Block(grid, (), I32, line=start))
