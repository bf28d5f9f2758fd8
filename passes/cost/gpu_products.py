"""Rates of a GPU: of the unit that multiplies a product, and what kernels reach of them."""

from __future__ import annotations

from xdsl.ir import SSAValue

from mlc.dialects.dtypes import F64, DType, dtype_of
from mlc.dialects.gpu_products import STAGED
from mlc.dialects.plan import ScheduleAttr
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.op import tensor_of
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.terms import PRODUCTS, OfTermsOp
from mlc.dialects.tensor.window import ConvOp
from mlc.dialects.tile.words import Tile

WGMMA = 0.79
MMA = {"f64": 0.79, "f32": 0.23, "bf16": 0.3, "f16": 0.3}
WINDOWS = {"f64": 0.42, "f32": 0.09, "bf16": 0.06, "f16": 0.06}
"""
Share of the unit's peak that kernels reach, of `mma.sync` by dtype of the factors, and likewise of
convolutions. Measured: docs/measurements.md, "Products by tensor cores on a GPU"
"""


def product_flops_per_s(op: Product, schedule: ScheduleAttr | None, target: GpuTarget) -> float:
    """Operations a second of a product that has this schedule."""
    words = schedule.data if schedule is not None else None
    if words is not None and any(isinstance(word, Tile) for word in words.cuts):
        dtype = min((_given(x) for x in op.operands), key=lambda x: x.bytes)
        return WGMMA * target.tensor_flops_per_s(dtype) / _products(op)
    if words is not None and words.stage is not None and words.stage.mma:
        dtype = STAGED[words.stage.mma]
        shares = WINDOWS if isinstance(op, ConvOp) else MMA
        return shares[dtype.name] * target.tensor_flops_per_s(dtype)
    return flops_per_s(op.summand(), target)


def flops_per_s(dtype: DType, target: GpuTarget) -> float:
    """Operations a second of the cores."""
    return target.f64_flops_per_s if dtype is F64 else target.f32_flops_per_s


def _given(value: SSAValue) -> DType:
    """Of a factor's elements, before a conversion."""
    op = value.owner
    given = op.operands[0] if isinstance(op, ConvertOp | OfTermsOp) else value
    return dtype_of(tensor_of(given).element_type)


def _products(op: Product) -> int:
    """Of terms, which are multiplied for one of numbers in terms."""
    return PRODUCTS[sum(isinstance(x.owner, OfTermsOp) for x in op.operands)]
