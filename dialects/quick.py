# pyright: reportPrivateUsage=false
"""
What xDSL does in Python each time an op is made or asked for an operand, in fewer steps. The IR is
the same; a compilation takes a tenth less (docs/measurements.md, First call). xDSL is pinned.
"""

from __future__ import annotations

from abc import ABCMeta
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from operator import attrgetter
from typing import Any

from xdsl.dialects.builtin import UNKNOWN_LOC, DenseArrayBase, LocationAttr
from xdsl.ir import (
    Attribute,
    Block,
    BlockArgument,
    Operation,
    OpResult,
    Region,
    SSAValue,
    Use,
)
from xdsl.ir.core import BlockOps, OpOperands, SSAValues
from xdsl.irdl import IRDLOperation, OptionalDef
from xdsl.irdl.operations import (
    BeforeVariadicSingleAccessor,
    SameVariadicAccessor,
    UniqueVariadicAccessor,
    VariadicAttrAccessor,
    VarIRConstruct,
)

_OPERAND, _RESULT, _REGION = (
    VarIRConstruct.OPERAND, VarIRConstruct.RESULT, VarIRConstruct.REGION,
)  # fmt: skip
_NOTHING: Mapping[str, Attribute] = {}
_NO_VALUES = SSAValues[Any](())


class _Plain(ABCMeta):
    """
    Of classes that are asked for as `type` asks. Python's abstract classes also know what was
    registered with them, and ask for it in Python; nothing is registered with ops and attributes.
    """

    __instancecheck__ = type.__instancecheck__
    __subclasscheck__ = type.__subclasscheck__


def _plain(kind: type) -> None:
    """Makes a class plain, and those that are derived from it, or will be."""
    for below in type.__subclasses__(kind):
        _plain(below)
    if type(kind) is ABCMeta:
        kind.__class__ = _Plain


@cache
def _defaults(kind: type[IRDLOperation]) -> tuple[tuple[bool, str, Attribute], ...]:
    """Of an op's properties (True) and attributes those that it has where nobody gives them."""
    definition = kind.get_irdl_definition()
    parts = ((True, definition.properties), (False, definition.attributes))
    return tuple(
        (is_property, name, part.default_value)
        for is_property, found in parts
        for name, part in found.items()
        if not isinstance(part, OptionalDef) and part.default_value is not None
    )


def _use(op: Any, operands: Sequence[SSAValue]) -> None:
    """Gives an op that has no operands these."""
    if not operands:
        op._operands, op._operand_uses = _NO_VALUES, ()
        return
    op._operands = values = SSAValues(operands)
    uses: list[Use] = []
    for index, value in enumerate(values):
        use = Use(op, index)
        use._next_use = first = value.first_use
        if first is not None:
            first._prev_use = use
        value.first_use = use
        uses.append(use)
    op._operand_uses = tuple(uses)


def _use_others(self: Any, new: Sequence[SSAValue]) -> None:
    """`Operation.operands = new`."""
    new = tuple(new)  # perhaps made of those that go
    for value, use in zip(self._operands, self._operand_uses, strict=True):
        value.remove_use(use)
    _use(self, new)


def _create(
    cls: Any,
    *,
    operands: Sequence[SSAValue] = (),
    result_types: Sequence[Attribute] = (),
    properties: Mapping[str, Attribute] = _NOTHING,
    attributes: Mapping[str, Attribute] = _NOTHING,
    location: LocationAttr | None = None,
    successors: Sequence[Block] = (),
    regions: Sequence[Region] = (),
) -> Any:
    """`Operation.create`."""
    op: Any = cls.__new__(cls)
    _use(op, operands)
    made = [OpResult(kind, op, k) for k, kind in enumerate(result_types)]
    op.results = SSAValues(made) if made else _NO_VALUES
    op.properties, op.attributes = dict(properties), dict(attributes)
    op.location = UNKNOWN_LOC if location is None else location
    if successors:
        op.successors = successors
    for region in regions:
        op.add_region(region)
    if cls.__post_init__ is not _POST_INIT:
        op.__post_init__()
        return op
    for is_property, name, value in _defaults(cls):
        (op.properties if is_property else op.attributes).setdefault(name, value)
    changed.__post_init__(op)  # which xDSL's implicit builders replace
    return op


changed: Any = Operation
changed_values: Any = SSAValues
changed_block: Any = Block
changed_array: Any = DenseArrayBase
_POST_INIT = IRDLOperation.__post_init__


class _Kept:
    """What an object makes of itself when it is first asked for, and then has as its own."""

    def __init__(self, name: str, kind: Any) -> None:
        self._name, self._kind = name, kind

    def __get__(self, owner: Any, _: object = None) -> Any:
        made = self._kind(owner)
        setattr(owner, self._name, made)
        return made


_VIEWS = (
    (Operation, "operands", "_mlc_operands", OpOperands, _use_others),
    (Block, "ops", "_mlc_ops", BlockOps, None),
)
"""Class, property, where it is kept, what shows the operands or ops of an object, what sets it."""

