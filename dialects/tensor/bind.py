"""A number that the program computes as a size: what a block binds, types after it may say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from xdsl.dialects.builtin import StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import operand_def, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.dims import Dim, DimsAttr, highest, symbols_said
from mlc.dialects.program import symbols_of
from mlc.dialects.tensor.control import INDEX, ControlOp


@irdl_op_definition
class BindOp(ControlOp):
    """
    From here to the end of the block, the symbol is the number, which is in [0, limit]: whoever
    writes the op has made sure of that, and memory is laid out by the limit. No type outside of the
    block says the symbol.

    ```mlir
    mlc.bind "k" = %count to <"n">
    %p = mlc.positions %mask : tensor<?xi1, #mlc.dims<"n">> -> tensor<?xi64, #mlc.dims<"k">>
    ```
    """

    name = "mlc.bind"
    symbol = prop_def(StringAttr)
    x = operand_def(INDEX)
    limit = prop_def(DimsAttr)
    traits = traits_def()
    assembly_format = "$symbol `=` $x `to` $limit attr-dict"

    @staticmethod
    def of(symbol: str, x: SSAValue, limit: Dim) -> BindOp:
        """The op."""
        properties = {"symbol": StringAttr(symbol), "limit": DimsAttr((limit,))}
        return BindOp.create(operands=[x], properties=properties)

    @property
    def repeats(self) -> bool:
        return False

    @property
    def highest(self) -> Dim:
        """What the number is at most."""
        return self.limit.data[0]

    def verify_(self) -> None:
        if len(self.limit.data) != 1:
            raise VerifyException(f"{self.name}: the limit is {self.limit}; expected one dim")
        if not self.symbol.data.isidentifier():
            raise VerifyException(f"{self.name}: {self.symbol} is no name of a symbol")
        if self.symbol.data in self.highest.symbols():
            raise VerifyException(f"{self.name}: the limit of {self.symbol} is said by itself")


def symbols_in(op: Operation) -> set[str]:
    """The symbols that an op's own types and properties say."""
    found: set[str] = set()
    for values in (op.operands, op.results):
        for value in values:
            found |= symbols_said(value.type)
    for entry in op.properties.values():
        if isinstance(entry, DimsAttr):
            found.update(*(dim.symbols() for dim in entry.data if dim.constant is None))
    return found


def bound_in(op: Operation) -> set[str]:
    """The symbols that ops in the regions of one bind, and some op says."""
    bound = {x.symbol.data for x in op.walk() if isinstance(x, BindOp)}
    if not bound:
        return bound
    return bound & {s for x in op.walk() if not isinstance(x, BindOp) for s in symbols_in(x)}


def _binds_before(op: Operation) -> Iterator[BindOp]:
    """The ops that bind what an op may say, the last ones first."""
    at: Operation | None = op
    while at is not None:
        before = at.prev_op
        while before is not None:
            if isinstance(before, BindOp):
                yield before
            before = before.prev_op
        at = at.parent_op()


def limits_at(op: Operation, symbols: Iterable[str]) -> dict[str, Dim]:
    """The limits, in symbols of arguments, of those symbols that are bound before an op."""
    if not (wanted := set(symbols)):
        return {}
    function: Operation | None = op
    while function is not None and not isinstance(function, FuncOp):
        function = function.parent_op()
    wanted -= set(symbols_of(function) if function is not None else ())
    found: dict[str, Dim] = {}
    for bind in _binds_before(op) if wanted else ():
        if (name := bind.symbol.data) in wanted:
            wanted.discard(name)
            found[name] = bind.highest
            wanted |= bind.highest.symbols() - found.keys()
        if not wanted:
            break
    for name in reversed(list(found)):  # what the first ones are limited by is bound nowhere
        found[name] = highest(found[name], found)
    return found


def with_limits(module: Operation, sizes: Mapping[str, int]) -> dict[str, int]:
    """Symbols' values, with the largest ones of those that the program binds."""
    found = dict(sizes)
    for op in module.walk():
        if isinstance(op, BindOp) and op.highest.symbols() <= found.keys():
            found[op.symbol.data] = max(op.highest.evaluate(found), 0)
    return found


def at_most(op: Operation, dim: Dim) -> Dim:
    """The largest value, in symbols of arguments, of a size that an op may say."""
    return dim if dim.constant is not None else highest(dim, limits_at(op, dim.symbols()))
