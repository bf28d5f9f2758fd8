"""
Whether two sides add the same products: what the class *reassociating* allows over floats.

Residues, and beside each how many terms it is the sum of, and whether it is a number of the
program. A product with a sum does not distribute over it (but with a constant, which rounds no
more often); a sum that cancels has more terms than one that does not.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Operation

from mlc.dialects.tensor.op import Array
from mlc.passes.rules.residues import DIFFERENCES, PRIME, PRODUCTS, SUMS, Residues

MODULUS = np.uint64(PRIME)


class Addends(Residues):
    """The last axis: a residue, the number of terms, and 1 for constants."""

    def __init__(self, seed: int) -> None:
        super().__init__((PRIME, PRIME, PRIME), seed, "difference")

    def are_single(self) -> None:
        """The inputs are one term each."""
        for value, array in self.values.items():
            if self.last(array):
                self.values[value] = _joined(array[..., 0], 1, 0)

    def number(self, value: Fraction) -> Array:
        return np.array([super().number(value)[0], 1 if value else 0, 1], np.uint64)

    def applied(self, op: type[Operation], *operands: Array) -> Array:
        x, *others = np.broadcast_arrays(*operands)
        if op in SUMS or op in DIFFERENCES:
            y = others[0]
            value = x[..., 0] + (y[..., 0] if op in SUMS else MODULUS - y[..., 0])
            return _joined(value % MODULUS, x[..., 1] + y[..., 1], x[..., 2] & y[..., 2])
        if op is arith.NegfOp:
            return _joined((MODULUS - x[..., 0]) % MODULUS, x[..., 1], x[..., 2])
        if op in PRODUCTS:
            return self.product(x, others[0])
        if op is arith.DivfOp:
            return self.product(x, self.opaque(others[0], "inverse"))
        return _joined(super().applied(op, *operands)[..., 0], 1, 0)

    def product(self, x: Array, y: Array) -> Array:
        """Distributes over a sum by a constant alone."""
        value = self.factor(x, y) * self.factor(y, x) % MODULUS
        is_scaled = (x[..., 2] | y[..., 2]) == 1
        terms = np.where(is_scaled, x[..., 1] * y[..., 1], 1)
        return _joined(value, terms, x[..., 2] & y[..., 2])

    def factor(self, x: Array, other: Array) -> Array:
        """A sum as a number of its own, unless the other factor is a constant."""
        is_sum = (x[..., 1] > 1) & (other[..., 2] == 0)
        return np.where(is_sum, self.opaque(x, "sum")[..., 0], x[..., 0])

    def opaque(self, x: Array, name: str) -> Array:
        """An odd function of a value."""
        value = x[..., 0]
        mirrored = value > MODULUS // np.uint64(2)
        found = self.hashed(name, np.where(mirrored, MODULUS - value, value)[..., None])[..., 0]
        return _joined(np.where(mirrored, MODULUS - found, found) % MODULUS, 1, x[..., 2])


def _joined(value: Array, terms: Any, constant: Any) -> Array:
    parts = np.broadcast_arrays(value, terms, constant)
    return np.stack([x.astype(np.uint64) for x in parts], -1)
