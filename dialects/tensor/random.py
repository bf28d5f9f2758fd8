"""Random bits as a function of a key and a position: no state, the same on every machine."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import eq, operand_def, prop_def, result_def

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import shape_of, tensor_type
from mlc.dialects.dtypes import U32, U64, dtype_of
from mlc.dialects.errors import DTypeError
from mlc.dialects.tensor.element import ElementBuilder
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import Array, Tensor, int_property
from mlc.lazy_dataclass import dataclass

W = TypeVar("W")
Four = tuple[W, W, W, W]

MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)
KEY_STEPS = (0x9E3779B9, 0xBB67AE85)  # the golden ratio, and sqrt(3) - 1
ROUNDS = 10
LOW = 0xFFFFFFFF
"""SOURCE: Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011."""


class Words(Protocol[W]):
    """Arithmetic on 64-bit words, modulo 2^64."""

    def constant(self, value: int) -> W:
        """The same word everywhere."""
        ...

    def add(self, x: W, y: W) -> W:
        """x + y"""
        ...

    def mul(self, x: W, y: W) -> W:
        """x * y"""
        ...

    def xor(self, x: W, y: W) -> W:
        """The bits in which they differ."""
        ...

    def low(self, x: W) -> W:
        """The lower 32 bits."""
        ...

    def high(self, x: W) -> W:
        """The upper 32 bits."""
        ...


def philox4x32(a: Words[W], counter: Four[W], key: tuple[W, W]) -> Four[W]:
    """Philox-4x32-10: four random words of 32 bits, each in the lower half of a 64-bit word."""
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for number in range(ROUNDS):
        if number:
            k0, k1 = (
                a.low(a.add(k, a.constant(step)))
                for k, step in zip((k0, k1), KEY_STEPS, strict=True)
            )
        first = a.mul(c0, a.constant(MULTIPLIERS[0]))
        second = a.mul(c2, a.constant(MULTIPLIERS[1]))
        c0, c1, c2, c3 = (
            a.xor(a.xor(a.high(second), c1), k0),
            a.low(second),
            a.xor(a.xor(a.high(first), c3), k1),
            a.low(first),
        )
    return c0, c1, c2, c3


class ArrayWords:
    """`Words` that are arrays of u64."""

    def constant(self, value: int) -> NDArray[np.uint64]:
        return np.asarray(value, np.uint64)

    def add(self, x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return x + y

    def mul(self, x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return x * y

    def xor(self, x: NDArray[np.uint64], y: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return x ^ y

    def low(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return x & np.uint64(LOW)

    def high(self, x: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return x >> np.uint64(32)


@dataclass(frozen=True)
class ElementWords:
    """`Words` that are elements."""

    b: ElementBuilder

    def constant(self, value: int) -> SSAValue:
        return self.b.constant(value, U64)

    def add(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.apply(arith.AddiOp, x, y)

    def mul(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.apply(arith.MuliOp, x, y)

    def xor(self, x: SSAValue, y: SSAValue) -> SSAValue:
        return self.b.apply(arith.XOrIOp, x, y)

    def low(self, x: SSAValue) -> SSAValue:
        return self.b.apply(arith.AndIOp, x, self.constant(LOW))

    def high(self, x: SSAValue) -> SSAValue:
        return self.b.apply(arith.ShRUIOp, x, self.constant(32))


@irdl_op_definition
class PhiloxOp(Elementwise):
    """
    Random bits for each pair of a key and a position, both u64.

    Position p is a word of 32 bits, number p % 4 of the block p // 4; or of 64 bits, number p % 2
    of the block p // 2, lower half first. A block is Philox-4x32-10 of the counter (block number,
    stream), both of 64 bits.

    ```mlir
    %0 = mlc.philox 32 %key, %position stream 0 : tensor<9xui64>, tensor<9xui64> -> tensor<9xui32>
    ```
    """

    name = "mlc.philox"
    NO_DERIVATIVE: ClassVar[str] = "gives integers"
    SOURCE: ClassVar[str] = (
        'Salmon, Moraes, Dror, Shaw, "Parallel Random Numbers: As Easy as 1, 2, 3", SC 2011'
    )
    KINDS: ClassVar[tuple[str, ...]] = ("uint",)
    FLOPS: ClassVar[int] = 7 * ROUNDS
    WEIGHT: ClassVar[float] = 1.5  # of each of these: products of 64 bits are slow
    key = operand_def(TensorType)
    position = operand_def(TensorType)
    bits = prop_def(IntegerAttr.constr(eq(i64)))
    stream = prop_def(IntegerAttr.constr(eq(i64)))
    result = result_def(TensorType)
    assembly_format = (
        "$bits $key `,` $position `stream` $stream attr-dict"
        " `:` type($key) `,` type($position) `->` type($result)"
    )

    @classmethod
    def infer(
        cls,
        operands: Sequence[Tensor],
        properties: dict[str, Attribute],
        declared: Tensor | None = None,
    ) -> Tensor:
        cls.check_same(operands)
        kind = dtype_of(operands[0].element_type)
        if kind is not U64:
            raise DTypeError(f"mlc.philox: key and position are {kind.name}; expected u64")
        bits = int_property(properties, "bits")
        if bits not in (32, 64):
            raise DTypeError(f"mlc.philox: {bits} bits; expected 32 or 64")
        return tensor_type((U32 if bits == 32 else U64).ir, shape_of(operands[0]))

    @property
    def words(self) -> int:
        """Words of a block."""
        return 128 // self.bits.value.data

    def counter(self, a: Words[W], block: W) -> Four[W]:
        """The counter of a block."""
        stream = self.stream.value.data % 2**64
        return a.low(block), a.high(block), a.constant(stream & LOW), a.constant(stream >> 32)

    def reference(self, *operands: Array) -> Array:
        a = ArrayWords()
        key, position = (np.asarray(x, np.uint64) for x in operands)
        shift = np.uint64(self.words.bit_length() - 1)
        block, number = position >> shift, position & np.uint64(self.words - 1)
        with np.errstate(over="ignore"):
            found = philox4x32(a, self.counter(a, block), (a.low(key), a.high(key)))
        same = [np.broadcast_to(x, position.shape) for x in found]
        if self.words == 4:
            return np.choose(number.astype(np.intp), same).astype(np.uint32)
        pairs = [same[k] | same[k + 1] << np.uint64(32) for k in (0, 2)]
        return np.choose(number.astype(np.intp), pairs)

    def scalar(self, b: ElementBuilder, *operands: SSAValue) -> SSAValue:
        a = ElementWords(b)
        key, position = operands
        shift = b.constant(self.words.bit_length() - 1, U64)
        block = b.apply(arith.ShRUIOp, position, shift)
        found = philox4x32(a, self.counter(a, block), (a.low(key), a.high(key)))

        def has(bit: int) -> SSAValue:
            one = b.constant(bit, U64)
            return b.compare("eq", b.apply(arith.AndIOp, position, one), one, U64)

        odd = has(1)
        if self.words == 4:
            first, second = (b.select(odd, found[k + 1], found[k]) for k in (0, 2))
            return b.convert(b.select(has(2), second, first), U64, U32)
        upper = b.constant(32, U64)
        pairs = [
            b.apply(arith.OrIOp, found[k], b.apply(arith.ShLIOp, found[k + 1], upper))
            for k in (0, 2)
        ]
        return b.select(odd, pairs[1], pairs[0])
