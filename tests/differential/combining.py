"""Steps of a random program: reductions, contractions, windows, scans, order, library routines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from mlc.dialects.dims import Dim, DimsAttr, tensor_type
from mlc.dialects.dtypes import BOOL, C64, C128, DTYPES, F32, F64, I64
from mlc.dialects.tensor.comparison import CompareOp
from mlc.dialects.tensor.elementwise import MulOp, SubOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.library import ROUTINES, LibraryOp
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.registry import OPS
from mlc.dialects.tensor.scan import SCANS, ScanOp
from mlc.dialects.tensor.shape import ReshapeOp, SliceOp
from mlc.dialects.tensor.sort import ORDERS, SIDES, ArgsortOp, SearchsortedOp, SortOp
from mlc.dialects.tensor.window import ConvOp, WindowOp
from tests.differential.elementwise import (
    ULPS,
    aligned,
    certain,
    converted,
    of_kind,
    summed,
    tame,
)
from tests.differential.moving import has_axes
from tests.differential.programs import WHOLE, Program, drawn
from tests.differential.values import INFINITE, Known, Traced, epsilon, fitted, total


def combined(monoid: str, x: Traced, terms: int) -> Known | None:
    """What is known of so many elements combined; None where it may be anything."""
    dtype, known = x.dtype, x.known
    if monoid == "sum":
        return total(known, terms, dtype)
    if not dtype.is_inexact:
        return Known(known.bound if monoid in ("max", "min") else INFINITE, whole=True)
    if monoid == "prod":
        if known.bound > 1:
            return None
        if known.whole and known.certain and dtype.kind != "complex":
            return Known(1, whole=True, signed=False)
        error = max(terms, 1) * (2 * known.away + 2 * epsilon(dtype))
        return fitted(Known(1, error=error, signed=False), dtype)
    if known.certain or known.bounded:
        return replace(
            known, relative=0.0, error=known.away if not known.certain else 0.0
        ).unsigned()
    return None


def reduction(p: Program) -> None:
    """Any monoid over some axes, where they hold an element if the monoid asks for one."""
    name = p.choose.pick(("sum", "sum", *MONOIDS))
    x = p.any(lambda v: bool(v.word) and v.dtype.kind in MONOIDS[name].kinds)
    if x is None:
        return
    mask = p.choose.number(1, 2 ** len(x.word) - 1)
    lost = "".join(c for k, c in enumerate(x.word) if mask >> k & 1)
    if name.startswith("arg"):
        lost = lost[0]
    kept = "".join(c for c in x.word if c not in lost)
    if MONOIDS[name].needs_element and p.axes.least(lost) == 0:
        return
    if name == "sum":
        summed(p, x if x.known.bounded else tame(p, x), kept)
        return
    x = tame(p, x, 1) if name == "prod" and x.dtype.is_inexact else x
    known = combined(name, x, p.axes.most(lost))
    dtype = MONOIDS[name].result(x.dtype)
    if name.startswith("arg"):
        known = Known(p.axes.most(lost), whole=True) if certain(x) else None
    if known is not None:
        value = p.emit(ReduceOp, x.value, monoid=name, letters=f"{x.word}->{kept}")
        p.add(value, dtype, kept, known)


def variance(p: Program) -> None:
    """The sum of squared distances from one element's sum, as `var` computes it."""
    x = p.any(lambda v: bool(v.word) and v.dtype in (F32, F64, I64))
    if x is None:
        return
    x = tame(p, x, 2)
    kept = x.word[: p.choose.number(0, len(x.word) - 1)]
    if p.axes.most(x.word[len(kept) :]) > 200:
        return
    sums = summed(p, x, kept)
    wide = aligned(p, sums, x.word) if sums is not None else None
    if wide is None:
        return
    bound = x.known.bound + wide.known.bound
    away = x.known.away + wide.known.away + epsilon_of(x) * bound
    known = fitted(Known(bound, x.known.whole, away, signed=False), x.dtype)
    if known is None or bound > 100:
        return
    apart = p.add(p.emit(SubOp, x.value, wide.value), x.dtype, x.word, known)
    away = 2 * bound * known.away + known.away**2 + epsilon_of(x) * bound**2
    square = fitted(Known(bound**2, x.known.whole, away, signed=False), x.dtype)
    if square is not None:
        value = p.emit(MulOp, apart.value, apart.value)
        summed(p, p.add(value, x.dtype, x.word, square), kept)


