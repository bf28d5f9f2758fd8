"""What a trace knows of Python's ints: those from outside, and sizes, which are such as well."""

from __future__ import annotations

from collections.abc import Container, Hashable, Mapping
from typing import TYPE_CHECKING

from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import Dim
from mlc.dialects.tensor.op import TensorOp
from mlc.frontend.trace.paths import Path

if TYPE_CHECKING:
    from mlc.frontend.trace.size_inputs import AsSize
    from mlc.frontend.trace.tracer import Tracer


class PythonInts:
    """Those of one program."""

    def __init__(self) -> None:
        self.varying: Mapping[Hashable, str] = {}  # numbers from outside that are inputs
        self.arguments: list[Tracer] = []  # numbers of Python's
        self.known: dict[str, tuple[Path, int]] = {}  # ints from outside: the way, and what it is
        self.guarded = True  # whether each call asks the program's guards
        self.limits: Mapping[str, int] = {}  # how large they are, by name
        self.as_sizes: Mapping[Hashable, AsSize] = {}  # those from outside that are sizes
        self.ways: dict[str, Path] = {}  # to these, by symbol
        self.sizes: Mapping[str, int] = {}  # of this call, by symbol, where they are known
        self.asked = 0  # comparisons of sizes on whose outcome the program relies
        self.asks_sizes = False  # whether sizes are compared at each trip of a loop
        # what lists whose length only the program knows get, and give: with how many it may be
        self.into_lists: set[SSAValue] = set()
        self.from_lists: dict[SSAValue, Dim] = {}
        # what the program looks at, by what ends the call where it has left 64 bits
        self.looked: dict[SSAValue, SSAValue] = {}

    def look_no_more(self, within: Container[SSAValue]) -> None:
        """Of what is within 64 bits, a program does not look whether it is."""
        for look, value in list(self.looked.items()):
            if value in within and not look.uses and isinstance(look.owner, Operation):
                del self.looked[look]
                _erase(look.owner)


def _erase(op: Operation) -> None:
    """An op whose results nobody uses, and what was computed for it alone."""
    operands = list(op.operands)
    op.detach()
    op.erase()
    for x in dict.fromkeys(operands):
        if not x.uses and isinstance(x.owner, TensorOp) and not x.owner.regions:
            _erase(x.owner)
