"""The entry with clocks read before and after kernels: what `mlc.profile` runs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, SymbolRefAttr
from xdsl.ir import Operation, SSAValue

from mlc.dialects import abi
from mlc.dialects.plan import KernelOp
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.tiles import TilesOp
from mlc.dialects.tile.kernel import CallOp
from mlc.lowering.loops.function import Kernel
from mlc.lowering.loops.lower import EntryLowering

CLOCK = "mlc.clock"
"""Attribute of kernels and tile loops that have a clock: its number."""


def lower_profiled(module: ModuleOp) -> ModuleOp:
    """
    As `lower_to_loops`; kernels and tile loops that have a clock are enclosed in calls of
    `abi.PROFILE_BEGIN` and `abi.PROFILE_END` with its number. What several threads run at the same
    time must have none. Each kernel has a team of its own.
    """
    return _ProfiledLowering(module, entry_function(module)).lower()


class _ProfiledLowering(EntryLowering):
    def _body(self) -> None:
        self._block(self.function.body.block)

    def _run(
        self, kernels: Sequence[Kernel], op: KernelOp | CallOp, arguments: Sequence[SSAValue]
    ) -> None:
        self._stamp(abi.PROFILE_BEGIN, op)
        super()._run(kernels, op, arguments)
        self._stamp(abi.PROFILE_END, op)

    def _tiles(self, op: TilesOp) -> None:
        self._stamp(abi.PROFILE_BEGIN, op)
        super()._tiles(op)
        self._stamp(abi.PROFILE_END, op)

    def _stamp(self, name: str, op: Operation) -> None:
        clock = op.attributes.get(CLOCK)
        if not isinstance(clock, IntegerAttr):
            return
        number = self.b.index(clock.value.data)
        properties = {"callee": SymbolRefAttr(name)}
        self.b.add_op(func.CallOp.create(operands=[number], properties=properties))
