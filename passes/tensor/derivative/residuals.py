"""What reverse mode keeps of a region: as little as what is cheap to compute again allows."""

from __future__ import annotations

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.bind import BindOp, symbols_in
from mlc.dialects.tensor.control import ForOp
from mlc.dialects.tensor.op import TensorOp
from mlc.lazy_dataclass import dataclass

NO_WAY_BACK = (
    "the derivative of a loop or branch that hands on an array whose size is computed around it, in"
    " another loop or branch; pick by a mask outside of them, or use np.where(mask, x, 0)"
)


@dataclass(frozen=True)
class Residuals:
    """Values that are kept, and ops that give the other needed ones from these, in order."""

    stored: list[SSAValue]
    computed: list[Operation]


def residuals_of(body: Block, user: Block) -> Residuals:
    """
    For the values of `body` that `user` uses. The trip number of a loop need not be kept; what has
    a size that the body binds cannot be, and is computed again.
    """
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

    sizes = {op.symbol.data for op in body.ops if isinstance(op, BindOp)}
    said = {name for op in user.walk() for name in symbols_in(op)} if sizes else set[str]()
    binds: list[Operation] = []
    for op in reversed(list(body.ops)):
        if isinstance(op, BindOp) and op.symbol.data in said:
            binds.append(op)
            stored |= set() if available(op.x) else {op.x}
        for value in op.results:
            if value in stored and sizes and not sizes.isdisjoint(said_by := symbols_in(op)):
                if not isinstance(op, TensorOp):
                    raise ShapeError(NO_WAY_BACK)
                said |= said_by
                stored = (stored - {value}) | {x for x in op.operands if not available(x)}
                computed.add(value)
            elif value in stored:
                stored.discard(value)
                steps = recipe(value)
                if steps is None:
                    stored.add(value)
                else:
                    computed.update(steps)
    results = (x for op in body.ops for x in op.results)
    kept: list[SSAValue] = [x for x in (*body.args, *results) if x in stored]
    again = [op for op in body.ops if op in binds or any(x in computed for x in op.results)]
    return Residuals(kept, again)