def epsilon_of(x: Traced) -> float:
    """0 where arithmetic on it is exact."""
    inexact = x.dtype.is_inexact and not (x.known.whole and certain(x))
    return epsilon(x.dtype) if inexact else 0.0


def product_of(p: Program, x: Traced, y: Traced, lost: int) -> Known | None:
    """What is known of a sum of products of both."""
    if x.dtype is BOOL:
        return Known(1, whole=True)
    bound = x.known.bound * y.known.bound if x.known.bounded and y.known.bounded else INFINITE
    away = 0.0
    if x.dtype.is_inexact and bound < INFINITE:
        exact = x.known.certain and y.known.certain and x.known.whole and y.known.whole
        away = x.known.away * y.known.bound + y.known.away * (x.known.bound + x.known.away)
        away += 0 if exact else 2 * epsilon(x.dtype.accumulator) * bound
    whole = x.known.whole and y.known.whole
    return total(Known(bound, whole, away), lost, x.dtype)


def factors(p: Program) -> tuple[Traced, Traced] | None:
    """Two values of one dtype that is computed with."""
    x = p.any(lambda v: v.dtype.kind != "storage")
    y = p.any(lambda v: v.dtype.kind != "storage")
    if x is None or y is None or (y := converted(p, y, x.dtype)) is None:
        return None
    if x.dtype.kind == "float":
        return tame(p, x), tame(p, y)
    return x, y


def contraction(p: Program) -> None:
    """Any two values with any result letters."""
    found = factors(p)
    if found is None:
        return
    x, y = found
    both = x.word + "".join(c for c in y.word if c not in x.word)
    if p.axes.most(both) > 20_000:
        return
    kept = [c for c in both if p.choose.number(0, 2)]
    if p.choose.number(0, 1):
        kept.reverse()
    word = "".join(kept)
    lost = "".join(c for c in both if c not in word)
    known = product_of(p, x, y, p.axes.most(lost))
    if known is not None and p.fits(word):
        value = p.emit(ContractOp, x.value, y.value, letters=f"{x.word},{y.word}->{word}")
        p.add(value, x.dtype, word, known)


