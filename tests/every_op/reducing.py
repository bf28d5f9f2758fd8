"""Cases of reductions and contractions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dtypes import BOOL, DTYPES, F32, I64, DType
from mlc.dialects.tensor.monoid import MONOIDS
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from tests.every_op.cases import Case, Operand, always
from tests.every_op.native import Array, evaluate
from tests.every_op.shapes import ShapeClass, Sizes
from tests.every_op.values import Exact, Fill, Sums, Tolerance, anything, near_one, ordinary, ties

ALONG = ("mn->m", "mn->n", "mn->", "n->")
MORE = ("mnk->n", "mnk->mk", "mnk->m", "mnk->k", "mnk->nk", "mn->mn", "->")
CONTRACTIONS = (
    "mk,kn->mn",
    "km,kn->mn",
    "mk,nk->mn",
    "mk,kn->nm",
    "mk,k->m",
    "k,kn->n",
    "k,k->",
)
UNUSUAL = (
    ",->",
    "m,->m",
    "m,n->mn",
    "mn,mn->mn",
    "mn,mn->m",
    "mk,kn->n",  # m is summed and stands in one operand
    "bmk,bkn->bmn",
    "bmk,bkn->mbn",
    "bmk,kbn->mnb",
    "bmk,kn->bmn",  # two free axes of the lhs
    "mk,kbn->mbn",  # two of the rhs, walked as one
    "mk,bkn->mbn",  # two of the rhs, apart in memory
    "mk,kbn->bmn",
    "mk,kbn->nbm",
    "mkl,kln->mn",  # two summed axes
    "mkl,lkn->mn",
    "mn,nm->",
)
AXES = {"b": 3, "l": 2}


def reductions(c: ShapeClass) -> Iterator[Case]:
    """Each monoid on every dtype over one axis and the other, f32 and i64 over all sets of axes."""
    x = Operand(F32, c.dims("m", "n"), negative_zeros)
    for text in ("mn->m", "mn->n", "mn->"):
        yield Case(ReduceOp, f"sum of -0.0 {text}", (x,), partial(_reduce, "sum", text))
    for name, monoid in MONOIDS.items():
        single = len(monoid.state(F32)) > 1
        for dtype in (d for d in DTYPES if d.kind in monoid.kinds):
            words = [*ALONG, *MORE] if dtype in (F32, I64) else ALONG
            for text in words:
                source, result = text.split("->")
                if single and len(source) != len(result) + 1:
                    continue
                reduced = tuple(i for i, letter in enumerate(source) if letter not in result)
                defined = partial(_has_elements, c, text) if monoid.needs_element else always
                if not c.symbolic and not defined({}):
                    continue
                tolerance, fill = _judged(name, dtype, reduced)
                x = Operand(dtype, c.dims(*source), fill)
                yield Case(
                    ReduceOp,
                    f"{name} {text}",
                    (x,),
                    partial(_reduce, name, text),
                    tolerance,
                    defined,
                )


def _reduce(monoid: str, text: str, b: OpBuilder, x: Sequence[SSAValue]) -> SSAValue:
    return b(ReduceOp, *x, monoid=monoid, letters=text)


def negative_zeros(rng: np.random.Generator, dtype: DType, shape: tuple[int, ...]) -> Array:
    """Nothing but -0.0, whose sum in NumPy is 0.0."""
    return np.full(shape, -0.0, dtype.numpy)


def _has_elements(c: ShapeClass, text: str, sizes: Sizes) -> bool:
    """Whether the reduced axes hold an element, or nobody asks for one."""
    source, result = text.split("->")
    reduced = [letter for letter in source if letter not in result]
    if 0 not in evaluate(c.dims(*reduced), sizes):
        return True
    return c.symbolic and 0 in evaluate(c.dims(*result), sizes)


def _judged(name: str, dtype: DType, axes: tuple[int, ...]) -> tuple[Tolerance, Fill]:
    if not dtype.is_inexact:
        return Exact(), ties if name.startswith("arg") else anything
    if name == "sum":
        return Sums(partial(np.sum, axis=axes), _terms), ordinary
    if name == "prod":
        return Sums(partial(np.prod, axis=axes), _terms), near_one
    return Exact(signed_zero=False), ties if name.startswith("arg") else anything


def _terms(arrays: Sequence[Array], want: Array) -> int:
    return arrays[0].size // max(want.size, 1)


def contractions(c: ShapeClass) -> Iterator[Case]:
    """Matrix and vector products on every dtype, all other letters on f32 and i64."""
    for dtype in (d for d in DTYPES if d.kind != "storage"):
        words = [*CONTRACTIONS, *UNUSUAL] if dtype in (F32, I64) else CONTRACTIONS
        for text in words:
            yield contraction(c, text, dtype)


def contraction(c: ShapeClass, text: str, dtype: DType) -> Case:
    """One contraction."""
    operands, _ = text.split("->")
    fill = ordinary if dtype.is_inexact or dtype is BOOL else anything
    factors = tuple(
        Operand(dtype, c.dims(*(AXES.get(letter, letter) for letter in word)), fill)
        for word in operands.split(",")
    )

    def terms(arrays: Sequence[Array], want: Array) -> int:
        extents = {
            letter: size
            for word, x in zip(operands.split(","), arrays, strict=True)
            for letter, size in zip(word, x.shape, strict=True)
        }
        return int(np.prod(list(extents.values()))) // max(want.size, 1)

    def total(x: Array, y: Array) -> Array:
        return np.asarray(np.einsum(text, x, y))

    # the sign of a zero sum of products depends on NumPy's BLAS
    tolerance = Sums(total, terms, signed_zero=False) if dtype.is_inexact else Exact()
    return Case(ContractOp, text, factors, lambda b, x: b(ContractOp, *x, letters=text), tolerance)