_FIELDS: tuple[tuple[Any, str, str], ...] = (
    (SSAValue, "type", "_type"),
    (OpResult, "owner", "op"),
    (BlockArgument, "owner", "block"),
    (Operation, "next_op", "_next_op"),
    (Operation, "prev_op", "_prev_op"),
    (Block, "args", "_args"),
    (Block, "first_op", "_first_op"),
    (Block, "last_op", "_last_op"),
    (Use, "operation", "_operation"),
    (Use, "index", "_index"),
)
"""Class, property, and the attribute that it gives: read without a function of Python."""


def _parent_op(self: Any) -> Any:
    """`Operation.parent_op`."""
    block = self.parent
    region = None if block is None else block.parent
    return None if region is None else region.parent


def _attach(self: Any, op: Any) -> None:
    """`Block._attach_op`: only what has regions may hold the block."""
    if op.parent is not None or op.regions:
        attach_op(self, op)
    op.parent = self


def _array(self: Any) -> Any:
    """`DenseArrayBase.get_values`, unpacked once."""
    found = self.__dict__.get(_ARRAY)
    if found is None:
        self.__dict__[_ARRAY] = found = array_values(self)
    return found


_ARRAY = "_mlc_values"  # of an attribute's own dictionary, which no comparison looks at


def _operand(self: Any, index: Any) -> Any:
    """`OpOperands.__getitem__`."""
    found = self._op._operands[index]
    return SSAValues(found) if index.__class__ is slice else found


def _named(self: Any, op: Any, _: object = None) -> Any:
    """What a name of an op's says, where nothing before it is variadic."""
    construct = self.construct
    if construct is _OPERAND:
        return op._operands[self.idx]
    if construct is _RESULT:
        return op.results[self.idx]
    return (op.regions if construct is _REGION else op.successors)[self.idx]


def _several(index: Any) -> Any:
    """`index` of what names several: results with their types, though slices of tuples are such."""

    def found(self: Any, *given: Any) -> Any:
        values = index(self, *given)
        return SSAValues(values) if self.construct is _RESULT else values

    return found


def _ops(self: Any) -> Iterator[Operation]:
    """`BlockOps.__iter__`; which op is next is asked before."""
    op = self.block._first_op
    while op is not None:
        following = op._next_op
        yield op
        op = following


def _count(self: Any) -> int:
    """`BlockOps.__len__`, which a list of them asks for as well."""
    op, found = self.block._first_op, 0
    while op is not None:
        op, found = op._next_op, found + 1
    return found


def _inside(block: Any) -> Iterator[Operation]:
    """The ops of a block, each before those in it; which one is next is asked before."""
    op = block._first_op
    while op is not None:
        following = op._next_op
        yield op
        if op.regions:
            for region in op.regions:
                for inner in region.blocks:
                    yield from _inside(inner)
        op = following


walk_op, walk_block = Operation.walk, Block.walk  # xDSL's
attach_op: Any = changed_block._attach_op
array_values: Any = changed_array.get_values


def _walk(self: Any, *, reverse: bool = False, region_first: bool = False) -> Iterator[Operation]:
    """`Operation.walk`: one generator for each block, where xDSL has three for each op."""
    if reverse or region_first:
        yield from walk_op(self, reverse=reverse, region_first=region_first)
        return
    yield self
    for region in self.regions:
        for block in region.blocks:
            yield from _inside(block)


def _walk_in(self: Any, *, reverse: bool = False, region_first: bool = False) -> Any:
    """`Block.walk`."""
    if reverse or region_first:
        return walk_block(self, reverse=reverse, region_first=region_first)
    return _inside(self)


def _install() -> None:
    by_identity: tuple[Any, ...] = (Operation, IRDLOperation, SSAValue, Use, Block, Region)
    for kind in by_identity:  # as before
        kind.__hash__, kind.__eq__ = object.__hash__, object.__eq__
    for kind in (Operation, SSAValue, Block, Region, Attribute):
        _plain(kind)
    changed.create, changed.walk = classmethod(_create), _walk
    changed.parent_op = _parent_op
    for kind, name, kept, view, set_ in _VIEWS:
        setattr(kind, kept, _Kept(kept, view))
        setattr(kind, name, property(attrgetter(kept), set_))
    for kind, name, attribute in _FIELDS:
        setattr(kind, name, property(attrgetter(attribute)))
    for kind, name, new in (
        (Block, "walk", _walk_in),
        (Block, "_attach_op", _attach),
        (DenseArrayBase, "get_values", _array),
        (BlockOps, "__iter__", _ops),
        (BlockOps, "__len__", _count),
        (OpOperands, "__getitem__", _operand),
        (BeforeVariadicSingleAccessor, "__get__", _named),
    ):
        setattr(kind, name, new)
    for kind in (UniqueVariadicAccessor, SameVariadicAccessor, VariadicAttrAccessor):
        kind.index = _several(kind.index)
    del changed_values.__getitem__  # a tuple's own is not Python


_install()
