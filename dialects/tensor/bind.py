"""A number that the program computes as a size: what a block binds, types after it may say."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, prop_def
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.dims import Dim, DimsAttr, shape_of
from mlc.dialects.tensor.control import INDEX


@irdl_op_definition
class BindOp(IRDLOperation):
    """
    From here to the end of the block, the symbol is the number, which is in [0, limit]: whoever
    writes the op has made sure of that. No type outside of the block says the symbol, and no other
    op of the function binds it.

    ```mlir
    mlc.bind "i" = %i to <"n - 1">
    ```
    """

    name = "mlc.bind"
    symbol = prop_def(StringAttr)
    x = operand_def(INDEX)
    limit = prop_def(DimsAttr)
    assembly_format = "$symbol `=` $x `to` $limit attr-dict"

    @staticmethod
    def of(symbol: str, x: SSAValue, limit: Dim) -> BindOp:
        """The op."""
        properties = {"symbol": StringAttr(symbol), "limit": DimsAttr((limit,))}
        return BindOp.create(operands=[x], properties=properties)

    @property
    def highest(self) -> Dim:
        """What the number is at most."""
        return self.limit.data[0]

    def verify_(self) -> None:
        if len(self.limit.data) != 1:
            raise VerifyException(f"{self.name}: the limit is {self.limit}; expected one dim")
        if not self.symbol.data.isidentifier():
            raise VerifyException(f"{self.name}: {self.symbol} is no name of a symbol")


def symbols_in(op: Operation) -> set[str]:
    """The symbols that an op's own types and properties say."""
    dims = [d for x in (*op.operands, *op.results) for d in shape_of(x.type)]
    for entry in op.properties.values():
        if isinstance(entry, DimsAttr):
            dims += entry.data
    return {name for dim in dims for name in dim.symbols()}


def bound_in(op: Operation) -> dict[str, BindOp]:
    """What ops in the regions of one bind, by symbols that some op says."""
    found = {x.symbol.data: x for x in op.walk() if isinstance(x, BindOp)}
    if not found:
        return found
    said = {s for x in op.walk() if not isinstance(x, BindOp) for s in symbols_in(x)}
    return {symbol: x for symbol, x in found.items() if symbol in said}
