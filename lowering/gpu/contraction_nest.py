"""A contraction as matrix products: where the flattened roles are, letter by letter."""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import SSAValue

from mlc.dialects.analysis.access import Nest
from mlc.dialects.analysis.matmul_axes import ContractionRoles
from mlc.dialects.dtypes import DType
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.window import ConvOp
from mlc.lazy_dataclass import dataclass
from mlc.lowering.gpu.builder import GpuBuilder
from mlc.lowering.loops.arithmetic import Index
from mlc.lowering.loops.builder import LoopBuilder
from mlc.lowering.loops.element import ORIGIN, Lanes, Position
from mlc.lowering.loops.kernel import axes_of


@dataclass
class Extents:
    """Sizes of the roles, flattened."""

    m: Index
    n: Index
    k: Index


class ContractionNest:
    """A contraction as matrix products: positions of the roles as positions of the letters."""

    def __init__(
        self,
        b: LoopBuilder,
        nest: Nest,
        strided: frozenset[int],
        op: Product,
        roles: ContractionRoles,
        *,
        single: bool = False,
    ) -> None:
        """`single`: results are computed one by one, so that lanes run nowhere."""
        self.b, self.op, self.roles = b, op, roles
        self.dtype: DType = op.summand()
        self.letter_sizes = {c: b.dim(d) for c, d in op.sizes().items()}
        self.words, self.result_word, reduced = op.words()
        self.axis = {c: k for k, c in enumerate(self.result_word + reduced)}
        self.groups = axes_of(b, nest, strided).groups
        # lanes run along n: only letters that memory walks as one; the others go with the batch
        tails = (roles.n[k:] for k in range(len(roles.n)))
        self.n = roles.n if single else next(word for word in tails if self.joined(word))
        self.batch = roles.batch + roles.n[: len(roles.n) - len(self.n)]
        self.size = Extents(*(self.extent(word) for word in (roles.m, self.n, roles.k)))
        self.lhs, self.rhs = (1, 0) if roles.swapped else (0, 1)

    def extent(self, word: str) -> Index:
        """The product of the letters' sizes."""
        return self.b.product([self.letter_sizes[c] for c in word])

    def joined(self, word: str) -> bool:
        """Whether every access walks these letters as one axis."""
        axes = tuple(self.axis[c] for c in word)
        return len(axes) == 1 or any(
            axes == group[k : k + len(axes)] for group in self.groups for k in range(len(group))
        )

    def last_letters(self, which: int) -> str:
        """The letters that walk along an operand's last axis."""
        if isinstance(self.op, ConvOp):
            return "".join(letter for _, letter in self.op.axes[which][-1])
        return self.words[which][-1]

    def walks_summed(self, which: int) -> bool:
        """Whether neighbours in an operand's memory are neighbours along the summed axis alone."""
        return not set(self.last_letters(which)) & set(self.result_word)

    # positions ------------------------------------------------------------------------------

    def split(self, word: str, at: Position) -> dict[str, Position]:
        """A flattened position as one per letter; only the last letter's moves with the lane."""
        found: dict[str, Position] = {}
        if self.joined(word):
            return {**dict.fromkeys(word, ORIGIN), word[-1]: at}
        assert isinstance(self.b, GpuBuilder)
        rest = at.base
        for c in reversed(word[1:]):
            size = self.letter_sizes[c]
            found[c] = Position(self.b.rem(rest, size), at.step if c == word[-1] else 0)
            rest = self.b.div(rest, size)
        found[word[0]] = Position(rest, at.step if len(word) == 1 else 0)
        return found

    def multiply_add(self, e: Lanes, x: SSAValue, y: SSAValue, z: SSAValue) -> SSAValue:
        """x * y + z in the contraction's dtype."""
        if self.dtype.is_inexact:
            return e.fma(x, y, z)
        return e.apply(arith.AddiOp, e.apply(arith.MuliOp, x, y), z)
