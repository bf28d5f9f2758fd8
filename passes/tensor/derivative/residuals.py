"""What reverse mode keeps of a region: as little as what is cheap to compute again allows."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.tensor.control import ForOp
from mlc.dialects.tensor.op import TensorOp
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Residuals:
    """Values that are kept, and ops that give the other needed ones from these, in order."""

    stored: list[SSAValue]
    computed: list[Operation]


def residuals_of(body: Block, user: Block) -> Residuals:
    """For the values of `body` that `user` uses. The trip number of a loop need not be kept."""
    inside: set[SSAValue] = {*body.args, *(x for op in body.ops for x in op.results)}
    used = {x for op in user.walk() for x in op.operands if x in inside}
    free = set(body.args[:1]) if isinstance(body.parent_op(), ForOp) else set[SSAValue]()
    stored = used - free
    computed: set[SSAValue] = set()

    def available(value: SSAValue) -> bool:
        return value not in inside or value in free or value in stored or value in computed

    def recipe(value: SSAValue) -> list[SSAValue] | None:
        """The values to compute on the way to this one; None where that is dear."""
        found: list[SSAValue] = []
        waiting = [value]
        while waiting:
            x = waiting.pop()
            owner = x.owner
            if not isinstance(owner, TensorOp) or not owner.is_cheap or len(found) > 16:
                return None
            found.append(x)
            waiting += [y for y in owner.operands if not available(y) and y not in found]
        return found

    for op in reversed(list(body.ops)):
        for value in op.results:
            if value in stored:
                stored.discard(value)
                steps = recipe(value)
                if steps is None:
                    stored.add(value)
                else:
                    computed.update(steps)
    results = (x for op in body.ops for x in op.results)
    kept: list[SSAValue] = [x for x in (*body.args, *results) if x in stored]
    again = [op for op in body.ops if any(x in computed for x in op.results)]
    return Residuals(kept, again)
