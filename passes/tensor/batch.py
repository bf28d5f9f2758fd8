"""The pass that makes a function of one example a function of a batch."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute
from xdsl.passes import ModulePass

from mlc.dialects.dims import Dim, shape_of
from mlc.dialects.program import SYMBOLS, symbols_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.made_of import batched
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
        types = function.function_type
        ins = self._axes("in-axes", self.in_axes, list(types.inputs))
        outs = self._axes("out-axes", self.out_axes, list(types.outputs))
        if all(axis is None for axis in ins):
            raise ValueError(f"{self.name}: no argument of {function.sym_name.data} is batched")
        batched(function, ins, outs, size)

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