def window_on(p: Program, x: Traced) -> tuple[int, int, int, Dim, str, str] | None:
    """A window on x's last axis: stride, dilation, size, positions, and the letters of both."""
    stride, dilation = p.choose.pick((1, 1, 2)), p.choose.pick((1, 1, 2))
    least = p.axes.least(x.word[-1])
    most = min((least - 1) // dilation + 1, 3) if least else 0
    if most < 1:
        return None
    size = p.choose.number(1, most)
    count = (p.axes.dims[x.word[-1]] - (size - 1) * dilation - 1) // stride + 1
    outer = p.axes.new(count, x.word[:-1])
    inner = p.axes.unused(x.word + outer)
    return stride, dilation, size, count, outer, inner


def convolution(p: Program) -> None:
    """A window along the last axis, another axis summed, grouped or left as it is."""
    x = p.any(lambda v: 0 < len(v.word) < 4 and v.dtype.kind != "storage")
    if x is None:
        return
    x = tame(p, x) if x.dtype.kind == "float" else x
    found = window_on(p, x)
    if found is None:
        return
    stride, dilation, size, _, outer, inner = found
    rest = x.word[:-1]
    shared = p.choose.pick(rest) if rest and p.choose.number(0, 2) else ""
    grouped = bool(shared) and p.choose.number(0, 2) == 0
    p.axes.dims[inner] = Dim.const(size)
    features = ""
    if p.choose.number(0, 1):
        features = p.axes.unused()
        p.axes.dims[features] = Dim.const(2)
    known, values = drawn(p.choose, x.dtype)
    if not known.bounded:
        known, values = Known(3, whole=True), WHOLE
    right = features + shared + inner
    kernel = Traced(p.input(x.dtype, p.axes.shape(right), values), x.dtype, right, known)
    word = "".join(c for c in rest if c != shared or grouped) + features + outer
    terms = size * (1 if grouped or not shared else p.axes.most(shared))
    known = product_of(p, x, kernel, terms)
    if known is None or not p.fits(word):
        return
    left = f"{rest}({stride}{outer}+{dilation}{inner})"
    kind = tensor_type(x.dtype.ir, p.axes.shape(word))
    text = f"{left},{right}->{word}"
    p.add(p.emit(ConvOp, x.value, kernel.value, letters=text, declared=kind), x.dtype, word, known)


def pooling(p: Program) -> None:
    """Any monoid over windows of the last axis."""
    name = p.choose.pick(tuple(MONOIDS))
    x = p.any(lambda v: bool(v.word) and v.dtype.kind in MONOIDS[name].kinds)
    found = window_on(p, x) if x is not None else None
    if x is None or found is None:
        return
    stride, dilation, size, _, outer, inner = found
    if name in ("sum", "prod") and x.dtype.kind == "float":
        x = tame(p, x, 1)
    known = combined(name, x, size)
    if name.startswith("arg"):
        known = Known(size, whole=True) if certain(x) else None
    if known is None:
        return
    rest = x.word[:-1]
    dtype = MONOIDS[name].result(x.dtype)
    kind = tensor_type(dtype.ir, p.axes.shape(rest + outer))
    text = f"{rest}({stride}{outer}+{dilation}{inner})->{rest}{outer}"
    window = DimsAttr((Dim.const(size),))
    value = p.emit(WindowOp, x.value, monoid=name, letters=text, window=window, declared=kind)
    p.add(value, dtype, rest + outer, known)


def scanning(p: Program) -> None:
    """A running reduction."""
    name = p.choose.pick(tuple(SCANS))
    x = p.any(lambda v: bool(v.word) and v.dtype.kind in SCANS[name].kinds)
    if x is None:
        return
    axis = p.choose.number(0, len(x.word) - 1)
    direction = p.choose.pick(("forward", "backward"))
    kind = "inclusive" if name == "logsumexp" else p.choose.pick(("inclusive", "exclusive"))
    if name in ("sum", "prod", "logsumexp"):
        x = tame(p, x, 1)
    terms = p.axes.most(x.word[axis])
    if name == "logsumexp":
        if not x.known.bounded:
            return
        error = x.known.away + ULPS * (terms + 4) * epsilon(x.dtype)
        known = fitted(Known(x.known.bound + 9, error=error, signed=False), x.dtype)
    elif name == "sum" and x.dtype.is_inexact:
        known = total(x.known, terms, x.dtype)
        if known is not None and not known.certain:  # rounded after each addition
            error = known.error + terms * epsilon(x.dtype) * known.bound
            known = fitted(replace(known, error=error), x.dtype)
    else:
        known = combined(name, x, terms)
        if known is not None and kind == "exclusive" and name in ("max", "min"):
            known = replace(known, bound=INFINITE) if x.known.certain else None
    if known is not None:
        value = p.emit(ScanOp, x.value, monoid=name, direction=direction, kind=kind, axis=axis)
        p.add(value, x.dtype, x.word, known)


def sorting(p: Program) -> None:
    """sort, and its first elements, as partition and top-k take them."""
    x = p.any(lambda v: bool(v.word) and v.dtype.kind in SortOp.KINDS)
    if x is None or not (certain(x) or x.known.bounded):
        return
    value = p.emit(SortOp, x.value, order=p.choose.pick(ORDERS))
    found = p.add(value, x.dtype, x.word, x.known.unsigned())
    if p.choose.number(0, 2) == 0:
        first(p, found)


def first(p: Program, x: Traced) -> Traced:
    """The first element or two along the last axis, where it has so many."""
    count = min(p.axes.least(x.word[-1]), p.choose.number(1, 2))
    word = p.renamed(x.word, len(x.word) - 1, Dim.const(count))
    zeros, ones = (tuple(Dim.const(k) for _ in word) for k in (0, 1))
    kind = tensor_type(x.dtype.ir, p.axes.shape(word))
    value = p.emit(SliceOp, x.value, offsets=zeros, steps=ones, declared=kind)
    return p.add(value, x.dtype, word, x.known)


PARTITIONS = tuple(op for op in OPS if op.name in ("mlc.partition", "mlc.argpartition"))


def partitioning(p: Program) -> None:
    """The elements around one rank, or their positions."""
    x = p.any(lambda v: bool(v.word) and v.dtype.kind in SortOp.KINDS and certain(v))
    if x is None or not PARTITIONS or p.axes.least(x.word[-1]) == 0:
        return
    op = p.choose.pick(PARTITIONS)
    kth = p.choose.number(0, min(p.axes.least(x.word[-1]), 3) - 1)
    constant = p.axes.dims[x.word[-1]].constant is not None
    keep = p.choose.pick(("all", "first")) if constant else "all"
    value = p.emit(op, x.value, order=p.choose.pick(ORDERS), kth=kth, keep=keep)
    word = x.word
    if keep == "first":
        word = p.renamed(word, len(word) - 1, Dim.const(kth + 1))
    if op.name == "mlc.argpartition":
        p.add(value, I64, word, Known(p.axes.most(x.word[-1]), whole=True))
    else:
        p.add(value, x.dtype, word, x.known.unsigned())


def ranking(p: Program) -> None:
    """argsort, and the elements in that order: all of them, or the top k."""
    x = p.any(lambda v: bool(v.word) and v.dtype.kind in ArgsortOp.KINDS and certain(v))
    if x is None:
        return
    value = p.emit(ArgsortOp, x.value, order=p.choose.pick(ORDERS))
    order = p.add(value, I64, x.word, Known(p.axes.most(x.word[-1]), whole=True))
    if p.choose.number(0, 1):
        order = first(p, order)
        letters = f"{x.word[:-1]}0,{order.word}->{order.word}"
        value = p.emit(GatherOp, x.value, order.value, letters=letters)
        p.add(value, x.dtype, order.word, x.known)


def searching(p: Program) -> None:
    """Where values belong in a sorted table."""
    x = p.any(lambda v: v.dtype.kind in SortOp.KINDS and certain(v))
    y = p.any(certain)
    if x is None or y is None or (y := converted(p, y, x.dtype)) is None:
        return
    table = x.value
    if len(x.word) != 1:
        (size,) = [Dim.const(1)] if not x.word else [_size(p, x.word)]
        table = p.emit(ReshapeOp, table, declared=tensor_type(x.dtype.ir, (size,)))
    table = p.emit(SortOp, table, order="ascending")
    value = p.emit(SearchsortedOp, table, y.value, side=p.choose.pick(SIDES))
    p.add(value, I64, y.word, Known(p.axes.most(x.word), whole=True))


def _size(p: Program, word: str) -> Dim:
    size = Dim.const(1)
    for d in p.axes.shape(word):
        size = size * d
    return size


def library(p: Program) -> None:
    """A routine on small matrices, or a transform of any certain value."""
    name = p.choose.pick(tuple(ROUTINES))
    row = ROUTINES[name]
    dtypes = [d for d in (F32, F64, C64, C128) if d.kind in row.kinds]
    if row.cores == (1,):
        x = p.any(lambda v: bool(v.word) and certain(v) and v.dtype.kind != "storage")
        least = 2 if name == "irfft_even" else 1
        if x is None or p.axes.least(x.word[-1]) < least:
            return
        x = converted(p, x, p.choose.pick(dtypes))
        if x is None or not x.known.bounded:
            return
        operands, lead = [x.value], x.word[:-1]
        bound = x.known.bound * 2 * p.axes.most(x.word[-1])
        known = Known(bound, error=ULPS * epsilon(x.dtype) * bound, signed=False)
    else:
        dtype = p.choose.pick(dtypes)
        lead = p.choose.pick(("", *(c for c in p.axes.dims if p.axes.most(c) <= 5)))
        size, columns = Dim.const(p.choose.number(1, 3)), Dim.const(p.choose.number(1, 2))
        dims = p.axes.shape(lead)
        matrix, *others = row.cores
        assert matrix == 2
        operands = [p.input(dtype, (*dims, size, size), WHOLE, dominant=True)]
        for rank in others:  # right sides; a number is what counts as zero
            core = (size, columns)[:rank]
            fill = WHOLE if rank else np.array([1e-6])
            operands.append(p.input(dtype, (*dims, *core), fill, dominant=False))
        away = ULPS * epsilon(dtype)  # of sums and products of what LAPACK finds
        known = Known(error=64 * away, relative=away, signed=False)
    made = LibraryOp.make(*operands, routine=name)
    p.b.insert(made)
    known_fit = fitted(known, made.dtype)
    if known_fit is not None:
        p.add(made.results[0], made.dtype, lead + p.axes.new(made.shape[-1], lead), known_fit)


def masked(p: Program) -> None:
    """How many elements of each row are smaller than another value."""
    x = of_kind(p, CompareOp.KINDS)
    if x is None or not certain(x) or x.dtype.kind == "complex" or not has_axes(x):
        return
    flag = p.emit(CompareOp, x.value, p.scalar(1, x.dtype, x.word), predicate="lt")
    count = converted(p, p.add(flag, BOOL, x.word, Known(1, whole=True)), p.choose.pick(DTYPES[1:]))
    if count is not None:
        summed(p, count, x.word[:-1])
