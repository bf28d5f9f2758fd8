"""Groups of a role that take items in turn: one multiplies, while others finish theirs."""

from __future__ import annotations

from xdsl.irdl import prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.definition import irdl_op_definition
from mlc.dialects.tile.pipeline import I64, ChannelOp, OnChannel
from mlc.dialects.tile.work import WorkOp, work_around


@irdl_op_definition
class TurnOp(OnChannel):
    """
    Where a role's groups take items in turn, each of which has so many places of a channel: waits
    until the group of the item before passes, and goes on behind what others have.

    ```mlir
    mlc_tile.turn %ring, 12 : !mlc_tile.channel<4 x [!mlc_tile.view<8xf32, shared>]>
    ```
    """

    name = "mlc_tile.turn"
    places = prop_def(I64)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$channel `,` $places attr-dict `:` type($channel)"

    def verify_(self) -> None:
        above = work_around(self)
        if self.places.value.data < 1 or above is None or above.in_turn is None:
            raise VerifyException(f"{self.name}: expected places, and items in turn")
        _passes_once(self, above)


@irdl_op_definition
class PassOp(OnChannel):
    """
    A group has got all places of its item: the next one's turn.

    ```mlir
    mlc_tile.pass %ring : !mlc_tile.channel<4 x [!mlc_tile.view<8xf32, shared>]>
    ```
    """

    name = "mlc_tile.pass"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$channel attr-dict `:` type($channel)"

    def verify_(self) -> None:
        above = work_around(self)
        if above is None or above.in_turn is None:
            raise VerifyException(f"{self.name}: expected items in turn")


def _passes_once(op: TurnOp, work: WorkOp) -> None:
    """VerifyException unless a turn on a channel ends in the same item."""
    ends = [x for x in work.body.block.ops if isinstance(x, PassOp) and x.channel is op.channel]
    turns = [x for x in work.walk() if isinstance(x, TurnOp) and x.channel is op.channel]
    if op.parent is not work.body.block or len(ends) != 1 or len(turns) != 1:
        raise VerifyException(f"{op.name}: expected one turn of an item, and one mlc_tile.pass")


def takers_of(op: ChannelOp) -> int:
    """How many groups get its places in turn; 0 where each gets all."""
    turns = (x.operation for x in op.result.uses)
    roles = (x.role for x in turns if isinstance(x, TurnOp))
    return max((above.copies(number) for above, number in filter(None, roles)), default=0)


TURNS = (TurnOp, PassOp)
