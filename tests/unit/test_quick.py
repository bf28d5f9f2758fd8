"""Ops as mlc.dialects.quick makes and asks them are those that xDSL makes, and asks so."""

from __future__ import annotations

import pytest
from xdsl.builder import ImplicitBuilder
from xdsl.dialects import arith, func, scf
from xdsl.dialects.builtin import (
    DenseArrayBase,
    FunctionType,
    IndexType,
    IntegerAttr,
    ModuleOp,
    UnknownLoc,
    i32,
    i64,
)
from xdsl.ir import Attribute, Block, BlockArgument, Operation, Region, SSAValue
from xdsl.ir.core import SSAValues

from mlc.dialects.analysis.alike import spelled
from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.quick import walk_block, walk_op
from mlc.dialects.tensor.op import TensorOp


def _two() -> tuple[arith.ConstantOp, arith.AddiOp]:
    one = arith.ConstantOp(IntegerAttr(1, i32))
    return one, arith.AddiOp.create(operands=[one.result, one.result], result_types=[i32])


def test_a_created_op_is_one_that_is_built() -> None:
    one, quick = _two()
    built = arith.AddiOp(one.result, one.result, i32)
    for op in (quick, built):
        assert op.verify() is None
        assert list(op.operands) == [one.result] * 2
        assert op.lhs is op.rhs is op.operands[0] is one.result
        assert isinstance(op.operands[0:1], SSAValues)
        assert op.operands[-1] is one.result
        assert op.results[0].op is op
        assert op.result.index == 0
        assert isinstance(op.location, UnknownLoc)
    assert quick.properties == built.properties  # those that xDSL fills in
    assert quick.properties is not arith.AddiOp.create(operands=[], result_types=[]).properties
    assert [(u.operation, u.index) for u in one.result.uses] == [
        (built, 1), (built, 0), (quick, 1), (quick, 0),
    ]  # fmt: skip


def test_uses_follow_operands() -> None:
    one, add = _two()
    other = arith.ConstantOp(IntegerAttr(2, i32))
    add.operands[1] = other.result
    assert add.rhs is other.result
    assert len(list(one.result.uses)) == 1
    add.operands = [other.result, other.result]
    assert one.result.first_use is None
    assert add.lhs is other.result


def test_several_results_know_their_types() -> None:
    kinds = (i32, i64)
    block = Block(arg_types=[IndexType()] * 3 + list(kinds))
    low, high, step, *start = block.args
    loop = scf.ForOp(low, high, step, start, Region(Block(arg_types=[i32])))
    assert loop.res.types == kinds
    assert loop.res is not loop.results
    assert isinstance(loop.iter_args, SSAValues)


def test_ops_of_a_block_may_go_while_they_are_walked() -> None:
    block = Block(_two())
    assert len(block.ops) == len(list(block.ops)) == 2
    for op in reversed(list(block.ops)):
        assert op.parent is block
    seen: list[str] = []
    for op in block.ops:
        seen.append(op.name)
        if isinstance(op, arith.AddiOp):
            op.detach()
    assert seen == ["arith.constant", "arith.addi"]
    assert len(block.ops) == 1


def test_successors_and_regions_are_kept() -> None:
    block, region = Block(), Region(Block())
    op = ModuleOp.create(regions=[region], successors=[block])
    assert op.regions == (region,)
    assert region.parent is op
    assert list(op.successors) == [block]
    with pytest.raises(ValueError, match="already attached"):
        ModuleOp.create(regions=[region])


def test_implicit_builders_take_created_ops() -> None:
    block = Block()
    with ImplicitBuilder(block):
        add = arith.AddiOp.create(operands=_two()[0].results * 2, result_types=[i32])
        done = func.ReturnOp.create()
    assert list(block.ops)[-2:] == [add, done]


def test_classes_are_asked_for_as_before() -> None:
    one, add = _two()
    assert isinstance(add, Operation)
    assert isinstance(add, arith.AddiOp)
    assert not isinstance(add, TensorOp)
    assert not isinstance(add, Attribute)
    assert isinstance(one.result, SSAValue)
    assert not isinstance(one.result, BlockArgument)
    assert issubclass(TensorOp, Operation)
    assert not issubclass(Operation, TensorOp)
    with pytest.raises(TypeError, match="abstract"):
        SSAValue(i32)  # pyright: ignore[reportAbstractUsage]


