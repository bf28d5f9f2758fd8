"""Regions of elements, on arrays of tile shape: the plan's ops by their `reference`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from xdsl.ir import Block

from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tile.element import PositionOp, ReadOp
from mlc.dialects.tile.region import yielded

Array = NDArray[Any]
Evaluate = Callable[[TensorOp, Sequence[Array]], Array]
"""An op's result for arrays of its operands' shapes."""
Read = Callable[[ReadOp, Sequence[Any], Any], Array]
"""(op, positions, where) -> the elements that it reads."""
Place = Callable[[PositionOp, Sequence[Any]], Any]
"""(op, positions) -> the positions that it gives."""


def elements(
    block: Block,
    arguments: Sequence[Array],
    outer: Callable[[Any], Any],
    read: Read,
    place: Place,
    evaluate: Evaluate,
) -> list[Array]:
    """What a region yields where its arguments are arrays: of one shape after broadcasting."""
    values: dict[Any, Any] = dict(zip(block.args, arguments, strict=True))

    def get(x: Any) -> Any:
        return values[x] if x in values else outer(x)

    for op in block.ops:
        if isinstance(op, ReadOp):
            where = True if op.where is None else get(op.where)
            values[op.result] = read(op, [get(x) for x in op.positions], where)
        elif isinstance(op, PositionOp):
            values[op.result] = np.asarray(place(op, [get(x) for x in op.positions]), np.int64)
        elif isinstance(op, TensorOp):
            operands = [np.asarray(get(x)) for x in op.operands]
            if not isinstance(op, Elementwise | ConstantOp):
                values[op.results[0]] = _one_by_one(op, operands, evaluate)
            else:
                values[op.results[0]] = np.asarray(op.reference(*operands), op.dtype.numpy)
    return [np.asarray(get(x)) for x in yielded(block)]


def _one_by_one(op: TensorOp, operands: Sequence[Array], evaluate: Evaluate) -> Array:
    """Of an op that looks at shapes: it has none here, but for each element."""
    arrays = np.broadcast_arrays(*operands, np.empty(()))[:-1]
    found: Array = np.empty(np.broadcast_shapes(*(x.shape for x in operands)), op.dtype.numpy)
    for at in np.ndindex(found.shape):
        found[at] = evaluate(op, [np.asarray(x[at]) for x in arrays])
    return found
