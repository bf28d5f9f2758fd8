# pyright: basic
"""`mlc.torch.report()`: what became of the graphs that PyTorch gave to the backend."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from operator import getitem
from typing import Any

from mlc.frontend.importers.fx.run import OURS
from mlc.frontend.importers.fx.stages import Stage
from mlc.lazy_dataclass import dataclass

Node = Any


@dataclass(frozen=True)
class EagerOp:
    """An op that PyTorch runs: how often it is there, why, and the line of its first node."""

    name: str
    count: int
    why: str
    line: str


@dataclass(frozen=True)
class GraphReport:
    """A graph: how many of its ops are compiled, in how many pieces, and which are not."""

    name: str
    compiled: int
    pieces: int
    eager: tuple[EagerOp, ...]

    @classmethod
    def of(
        cls, name: str, parts: Sequence[Stage], refused: Mapping[Node, str], *, whole: bool
    ) -> GraphReport:
        """The report of a graph's stages. `whole`: PyTorch runs all of it."""
        eager = [n for s in parts for n in s.eager if n.target is not getitem]
        pieces = [stage.compiled for stage in parts if stage.compiled and not whole]
        counts = Counter(map(_said, eager))
        first = {_said(n): n for n in reversed(eager)}
        ops = tuple(
            EagerOp(target, count, refused.get(first[target], ""), _line(first[target]))
            for target, count in counts.items()
        )
        return cls(name, sum(map(len, pieces)), len(pieces), ops)

    def lines(self) -> Iterator[str]:
        """The report as text."""
        where = f"{self.compiled} ops compiled in {self.pieces} pieces"
        yield f"{self.name}: {where if self.pieces else 'left to PyTorch'}"
        for op in self.eager:
            because = f" ({op.why})" if op.why else ""
            yield f"  {op.count} × {op.name} by PyTorch{because}{op.line and f', {op.line}'}"

    def __str__(self) -> str:
        return "\n".join(self.lines())


def _said(node: Node) -> str:
    """What a node calls."""
    said = str(node.target)
    if said.startswith(OURS) or not callable(node.target):
        return said
    return getattr(node.target, "__name__", "")


def _line(node: Node) -> str:
    """The user's line that a node comes from."""
    trace = node.meta.get("stack_trace") or ""
    places = [text.strip() for text in trace.splitlines() if text.strip().startswith("File ")]
    if not places:
        return ""
    file, line, *_ = places[-1].removeprefix("File ").split(", ")
    return file.strip('"') + ":" + line.removeprefix("line ")


_known: list[GraphReport] = []
_KEPT = 1000


def note(report: GraphReport) -> None:
    """Remembers a graph, of which there may be many: the last ones stay."""
    _known.append(report)
    del _known[:-_KEPT]


def report() -> tuple[GraphReport, ...]:
    """
    What became of each graph that `torch.compile(…, backend="mlc")` handed over, the last one last:
    how many ops are compiled, and which ones PyTorch runs, with the line that they come from.
    """
    return tuple(_known)


def clear_report() -> None:
    """Forgets what `report` says."""
    _known.clear()
