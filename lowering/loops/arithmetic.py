"""Index arithmetic that folds, and constants: the part of the loops builder that knows no loops.

An index is an `int` where it is known and an SSA value where it is not, so a static size is a
constant that folds (D7).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd
from typing import TypeGuard, cast

from xdsl.dialects import arith, memref, vector
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IndexType, IntegerAttr, IntegerType, i1, i64
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.complex_ops import PairOp
from mlc.dialects.dims import Dim, FloorDiv
from mlc.dialects.dtypes import DType
from mlc.dialects.lanes import vector_type
from mlc.lowering.loops.constants import index_attr, representable, splat

INDEX = IndexType()
Index = int | SSAValue

NO_OVERFLOW = arith.IntegerOverflowAttr("none")
_PREDICATES = {"eq": 0, "ne": 1, "lt": 2, "le": 3, "gt": 4, "ge": 5}  # arith.cmpi, signed
_MAY_FAIL = (arith.DivUIOp, arith.RemUIOp, arith.FloorDivSIOp)
_KEYED = (arith.AddiOp, arith.SubiOp, arith.MinSIOp)  # that move, and are known by their operands
_SUMS = arith.AddiOp | arith.SubiOp | arith.MinSIOp | arith.MaxSIOp


def parted(x: Index) -> tuple[Index, int]:
    """An index as a value and a number that is added to it last."""
    if isinstance(x, int):
        return 0, x
    if isinstance(made := x.owner, arith.AddiOp):
        value, last = made.operands
        if _is_number(made := last.owner):
            return value, _number(made)
    return x, 0


def _is_number(made: Operation | Block) -> TypeGuard[arith.ConstantOp]:
    return isinstance(made, arith.ConstantOp) and made.result.type == INDEX


def _number(op: arith.ConstantOp) -> int:
    return cast("IntegerAttr[IndexType]", op.value).value.data


def _factor_of(value: SSAValue, depth: int = 8) -> int:
    """A number that divides an index, as far as the ops say that make it; 0 divides 0 alone."""
    made = value.owner
    if _is_number(made):
        return abs(_number(made))
    if depth == 0 or not isinstance(made, arith.MuliOp | _SUMS):
        return 1
    x, y = (_factor_of(operand, depth - 1) for operand in made.operands)
    return x * y if isinstance(made, arith.MuliOp) else gcd(x, y)


class IndexBuilder:
    """Appends ops to the current block. Constants go to the function's first block, each once."""

    shares_places = True
    """
    Whether one register serves many places: numbers are added last, as loads and stores do it, and
    a branch's arithmetic stands in front of it, where others have it too.
    """

    def __init__(self, entry: Block) -> None:
        self.block = entry
        self.entry = entry
        self.symbols: dict[str, Index] = {}
        self._constants: dict[object, SSAValue] = {}
        self._indices: dict[int, SSAValue] = {}  # of these, those of indices
        self._last_constant: Operation | None = None
        self._known: list[dict[object, Index]] = [{}]
        self._before: list[Block | None] = [None]  # of these, where a branch will stand
        self._asked: dict[SSAValue, tuple[object, ...]] = {}  # comparisons of a condition

    # ops ------------------------------------------------------------------------------------

    def add_op(self, op: Operation) -> Operation:
        """Appends any op."""
        self.block.add_op(op)
        return op

    def value(self, op: Operation) -> SSAValue:
        """Appends an op and gives its only result."""
        self.block.add_op(op)
        return op.results[0]

    def constant(self, value: Attribute, kind: Attribute) -> SSAValue:
        """An arith.constant in the function's first block."""
        key = (value, kind)
        found = self._constants.get(key)
        if found is None:
            op = arith.ConstantOp.create(result_types=[kind], properties={"value": value})
            if self._last_constant is not None:
                self.entry.insert_op_after(op, self._last_constant)
            elif self.entry.first_op is not None:
                self.entry.insert_op_before(op, self.entry.first_op)
            else:
                self.entry.add_op(op)
            self._last_constant = op
            found = self._constants[key] = op.results[0]
        return found

    def element(self, value: complex, dtype: DType, lanes: int) -> SSAValue:
        """A constant element, repeated over the lanes."""
        if dtype.kind == "complex":
            parts = (self.element(x, dtype.part, lanes) for x in (value.real, value.imag))
            return self.value(PairOp.of(*parts))
        number, kind = representable(value, dtype), dtype.register
        if lanes > 1:
            return self.constant(splat(number, dtype, lanes), vector_type(kind, lanes))
        if dtype.kind == "float":
            return self.constant(FloatAttr(number, cast(AnyFloat, kind)), kind)
        return self.constant(IntegerAttr(int(number), cast(IntegerType, kind)), kind)

    # index arithmetic -----------------------------------------------------------------------

    def index(self, value: Index) -> SSAValue:
        """An index as an SSA value."""
        if not isinstance(value, int):
            return value
        found = self._indices.get(value)
        if found is None:
            found = self._indices[value] = self.constant(index_attr(value), INDEX)
        return found

    def _binary(self, op: type[Operation], x: Index, y: Index, flags: bool) -> Index:
        key = (op, x, y)
        found = self._found(key)
        if found is not None:
            return found
        properties: dict[str, Attribute] = {"overflowFlags": NO_OVERFLOW} if flags else {}
        new = op.create(
            operands=[self.index(x), self.index(y)], result_types=[INDEX], properties=properties
        )
        if op in _MAY_FAIL:
            result = self._known[-1][key] = self.value(new)
            return result
        return self._before_arms(key, new)

    def once(self, op: Operation, *, stays: bool = False) -> SSAValue:
        """
        The result of an op without effects and properties, made where it is not known yet. `stays`:
        not in front of a branch that it stands in.
        """
        key = (type(op), op.results[0].type, *op.operands)
        found = self._found(key)
        if isinstance(found, SSAValue):
            op.erase()
            return found
        if not stays:
            return self._before_arms(key, op)
        self._known[-1][key] = self.value(op)
        return op.results[0]

    def placed(self, op: Operation) -> Sequence[SSAValue]:
        """Appends an op that was made elsewhere, unless its result is known here: its results."""
        if type(op) in _KEYED:
            operands = [_number(made) if _is_number(made := x.owner) else x for x in op.operands]
            key = (type(op), *operands)
        elif isinstance(op, memref.LoadOp | vector.BroadcastOp | vector.CreateMaskOp):
            key = (type(op), op.results[0].type, *op.operands)
        else:
            return self.add_op(op).results
        known = self._found(key)
        if isinstance(known, SSAValue):
            op.results[0].replace_all_uses_with(known)
            op.erase()
            return (known,)
        self._known[-1][key] = self.value(op)
        return op.results

    def _before_arms(self, key: object, op: Operation) -> SSAValue:
        """Appends an op in front of the branches around that do not make what it reads."""
        depth, block = len(self._known) - 1, self.block
        while (outer := self._before[depth]) is not None and not any(
            block_of(x) is block for x in op.operands
        ):
            depth, block = depth - 1, outer
        block.add_op(op)
        result = self._known[depth][key] = op.results[0]
        return result

    def _found(self, key: object) -> Index | None:
        """What is known here already."""
        for scope in reversed(self._known):
            if key in scope:
                return scope[key]
        return None

    def add(self, x: Index, y: Index) -> Index:
        """x + y"""
        if isinstance(x, int) and isinstance(y, int):
            return x + y
        if x == 0:
            return y
        if isinstance(y, SSAValue) and isinstance(made := y.owner, arith.SubiOp):
            whole, part = made.operands
            if part is self.index(x):
                return whole
        if y == 0:
            return x
        if not self.shares_places:
            return self._binary(arith.AddiOp, x, y, True)
        (x, more), (y, beyond) = parted(x), parted(y)
        total = x if y == 0 else y if x == 0 else self._binary(arith.AddiOp, x, y, True)
        number = more + beyond
        return self._binary(arith.AddiOp, total, number, True) if number else total

    def sub(self, x: Index, y: Index) -> Index:
        """x - y"""
        if isinstance(x, int) and isinstance(y, int):
            return x - y
        return x if y == 0 else self._binary(arith.SubiOp, x, y, True)

    def mul(self, x: Index, y: Index) -> Index:
        """x * y"""
        if isinstance(x, int) and isinstance(y, int):
            return x * y
        if x == 0 or y == 0:
            return 0
        if x == 1:
            return y
        if isinstance(y, int) and isinstance(x, SSAValue) and isinstance(x.owner, arith.DivUIOp):
            whole, part = x.owner.operands
            if part is self.index(y) and _factor_of(whole) % y == 0:
                return whole
        return x if y == 1 else self._binary(arith.MuliOp, x, y, True)

    def div(self, x: Index, y: Index) -> Index:
        """floor(x / y) for x >= 0, y > 0"""
        if isinstance(x, int) and isinstance(y, int):
            return x // y
        if isinstance(x, SSAValue) and isinstance(made := x.owner, arith.MuliOp):
            factor, times = made.operands
            if times is self.index(y):
                return factor
        return x if y == 1 else self._binary(arith.DivUIOp, x, y, False)

    def ceil_div(self, x: Index, y: Index) -> Index:
        """ceil(x / y) for x >= 0, y > 0"""
        return x if y == 1 else self.div(self.add(x, self.sub(y, 1)), y)

    def min(self, x: Index, y: Index) -> Index:
        """The smaller."""
        if isinstance(x, int) and isinstance(y, int):
            return min(x, y)
        return self._binary(arith.MinSIOp, x, y, False)

    def max(self, x: Index, y: Index) -> Index:
        """The larger."""
        if isinstance(x, int) and isinstance(y, int):
            return max(x, y)
        return self._binary(arith.MaxSIOp, x, y, False)

    def round_up(self, x: Index, multiple: int) -> Index:
        """x rounded up to a multiple."""
        return self.mul(self.ceil_div(x, multiple), multiple)

    def product(self, sizes: Sequence[Index]) -> Index:
        """The product of all sizes."""
        total: Index = 1
        for size in sizes:
            total = self.mul(total, size)
        return total

    def dim(self, dim: Dim) -> Index:
        """A dim's value from the symbols in `symbols`."""
        if dim.constant is not None:
            return dim.constant
        total: Index = 0
        for monomial, coefficient in dim.terms:
            term: Index = 1
            for atom in monomial:
                if isinstance(atom, FloorDiv):
                    numerator = self.dim(atom.numerator)
                    factor = self._binary(arith.FloorDivSIOp, numerator, atom.divisor, False)
                else:
                    factor = self.symbols[atom]
                term = self.mul(term, factor)
            if coefficient < 0:
                total = self.sub(total, self.mul(term, -coefficient))
            else:
                total = self.add(total, self.mul(term, coefficient))
        return total

    def compare(self, predicate: str, x: Index, y: Index) -> SSAValue | bool:
        """x ? y for eq ne lt le gt ge, signed; known where it decides that this code runs."""
        if isinstance(x, int) and isinstance(y, int):
            return {
                "eq": x == y,
                "ne": x != y,
                "lt": x < y,
                "le": x <= y,
                "gt": x > y,
                "ge": x >= y,
            }[predicate]
        key = (predicate, x, y)
        known = self._found(key)
        if known is not None:
            return bool(known) if isinstance(known, int) else known
        code = IntegerAttr(_PREDICATES[predicate], i64)
        operands, properties = [self.index(x), self.index(y)], {"predicate": code}
        new = arith.CmpiOp.create(operands=operands, result_types=[i1], properties=properties)
        result = self._before_arms(key, new)
        self._asked[result] = (key,)
        return result

    def both(self, x: SSAValue | bool, y: SSAValue | bool) -> SSAValue | bool:
        """Conjunction of two conditions."""
        if isinstance(x, bool):
            return y if x else False
        if isinstance(y, bool):
            return x if y else False
        op = arith.AndIOp.create(operands=[x, y], result_types=[i1])
        result = self.once(op, stays=True)
        self._asked[result] = (*self._asked.get(x, ()), *self._asked.get(y, ()))
        return result

    def negated(self, x: SSAValue) -> SSAValue:
        """The opposite condition."""
        true = self.constant(IntegerAttr(1, i1), i1)
        return self.value(arith.XOrIOp.create(operands=[x, true], result_types=[i1]))

    def choose(self, condition: SSAValue | bool, x: Index, y: Index) -> Index:
        """x where the condition holds, else y."""
        if isinstance(condition, bool):
            return x if condition else y
        return self.value(
            arith.SelectOp.create(
                operands=[condition, self.index(x), self.index(y)], result_types=[INDEX]
            )
        )
