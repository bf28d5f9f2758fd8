"""Products summed over axes: matmul, dot, einsum and their relatives, all by `mlc.contract`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.dtypes import DType
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.letters import ALPHABET, spell
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.numpy.complexes import own_conjugate
from mlc.frontend.numpy.elementwise import multiply
from mlc.frontend.numpy.padding import diagonal
from mlc.frontend.numpy.registry import public
from mlc.frontend.numpy.shaping import permuted, ravel, reshaped
from mlc.frontend.numpy.values import (
    ONE,
    broadcast_shapes,
    check_casting,
    common_dtype,
    convert,
    dtype_row,
    lift,
    result,
    strong,
)
from mlc.frontend.trace.autocast import rounding
from mlc.frontend.trace.source import name_of
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Operand = Any


def _pair(function: str, a: Operand, b: Operand) -> tuple[Tracer, Tracer, DType]:
    x, y = strong(a, function), strong(b, function)
    return x, y, common_dtype(function, (x, y))


def _contract(x: Tracer, y: Tracer, letters: str, dtype: DType) -> Tracer:
    left, right = convert(x.value, dtype), convert(y.value, dtype)
    rounds = rounding(ContractOp, dtype)
    return result(here().emit(ContractOp, left, right, letters=letters, **rounds))


@public(np.matmul)
def matmul(x1: Operand, x2: Operand, /) -> Tracer:
    """out[…, m, n] = sum_k x1[…, m, k] * x2[…, k, n]; a vector is a row left and a column right."""
    x, y, dtype = _pair("matmul", x1, x2)
    if not x.ndim or not y.ndim:
        which = "lhs" if not x.ndim else "rhs"
        raise located(
            ShapeError, f"matmul: {which} is a number; expected an array (use * to scale)."
        )
    inner = y.dims[-2] if y.ndim > 1 else y.dims[0]
    if x.dims[-1] != inner:
        raise _inner_error("matmul", x, y, -1, -2 if y.ndim > 1 else 0)
    lead_x, lead_y = x.dims[:-2], y.dims[:-2]
    lead = (
        broadcast_shapes("matmul (leading axes)", (lead_x, lead_y))
        if lead_x and lead_y
        else lead_x or lead_y
    )
    batch = ALPHABET[: len(lead)]
    m, k, n = ALPHABET[len(lead) : len(lead) + 3]
    core_x = (m if x.ndim > 1 else "") + k
    core_y = k + (n if y.ndim > 1 else "")
    shared = batch[len(lead) - min(len(lead_x), len(lead_y)) :]
    left, word_x = _thin(x, lead, batch, core_x, shared)
    right, word_y = _thin(y, lead, batch, core_y, shared)
    word = batch + (m if x.ndim > 1 else "") + (n if y.ndim > 1 else "")
    ones = [c for c in batch if c not in word_x and c not in word_y]
    kept = "".join(c for c in word if c not in ones)
    made = _contract(left, right, f"{word_x},{word_y}->{kept}", dtype)
    if not ones:
        return made
    sizes = dict(zip(batch, lead, strict=True)) | dict(zip(kept, made.dims, strict=True))
    return result(reshaped(made.value, tuple(sizes[c] for c in word)))


def _thin(x: Tracer, lead: Shape, batch: str, core: str, shared: str) -> tuple[Tracer, str]:
    """
    The operand without shared leading axes of size 1, along which it repeats, and its letters. An
    axis that the other operand has not is one of rows, also of size 1: no reshape keeps what is
    computed of the product out of its kernel.
    """
    own = x.dims[: x.ndim - len(core)]
    letters = batch[len(lead) - len(own) :]
    kept = [k for k, dim in enumerate(own) if dim != ONE or letters[k] not in shared]
    word = "".join(letters[k] for k in kept) + core
    dims = (*(own[k] for k in kept), *x.dims[len(own) :])
    return (x if len(kept) == len(own) else result(reshaped(x.value, dims))), word


def _inner_error(function: str, x: Tracer, y: Tracer, axis_x: int, axis_y: int) -> ShapeError:
    names = [name_of(v) for v in (x, y)]
    lhs, rhs = (f"{side} {spell(v.dims)}" for side, v in zip(("lhs", "rhs"), (x, y), strict=True))
    where_x, where_y = axis_x % x.ndim, axis_y % y.ndim
    message = (
        f"{function}: inner dimensions differ: {lhs}, {rhs}; expected lhs[{where_x}] =="
        f" rhs[{where_y}]."
    )
    return located(ShapeError, message, remedy=_did_you_mean(function, x, y, names))


def _did_you_mean(function: str, x: Tracer, y: Tracer, names: Sequence[str | None]) -> str:
    if x.ndim != 2 or y.ndim != 2:
        return ""
    a, b = (name or side for name, side in zip(names, ("lhs", "rhs"), strict=True))

    def write(p: str, q: str) -> str:
        return f"{p} @ {q}" if function == "matmul" else f"np.{function}({p}, {q})"

    if x.dims[1] == y.dims[1]:
        return f"Did you mean {write(a, f'{b}.T')} ?"
    if x.dims[0] == y.dims[0]:
        return f"Did you mean {write(f'{a}.T', b)} ?"
    if x.dims[0] == y.dims[1]:
        return f"Did you mean {write(b, a)} ?"
    return ""


@public(np.dot)
def dot(a: Operand, b: Operand, out: Any = None) -> Tracer:
    """The sum over the last axis of a and the last but one of b."""
    x, y, dtype = _pair("dot", a, b)
    if not x.ndim or not y.ndim:
        return multiply(x, y)
    axis = y.ndim - 2 if y.ndim > 1 else 0
    if x.dims[-1] != y.dims[axis]:
        raise _inner_error("dot", x, y, -1, axis)
    word_x = ALPHABET[: x.ndim]
    word_y = list(ALPHABET[x.ndim : x.ndim + y.ndim])
    word_y[axis] = word_x[-1]
    out = word_x[:-1] + "".join(c for k, c in enumerate(word_y) if k != axis)
    return _contract(x, y, f"{word_x},{''.join(word_y)}->{out}", dtype)


@public(np.vdot)
def vdot(a: Operand, b: Operand) -> Tracer:
    """The dot product of all elements; those of the first are conjugated."""
    x, y = ravel(a), ravel(b)
    return dot(own_conjugate(x), y)


@public(np.inner)
def inner(a: Operand, b: Operand) -> Tracer:
    """The sum over the last axes of both."""
    x, y, _ = _pair("inner", a, b)
    if not x.ndim or not y.ndim:
        return multiply(x, y)
    if x.dims[-1] != y.dims[-1]:
        raise _inner_error("inner", x, y, -1, -1)
    return tensordot(x, y, ((x.ndim - 1,), (y.ndim - 1,)))


@public(np.outer)
def outer(a: Operand, b: Operand, out: Any = None) -> Tracer:
    """out[i, j] = a[i] * b[j]."""
    x, y, dtype = _pair("outer", ravel(a), ravel(b))
    return _contract(x, y, "i,j->ij", dtype)


@public(np.tensordot)
def tensordot(a: Operand, b: Operand, axes: Any = 2) -> Tracer:
    """The sum over pairs of axes."""
    from mlc.frontend.numpy.shaping import normal_axes

    x, y, dtype = _pair("tensordot", a, b)
    if isinstance(axes, int):
        left: Any = tuple(range(x.ndim - axes, x.ndim))
        right: Any = tuple(range(axes))
    else:
        left, right = axes
    axes_x, axes_y = normal_axes(left, x.ndim, "tensordot"), normal_axes(right, y.ndim, "tensordot")
    if len(axes_x) != len(axes_y):
        raise located(
            ShapeError,
            f"tensordot: {len(axes_x)} axes of a and {len(axes_y)} of b; expected pairs.",
        )
    word_x = ALPHABET[: x.ndim]
    word_y = list(ALPHABET[x.ndim : x.ndim + y.ndim])
    for p, q in zip(axes_x, axes_y, strict=True):
        if x.dims[p] != y.dims[q]:
            raise _inner_error("tensordot", x, y, p, q)
        word_y[q] = word_x[p]
    free_x = "".join(c for k, c in enumerate(word_x) if k not in axes_x)
    free_y = "".join(c for k, c in enumerate(word_y) if k not in axes_y)
    return _contract(x, y, f"{word_x},{''.join(word_y)}->{free_x}{free_y}", dtype)


@public(np.trace)
def trace(a: Operand, offset: int = 0, axis1: Any = 0, axis2: Any = 1) -> Tracer:
    """The sum of the elements x[i, i + offset] of two axes."""
    from mlc.frontend.numpy.creation import eye
    from mlc.frontend.numpy.elementwise import where
    from mlc.frontend.numpy.reductions import sum as total

    x = lift(a)
    unknown = any(size.constant is None for size in x.dims)
    if x.ndim == 2 and unknown and (offset or x.dims[0] != x.dims[1]):
        # how long the diagonal is shows only at run time
        return total(where(eye(x.shape[0], x.shape[1], offset, dtype=bool), x, 0))
    return total(diagonal(x, offset, axis1, axis2), axis=-1)


# einsum

_LOWER = "abcdefghijklmnopqrstuvwxyz"


@public(np.einsum)
def einsum(
    subscripts: Operand,
    /,
    *operands: Operand,
    dtype: Any = None,
    casting: str = "safe",
    optimize: Any = False,
    out: Any = None,
) -> Tracer:
    """Einstein summation with letters, e.g. "bik,bkj->bij"; operands combine from left to right."""
    if not isinstance(subscripts, str):
        subscripts, operands = _from_sublists((subscripts, *operands))
    arrays = [lift(x, "einsum") for x in operands]
    words, out = _subscripts(subscripts.replace(" ", ""), arrays)
    row = common_dtype("einsum", arrays) if dtype is None else dtype_row(dtype)
    check_casting("einsum", arrays, row, casting)
    _diagonals(subscripts, words, arrays)
    _thin_operands(subscripts, words, arrays)
    value, word = convert(arrays[0].value, row), words[0]
    for k, (x, other) in enumerate(zip(arrays[1:], words[1:], strict=True), 1):
        needed = set(out).union(*words[k + 1 :])
        both = word + "".join(c for c in other if c not in word)
        kept = out if k == len(words) - 1 else "".join(c for c in both if c in needed)
        letters, rounds = f"{word},{other}->{kept}", rounding(ContractOp, row)
        value = here().emit(ContractOp, value, convert(x.value, row), letters=letters, **rounds)
        word = kept
    return result(_single(value, word, out))


def _from_sublists(given: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """``einsum(x, [0, 1], y, [1, 2], [0, 2])`` with letters."""
    operands, lists = given[0 : len(given) - len(given) % 2 : 2], given[1::2]
    out = given[-1] if len(given) % 2 else None
    several = [*lists, *([] if out is None else [out])]
    numbers = sorted({n for part in several for n in part if n is not Ellipsis})
    if len(numbers) > len(_LOWER):
        raise located(NotSupportedError, f"einsum: {len(numbers)} axes are too many.")
    letters = {n: _LOWER[k] for k, n in enumerate(numbers)}
    words = ["".join("..." if n is Ellipsis else letters[n] for n in part) for part in several]
    text = ",".join(words[: len(lists)])
    return (text if out is None else f"{text}->{words[-1]}"), operands


def _diagonals(subscripts: str, words: list[str], arrays: list[Tracer]) -> None:
    """An operand with a letter twice becomes its diagonal, with the letter once and last."""
    for number, word in enumerate(words):
        while len(set(word)) < len(word):
            letter = next(c for c in word if word.count(c) > 1)
            first, second = word.index(letter), word.rindex(letter)
            x = arrays[number]
            if x.dims[first] != x.dims[second]:
                message = (
                    f"einsum {subscripts!r}: '{letter}' is {x.dims[first]} and {x.dims[second]} in"
                    f" operand {number} {spell(x.dims)}."
                )
                raise located(ShapeError, message)
            arrays[number] = diagonal(x, axis1=first, axis2=second)
            rest = "".join(c for k, c in enumerate(word) if k not in (first, second))
            word = words[number] = rest + letter  # noqa: PLW2901 - until no letter is there twice


def _thin_operands(subscripts: str, words: list[str], arrays: list[Tracer]) -> None:
    """Checks the sizes of the letters; an axis of size 1 that is longer elsewhere is dropped."""
    sizes: dict[str, Dim] = {}
    for number, (word, x) in enumerate(zip(words, arrays, strict=True)):
        for letter, dim in zip(word, x.dims, strict=True):
            known = sizes.get(letter, ONE)
            if known not in (ONE, dim) and dim != ONE:
                message = (
                    f"einsum {subscripts!r}: '{letter}' is {known} and, in operand {number}"
                    f" {spell(x.dims)}, {dim}."
                )
                raise located(ShapeError, message)
            sizes[letter] = dim if known == ONE else known
    for number, (word, x) in enumerate(zip(words, arrays, strict=True)):
        kept = [k for k, letter in enumerate(word) if x.dims[k] == sizes[letter]]
        if len(kept) != len(word):
            arrays[number] = result(reshaped(x.value, tuple(x.dims[k] for k in kept)))
            words[number] = "".join(word[k] for k in kept)


def _single(value: SSAValue, word: str, out: str) -> SSAValue:
    """One operand: sum the letters that the result lacks, then order the others."""
    kept = "".join(c for c in word if c in out)
    if kept != word:
        value = here().emit(ReduceOp, value, monoid="sum", letters=f"{word}->{kept}")
    return permuted(value, [kept.index(c) for c in out])


def _subscripts(text: str, arrays: Sequence[Tracer]) -> tuple[list[str], str]:
    left, arrow, out = text.partition("->")
    words = left.split(",")
    if len(words) != len(arrays):
        raise located(
            ShapeError, f"einsum {text!r}: names {len(words)} operands, found {len(arrays)}."
        )
    if "." in text:
        words, out = _without_ellipsis(words, out if arrow else None, arrays, text)
    elif not arrow:
        out = "".join(sorted(c for c in set(left) - {","} if left.count(c) == 1))
    for word, x in zip(words, arrays, strict=True):
        if len(word) != x.ndim:
            raise located(
                ShapeError,
                f"einsum {text!r}: {word!r} names {len(word)} axes of an array {spell(x.dims)}.",
            )
    if unknown := [c for c in out if c not in left and not any(c in word for word in words)]:
        raise located(
            ShapeError, f"einsum {text!r}: the result's letter {unknown[0]!r} is in no operand."
        )
    return words, out


def _without_ellipsis(
    words: Sequence[str], out: str | None, arrays: Sequence[Tracer], text: str
) -> tuple[list[str], str]:
    """The ellipsis written out as letters, aligned at its last axis."""
    spare = [c for c in ALPHABET if c not in text]
    ranks = [
        x.ndim - len(word.replace("...", "")) if "..." in word else 0
        for word, x in zip(words, arrays, strict=True)
    ]
    rest = "".join(spare[: max(ranks)])
    full = [
        word.replace("...", rest[len(rest) - rank :])
        for word, rank in zip(words, ranks, strict=True)
    ]
    if out is None:
        named = "".join(words).replace(".", "")
        out = rest + "".join(sorted(c for c in set(named) if named.count(c) == 1))
    return full, out.replace("...", rest)