def _function() -> func.FuncOp:
    inner = Block([ModuleOp([*_two()]), func.ReturnOp()])
    kind = FunctionType.from_lists([], [])
    return func.FuncOp("f", kind, Region(inner))


@pytest.mark.parametrize("how", [{}, {"reverse": True}, {"region_first": True}])
def test_a_walk_meets_the_ops_that_it_met(how: dict[str, bool]) -> None:
    function = _function()
    block = function.body.block
    assert list(function.walk(**how)) == list(walk_op(function, **how))
    assert list(block.walk(**how)) == list(walk_block(block, **how))


def test_what_a_walk_has_met_may_go() -> None:
    function = _function()
    names: list[str] = []
    for op in function.walk():
        names.append(op.name)
        if op.name == "builtin.module":
            op.detach()
    assert names == ["func.func", "builtin.module", "arith.constant", "arith.addi", "func.return"]


def test_facts_kept_on_an_attribute_are_no_part_of_it() -> None:
    kind = tensor_type(i32, (Dim.const(3), Dim.symbol("n")))
    other = type(kind)(kind.element_type, kind.get_shape(), kind.encoding)
    assert shape_of(kind) == shape_of(kind) == (Dim.const(3), Dim.symbol("n"))
    assert spelled(kind) == str(kind)
    assert kind == other
    assert hash(kind) == hash(other)
    assert str(kind) == str(other)


def test_views_are_kept_and_show_what_is_there_now() -> None:
    one, add = _two()
    block = Block([one])
    ops, operands = block.ops, add.operands
    assert block.ops is ops
    assert add.operands is operands
    block.add_op(add)
    assert list(ops) == [one, add]
    other = arith.ConstantOp(IntegerAttr(2, i32))
    add.operands = (*add.operands[:1], other.result)
    assert list(operands) == [one.result, other.result]
    assert [use.index for use in other.result.uses] == [1]
    add.operands = tuple(reversed(add.operands))
    assert list(operands) == [other.result, one.result]
    assert len(list(one.result.uses)) == len(list(other.result.uses)) == 1
    function = func.FuncOp("f", FunctionType.from_lists([], []), Region(block))
    first, second = function.clone().body.block.ops
    assert second.operands[1].owner is first


def test_fields_are_read_and_not_set() -> None:
    one, add = _two()
    block = Block([one, add], arg_types=[i64])
    assert one.result.type is i32
    assert one.result.owner is one
    assert block.args[0].owner is block
    assert (one.next_op, add.prev_op, block.first_op, block.last_op) == (add, one, one, add)
    for thing, name in ((one.result, "type"), (one.result, "owner"), (block, "args")):
        with pytest.raises(AttributeError):
            setattr(thing, name, None)


def test_parents_are_found_and_no_op_holds_itself() -> None:
    function = _function()
    block = function.body.block
    inner = next(op for op in function.walk() if isinstance(op, arith.AddiOp))
    module = inner.parent_op()
    assert isinstance(module, ModuleOp)
    assert module.parent_op() is function
    assert function.parent_op() is None
    assert Block([one := _two()[0]]).first_op is one
    assert one.parent_op() is None
    with pytest.raises(ValueError, match="already attached"):
        block.add_op(inner)
    with pytest.raises(ValueError, match="contained in the operation"):
        block.add_op(function)
    module.detach()
    with pytest.raises(ValueError, match="contained in the operation"):
        module.body.block.add_op(module)


def test_packed_numbers_are_those_that_were_packed() -> None:
    for kind, numbers in ((i32, (1, -2, 3)), (i64, ()), (i64, (2**40, 0))):
        packed = DenseArrayBase.from_list(kind, numbers)
        assert packed.get_values() == numbers == packed.get_values()
        assert packed == DenseArrayBase.from_list(kind, numbers)
        assert hash(packed) == hash(DenseArrayBase.from_list(kind, numbers))
