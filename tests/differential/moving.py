"""Steps of a random program: ops that move elements, read and write at positions, and create."""

from __future__ import annotations

import math

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import DTYPES, I64, DType
from mlc.dialects.tensor.comparison import MaxOp, MinOp
from mlc.dialects.tensor.create import ConstantOp, IotaOp, SizeOp, dense
from mlc.dialects.tensor.elementwise import AddOp, NegOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp, PadOp
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tensor.scatter import MODES, ScatterOp
from mlc.dialects.tensor.shape import (
    BroadcastOp,
    ConcatOp,
    JoinOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from tests.differential.elementwise import bounded, certain, converted, number, partner
from tests.differential.programs import SYMBOLS, Program
from tests.differential.values import INFINITE, Known, Traced, fitted, total

ZERO, ONE = Dim.const(0), Dim.const(1)


def has_axes(x: Traced) -> bool:
    """Whether it is more than a number."""
    return bool(x.word)


def permuting(p: Program) -> None:
    """transpose."""
    x = p.any(lambda v: len(v.word) > 1) or p.any()
    if x is None:
        return
    letters = list(x.word)
    word = ""
    while letters:
        word += letters.pop(p.choose.number(0, len(letters) - 1))
    p.add(p.emit(TransposeOp, x.value, letters=f"{x.word}->{word}"), x.dtype, word, x.known)


def repeating(p: Program) -> None:
    """broadcast along axes of the program that the value lacks."""
    x = p.any(lambda v: len(v.word) < 4)
    if x is None:
        return
    wide = x.word
    for c in p.axes.dims:
        if c not in wide and p.choose.number(0, 1):
            at = p.choose.number(0, len(wide))
            wider = wide[:at] + c + wide[at:]
            wide = wider if p.fits(wider) else wide
    kind = tensor_type(x.dtype.ir, p.axes.shape(wide))
    value = p.emit(BroadcastOp, x.value, letters=f"{x.word}->{wide}", declared=kind)
    p.add(value, x.dtype, wide, x.known)


def reshaping(p: Program) -> None:
    """Two axes as one, one as two, or axes of size 1 more or less."""
    x = p.any()
    if x is None:
        return
    word, dims = x.word, p.axes.shape(x.word)
    form = p.choose.pick(("merge", "split", "more", "less"))
    ones = [k for k, d in enumerate(dims) if d == ONE]
    even = [k for k, d in enumerate(dims) if d.constant is not None and d.constant % 2 == 0]
    if form == "merge" and len(word) > 1:
        at = p.choose.number(0, len(word) - 2)
        new = (*dims[:at], dims[at] * dims[at + 1], *dims[at + 2 :])
        word = word[:at] + p.axes.new(new[at], word[:at] + word[at + 2 :]) + word[at + 2 :]
    elif form == "split" and even and len(word) < 4:
        at = p.choose.pick(even)
        halves = (Dim.const(2), Dim.const((dims[at].constant or 0) // 2))
        rest = word[:at] + word[at + 1 :]
        first = p.axes.new(halves[0], rest)
        word = word[:at] + first + p.axes.new(halves[1], rest + first) + word[at + 1 :]
    elif form == "less" and ones:
        at = p.choose.pick(ones)
        word = word[:at] + word[at + 1 :]
    elif len(word) < 4:
        at = p.choose.number(0, len(word))
        word = word[:at] + p.axes.new(ONE, word) + word[at:]
    value = p.emit(ReshapeOp, x.value, declared=tensor_type(x.dtype.ir, p.axes.shape(word)))
    p.add(value, x.dtype, word, x.known)


def slicing(p: Program) -> None:
    """Every axis whole, backwards, every second element, or its first or last ones."""
    x = p.any(has_axes)
    if x is None:
        return
    offsets: list[Dim] = []
    strides: list[Dim] = []
    word = x.word
    forms = ("whole", "whole", "backwards", "second", "second backwards", "first", "rest")
    for at, c in enumerate(x.word):
        n = p.axes.dims[c]
        form = p.choose.pick(forms)
        if form in ("first", "rest") and p.axes.least(c) == 0:
            form = "whole"
        step = 2 if form.startswith("second") else 1
        count = (n + 1) // 2 if step == 2 else {"first": ONE, "rest": n - 1}.get(form, n)
        start = n - 1 if form.endswith("backwards") else ONE if form == "rest" else ZERO
        offsets.append(start)
        strides.append(Dim.const(-step if form.endswith("backwards") else step))
        word = word if count == n else p.renamed(word, at, count)
    kind = tensor_type(x.dtype.ir, p.axes.shape(word))
    value = p.emit(SliceOp, x.value, offsets=tuple(offsets), steps=tuple(strides), declared=kind)
    p.add(value, x.dtype, word, x.known)


def joining(p: Program) -> None:
    """concat of two values, join of three: of one meaning."""
    x = p.any(has_axes)
    if x is None:
        return
    parts = [x]
    for _ in range(p.choose.number(1, 2)):
        y = partner(p, x)
        parts += [] if y is None else [y]
    axis = p.choose.number(0, len(x.word) - 1)
    word = p.renamed(x.word, axis, p.axes.dims[x.word[axis]] * len(parts))
    known = x.known
    for y in parts:
        known = known.join(y.known)
    if p.fits(word) and (fit := fitted(known, x.dtype)) is not None:
        op = ConcatOp if len(parts) < 3 else JoinOp
        value = p.emit(op, *(y.value for y in parts), axis=axis)
        p.add(value, x.dtype, word, fit)


def padding(p: Program) -> None:
    """pad, or its inverse, at every end of every axis."""
    x = p.any(has_axes)
    if x is None:
        return
    low: list[Dim] = []
    high: list[Dim] = []
    word = x.word
    for at, c in enumerate(x.word):
        options = (ZERO, ZERO, ONE, Dim.const(2), Dim.const(-1), Dim.symbol(p.choose.pick(SYMBOLS)))
        for ends in (low, high):
            end = p.choose.pick(options)
            room = p.axes.least(c) + sum(d.constant or 0 for d in low[at:])
            ends.append(ZERO if end.constant == -1 and room < 1 else end)
        size = low[at] + p.axes.dims[c] + high[at]
        word = word if size == p.axes.dims[c] else p.renamed(word, at, size)
    if not p.fits(word):
        return
    chosen = p.any(lambda v: not v.word and v.dtype is x.dtype and bounded(v))
    y = chosen or number(p, p.choose.number(-1, 2), x.dtype, "")
    known = fitted(x.known.join(y.known), x.dtype)
    if known is not None:
        value = p.emit(PadOp, x.value, y.value, low=tuple(low), high=tuple(high))
        p.add(value, x.dtype, word, known)


# Positions


def indexing(p: Program, axes: str, word: str) -> list[SSAValue] | None:
    """
    For each axis, positions on it that vary along `word`, moved into range; None where an axis may
    be empty or there is nothing to take them from.
    """
    found: list[SSAValue] = []
    for c in axes:
        index = p.any(lambda v: certain(v) and set(v.word) == set(word))
        index = index and converted(p, index, I64)
        if index is None or p.axes.least(c) == 0:
            return None
        if index.word != word:
            text = f"{index.word}->{word}"
            index = p.add(p.emit(TransposeOp, index.value, letters=text), I64, word, index.known)
        size = p.emit(SizeOp, dims=(p.axes.dims[c],))
        lowest = p.emit(NegOp, size)
        highest = p.emit(AddOp, size, p.emit(ConstantOp, value=dense(np.asarray(-1), I64)))
        inside = p.emit(MaxOp, index.value, p.spread(lowest, I64, "", word))
        found.append(p.emit(MinOp, inside, p.spread(highest, I64, "", word)))
    return found


def addressed(p: Program, x: Traced) -> tuple[str, str, list[SSAValue]] | None:
    """Letters of a gather of x, those of its result, and its positions."""
    index = p.any(certain)
    if index is None:
        return None
    count = p.choose.number(1, min(2, len(x.word)))
    at = p.choose.number(0, len(x.word) - count)
    axes, rest = x.word[at : at + count], x.word[:at] + x.word[at + count :]
    word = index.word + "".join(c for c in rest if c not in index.word)
    if p.choose.number(0, 1):
        word = "".join(reversed(word))
    indices = indexing(p, axes, index.word) if p.fits(word) else None
    if indices is None:
        return None
    digits = "".join(map(str, range(count)))
    source = x.word[:at] + digits + x.word[at + count :]
    return ",".join([source, *[index.word] * count]) + f"->{word}", word, indices


def gathering(p: Program) -> None:
    """Positions computed from any certain value, read from one axis or two."""
    x = p.any(has_axes)
    found = addressed(p, x) if x is not None else None
    if x is not None and found is not None:
        letters, word, indices = found
        p.add(p.emit(GatherOp, x.value, *indices, letters=letters), x.dtype, word, x.known)


def scattering(p: Program) -> None:
    """A value written where computed positions say."""
    x = p.any(has_axes)
    found = addressed(p, x) if x is not None else None
    if x is None or found is None:
        return
    letters, word, indices = found
    update = p.any(lambda v: v.dtype is x.dtype and set(v.word) == set(word))
    if update is None:
        update = number(p, p.choose.number(-1, 3), x.dtype, word)
    elif update.word != word:
        value = p.emit(TransposeOp, update.value, letters=f"{update.word}->{word}")
        update = p.add(value, x.dtype, word, update.known)
    modes = [m for m, monoid in MODES.items() if monoid is None or x.dtype.kind in monoid.kinds]
    mode = p.choose.pick(modes)
    known: Known | None = x.known.join(update.known)
    if mode in ("add", "mul"):
        if not known.certain or (x.dtype.kind == "complex" and mode == "mul"):
            return
        terms = total(known, p.axes.most(word) + 1, x.dtype) if mode == "add" else None
        exact = terms is not None and terms.certain
        known = Known(terms.bound if terms and exact else INFINITE, exact, signed=False)
    elif mode in ("max", "min"):
        known = known.unsigned() if known.certain or known.bounded else None
    if known is not None and (fit := fitted(known, x.dtype)) is not None:
        value = p.emit(ScatterOp, x.value, *indices, update.value, mode=mode, letters=letters)
        p.add(value, x.dtype, x.word, fit)


def offset(p: Program) -> SSAValue:
    """A number that may be out of range: a constant, the trip number of a loop, an element."""
    x = p.any(lambda v: not v.word and certain(v))
    if x is not None and p.choose.number(0, 2) and (x := converted(p, x, I64)) is not None:
        return x.value
    y = p.any(lambda v: v.dtype is I64 and p.axes.least(v.word) > 0)
    if y is not None and p.choose.number(0, 1):
        return p.emit(ReduceOp, y.value, monoid="max", letters=f"{y.word}->")
    return number(p, p.choose.number(-1, 3), I64, "").value


def part_of(p: Program, word: str) -> str | None:
    """A word for a part: axes as long as those of `word` or of one element."""
    part = ""
    for c in word:
        single = p.axes.least(c) > 0 and p.choose.number(0, 1)
        part += p.axes.new(ONE, part + word.replace(c, "")) if single else c
    return part


def cutting(p: Program) -> None:
    """dynamic_slice."""
    x = p.any(has_axes)
    if x is not None:
        cut(p, x)


def cut(p: Program, x: Traced) -> Traced | None:
    """A part of the value at offsets that are values."""
    part = part_of(p, x.word)
    if part is None:
        return None
    kind = tensor_type(x.dtype.ir, p.axes.shape(part))
    value = p.emit(DynamicSliceOp, x.value, *(offset(p) for _ in x.word), declared=kind)
    return p.add(value, x.dtype, part, x.known)


def updating(p: Program) -> None:
    """A part of one value written into another; inside a loop, rather into what is carried."""
    mine = [x for x in p.inside if x.word]
    x = p.choose.pick(mine) if mine and p.choose.number(0, 3) else p.any(has_axes)
    if x is None:
        return
    source = x if p.choose.number(0, 2) == 0 else partner(p, x)
    update = cut(p, source) if source is not None else None
    known = fitted(x.known.join(update.known), x.dtype) if update is not None else None
    if update is None or known is None:
        return
    value = p.emit(DynamicUpdateOp, x.value, update.value, *(offset(p) for _ in x.word))
    new = p.add(value, x.dtype, x.word, known)
    p.inside = [new if y is x else y for y in p.inside]


# Creation


def counting(p: Program) -> None:
    """iota."""
    x = p.any(has_axes)
    if x is None:
        return
    dtype = p.choose.pick([d for d in DTYPES if d.kind in IotaOp.KINDS and d.bytes > 1])
    axis = p.choose.number(0, len(x.word) - 1)
    kind = tensor_type(dtype.ir, p.axes.shape(x.word))
    known = fitted(Known(p.axes.most(x.word[axis]), whole=True), dtype)
    if known is not None:
        p.add(p.emit(IotaOp, axis=axis, declared=kind), dtype, x.word, known)


def constant(p: Program) -> None:
    """Small whole numbers."""
    x = p.any(lambda v: all(d.constant is not None for d in p.axes.shape(v.word)))
    if x is not None:
        constant_of(p, p.choose.pick(DTYPES), x.word)


def constant_of(p: Program, dtype: DType, word: str) -> Traced:
    """A constant whose axes have constant sizes."""
    shape = [d.constant or 0 for d in p.axes.shape(word)]
    values = (np.arange(math.prod(shape)).reshape(shape) * 7 + p.choose.number(0, 4)) % 5
    values = values - 2 if dtype.lowest < 0 else values
    value = p.emit(ConstantOp, value=dense(values.astype(dtype.numpy), dtype))
    return p.add(value, dtype, word, Known(4, whole=True))


def measuring(p: Program) -> None:
    """A size."""
    x = p.any(has_axes)
    if x is None:
        return
    c = p.choose.pick(x.word)
    value = p.emit(SizeOp, dims=(p.axes.dims[c],))
    p.add(value, I64, "", Known(p.axes.most(c), whole=True))
