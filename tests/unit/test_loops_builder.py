"""Index arithmetic of the loops builder folds what is known, and computes each thing once."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import f32
from xdsl.ir import Block, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F32
from mlc.lowering.loops.arithmetic import INDEX, Index
from mlc.lowering.loops.builder import LoopBuilder, buffer_type, static


@pytest.fixture
def block() -> Block:
    return Block(arg_types=[INDEX, INDEX, buffer_type(f32, (-1,))])


@pytest.fixture
def b(block: Block) -> LoopBuilder:
    builder = LoopBuilder(block)
    builder.symbols = {"B": block.args[0], "N": block.args[1]}
    return builder


def names(block: Block) -> list[str]:
    """The ops of a block, constants left out."""
    return [op.name for op in block.ops if not isinstance(op, arith.ConstantOp)]


def test_known_numbers_leave_no_ops(b: LoopBuilder, block: Block) -> None:
    assert b.add(3, 4) == 7
    assert b.sub(3, 4) == -1
    assert b.mul(3, 4) == 12
    assert b.div(7, 2) == 3
    assert b.ceil_div(7, 2) == 4
    assert b.round_up(65, 64) == 128
    assert b.min(3, 4) == 3
    assert b.max(3, 4) == 4
    assert b.product([2, 3, 4]) == 24
    assert b.compare("lt", 3, 4) is True
    assert b.choose(False, 1, 2) == 2
    assert b.both(True, False) is False
    assert not list(block.ops)


def test_neutral_operands_vanish(b: LoopBuilder, block: Block) -> None:
    n = block.args[0]
    assert b.add(n, 0) is n
    assert b.add(0, n) is n
    assert b.sub(n, 0) is n
    assert b.mul(n, 1) is n
    assert b.mul(1, n) is n
    assert b.mul(n, 0) == 0
    assert b.div(n, 1) is n
    assert b.ceil_div(n, 1) is n
    assert not list(block.ops)


def test_equal_arithmetic_is_computed_once(b: LoopBuilder, block: Block) -> None:
    n = block.args[0]
    assert b.add(n, 4) is b.add(n, 4)
    assert b.dim(Dim.of("2*B + N")) is b.dim(Dim.of("2*B + N"))
    assert names(block) == ["arith.addi", "arith.muli", "arith.addi"]


def test_what_a_branch_computed_is_unknown_outside(b: LoopBuilder, block: Block) -> None:
    """Else a value would be used where it is not defined."""
    n = block.args[0]
    found: list[Index] = []
    b.when(b.compare("lt", n, 4), lambda: found.append(b.div(n, block.args[1])))
    found.append(b.div(n, block.args[1]))
    inside, outside = found
    assert inside is not outside
    assert names(block) == ["arith.cmpi", "scf.if", "arith.divui"]


def test_a_place_stands_in_front_of_the_branches_that_use_it(b: LoopBuilder, block: Block) -> None:
    n, m, _ = block.args
    found: list[Index] = []
    for k in (4, 8):
        b.when(b.compare("lt", n, k), lambda: found.append(b.mul(n, m)))
    first, second = found
    assert first is second
    assert names(block) == ["arith.cmpi", "arith.muli", "scf.if", "arith.cmpi", "scf.if"]


def test_a_branch_knows_its_condition(b: LoopBuilder, block: Block) -> None:
    n, m, _ = block.args
    found: list[SSAValue | bool] = []

    def inside() -> None:
        found.extend((b.compare("lt", n, 4), b.compare("lt", m, 4)))

    b.when(b.both(b.compare("lt", n, 4), b.compare("lt", m, 4)), inside, inside)
    then, otherwise = found[:2], found[2:]
    assert then == [True, True]
    assert not any(isinstance(x, bool) for x in otherwise)


def test_numbers_are_added_last(b: LoopBuilder, block: Block) -> None:
    n, m, _ = block.args
    assert b.add(n, b.add(m, 4)) is b.add(b.add(n, 2), b.add(m, 2))
    assert b.add(b.add(n, 4), -4) is n
    assert b.add(n, b.sub(m, n)) is m


def test_what_comes_out_even_has_no_rest(b: LoopBuilder, block: Block) -> None:
    n, m, _ = block.args
    even = b.min(b.mul(n, 8), b.add(b.mul(m, 4), 16))
    assert b.mul(b.div(even, 4), 4) is even
    assert b.mul(b.div(even, 8), 8) is not even
    assert b.div(b.mul(n, m), m) is n


def test_a_loop_from_a_place_to_itself_is_none(b: LoopBuilder, block: Block) -> None:
    n = block.args[0]
    b.loop(n, n, 1, lambda i: b.add_op(scf.YieldOp.create()) and None)
    assert not list(block.ops)


def test_what_nobody_writes_is_read_once(b: LoopBuilder, block: Block) -> None:
    n, _, memory = block.args
    assert b.load(memory, [n]) is not b.load(memory, [n])
    b.unchanging = frozenset((memory,))
    assert b.load(memory, [n]) is b.load(memory, [n])


def test_a_loop_sees_what_was_computed_before(b: LoopBuilder, block: Block) -> None:
    n = block.args[0]
    before = b.mul(n, n)
    found: list[Index] = []

    def body(i: Index) -> None:
        found.append(b.mul(n, n))

    b.loop(0, n, 1, body)
    assert found == [before]


def test_loops_of_known_length(b: LoopBuilder, block: Block) -> None:
    trips: list[Index] = []

    def body(i: Index, *carried: SSAValue) -> Sequence[SSAValue]:
        trips.append(i)
        return carried

    zero = b.element(0, F32, 1)
    assert b.loop(4, 4, 1, body, [zero]) == (zero,)
    assert b.loop(5, 4, 1, body, [zero]) == (zero,)
    assert not trips
    assert b.loop(8, 9, 4, body, [zero]) == (zero,)
    assert trips == [8]  # one trip is no loop
    b.loop(0, 8, 4, body, [zero])
    assert names(block) == ["scf.for"]


def test_constants_stand_first_and_once(b: LoopBuilder, block: Block) -> None:
    n = block.args[0]
    b.add(n, 5)
    b.when(b.compare("lt", n, 7), lambda: b.mul(n, 5))
    kinds = [isinstance(op, arith.ConstantOp) for op in block.ops]
    assert kinds == sorted(kinds, reverse=True)
    assert sum(kinds) == 2
    for op in block.walk():
        assert not isinstance(op.parent_op(), scf.IfOp) or not isinstance(op, arith.ConstantOp)


def test_zeros_of_both_signs_are_two_constants(b: LoopBuilder) -> None:
    for lanes in (1, 8):
        assert b.element(0.0, F32, lanes) is not b.element(-0.0, F32, lanes)
        assert b.element(0.0, F32, lanes) is b.element(0.0, F32, lanes)


@pytest.mark.parametrize("text", ["B", "B*N + 3", "(B + 1) // 2", "2*B - N", "4"])
def test_dims_become_arithmetic(b: LoopBuilder, block: Block, text: str) -> None:
    value = b.dim(Dim.of(text))
    assert (value == 4) if text == "4" else isinstance(value, SSAValue)
    assert static(value) == (4 if text == "4" else -1)


def test_one_lane_is_stored_as_an_element(b: LoopBuilder, block: Block) -> None:
    """LLVM 22 writes too many bytes where one lane of a truncated vector is stored by a mask."""
    value, at = b.element(1, F32, 8), block.args[0]
    b.store_vector(value, block.args[2], [at], b.mask(1, 8))
    assert names(block) == ["vector.create_mask", "vector.extract", "memref.store"]
    b.store_vector(value, block.args[2], [at], b.mask(2, 8))
    b.store_vector(value, block.args[2], [at], b.mask(at, 8))
    assert names(block)[3:] == ["vector.create_mask", "vector.maskedstore"] * 2
