"""
Programs modulo a prime at a few positions of their results: what these read, and nothing else.

`AtPoints` before an interpreter of `passes/rules` makes it ask ops for elements where others read
them, instead of computing all of each value.
"""

from __future__ import annotations

import math
from fractions import Fraction
from hashlib import blake2b
from typing import Any, cast

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import shape_of
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.element import Point
from mlc.dialects.tensor.op import Array, TensorOp
from mlc.dialects.tensor.reduce import Reduction
from mlc.dialects.tensor.shape import ConcatOp, ReshapeOp
from mlc.passes.rules.addends import Addends
from mlc.passes.rules.residues import LARGE, PRIME, PRODUCTS, SUMS, Residues, UnknownError


def residue_of(value: Fraction, modulus: int) -> int:
    """
    A constant modulo a prime. What is not small may vanish in a product of few: it is a variable,
    the same one wherever it occurs. What is equal for each of its values is equal for its own.
    """
    top, bottom = value.numerator, value.denominator
    if max(abs(top), bottom) < LARGE:
        return top * pow(bottom, -1, modulus) % modulus
    text = f"{top}/{bottom}".encode()
    return int.from_bytes(blake2b(text, digest_size=16).digest(), "big") % modulus


def is_large(op: Operation) -> bool:
    """Whether an op is a constant that has to be a variable."""
    if not isinstance(op, ConstantOp) or op.dtype.kind != "float":
        return False
    found = (Fraction(x) for x in op.array().ravel().tolist() if math.isfinite(x))
    return any(max(abs(x.numerator), x.denominator) >= LARGE for x in found)


class Numbers(Residues):
    """Of all constants that are finite, large ones too."""

    def number(self, value: Fraction) -> Array:
        return np.array([residue_of(value, m) for m in self.moduli.tolist()], np.uint64)


class AtPoints(Numbers):
    """`values` are those of the arguments; the elements of all other values are made where read."""

    def elements(self, value: SSAValue, positions: Array) -> Array:
        """The elements of a value. positions: (N, rank); the result: (N, moduli), or (N,) bools."""
        point = cast("Point", tuple(np.moveaxis(positions, -1, 0)))
        found = cast("Array", self.fetch(value, point))
        return np.broadcast_to(found, (len(positions), *self.last(found)))

    def fetch(self, tensor: SSAValue, at: Point, where: Any = None) -> Any:
        owner = tensor.owner
        if tensor not in self.values and isinstance(owner, ConstantOp):
            self.values[tensor] = self.of_op(owner, {})
        if tensor in self.values:
            return super().fetch(tensor, at, where)
        assert isinstance(owner, TensorOp)
        places = [np.asarray(p) for p in at]
        sizes = tuple(n.evaluate({}) for n in owner.shape)
        if where is not None:
            places = [np.clip(p, 0, n - 1) for p, n in zip(places, sizes, strict=True)]
        if isinstance(owner, ReshapeOp):
            before = tuple(n.evaluate({}) for n in shape_of(owner.x.type))
            shape = np.broadcast_shapes(*(p.shape for p in places))
            flat = np.ravel_multi_index([np.broadcast_to(p, shape) for p in places], sizes)
            return self.fetch(owner.x, cast("Point", np.unravel_index(flat, before)))
        if isinstance(owner, ConcatOp):
            return self.concatenated(owner, places)
        return self.made(owner, places)

    def concatenated(self, op: ConcatOp, places: list[Array]) -> Array:
        """Elements of the operand that holds them."""
        axis, found = op.axis.value.data, None
        for part, start in zip(op.parts, op.piece_offsets(), strict=True):
            inner = [*places]
            inner[axis] = places[axis] - start.evaluate({})
            inside = inner[axis] >= 0
            piece = self.fetch(part, cast("Point", tuple(inner)), inside)
            found = piece if found is None else self.select(inside, piece, found)
        return cast("Array", found)

    def made(self, op: TensorOp, places: list[Array]) -> Array:
        """Elements of an op's result, sums along axes behind those of the positions."""
        shape = np.broadcast_shapes(*(p.shape for p in places))
        if not isinstance(op, Reduction):
            return cast("Array", op.element(self, cast("Point", tuple(places))))
        space = tuple(n.evaluate({}) for n in op.iteration()[len(places) :])
        ones = (1,) * len(space)
        wide = [p.reshape(*p.shape, *ones) if p.ndim else p for p in places]
        point = (*wide, *(np.ogrid[tuple(slice(n) for n in space)] if space else ()))
        value = cast("Array", op.element(self, cast("Point", point)))
        value = np.broadcast_to(value, (*shape, *space, *self.last(value)))
        return self.reduced(op, value, len(shape))


class Ordered(Residues):
    """
    Sums and products that only commute: equal here is equal to the last bit, wherever both sums
    are taken in the order in which ops name their letters.
    """

    def applied(self, op: Any, *operands: Array) -> Array:
        if op in SUMS or op in PRODUCTS:
            first, second = np.broadcast_arrays(*operands)
            name = "sum" if op in SUMS else "product"
            return self.hashed(name, np.minimum(first, second), np.maximum(first, second))
        return self.hashed(op.name, *operands)

    def convert(self, value: Any, source: DType, target: DType) -> Any:
        if source is target:
            return value
        if source.kind == "bool" or target.kind == "bool":
            raise UnknownError(f"a conversion from {source.name} to {target.name}")
        return self.hashed(target.name, value)


class OrderedAtPoints(AtPoints, Ordered):
    """`Ordered`, at a few positions."""


class AddendsAtPoints(AtPoints, Addends):
    """
    `Addends`, at a few positions. 0 is a number like any other: what is multiplied by it may be
    infinite, so that a side that adds such products may be NaN where the other is not.
    """

    def number(self, value: Fraction) -> Array:
        residue = residue_of(value, PRIME) if value else self.zero
        return np.array([residue, 1, 1], np.uint64)

    @property
    def zero(self) -> int:
        """What stands for 0."""
        return (self.seed + 1) * 0x9E3779B97F4A7C15 % PRIME
