"""What a kernel of a plan costs, as an attribute."""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from mlc.dialects.dims import Dim, parse_dim


@irdl_attr_definition
class CostAttr(Data[tuple[Dim, Dim, Dim]]):
    """
    Work of one kernel as dims: arithmetic operations, bytes read, bytes written.

    ```mlir
    #mlc.cost<flops "3*B", read 24, written "4*B">
    ```
    """

    name = "mlc.cost"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> tuple[Dim, Dim, Dim]:
        def dim(keyword: str) -> Dim:
            parser.parse_keyword(keyword)
            return parse_dim(parser)

        with parser.in_angle_brackets():
            flops = dim("flops")
            parser.parse_punctuation(",")
            read = dim("read")
            parser.parse_punctuation(",")
            return flops, read, dim("written")

    def print_parameter(self, printer: Printer) -> None:
        def spell(dim: Dim) -> str:
            return str(dim) if dim.constant is not None else f'"{dim}"'

        flops, read, written = self.data
        with printer.in_angle_brackets():
            printer.print_string(
                f"flops {spell(flops)}, read {spell(read)}, written {spell(written)}"
            )
