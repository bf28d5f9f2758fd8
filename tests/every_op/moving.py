"""Cases of the ops that move elements, from broadcast to gather."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from mlc.dialects.dims import Dim, Shape, tensor_type
from mlc.dialects.dtypes import DTYPES, F32, I64, DType
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, JoinOp, ReshapeOp, SliceOp, TransposeOp
from tests.every_op.cases import Build, Case, Operand
from tests.every_op.native import evaluate
from tests.every_op.shapes import ShapeClass, Sizes
from tests.every_op.values import anything

BROADCASTS = ("n->mn", "m->mn", "->mn", "mn->mkn", "k->mkn", "mn->mn")
TRANSPOSES = ("mn->nm", "mnk->kmn", "mnk->nmk", "mn->mn", "n->n")
# source letters, indices: the digit's axis is the one that is read at computed positions
GATHERS = ("0n,k->kn", "0,mk->mk", "n0,k->nk", "01,k,k->k", "n0,nk->nk", "0n,k->nk", "10,k,n->kn")
SIZE_OF_DIGIT = {"0": "m", "1": "n"}


def declared(op: type[TensorOp], dtype: DType, shape: Shape, **properties: object) -> Build:
    """The op with a chosen result shape."""
    kind = tensor_type(dtype.ir, shape)
    return lambda b, x: b(op, *x, declared=kind, **properties)


def moving(c: ShapeClass) -> Iterator[Case]:
    """Two forms of each op on every dtype, all forms on f32."""
    for dtype in DTYPES:
        few = None if dtype is F32 else 2
        for text in BROADCASTS[:few]:
            source, result = text.split("->")
            build = declared(BroadcastOp, dtype, c.dims(*result), letters=text)
            yield Case(BroadcastOp, text, (Operand(dtype, c.dims(*source), anything),), build)
        for text in TRANSPOSES[:few]:
            source, _ = text.split("->")
            x = Operand(dtype, c.dims(*source), anything)
            yield Case(TransposeOp, text, (x,), lambda b, v, t=text: b(TransposeOp, *v, letters=t))
        yield from _reshapes(c, dtype)
        yield from _slices(c, dtype, few)
        yield from _concats(c, dtype)
        yield from _gathers(c, dtype, few)


def _reshapes(c: ShapeClass, dtype: DType) -> Iterator[Case]:
    pairs = [
        (c.dims("m", "n"), c.dims("m*n")),
        (c.dims("m*n", "k"), c.dims("m", "n*k")),
        (c.dims("m", "n"), c.dims(1, "m", 1, "n", 1)),
    ]
    for before, after in pairs:
        label = f"{len(before)} to {len(after)} axes"
        yield Case(
            ReshapeOp,
            label,
            (Operand(dtype, before, anything),),
            declared(ReshapeOp, dtype, after),
        )


def _slices(c: ShapeClass, dtype: DType, few: int | None) -> Iterator[Case]:
    m, n = c.dims("m", "n")
    half = (n + 1) // 2
    zero = Dim.const(0)
    forms = [
        ("backwards", (m - 1, n - 1), (-1, -1), (m, n)),
        ("every second", (zero, zero), (1, 2), (m, half)),
        ("every second from the end", (zero, n - 1), (1, -2), (m, half)),
        ("nothing", (zero, zero), (1, 1), (m, zero)),
    ]
    for label, offsets, steps, shape in forms[:few]:
        count = shape[1]
        build = declared(
            SliceOp, dtype, (shape[0], count), offsets=offsets, steps=tuple(map(Dim.const, steps))
        )
        yield Case(SliceOp, label, (Operand(dtype, (m, n), anything),), build)


def _concats(c: ShapeClass, dtype: DType) -> Iterator[Case]:
    for axis, shapes in (
        (0, (c.dims("m", "n"), c.dims("k", "n"))),
        (1, (c.dims("m", "n"), c.dims("m", "k"), c.dims("m", 1))),
    ):
        parts = tuple(Operand(dtype, shape, anything) for shape in shapes)
        for op in (ConcatOp, JoinOp):
            yield Case(op, f"axis {axis}", parts, lambda b, x, a=axis, op=op: b(op, *x, axis=a))
    lonely = (Operand(dtype, c.dims("n"), anything),)
    for op in (ConcatOp, JoinOp):
        yield Case(op, "one part", lonely, lambda b, x, op=op: b(op, *x, axis=0))


def _gathers(c: ShapeClass, dtype: DType, few: int | None) -> Iterator[Case]:
    for text in GATHERS[:few]:
        words = text.split("->")[0].split(",")
        axes = [SIZE_OF_DIGIT.get(letter, letter) for letter in words[0]]
        operands = [Operand(dtype, c.dims(*axes), anything)]
        for number, word in enumerate(words[1:]):
            extent = c.dims(SIZE_OF_DIGIT[str(number)])[0]
            operands.append(Operand(I64, c.dims(*word), indexes=extent))
        yield Case(
            GatherOp,
            text,
            tuple(operands),
            lambda b, x, t=text: b(GatherOp, *x, letters=t),
            defined=partial(_has_positions, c, text),
        )


def _has_positions(c: ShapeClass, text: str, sizes: Sizes) -> bool:
    """Whether no index is drawn, or each has a position that it may hold."""
    words, result = text.split("->")
    axes = [SIZE_OF_DIGIT[letter] for letter in words.split(",")[0] if letter.isdigit()]
    return 0 in evaluate(c.dims(*result), sizes) or 0 not in evaluate(c.dims(*axes), sizes)
