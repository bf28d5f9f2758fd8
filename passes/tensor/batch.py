"""The pass that makes a function of one example a function of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, as_tensor, shape_of, tensor_type
from mlc.dialects.program import SYMBOLS, symbols_of
from mlc.dialects.tensor.op import OpBuilder
from mlc.dialects.tensor.shape import broadcast_to
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.batching.block import Lane, batch_block, from_front, to_front
from mlc.passes.wellformed import check_unplanned

Axes = tuple[int | str, ...]


@dataclass(frozen=True)
class BatchPass(ModulePass):
    """
    Gives a function's arguments and results one axis more, along which it runs for each example on
    its own: f(x) becomes g(xs) with g(xs)[i] = f(xs[i]).

    `function`: its name; without it, every function of the module. `in-axes`: where each argument
    has the new axis, counted in the new shape, from the end if negative; `none` for an argument
    that is the same for all examples; without it, 0 for each. `out-axes`: the same for results; a
    result that does not depend on batched arguments is repeated, or given once where `none` stands.
    `size`: how many examples, a number or a symbol. Raises ValueError for options that do not fit
    the function.

    ```
    mlc opt f.mlir -p 'batch{function=f in-axes=0,none size=B}'
    ```
    """

    name = "mlc-batch"

    function: str = ""
    in_axes: Axes = ()
    out_axes: Axes = ()
    size: int | str = "B"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        functions = [x for x in op.body.block.ops if isinstance(x, FuncOp) and x.body.blocks]
        chosen = [f for f in functions if self.function in ("", f.sym_name.data)]
        if not chosen:
            known = ", ".join(f.sym_name.data for f in functions) or "none"
            raise ValueError(f"{self.name}: no function {self.function!r}; there are: {known}")
        for function in chosen:
            check_unplanned(self.name, function)
            self._batch(function)

    def _batch(self, function: FuncOp) -> None:
        size = self._size(function)
        old = function.body.block
        end = old.last_op
        assert isinstance(end, ReturnOp)
        types = function.function_type
        ins = self._axes("in-axes", self.in_axes, list(types.inputs))
        outs = self._axes("out-axes", self.out_axes, list(types.outputs))
        if all(axis is None for axis in ins):
            raise ValueError(f"{self.name}: no argument of {function.sym_name.data} is batched")
        block = Block(
            arg_types=[_widened(x.type, axis, size) for x, axis in zip(old.args, ins, strict=True)]
        )
        b = OpBuilder(block.add_op)
        lanes: list[Lane] = []
        for argument, new, axis in zip(old.args, block.args, ins, strict=True):
            new.name_hint = argument.name_hint
            value = new if axis is None else to_front(b, new, axis)
            lanes.append(Lane(value, axis is not None))
        found = batch_block(old, list(end.operands), lanes, size, b)
        results = [
            self._result(b, k, lane, axis, size)
            for k, (lane, axis) in enumerate(zip(found, outs, strict=True))
        ]
        block.add_op(ReturnOp(*results))
        function.detach_region(0)
        function.add_region(Region(block))
        kinds: list[Attribute] = [x.type for x in results]
        function.properties["function_type"] = FunctionType.from_lists(
            [x.type for x in block.args], kinds
        )

    def _size(self, function: FuncOp) -> Dim:
        """The size; a symbol becomes one of the function's."""
        if isinstance(self.size, int):
            return Dim.const(self.size)
        symbols = symbols_of(function)
        if self.size in symbols:
            name = function.sym_name.data
            raise ValueError(
                f"{self.name}: {name} has a symbol {self.size} already; choose another: size=…"
            )
        function.attributes[SYMBOLS] = ArrayAttr(
            [StringAttr(name) for name in (*symbols, self.size)]
        )
        return Dim.symbol(self.size)

    def _axes(self, option: str, axes: Axes, types: Sequence[Attribute]) -> list[int | None]:
        """For each type the place of the new axis; None where there is none."""
        chosen = axes or (0,) * len(types)
        if len(chosen) != len(types):
            raise ValueError(
                f"{self.name}: {option} names {len(chosen)} axes; expected {len(types)}"
            )
        found: list[int | None] = []
        for k, (axis, kind) in enumerate(zip(chosen, types, strict=True)):
            rank = len(shape_of(kind)) + 1
            if axis == "none":
                found.append(None)
            elif isinstance(axis, int) and -rank <= axis < rank:
                found.append(axis % rank)
            else:
                raise ValueError(
                    f"{self.name}: {option} has {axis} at place {k}; expected none, or an axis from"
                    f" {-rank} to {rank - 1}"
                )
        return found

    def _result(self, b: OpBuilder, k: int, lane: Lane, axis: int | None, size: Dim) -> SSAValue:
        if axis is None:
            if lane.batched:
                raise ValueError(
                    f"{self.name}: result {k} depends on batched arguments; expected an axis for it"
                )
            return lane.value
        value = lane.value
        if not lane.batched:
            value = broadcast_to(b, value, (size, *shape_of(value.type)))
        return from_front(b, value, axis)


def _widened(kind: Attribute, axis: int | None, size: Dim) -> Attribute:
    """The type with the batch axis."""
    if axis is None:
        return kind
    dims = shape_of(kind)
    return tensor_type(as_tensor(kind).element_type, (*dims[:axis], size, *dims[axis:]))
