"""
Linear functions that are called later, and more than once: what `vjp` and `linearize` give. Each
call names the function of the program that was traced; its derivative is written when that is
compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.ir import SSAValue

from mlc.dialects.tensor.calls import DerivativeUse, numbers_attribute
from mlc.dialects.tensor.create import full
from mlc.frontend.errors import LeakError, located
from mlc.frontend.trace.private import PrivateFunction
from mlc.frontend.trace.regions import Carry
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.frontend.transforms.derivative_arguments import like
from mlc.lazy_dataclass import dataclass


def derived(
    function: PrivateFunction,
    op: type[DerivativeUse],
    values: Sequence[SSAValue],
    given: Carry,
    gives: Carry,
) -> tuple[list[SSAValue], list[SSAValue | None]]:
    """
    The function's results, and what its derivative gives for the arrays of `gives`, None for
    integers, from `values` for those of `given`.
    """
    taken, made = (
        [k for k, x in enumerate(carry.arrays) if x.row.is_inexact] for carry in (given, gives)
    )
    wrt, of = (made, taken) if op.FROM_RESULTS else (taken, made)
    lists = {"wrt": numbers_attribute(wrt), "of": numbers_attribute(of)}
    outputs, found = function.use(op, [values[k] for k in taken], **lists)
    by_number = dict(zip(made, found, strict=True))
    return outputs, [by_number.get(k) for k in range(len(gives.arrays))]


def filled(carry: Carry, values: Sequence[SSAValue | None]) -> Any:
    """The container with these values, zeros for None."""
    trace = here()
    arrays: list[Tracer] = []
    for x, value in zip(carry.arrays, values, strict=True):
        found = full(trace.b, 0, x.row, x.dims) if value is None else value
        arrays.append(Tracer(trace, found, weak=x.weak))
    return carry.with_arrays(arrays).container()


@dataclass
class Later:
    """The derivative of a function at values of the program."""

    name: str
    function: PrivateFunction
    op: type[DerivativeUse]
    given: Carry  # what it takes is like this
    gives: Carry
    one: bool = False  # given as several arguments, gives one container

    def __call__(self, *values: Any) -> Any:
        """Its value, as an op of the program."""
        arguments = like(self.name, self.given, values if self.one else values[0])
        check_visible(self.name, self.function.arguments)
        found = derived(self.function, self.op, arguments, self.given, self.gives)[1]
        return filled(self.gives, found)


def check_visible(name: str, values: Sequence[SSAValue]) -> None:
    """LeakError where what a function was given for is not known where the trace is."""
    if not all(map(here().visible, values)):
        message = (
            f"{name}: the function that it gave is called outside of the loop or branch"
            " that it is from; expected a call inside, where its values are known."
        )
        remedy = f"Return what it gives, or call mlc.{name} where this call is."
        raise located(LeakError, message, remedy=remedy)
