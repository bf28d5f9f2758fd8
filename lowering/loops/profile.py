"""The entry with a clock read before and after each kernel: what `mlc.profile` runs."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp, SymbolRefAttr
from xdsl.ir import SSAValue

from mlc.dialects import abi
from mlc.dialects.plan import KernelOp
from mlc.lowering.loops.function import Kernel
from mlc.lowering.loops.lower import EntryLowering


def lower_profiled(module: ModuleOp) -> ModuleOp:
    """
    As `lower_to_loops`; the kernels, numbered as the module's text has them, are each enclosed in
    calls of `abi.PROFILE_BEGIN` and `abi.PROFILE_END` with their numbers.
    """
    function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
    return _ProfiledLowering(module, function).lower()


class _ProfiledLowering(EntryLowering):
    def __init__(self, module: ModuleOp, function: func.FuncOp) -> None:
        super().__init__(module, function)
        kernels = [op for op in module.walk() if isinstance(op, KernelOp)]
        self.numbers = {op: k for k, op in enumerate(kernels)}

    def _run(self, kernels: Sequence[Kernel], op: KernelOp, arguments: Sequence[SSAValue]) -> None:
        self._stamp(abi.PROFILE_BEGIN, op)
        super()._run(kernels, op, arguments)
        self._stamp(abi.PROFILE_END, op)

    def _stamp(self, name: str, op: KernelOp) -> None:
        number = self.b.index(self.numbers[op])
        properties = {"callee": SymbolRefAttr(name)}
        self.b.add_op(func.CallOp.create(operands=[number], properties=properties))
