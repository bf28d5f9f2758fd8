"""
Sizes that the program computes: numbers of trips, and what is made of them, as symbols that a block
binds (`mlc.bind`). What is known of integers while a function is traced, `Ranges` says.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager
from itertools import count as counting

from xdsl.ir import Block, Operation, SSAValue

from mlc.dialects.analysis.homes import block_of
from mlc.dialects.analysis.ranges import Ranges
from mlc.dialects.dims import Dim, highest
from mlc.dialects.tensor.bind import BindOp

ZERO = Dim.const(0)


class BoundSizes:
    """The symbols of one program that are numbers it computes."""

    def __init__(
        self, scopes: Sequence[Block], symbols: Sequence[str], limits: dict[str, Dim]
    ) -> None:
        self.ranges = Ranges()
        self.spans: list[tuple[SSAValue, Dim, Dim]] = []  # sizes of slices: number, limit, dim
        self._scopes = scopes  # blocks that are being built, innermost last
        self._symbols = symbols  # of arguments
        self._bounds = limits  # of symbols that are bound
        self._values: dict[str, SSAValue] = {}
        self._limits: dict[str, Dim | None] = {}
        self._ops: dict[str, BindOp] = {}  # of symbols that types may say
        self._sizes: dict[Dim, str] = {}  # of other numbers, by what is known of them
        self._known: dict[str, Dim] = {}  # which that is
        self._open = set[str]()  # of trips, where Python cannot know how many there are
        self._loops: list[Block] = []  # bodies of loops that are being traced, innermost last
        self._sliced = 0  # how many of them have slices that variables begin or end

    @contextmanager
    def loop(
        self,
        block: Block,
        index: SSAValue | None = None,
        count: SSAValue | None = None,
        *,
        sliced: bool = False,
    ) -> Generator[None]:
        """A loop's body is traced: its trips have the numbers 0, 1, … below a count, if it has."""
        if index is not None and count is not None:
            highest = self.ranges.of(count) - 1
            symbol = self._fresh(index, self.ranges.greatest(highest))
            if not self.are_of_trips(highest.symbols()):
                self._open.add(symbol)
            self.ranges.bind(index, symbol, [ZERO], [highest])
        self._loops.append(block)
        self._sliced += sliced
        try:
            yield
        finally:
            self._loops.pop()
            self._sliced -= sliced

    @property
    def inside(self) -> bool:
        """Whether ops go into a loop."""
        return bool(self._loops)

    @property
    def writes_parts(self) -> bool:
        """Whether arrays are written where they lie: the loop may be one kernel."""
        return self._sliced > 0

    def is_symbol(self, name: str) -> bool:
        """Whether a symbol stands for a number that the program computes."""
        return name in self._values

    def are_of_trips(self, names: Iterable[str]) -> bool:
        """Whether all symbols are numbers that Python knows where trips stand one by one."""
        return all(self.is_symbol(name) and name not in self._open for name in names)

    def is_bound(self, dim: Dim) -> bool:
        """Whether a dim says a number that a loop computes."""
        return not self._values.keys().isdisjoint(dim.symbols())

    def _is_visible(self, symbol: str) -> bool:
        op = self._ops.get(symbol)
        return op is not None and any(op.parent is scope for scope in self._scopes)

    def size(self, number: SSAValue, limit: Dim) -> Dim | None:
        """
        A number in [0, limit] as a dim, whose symbols are bound from now on; None where it does not
        come from a loop, or has no end that is known before.
        """
        known = self._shown(self.ranges.of(number))
        if not any(name[0] == "%" for name in known.symbols()):
            symbols = [s for s in known.symbols() if s in self._values]
            return known if all(map(self._bound, symbols)) else None
        if not self.inside:
            return None
        symbol = self._sizes.get(known)
        if symbol is None or not self._is_visible(symbol):
            symbol = self._fresh(number, self.ranges.greatest(limit))
            if not self._bound(symbol):
                return None
            self.ranges.bind(number, symbol, [ZERO, known], [limit, known])
            self._sizes[known], self._known[symbol] = symbol, known
        return Dim.symbol(symbol)

    def _shown(self, known: Dim) -> Dim:
        """Without symbols that are bound in a loop that is not being traced, such as a trial that
        was given up."""
        hidden = (s for s in known.symbols() if s in self._known and not self._is_visible(s))
        return known.substitute({s: self._known[s] for s in hidden})

    def _fresh(self, number: SSAValue, limit: Dim | None) -> str:
        names = (f"i{k}" for k in counting(len(self._values)))
        symbol = next(x for x in names if x not in self._symbols and x not in self._bounds)
        self._values[symbol], self._limits[symbol] = number, limit
        return symbol

    def _bound(self, symbol: str) -> bool:
        """Puts the op that binds a symbol where its number is made, but into a loop."""
        if symbol in self._ops:
            return True
        number, limit = self._values[symbol], self._limits[symbol]
        if limit is None:
            return False
        op, owner = BindOp.of(symbol, number, limit), number.owner
        block = block_of(number)
        first = next(k for k, scope in enumerate(self._scopes) if scope is self._loops[0])
        inside = any(scope is block for scope in self._scopes[first:])
        if inside and isinstance(owner, Operation) and block is not None:
            block.insert_op_after(op, owner)
        else:
            block = owner if inside and isinstance(owner, Block) else self._loops[0]
            if block.first_op is None:
                block.add_op(op)
            else:
                block.insert_op_before(op, block.first_op)
        self._ops[symbol], self._bounds[symbol] = op, highest(limit, self._bounds)
        return True
