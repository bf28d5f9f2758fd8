"""Loops with slices whose sizes are numbers of trips: one kernel each, before any other."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.passes import ModulePass

from mlc.dialects.analysis.nests import NotANestError, held_in
from mlc.dialects.tensor.bind import bound_in
from mlc.dialects.tensor.control import ControlOp, ForOp, WhileOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.plan.form_nests import NestBuilder


@dataclass(frozen=True)
class FormSliceNestsPass(ModulePass):
    """
    mlc.for %i … { mlc.bind "i" = %i; … tensor<"i"> … }  ->  mlc.kernel "nest" { mlc.for … }

    Nothing that a symbol of a trip is said of leaves the loop, so no other pass meets it. Arrays in
    the nest are not stored, but those whose elements are read again and again, or after what they
    are made of was written over (`mlc.held`).
    """

    name = "mlc-form-slice-nests"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for function in op.body.block.ops:
            if isinstance(function, FuncOp) and function.body.blocks and bound_in(function):
                _form(function.body.block)


def _form(block: Block) -> None:
    for op in list(block.ops):
        if not isinstance(op, ControlOp) or not bound_in(op):
            continue
        if isinstance(op, ForOp | WhileOp):
            try:
                NestBuilder(op, held_in(op)).run()
                continue
            except NotANestError:
                pass  # kernels of its own for each op
        for inner in op.blocks:
            _form(inner)
