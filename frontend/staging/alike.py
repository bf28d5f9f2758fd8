"""Whether two traces of one body are the same, but for the types of what they are given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tensor.comparison import ConvertOp
from mlc.frontend.staging.joins import equal_values


def alike(x: Block, y: Block, ends: tuple[Sequence[Any], Sequence[Any]]) -> bool:
    """
    Whether the op sequence of `x` is that of `y` once `x` converts its arguments, as `y` gets them.

    `ends`: what both give, values or Python's.
    """
    renamed: dict[SSAValue, SSAValue] = dict(zip(x.args, y.args, strict=True))
    return _blocks(x, y, renamed) and all(_same(a, b, renamed) for a, b in zip(*ends, strict=True))


def _same(a: Any, b: Any, renamed: dict[SSAValue, SSAValue]) -> bool:
    if a.__class__ in _PYTHON or b.__class__ in _PYTHON:
        return equal_values(a, b)
    return renamed.get(a, a) is b


_PYTHON = (bool, int, float, complex)


def _blocks(x: Block, y: Block, renamed: dict[SSAValue, SSAValue]) -> bool:
    rest = iter(y.ops)
    for op in x.ops:
        if isinstance(op, ConvertOp) and _is_conversion(op, renamed):
            renamed[op.results[0]] = renamed[op.operands[0]]
            continue
        other = next(rest, None)
        if other is None or not _ops(op, other, renamed):
            return False
    return next(rest, None) is None


def _is_conversion(op: Operation, renamed: dict[SSAValue, SSAValue]) -> bool:
    given = renamed.get(op.operands[0])
    return given is not None and given.type == op.results[0].type != op.operands[0].type


def _ops(x: Operation, y: Operation, renamed: dict[SSAValue, SSAValue]) -> bool:
    if type(x) is not type(y) or x.properties != y.properties or x.attributes != y.attributes:
        return False
    if [r.type for r in x.results] != [r.type for r in y.results]:
        return False
    if len(x.operands) != len(y.operands) or len(x.regions) != len(y.regions):
        return False
    for a, b in zip(x.operands, y.operands, strict=True):
        if renamed.get(a, a) is not b or a.type != b.type:
            return False
    renamed.update(zip(x.results, y.results, strict=True))
    for a, b in zip(x.regions, y.regions, strict=True):
        if [v.type for v in a.block.args] != [v.type for v in b.block.args]:
            return False
        renamed.update(zip(a.block.args, b.block.args, strict=True))
        if not _blocks(a.block, b.block, renamed):
            return False
    return True
