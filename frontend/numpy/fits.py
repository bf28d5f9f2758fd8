"""Python ints from outside beside arrays of narrow integers: whether the dtype holds them."""

from __future__ import annotations

from xdsl.ir import BlockArgument, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.create import ConstantOp, SizeOp
from mlc.dialects.tensor.elementwise import Elementwise
from mlc.frontend.errors import SpecialiseSignal
from mlc.frontend.trace.paths import Guard
from mlc.frontend.trace.symbolic import is_natural
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

DEPTH = 8
"""Of ops between a number and the sizes that it is made of."""


def is_integer(dtype: DType) -> bool:
    """Whether it is an integer dtype, signed or not."""
    return dtype.kind in ("int", "uint")


def beside(x: Tracer, dtype: DType) -> int:
    """
    -1 for a Python int among the arguments that lies below what an integer dtype holds, 1 above, 0
    for one that it holds and for anything else. The program is for ints of which that is true.
    """
    if not (x.weak and x.row.kind == "int" and is_integer(dtype)) or dtype is x.row:
        return 0
    trace, value = here(), x.value
    if not x.origins:
        return _size_beside(value, dtype)
    name = next(iter(x.origins))
    own = isinstance(value, BlockArgument) and value.block is trace.block
    if not own or name not in trace.ints.known:
        because = f"whether {' and '.join(sorted(x.origins))} gives what {dtype.numpy} can hold"
        raise SpecialiseSignal(x.origins, frozenset(), because)
    path, found = trace.ints.known[name]
    side = (found > dtype.highest) - (found < dtype.lowest)
    lowest, highest = dtype.lowest, dtype.highest
    if side:
        lowest, highest = (highest + 1, 2**63 - 1) if side > 0 else (-(2**63), lowest - 1)
    guard = Guard("range", path, (lowest, highest))
    trace.guards.setdefault(guard.key, guard)
    return side


def number_of(x: Tracer) -> int:
    """What a number from outside is in the call for which the function is traced."""
    if x.origins:
        return here().ints.known[next(iter(x.origins))][1]
    assert isinstance(x.value.owner, SizeOp)
    return x.value.owner.dim.evaluate(here().ints.sizes)


def _size_beside(value: SSAValue, dtype: DType) -> int:
    """As `beside`, of a number that is computed of sizes; of others that is not known."""
    symbols = _symbols_in(value, DEPTH)
    if not symbols or not symbols <= here().ints.sizes.keys():
        return 0
    because = f"whether a size gives what {dtype.numpy} can hold"
    if not isinstance(value.owner, SizeOp):
        raise SpecialiseSignal(frozenset(), symbols, because)
    dim = value.owner.dim
    if dtype.bytes < 8 and not is_natural(Dim.const(int(dtype.highest)) - dim, because):
        return 1
    return 0 if is_natural(dim - int(dtype.lowest), because) else -1


def _symbols_in(value: SSAValue, depth: int) -> frozenset[str] | None:
    """The sizes of which alone a number is made; None of others."""
    op = value.owner
    if isinstance(op, SizeOp):
        return op.dim.symbols()
    if isinstance(op, ConstantOp):
        return frozenset()
    if not depth or not isinstance(op, Elementwise):
        return None
    parts = [_symbols_in(x, depth - 1) for x in op.operands]
    known = [x for x in parts if x is not None]
    return frozenset[str]().union(*known) if len(known) == len(parts) else None
