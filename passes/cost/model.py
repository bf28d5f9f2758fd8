"""
What kernels count: arithmetic and bytes, on any machine (D22). `work.py` says what that takes.

SOURCE: Williams, Waterman, Patterson, "Roofline", CACM 52(4), 2009; decisions.md D22.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from xdsl.ir import Attribute, SSAValue

from mlc.dialects.analysis.access import kept_pieces
from mlc.dialects.cost import CostAttr
from mlc.dialects.dims import Dim, Shape, product, shape_of
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.index import GatherOp
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.dialects.tensor.shape import ConcatOp, SliceOp
from mlc.lazy_dataclass import dataclass


@lru_cache(maxsize=4096)
def _bytes(kind: Attribute) -> Dim:
    return bytes_of(kind)


@lru_cache(maxsize=4096)
def _elements(shape: Shape) -> Dim:
    return product(shape)


def kernel_cost(kernel: KernelOp) -> CostAttr:
    """Arithmetic of every op; bytes of each distinct input, once, and of each result, once."""
    flops = Dim.const(0)
    for op in kernel.block.ops:
        if isinstance(op, TensorOp) and op.FLOPS:
            flops = flops + _elements(op.iteration()) * op.FLOPS
    over = kernel.overwritten
    inputs = (x for k, x in enumerate(kernel.block.args) if k != over)
    read = sum((bytes_read(x) for x in inputs), Dim.const(0))
    written = sum((_bytes(x.type) for x in written_by(kernel)), Dim.const(0))
    if kernel.unwritten is not None:
        written = Dim.const(0)
    return CostAttr((flops, read, written))


def bytes_read(argument: SSAValue) -> Dim:
    """What a kernel reads of one input: all of it, or the parts that slices and gathers pick."""
    whole = _bytes(argument.type)
    parts = Dim.const(0)
    for use in argument.uses:
        op = use.operation
        part = isinstance(op, SliceOp | DynamicSliceOp | GatherOp)
        picks = part and use.index == 0
        if not picks:
            return whole
        parts = parts + _bytes(op.results[0].type)
    limit, found = whole.constant, parts.constant
    return whole if limit is not None and found is not None and limit < found else parts


def accesses(kernel: KernelOp) -> Dim:
    """Elements read and written: the unit of hand-counted intensities (one add: 1/3)."""
    total = Dim.const(0)
    for k, argument in enumerate(kernel.block.args):
        if k == kernel.overwritten:
            continue
        whole = _bytes(argument.type)
        elements = product(shape_of(argument.type))
        item = whole.exact_quotient(elements)
        size = bytes_read(argument).exact_quotient(item) if item is not None else None
        total = total + (size if size is not None else elements)
    return sum((product(shape_of(x.type)) for x in written_by(kernel)), total)


def written_by(kernel: KernelOp) -> Sequence[SSAValue]:
    """What has the size of what a kernel writes: its results, or what changes of one input."""
    over, made = kernel.overwritten, kernel.yielded.values[0].owner
    if over is not None and isinstance(made, DynamicUpdateOp):
        return [made.update]
    if over is not None and isinstance(made, ConcatOp):
        kept = kept_pieces(kernel, over)
        return [piece for k, (piece, _) in enumerate(made.pieces()) if k not in kept]
    return kernel.outs


@dataclass(frozen=True, kw_only=True)
class Counts:
    """A kernel's cost for concrete sizes."""

    flops: int
    bytes_read: int
    bytes_written: int
    accesses: int  # elements read and written

    @property
    def bytes(self) -> int:
        """Bytes moved."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Arithmetic operations per byte moved."""
        return self.flops / self.bytes if self.bytes else 0.0

    @property
    def intensity_per_access(self) -> float:
        """Arithmetic operations per element moved."""
        return self.flops / self.accesses if self.accesses else 0.0

    def __add__(self, other: Counts) -> Counts:
        return Counts(
            flops=self.flops + other.flops,
            bytes_read=self.bytes_read + other.bytes_read,
            bytes_written=self.bytes_written + other.bytes_written,
            accesses=self.accesses + other.accesses,
        )


NOTHING = Counts(flops=0, bytes_read=0, bytes_written=0, accesses=0)


def counts_of(kernel: KernelOp, sizes: Mapping[str, int]) -> Counts:
    """The kernel's counts for these values of the symbols."""
    cost = kernel.cost if kernel.cost is not None else kernel_cost(kernel)
    flops, read, written = (dim.evaluate(sizes) for dim in cost.data)
    count = accesses(kernel).evaluate(sizes)
    return Counts(flops=flops, bytes_read=read, bytes_written=written, accesses=count)
