"""What products take on a GPU: by the tiles that their words make, and in streams by a share."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import SSAValue

from mlc.dialects.analysis.matmul_axes import contraction_roles, thread_roles
from mlc.dialects.dims import product
from mlc.dialects.dtypes import DType
from mlc.dialects.plan import Schedule
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.op import element_dtype
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.terms import PRODUCTS, OfTermsOp
from mlc.passes.gpu.predict import WGMMA, GpuProduct, gpu_product, product_seconds
from mlc.passes.gpu.tiles import ProductSizes


def seconds_of_product(
    op: Product, schedule: Schedule | None, sizes: Mapping[str, int], target: GpuTarget
) -> float:
    """Of a product that is a kernel's, by the words that cut it; by the cores where none do."""
    if schedule is not None and (schedule.cuts or schedule.stage):
        values = values_of(op, schedule, sizes)
        if values is not None:
            return product_seconds(values, schedule, target)
    return op.WEIGHT * op.cost().flops.evaluate(sizes) / target.flops_per_s(op.summand())


def seconds_in_stream(op: Product, sizes: Mapping[str, int], target: GpuTarget) -> float:
    """Of a product of a stream, whose tiles hide one another's ends."""
    rate = WGMMA * target.tensor_flops_per_s(_factor(op)) / _products(op)
    return op.WEIGHT * op.cost().flops.evaluate(sizes) / (rate or target.flops_per_s(op.dtype))


def values_of(op: Product, schedule: Schedule, sizes: Mapping[str, int]) -> GpuProduct | None:
    """
    A product of these sizes by values alone, its rows and columns those of the tiles of a schedule;
    None where it is none of matrices.
    """
    stage, known = schedule.stage, op.sizes()
    threads = not schedule.cuts and stage is not None and not stage.mma
    roles = thread_roles(op) if threads else contraction_roles(op)
    if roles is None:
        return None
    words = (roles.batch, roles.m, roles.n, roles.k)
    extents = [product(known[c] for c in word).evaluate(sizes) for word in words]
    return gpu_product(op, ProductSizes(*extents), _factor(op), terms=_products(op))


def _factor(op: Product) -> DType:
    """Of both factors' elements, before a conversion; the narrower one."""
    return min(map(_given, op.operands), key=lambda x: x.bytes)


def _given(value: SSAValue) -> DType:
    op = value.owner
    given = op.operands[0] if isinstance(op, ConvertOp | OfTermsOp) else value
    return element_dtype(given)


def _products(op: Product) -> int:
    """Of terms, which are multiplied for one of numbers in terms."""
    return PRODUCTS[sum(isinstance(x.owner, OfTermsOp) for x in op.operands)]
