"""Cases of ops written as a whole or placing tensors in others: scan, sort, scatter, pad."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BOOL, C128, DTYPES, F32, F64, I64, DType
from mlc.dialects.tensor.division import DivisorOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.partition import PARTITION
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp, PadOp
from mlc.dialects.tensor.positions import PositionsOp
from mlc.dialects.tensor.room import RoomOp
from mlc.dialects.tensor.scan import SCANS, ScanOp
from mlc.dialects.tensor.scatter import MODES, ScatterOp
from mlc.dialects.tensor.some import SomeOp
from mlc.dialects.tensor.sort import ORDERS, SIDES, ArgsortOp, SearchsortedOp, SortOp
from mlc.dialects.tensor.within import WithinOp
from tests.every_op.cases import Case, Operand
from tests.every_op.native import Array, evaluate
from tests.every_op.shapes import ShapeClass, Sizes
from tests.every_op.values import (
    Complex,
    Exact,
    Fill,
    Sums,
    Tolerance,
    anything,
    comparable,
    near_one,
    ordinary,
    ties,
)

LOOSE_ZERO = Exact(signed_zero=False)


# Scans


def scans(c: ShapeClass) -> Iterator[Case]:
    """Each monoid along each axis, both ways, with and without the element itself."""
    for name in SCANS:
        for dtype in DTYPES:
            if dtype.kind not in SCANS[name].kinds:
                continue
            few = None if dtype is F32 else 1
            forms = [
                (("m", "n"), 1, "forward", "inclusive"),
                (("m", "n"), 0, "forward", "inclusive"),
                (("n",), 0, "backward", "inclusive"),
                (("m", "n"), 1, "backward", "exclusive"),
                (("m", "k", "n"), 1, "backward", "exclusive"),
                (("m", "k", "n"), 0, "forward", "exclusive"),
                (("k", "m", "n"), 2, "forward", "exclusive"),
            ]
            for axes, axis, direction, kind in forms if few is None else forms[: 3 + few]:
                if name == "logsumexp" and kind == "exclusive":
                    continue  # begins with -inf; tested in test_ordering
                yield _scan(c, name, dtype, axes, axis, direction, kind)


def _scan(
    c: ShapeClass,
    name: str,
    dtype: DType,
    axes: Sequence[str],
    axis: int,
    direction: str,
    kind: str,
) -> Case:
    tolerance, fill = _judged(name, dtype, axis, direction)
    return Case(
        ScanOp,
        f"{name} {''.join(axes)} {axis} {direction} {kind}",
        (Operand(dtype, c.dims(*axes), fill),),
        lambda b, x: b(ScanOp, *x, monoid=name, direction=direction, kind=kind, axis=axis),
        tolerance,
    )


def _judged(name: str, dtype: DType, axis: int, direction: str) -> tuple[Tolerance, Fill]:
    if not dtype.is_inexact:
        return Exact(), anything
    ufunc = {"sum": np.add, "prod": np.multiply, "logsumexp": np.add}.get(name)
    if ufunc is None:
        return LOOSE_ZERO, anything

    def magnitudes(x: Array) -> Array:
        if name == "logsumexp":
            return np.abs(x).max(initial=1.0) + np.ones(x.shape)
        x = np.flip(x, axis) if direction == "backward" else x
        found = ufunc.accumulate(x, axis=axis)
        found = np.flip(found, axis) if direction == "backward" else found
        return np.maximum(found, 1.0) if name == "prod" else found

    tolerance = Sums(magnitudes, partial(_terms, axis), scale_only=True)
    return tolerance, near_one if name == "prod" else ordinary


def _terms(axis: int, arrays: Sequence[Array], want: Array) -> int:
    return 4 * want.shape[axis]


# Sorting


def sorting(c: ShapeClass) -> Iterator[Case]:
    """Rows of every length, with ties, NaN and zeros of both signs; searches in sorted tables."""
    for dtype in (d for d in DTYPES if d.kind in SortOp.KINDS):
        for order in ORDERS if dtype is F32 else ORDERS[:1]:
            for fill in (ties, anything):
                for axes in (("m", "n"), ("n",)):
                    x = (Operand(dtype, c.dims(*axes), fill),)
                    label = f"{order} {fill.__name__} {len(axes)}"
                    yield Case(SortOp, label, x, partial(_sort, SortOp, order))
                    yield Case(ArgsortOp, label, x, partial(_sort, ArgsortOp, order))
            yield from _partitions("ties", (Operand(dtype, c.dims("m", "n"), ties),), order)
            if c.name in ("odd", "symbolic_strided"):
                yield from _long(c, dtype, order)
        for side in SIDES:
            table = Operand(dtype, c.dims("n"), _sorted(anything))
            for axes in (("m", "k"), ()):
                yield Case(
                    SearchsortedOp,
                    f"{side} {len(axes)}",
                    (table, Operand(dtype, c.dims(*axes), anything)),
                    lambda b, x, s=side: b(SearchsortedOp, *x, side=s),
                )


def _long(c: ShapeClass, dtype: DType, order: str) -> Iterator[Case]:
    """Rows that are sorted digit by digit."""
    for op in (SortOp, ArgsortOp):
        for axes in (("2*n + 130",), ("m", "2*n + 130")):
            rows = (Operand(dtype, c.dims(*axes), anything),)
            label = f"{order} long {len(axes)}"
            yield Case(op, label, rows, partial(_sort, op, order))
    if dtype.bytes >= 4 and dtype.kind != "uint":
        rows = (Operand(dtype, c.dims("m", "2*n + 130"), anything),)
        yield from _partitions("long", rows, order)


def _partitions(label: str, x: tuple[Operand, ...], order: str) -> Iterator[Case]:
    """By an element in the middle, all of a row; by the last, what comes before it."""
    last = x[0].dims[-1].constant
    ranks = [(2, "all"), (0, "all")]
    if last:
        ranks = [(last // 2, "all"), (max(last - 2, 0), "first")]
    for op, (kth, keep) in zip(PARTITION, ranks, strict=True):
        build = partial(_partition, op, order, kth, keep)
        yield Case(op, f"{order} {label} {kth} {keep}", x, build)


def _partition(
    op: type[TensorOp], order: str, kth: int, keep: str, b: OpBuilder, x: Sequence[SSAValue]
) -> SSAValue:
    return b(op, *x, order=order, kth=kth, keep=keep)


def _sort(op: type[TensorOp], order: str, b: OpBuilder, x: Sequence[SSAValue]) -> SSAValue:
    return b(op, *x, order=order)


def _sorted(fill: Fill) -> Fill:
    def draw(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
        drawn = fill(rng, dtype, shape)
        # NumPy does not know the order of bf16's NaN
        order = np.argsort(comparable(drawn), axis=-1, kind="stable")
        return np.take_along_axis(drawn, order, axis=-1)

    return draw


# Scatter

SCATTERS = ("0n,k->kn", "0,mk->mk", "n0,k->nk", "01,k,k->k", "n0,nk->nk", "0n,k->nk", "10,k,n->kn")
SIZE_OF_DIGIT = {"0": "m", "1": "n"}


def scattering(c: ShapeClass) -> Iterator[Case]:
    """Each way to meet what is there, with rows, columns and single elements."""
    for dtype in DTYPES:
        for mode, monoid in MODES.items():
            if monoid is not None and dtype.kind not in monoid.kinds:
                continue
            for text in SCATTERS[: None if dtype is F32 else 2]:
                yield _scatter(c, dtype, mode, text)


def _scatter(c: ShapeClass, dtype: DType, mode: str, text: str) -> Case:
    source, result = text.split("->")
    words = source.split(",")
    fill = {"add": ordinary, "mul": near_one}.get(mode, anything)
    axes = [SIZE_OF_DIGIT.get(letter, letter) for letter in words[0]]
    operands = [Operand(dtype, c.dims(*axes), fill)]
    for number, word in enumerate(words[1:]):
        extent = c.dims(SIZE_OF_DIGIT[str(number)])[0]
        operands.append(Operand(I64, c.dims(*word), indexes=extent))
    operands.append(Operand(dtype, c.dims(*result), fill))
    return Case(
        ScatterOp,
        f"{mode} {text}",
        tuple(operands),
        lambda b, x: b(ScatterOp, *x, mode=mode, letters=text),
        Complex(32.0) if mode == "mul" and dtype.kind == "complex" else LOOSE_ZERO,
        partial(_has_positions, c, text),
    )


def _has_positions(c: ShapeClass, text: str, sizes: Sizes) -> bool:
    """Whether nothing is written, or each index has a position that it may hold."""
    words, result = text.split("->")
    axes = [SIZE_OF_DIGIT[letter] for letter in words.split(",")[0] if letter.isdigit()]
    return 0 in evaluate(c.dims(*result), sizes) or 0 not in evaluate(c.dims(*axes), sizes)


# Pad, and slices at values

PADDINGS: tuple[tuple[tuple[str | int, ...], tuple[str | int, ...]], ...] = (
    ((1, 2), (0, 3)),
    ((0, 0), (0, "n")),
    (("k", 0), (1, 0)),
    ((0, "-n"), (0, "n")),
)


def placing(c: ShapeClass) -> Iterator[Case]:
    """Pads at every end, and parts at offsets inside and outside."""
    for dtype in DTYPES:
        few = None if dtype is F32 else 2
        for low, high in PADDINGS[:few]:
            yield Case(
                PadOp,
                f"{low} {high}",
                (Operand(dtype, c.dims("m", "n"), anything), Operand(dtype, (), anything)),
                partial(_pad, c.dims(*low), c.dims(*high)),
            )
        yield from _dynamic(c, dtype, few)
    (size,) = c.dims("m + 1")
    for dims in (c.dims("n"), ()):
        index = Operand(I64, dims, indexes=size)
        yield Case(WithinOp, str(dims), (index,), lambda b, x: b(WithinOp, *x, size=(size,)))


def _pad(low: Sequence[Dim], high: Sequence[Dim], b: OpBuilder, x: Sequence[SSAValue]) -> SSAValue:
    return b(PadOp, *x, low=tuple(low), high=tuple(high))


def _dynamic(c: ShapeClass, dtype: DType, few: int | None) -> Iterator[Case]:
    whole = Operand(dtype, c.dims("m", "n + k"), anything)
    offsets = tuple(Operand(I64, (), indexes=d + 1) for d in c.dims("m", "n + k"))
    for part in (("m", "n"), ("m", "k"), (0, "k"))[:few]:
        kind = tensor_type(dtype.ir, c.dims(*part))
        update = Operand(dtype, c.dims(*part), anything)
        label = "x".join(map(str, part))
        yield Case(
            DynamicSliceOp,
            label,
            (whole, *offsets),
            lambda b, x, k=kind: b(DynamicSliceOp, *x, declared=k),
        )
        yield Case(
            DynamicUpdateOp,
            label,
            (whole, update, *offsets),
            lambda b, x: b(DynamicUpdateOp, *x),
        )


def _true(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    return np.ones(shape, dtype.numpy)


def picking(c: ShapeClass) -> Iterator[Case]:
    """Positions of a mask that is true everywhere, so that their number is known; and counts."""
    (size,) = c.dims("n")
    kind = tensor_type(I64.ir, (size,))
    mask = Operand(BOOL, (size,), _true)
    yield Case(PositionsOp, "", (mask,), lambda b, x: b(PositionsOp, *x, declared=kind))
    for name in ("max", "min"):
        count = Operand(I64, (size,), _true)
        yield Case(SomeOp, name, (count,), lambda b, x, name=name: b(SomeOp, *x, reduction=name))
    for dtype in (BOOL, I64, F32, F64, C128):
        name = f"{'int' if dtype in (BOOL, I64) else 'complex' if dtype is C128 else 'float'} /"
        count = Operand(dtype, (size,), _true)
        yield Case(
            DivisorOp,
            dtype.name,
            (count,),
            lambda b, x, name=name: b(DivisorOp, *x, operation=name),
        )
    count = Operand(I64, (size,), _true)
    (room,) = c.dims("n + 1")
    yield Case(RoomOp, "", (count,), lambda b, x: b(RoomOp, *x, function="repeat", size=(room,)))


ORDERING: dict[str, Callable[[ShapeClass], Iterator[Case]]] = {
    "scans": scans,
    "sorting": sorting,
    "scattering": scattering,
    "placing": placing,
    "picking": picking,
}
