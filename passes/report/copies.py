"""
The copies that a plan makes, and why: views cost nothing, so each copy that remains is accounted
for. Two kinds: kernels that only move elements, and the packing of a factor of a contraction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal

from xdsl.dialects.builtin import ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects.analysis.aliases import root_of
from mlc.dialects.analysis.matmul_axes import contraction_roles
from mlc.dialects.analysis.trips import kernel_numbers, trips_at
from mlc.dialects.analysis.views import is_view
from mlc.dialects.dims import Dim, product
from mlc.dialects.plan import KernelOp
from mlc.dialects.target import Target
from mlc.dialects.tensor.control import ControlOp, YieldOp
from mlc.dialects.tensor.create import ConstantOp
from mlc.dialects.tensor.op import TensorOp, bytes_of
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import place

_DONE_TO: dict[str, str] = {
    "mlc.broadcast": "broadcast",
    "mlc.dynamic_slice": "sliced",
    "mlc.pad": "padded",
    "mlc.slice": "sliced",
    "mlc.transpose": "transposed",
}
"""What index maps do to their operand; others, such as unit axes, keep its order."""


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Elements that are moved and not changed."""

    kind: Literal["copy", "pack"]
    kernel: int
    bytes: int  # written; as many are read, less where elements are repeated
    reason: str
    source: str  # file:line, or "" where unknown

    def __str__(self) -> str:
        where = f" ({self.source})" if self.source else ""
        verb = "copies" if self.kind == "copy" else "packs"
        return f"kernel {self.kernel} {verb} {self.bytes:,} bytes: {self.reason}{where}"


def copies_of(module: ModuleOp, target: Target, sizes: Mapping[str, int]) -> tuple[Copy, ...]:
    """The copies of a plan-level module for these values of the symbols, in order."""
    numbers = kernel_numbers(module)
    found: list[Copy] = []
    for op, number in numbers.items():
        if is_copy(op):
            reasons = dict.fromkeys(_reason(op, value, numbers) for value in op.outs)
            found.append(
                Copy(
                    kind="copy",
                    kernel=number,
                    bytes=sum(_moved(op, bytes_of(x.type), sizes) for x in op.outs),
                    reason="; ".join(reasons),
                    source=_place(op),
                )
            )
        elif target.packs_factors and (packed := _packing(op)) is not None:
            inner, size = packed
            found.append(
                Copy(
                    kind="pack",
                    kernel=number,
                    bytes=_moved(op, size, sizes),
                    reason="every tile of rows reads this factor again: one pass lays its blocks"
                    " out as the tiles read them",
                    source=place(inner),
                )
            )
    return tuple(found)


def _moved(op: KernelOp, size: Dim, sizes: Mapping[str, int]) -> int:
    """Bytes of one run of the kernel, in all trips of the tile loop of which an op is a phase."""
    return sum(size.evaluate(here) * count for here, count in trips_at(op, sizes))


def is_copy(kernel: KernelOp) -> bool:
    """Whether a kernel reads memory and only moves what it reads."""
    ops = [op for op in kernel.block.ops if op is not kernel.yielded]
    return bool(kernel.inputs) and all(map(is_view, ops))


def _packing(kernel: KernelOp) -> tuple[Operation, Dim] | None:
    """The contraction that packs factors, and the bytes of these."""
    packed = frozenset[str]() if kernel.schedule is None else kernel.schedule.data.packed
    if not packed:
        return None
    for op in kernel.block.ops:
        roles = contraction_roles(op) if isinstance(op, Product) else None
        if isinstance(op, Product) and roles is not None:
            sizes = op.sizes()
            letters = {"a": roles.batch + roles.m + roles.k, "b": roles.batch + roles.n + roles.k}
            elements = (product(sizes[c] for c in letters[x]) for x in sorted(packed))
            return op, sum(elements, Dim.const(0)) * op.summand().bytes
    return None


# Reasons


def _reason(kernel: KernelOp, value: SSAValue, numbers: Mapping[KernelOp, int]) -> str:
    """Why a value that a copy kernel writes must lie in memory of its own."""
    what = _what(kernel, value)
    for user, reshaped in _users(value):
        if isinstance(user, ReturnOp):
            shape = ", reshaped" if reshaped is not None else ""
            return f"a result owns its memory, and this one is {what}{shape}"
        if isinstance(user, ControlOp):
            return f"a region starts from memory of its own, and this is {what}"
        if isinstance(user, YieldOp):
            return f"a region hands on memory of its own, and this is {what}"
        if reshaped is not None:
            shape = ", ".join(str(d) for d in reshaped.shape)
            return f"a reshape to ({shape}) takes elements row by row; it is of {what}"
        if isinstance(user, KernelOp):
            return f"kernel {numbers[user]} reads {what} at computed places, so from memory"
    return f"{what} is asked for in memory"


def _users(value: SSAValue) -> Iterator[tuple[Operation, ReshapeOp | None]]:
    """Who reads a buffer, with the last reshape in between."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, ReshapeOp) and not isinstance(user.parent_op(), KernelOp):
            inner = list(_users(user.result))
            yield from ((op, last or user) for op, last in inner)
        else:
            yield user, None


def _what(kernel: KernelOp, value: SSAValue) -> str:
    """What is copied: ``x transposed``."""
    done: list[str] = []
    inner = kernel.yielded.values[list[SSAValue](kernel.outs).index(value)]
    while isinstance(owner := inner.owner, TensorOp) and owner.operands:
        if word := _DONE_TO.get(owner.name):
            done.append(word)
        inner = owner.operands[0]
    if not isinstance(inner, BlockArgument):
        return "a constant"
    base = kernel.inputs[inner.index]
    words = " and ".join(dict.fromkeys(reversed(done)))
    root = root_of(base)
    if isinstance(root.owner, ConstantOp):
        return f"a constant {words}".strip()
    if not isinstance(root, BlockArgument) or not isinstance(root.owner.parent_op(), FuncOp):
        owner = root.owner
        name = "a carried value" if isinstance(root, BlockArgument) else "a value"
        if isinstance(owner, KernelOp):
            name = "what another kernel writes"
        elif isinstance(owner, ControlOp):
            name = "what a region leaves"
        return f"{name}, {words}" if words else name
    name = f"argument {root.name_hint or root.index}"
    if words:
        return f"{name} {words}"
    return f"{name} in any order" if _has_any_strides(root) else f"{name} as it is"


def _has_any_strides(argument: BlockArgument) -> bool:
    function = argument.owner.parent_op()
    if not isinstance(function, FuncOp) or function.arg_attrs is None:
        return False
    return function.arg_attrs.data[argument.index].data.get("mlc.layout") == StringAttr("general")


def _place(kernel: KernelOp) -> str:
    """The line of what is done to the value, or of who wants it so."""
    inner = [op for op in kernel.block.ops if op.operands and op is not kernel.yielded]
    outer = [
        use.operation
        for value in kernel.outs
        for use in value.uses
        if isinstance(use.operation, ReshapeOp)
    ]
    return next((where for op in [*reversed(inner), *outer] if (where := place(op))), "")
