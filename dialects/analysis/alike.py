"""Which kernels say the same: what one of them is made into serves all."""

from __future__ import annotations

from collections.abc import Hashable

from xdsl.ir import Attribute, SSAValue

from mlc.dialects.numerics import is_strict
from mlc.dialects.plan import KernelOp


def structure_of(kernel: KernelOp) -> Hashable:
    """What two kernels share exactly where their ops and schedules are the same."""
    numbers: dict[SSAValue, int] = {x: k for k, x in enumerate(kernel.block.args)}
    found: list[Hashable] = [kernel.template, kernel.schedule, is_strict(kernel)]
    found += [kernel.overwritten, tuple(kernel.shared_inputs), len(kernel.outs)]
    found += [x.type for x in kernel.block.args]
    for op in kernel.block.ops:
        found += [op.name, *(numbers[x] for x in op.operands)]
        for result in op.results:
            numbers[result] = len(numbers)
            found.append(result.type)
        found += sorted(op.properties.items())
        if op.regions:
            found.append(str(op))
    return tuple(found)


_SPELLED = "_mlc_spelled"  # of an attribute's own dictionary, which no comparison looks at


def spelled(attribute: Attribute) -> str:
    """An attribute as it is printed: once, and kept on it."""
    own = vars(attribute)
    found: str | None = own.get(_SPELLED)
    if found is None:
        found = own[_SPELLED] = str(attribute)
    return found
