"""
`python -m benchmarks.multilinear [--gradients]`: how much of the zoo's computation is multilinear:
of its ops, of their operations, and of these where a function counts as many as its time is.

An op counts as multilinear that is linear in each operand that varies, or in some together, as a
sum is (`passes.tensor.multilinear.is_multilinear`); views and copies are, and have no operations.
Programs are those of the tensor level at the size "medium", loops as often as they run;
`--gradients`: of the derivative of the sum of the results by the first array of floats.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import mlc
from benchmarks.zoo import ZOO, Model
from mlc.dialects.analysis.trips import times_run
from mlc.dialects.tensor.op import TensorOp
from mlc.frontend.trace.containers import flatten
from mlc.passes.tensor.multilinear import is_multilinear


@dataclass
class Share:
    """Multilinear ones, and all: ops, operations, and operations by the time that they take."""

    linear: tuple[float, float, float] = (0, 0, 0)
    whole: tuple[float, float, float] = (0, 0, 0)

    def add(self, counts: tuple[float, float, float], *, is_linear: bool) -> None:
        """One op."""
        self.whole = _total([self.whole, counts])
        if is_linear:
            self.linear = _total([self.linear, counts])

    def parts(self) -> tuple[float, float, float]:
        """The shares; of nothing, 1."""
        first, second, third = (
            a / b if b else 1.0 for a, b in zip(self.linear, self.whole, strict=True)
        )
        return first, second, third


def share_of(module: ModuleOp) -> Share:
    """Of a module of the tensor level."""
    found = Share()
    for op in module.walk():
        if not isinstance(op, TensorOp) or (kind := is_multilinear(op)) is None:
            continue
        runs = times_run(op)
        flops = float(runs * op.cost().flops.evaluate({}))
        found.add((1, flops, flops * op.WEIGHT), is_linear=kind)
    return found


def program(model: Model, *, gradient: bool) -> ModuleOp:
    """At the tensor level."""
    arrays = model.arrays("medium")
    function: Any = model.function
    if gradient:
        first = next(k for k, x in enumerate(arrays) if _is_float(x))

        def total(*given: Any) -> Any:
            leaves: Sequence[Any] = flatten(model.function(*given))[0]
            return sum(x.sum() for x in leaves if x.dtype.kind == "f")

        function = mlc.grad(total, argnums=first)
    return mlc.compile(function).lower(*arrays).levels.at("tensor")


def _is_float(x: Any) -> bool:
    return np.asarray(x).dtype.kind == "f"


def _total(rows: Sequence[tuple[float, float, float]]) -> tuple[float, float, float]:
    first, second, third = (sum(column) for column in zip(*rows, strict=True))
    return first, second, third


def row(name: str, parts: tuple[float, float, float], operations: float | None = None) -> str:
    """A row of the table."""
    cells = "".join(f"{share:>12.0%}" for share in parts)
    return f"{name:<28}{cells}{'' if operations is None else f'{operations:>16,.0f}'}"


def main() -> int:
    """Print the table."""
    gradient = "--gradients" in sys.argv[1:]
    shares: list[Share] = []
    print(f"{'':<28}{'ops':>12}{'operations':>12}{'by time':>12}{'operations':>16}")
    for name, model in ZOO.items():
        try:
            shares.append(share_of(program(model, gradient=gradient)))
        except (mlc.MlcError, StopIteration, TypeError) as error:
            print(f"{name:<28}{str(error).splitlines()[0][:60]}")
            continue
        print(row(name, shares[-1].parts(), shares[-1].whole[1]))
    together = Share(
        _total([share.linear for share in shares]), _total([share.whole for share in shares])
    )
    print(row("all together", together.parts(), together.whole[1]))
    first, second, third = _total([share.parts() for share in shares])
    count = len(shares)
    print(row(f"mean of {count} models", (first / count, second / count, third / count)))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
