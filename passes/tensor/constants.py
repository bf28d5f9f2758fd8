"""What is known about values before running: splats, and constants made from them."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.dialects.builtin import BytesAttr, DenseIntOrFPElementsAttr
from xdsl.ir import SSAValue

from mlc.dialects.dims import Shape, tensor_type
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.create import ConstantOp, dense, in_bytes
from mlc.dialects.tensor.op import Array, OpBuilder, TensorOp
from mlc.dialects.tensor.shape import BroadcastOp

FEW = 4


def constant_of(value: SSAValue) -> ConstantOp | None:
    """The constant that defines the value."""
    return value.owner if isinstance(value.owner, ConstantOp) else None


def splat(value: SSAValue) -> Array | None:
    """
    The 0-d array that every element of the value equals, seen through a few views; else None.
    Canonical is at most one.
    """
    owner = value.owner
    for _ in range(FEW):
        if not isinstance(owner, TensorOp) or not owner.MOVES or len(owner.operands) != 1:
            break
        owner = owner.operands[0].owner
    if not isinstance(owner, ConstantOp):
        return None
    data = owner.repeated_element()
    if data is None:
        return None
    if owner.dtype.kind == "bool":
        return np.asarray(data != b"\0")
    return np.frombuffer(data, dtype=owner.dtype.numpy).reshape(())


def may_be_splat(maker: type) -> bool:
    """Whether `splat` may say so of values that ops of a class make."""
    return issubclass(maker, ConstantOp) or (issubclass(maker, TensorOp) and maker.MOVES)


def is_splat_of(value: SSAValue, number: float) -> bool:
    """Whether every element is exactly `number`; the sign of zero counts."""
    found = splat(value)
    if found is None or found != number:
        return False
    if number != 0 or found.dtype.kind in "biu":
        return True
    # a complex zero has two signs
    return found.dtype.kind != "c" and np.signbit(found) == np.signbit(number)


def splat_constant(b: OpBuilder, scalar: Any, dtype: DType, shape: Shape) -> SSAValue:
    """A tensor of one repeated value: one constant, and a broadcast where a dim is symbolic."""
    kind = tensor_type(dtype.ir, shape)
    element = np.asarray(scalar, dtype=dtype.numpy).reshape(())
    if any(dim.constant is None for dim in shape):
        point = b(ConstantOp, value=dense(element, dtype))
        letters = "abcdefghijklmnopqrstuvwxyz"[: len(shape)]
        return b(BroadcastOp, point, letters=f"->{letters}", declared=kind)
    data = BytesAttr(b"\xff" if dtype.kind == "bool" and element else in_bytes(element, dtype))
    return b(ConstantOp, value=DenseIntOrFPElementsAttr(kind, data))  # pyright: ignore[reportArgumentType]
