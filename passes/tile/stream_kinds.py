"""Streams by their form: which it is, and the program that it becomes."""

from __future__ import annotations

from collections.abc import Sequence

from mlc.dialects.errors import MlcError
from mlc.dialects.plan import KernelOp as PlanKernel
from mlc.dialects.tensor.reduce import ReduceOp
from mlc.dialects.tile.kernel import KernelOp
from mlc.dialects.tile.types import Layout
from mlc.dialects.tile.words import Words
from mlc.passes.tile.fold_form import FoldForm, fold_form
from mlc.passes.tile.folds import Folds
from mlc.passes.tile.stream_block import StreamBlock
from mlc.passes.tile.stream_form import StreamForm, stream_form
from mlc.passes.tile.streams import Streams


def form_of(block: StreamBlock) -> StreamForm | FoldForm:
    """The form of streams; MlcError for those of another form."""
    if any(isinstance(op, ReduceOp) for op in block.block.ops):
        return stream_form(block)
    return fold_form(block)


def stream_program(
    kernel: PlanKernel, name: str, words: Words, layouts: Sequence[Layout]
) -> KernelOp:
    """The program of a kernel that holds streams, by all words together."""
    try:
        form = form_of(StreamBlock.of_kernel(kernel))
    except MlcError as error:
        raise MlcError(f"plan to tiles: {name}: {error}") from error
    if isinstance(form, FoldForm):
        return Folds(kernel, form, words, layouts).program(name)
    return Streams(kernel, form, words, layouts).program(name)
