"""What the copy engine takes of a factor or a result: matrices in memory, one for each batch."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import BlockArgument, Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import holds
from mlc.dialects.errors import MlcError
from mlc.dialects.gpu_async import MOST_AXES
from mlc.dialects.tensor.comparison import ConvertOp
from mlc.dialects.tensor.terms import OfTermsOp
from mlc.dialects.tile.element import ElementsOp, ReadOp
from mlc.dialects.tile.expression import ExpressionsAttr, letter, letters_in, renamed
from mlc.dialects.tile.region import YieldOp
from mlc.dialects.tile.types import view_of
from mlc.lazy_dataclass import dataclass

ALIGNED_BYTES = 16
"""At which rows begin. SOURCE: CUDA driver API, tensor maps"""


@dataclass(frozen=True)
class Matrices:
    """A view with rows along one axis and columns along the last; batches `g` say the others."""

    view: SSAValue
    at: tuple[Dim, ...]  # in letters
    word: str  # of rows, then of columns

    @staticmethod
    def all_of(view: SSAValue, at: tuple[Dim, ...]) -> list[Matrices]:
        """Of a factor that is one matrix, or whose elements come in terms."""
        return [Matrices._one(*found) for found in _reads(view, at)]

    @staticmethod
    def of(view: SSAValue, at: tuple[Dim, ...]) -> Matrices:
        """Memory at such subscripts, or what is read of memory; MlcError of other factors."""
        found = Matrices.all_of(view, at)
        if len(found) > 1:
            raise _computed()
        return found[0]

    @staticmethod
    def _one(view: SSAValue, at: tuple[Dim, ...]) -> Matrices:
        found = [
            (axis, c) for axis, dim in enumerate(at) for c in sorted(letters_in([dim])) if c != "g"
        ]
        plain = all(not letters_in([at[axis] - letter(c)]) for axis, c in found)
        word = "".join(c for _, c in found)
        if not plain or len(set(word)) != 2 or len(word) != 2 or found[1][0] != len(at) - 1:
            raise MlcError(
                f"tiles: a factor or result at [{', '.join(map(str, at))}]; expected matrices, each"
                " with rows along one axis and columns along the last"
            )
        if len(at) > MOST_AXES:
            raise MlcError(f"tiles: {view.type}; expected {MOST_AXES} axes at most")
        kind = view_of(view)
        last = kind.shape[-1].constant
        if last is None or last * kind.dtype.bytes % ALIGNED_BYTES:
            raise MlcError(
                f"tiles: rows of {last} elements of {kind.dtype.name}; expected a multiple of"
                f" {ALIGNED_BYTES} bytes"
            )
        return Matrices(view, at, word)

    def begin(self, item: Mapping[str, Dim], *, whole: bool = False) -> ExpressionsAttr:
        """
        Subscripts of the tile that begins there. They name its letters, where that must be said:
        where its axes are not the last ones, or where `whole`.
        """
        last = [letters_in([dim]) for dim in self.at[-2:]]
        named = whole or last != [frozenset(c) for c in self.word]
        to = {f".{c}": x + letter(c) if named and c in self.word else x for c, x in item.items()}
        return ExpressionsAttr(tuple(renamed(dim, to) for dim in self.at))


def keeps_values(op: Operation) -> bool:
    """Whether a conversion keeps all values: floats of 8 bits are values of every other float."""
    if not isinstance(op, ConvertOp):
        return False
    stored = op.source.kind == "storage" and op.dtype.kind == "float"
    return stored or holds(op.dtype, op.source)


def _reads(view: SSAValue, at: tuple[Dim, ...]) -> list[tuple[SSAValue, tuple[Dim, ...]]]:
    """
    Where elements lie that are read as they are, are converted and keep their values, or come in
    terms.
    """
    op = view.owner
    if not isinstance(op, ElementsOp):
        return [(view, at)]
    match [op for op in op.body.block.ops if not keeps_values(op)]:
        case [ReadOp() as read, YieldOp()]:
            return [_place(read, at)]
        case [*reads, OfTermsOp() as whole, YieldOp()]:
            found = [x for x in reads if isinstance(x, ReadOp)]
            if list(whole.operands) == [x.result for x in found]:
                return [_place(x, at) for x in found]
        case _:
            pass
    raise _computed()


def _place(read: ReadOp, at: tuple[Dim, ...]) -> tuple[SSAValue, tuple[Dim, ...]]:
    """The view, and the subscripts of an element."""
    arguments = [x for x in read.positions if isinstance(x, BlockArgument)]
    if read.where is not None or len(arguments) != len(read.positions):
        raise _computed()
    to = {f"%{k}": at[x.index] for k, x in enumerate(arguments)}
    return read.view, tuple(renamed(dim, to) for dim in read.at.data)


def _computed() -> MlcError:
    return MlcError("tiles: a factor is computed; expected both in memory")
