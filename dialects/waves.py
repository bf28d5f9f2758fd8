"""How one worker runs the trips of a loop of sweeps: block by block, some trips at a time."""

from __future__ import annotations

from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer
from xdsl.utils.exceptions import VerifyException

from mlc.lazy_dataclass import dataclass

WAVES = "mlc.waves"
"""Attribute of a loop: how one worker runs its trips."""


@dataclass(frozen=True)
class Waves:
    """`blocks` of the rows of each kernel one after the other, `trips` of the loop at a time."""

    blocks: int
    trips: int


@irdl_attr_definition
class WavesAttr(Data[Waves]):
    """
    How one worker runs the trips of a loop: block b of the k-th kernel that so many trips run, in
    wave b + k.

    ```mlir
    #mlc.waves<21 blocks, 2 trips>
    ```
    """

    name = "mlc.waves"

    def verify(self) -> None:
        if min(self.data.blocks, self.data.trips) < 1:
            raise VerifyException(f"waves {self}; expected numbers from 1 on")

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Waves:
        with parser.in_angle_brackets():
            blocks = parser.parse_integer(allow_boolean=False)
            parser.parse_characters("blocks")
            parser.parse_punctuation(",")
            trips = parser.parse_integer(allow_boolean=False)
            parser.parse_characters("trips")
            return Waves(blocks, trips)

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_string(f"{self.data.blocks} blocks, {self.data.trips} trips")
