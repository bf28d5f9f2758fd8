"""Results in the memory of the arguments that they replace (D12, D13)."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.analysis.aliases import Aliases, donations_of, root_of, values_from_outside
from mlc.dialects.plan import KernelOp
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.shape import ReshapeOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.fusion.splitting import deep_contraction, split_epilogue
from mlc.passes.plan.memory.in_place.sharing import copied, inputs_in, may_write, share
from mlc.passes.remarks import remark


@dataclass(frozen=True)
class DonateArgumentsPass(ModulePass):
    """
    Makes it right that a result lies in the memory of the argument that it takes the place of.

    A kernel may write there when nobody reads the argument after it, and when it reads the argument
    itself only at the element that it is about to write: then `over` says so. A kernel that runs
    too early moves behind the last reader where its own readers permit. What remains is computed
    elsewhere and copied at the end, with a remark. An argument that is returned as it came is not
    copied. Where the parts of long sums wait in memory between blocks, what follows such a sum is
    left to a kernel of its own: they could not where the epilogue still has to read.
    """

    name = "mlc-donate-arguments"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks:
                donations = donations_of(function)
                if donations:
                    splits = target_of(op).stores_partial_sums
                    _Donations(function, donations, splits=splits).run()


class _Donations:
    """The donated arguments of one function."""

    def __init__(self, function: FuncOp, donations: dict[int, int], *, splits: bool) -> None:
        self.splits = splits
        self.function = function
        self.block: Block = function.body.block
        last = self.block.last_op
        assert last is not None
        self.terminator: Operation = last
        self.donations = donations

    def run(self) -> None:
        """Decides each argument."""
        for number, result in self.donations.items():
            self._returned_as_it_came(self.block.args[number], result)
        pending = {
            self.block.args[number]: result
            for number, result in self.donations.items()
            if root_of(self.terminator.operands[result]) is not self.block.args[number]
        }
        for argument, result in pending.items():
            if not self._is_right(argument, result):
                self._delay(argument, result)
        wrong = {x: r for x, r in pending.items() if not self._is_right(x, r)}
        for argument, result in wrong.items():
            self._copy(argument, result)
        for argument, result in pending.items():
            self._share(argument, result)

    def _writer(self, result: int) -> tuple[KernelOp, int]:
        """The kernel that makes a result of the function, and its number there."""
        value = root_of(self.terminator.operands[result])
        assert isinstance(value.owner, KernelOp)
        return value.owner, list[SSAValue](value.owner.outs).index(value)

    def _share(self, argument: SSAValue, result: int) -> None:
        """Says what the writer may write over; long sums then need a kernel of their own."""
        kernel, k = self._writer(result)
        places = Aliases(self.function)
        group = places.group(argument)
        if next(inputs_in(kernel, places, group), None) is None:
            return
        if self.splits and (contraction := deep_contraction(kernel)) is not None:
            kernel = split_epilogue(kernel, contraction)
            places = Aliases(self.function)
            group = places.group(argument)
        share(kernel, k, places, group)

    def _returned_as_it_came(self, argument: SSAValue, result: int) -> None:
        """The copy of an argument into its own memory goes."""
        value = root_of(self.terminator.operands[result])
        copy = value.owner
        if (
            isinstance(copy, KernelOp)
            and len(copy.outs) == len(copy.inputs) == 1
            and list(copy.yielded.values) == list(copy.block.args)
            and root_of(copy.inputs[0]) is argument
        ):
            old = self.terminator.operands[result]
            self.terminator.operands[result] = argument
            while isinstance(old.owner, ReshapeOp | KernelOp) and old.first_use is None:
                op = old.owner
                old = op.operands[0]
                op.detach()
                op.erase()

    def _is_right(self, argument: SSAValue, result: int) -> bool:
        places = Aliases(self.function)
        kernel, k = self._writer(result)
        return may_write(kernel, k, places, places.group(argument))

    def _delay(self, argument: SSAValue, result: int) -> None:
        """
        Moves the kernel behind the last op that reads the argument, if no op waits for it, or is
        written over what it reads.
        """
        kernel, _ = self._writer(result)
        places = Aliases(self.function)
        group = places.group(argument)
        made: set[SSAValue] = set(kernel.outs)
        moved: list[Operation] = [kernel]  # with the views of its results
        between: list[Operation] = []
        last: Operation | None = None
        op = kernel.next_op
        while op is not None and op is not self.terminator:
            read = {*op.operands, *values_from_outside(op)} if op.regions else set(op.operands)
            if isinstance(op, ReshapeOp) and op.x in made:
                made.add(op.result)
                moved.append(op)
            else:
                between.append(op)
                if any(places.group(x) is group for x in read):
                    last = op
            op = op.next_op
        if last is None:
            return
        used = {places.group(x) for x in kernel.inputs}
        for op in between[: between.index(last) + 1]:
            read = {*op.operands, *values_from_outside(op)} if op.regions else set(op.operands)
            if read & made or any(places.group(x) in used for x in op.results):
                return
        for op in moved:
            op.detach()
            self.block.insert_op_after(op, last)
            last = op

    def _copy(self, argument: SSAValue, result: int) -> None:
        """The result is computed elsewhere, and copied when everything else is done."""
        value = self.terminator.operands[result]
        writer, _ = self._writer(result)
        kernel = copied(value, writer.location)
        self.block.insert_op_before(kernel, self.terminator)
        self.terminator.operands[result] = kernel.outs[0]
        places = Aliases(self.function)
        twice = any(True for _ in inputs_in(writer, places, places.group(argument)))
        why = "other elements of it are read while it is made" if twice else "it is read later"
        name = argument.name_hint or "an argument"
        remark(writer, f"what replaces {name} is computed elsewhere and then copied: {why}")
