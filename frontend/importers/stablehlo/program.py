"""A StableHLO module as data: functions of ops that name their operands."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Quantised:
    """What whole numbers stand for: (number - zero) * scale, of one axis for each place its own."""

    expressed: str
    axis: int | None
    scales: tuple[float, ...]
    zeros: tuple[int, ...]
    least: int
    most: int


@dataclass(frozen=True)
class TensorKind:
    """A ranked tensor; a size of None is not known."""

    shape: tuple[int | None, ...]
    dtype: str  # as StableHLO spells it: "f32", "i1", "ui8", "complex<f32>"
    quantised: Quantised | None = None

    def __str__(self) -> str:
        sizes = "".join("?x" if n is None else f"{n}x" for n in self.shape)
        return f"tensor<{sizes}{self.dtype}>"


@dataclass(frozen=True)
class OtherKind:
    """A type that is no tensor, as it is spelled."""

    text: str


Kind = TensorKind | OtherKind


@dataclass(frozen=True)
class Region:
    """One block: names of its arguments, and ops; the last one ends it."""

    arguments: tuple[str, ...]
    ops: tuple[Op, ...]

    def all_ops(self) -> Iterator[Op]:
        """The ops, with those of their regions."""
        for op in self.ops:
            yield op
            for inner in op.regions:
                yield from inner.all_ops()


@dataclass(frozen=True)
class Op:
    """One op, however it was written."""

    name: str  # without its dialect where that is stablehlo
    operands: tuple[str, ...]
    results: tuple[str, ...]
    kinds: tuple[Kind, ...]  # of the results
    line: int
    attributes: Mapping[str, Any] = field(default_factory=dict[str, Any])
    regions: tuple[Region, ...] = ()
    takes: tuple[Kind, ...] = ()  # of the operands

    def get(self, name: str, default: Any = None) -> Any:
        """An attribute."""
        return self.attributes.get(name, default)

    def called(self) -> list[str]:
        """The functions that it names."""
        one = (self.get("callee"), self.get("decomposition"))
        return [*(name for name in one if name), *(self.get("called_computations") or ())]


@dataclass(frozen=True)
class Function:
    """A function of a module."""

    name: str
    region: Region
    inputs: tuple[Kind, ...]
    public: bool


@dataclass(frozen=True)
class Module:
    """Functions by name, the module's own name, if it has one, and how many processes run it."""

    functions: Mapping[str, Function]
    name: str = ""
    processes: int = 1

    def entry(self) -> Function | None:
        """`main`, else the one public function; None where there is none."""
        public: Sequence[Function] = [f for f in self.functions.values() if f.public]
        if "main" in self.functions:
            return self.functions["main"]
        return public[0] if len(public) == 1 else None
