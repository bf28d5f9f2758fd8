"""What the functions that make regions share: carried containers, bodies traced into blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from xdsl.ir import Block, Region, SSAValue

from mlc.dialects.dtypes import DType
from mlc.dialects.errors import DTypeError, ShapeError
from mlc.dialects.tensor.control import discard
from mlc.dialects.tensor.letters import spell
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import common_dtype, convert, is_operand, lift
from mlc.frontend.trace.containers import Structure, flatten, leaf_names, unflatten
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass

MAX_ROUNDS = 4
"""bool -> int64 -> float32 -> float64 is the longest way a carried dtype can go."""


@dataclass(frozen=True)
class Carry:
    """A container of arrays and numbers; what else it holds stays as it is."""

    function: str  # for messages
    structure: Structure
    names: tuple[str, ...]  # as a user writes each leaf
    leaves: tuple[Any, ...]  # Tracers, and constants such as None

    @staticmethod
    def of(function: str, value: Any, name: str) -> Carry:
        """The container with its arrays and numbers lifted."""
        leaves, structure = flatten(value)
        lifted = tuple(lift(x, function) if is_operand(x) else x for x in leaves)
        return Carry(function, structure, tuple(leaf_names(value, name)), lifted)

    @property
    def arrays(self) -> list[Tracer]:
        """The leaves that are arrays or numbers."""
        return [x for x in self.leaves if isinstance(x, Tracer)]

    @property
    def array_names(self) -> list[str]:
        """How a user writes these."""
        pairs = zip(self.names, self.leaves, strict=True)
        return [name for name, x in pairs if isinstance(x, Tracer)]

    @property
    def values(self) -> list[SSAValue]:
        """These as SSA values."""
        return [x.value for x in self.arrays]

    def with_arrays(self, arrays: Sequence[Tracer]) -> Carry:
        """The same container of other arrays."""
        rest = iter(arrays)
        leaves = tuple(next(rest) if isinstance(x, Tracer) else x for x in self.leaves)
        return replace(self, leaves=leaves)

    def container(self) -> Any:
        """The value that users know."""
        return unflatten(self.structure, self.leaves)

    def inside(self, arguments: Sequence[SSAValue]) -> Any:
        """The container of a block's arguments."""
        pairs = zip(arguments, self.arrays, strict=True)
        made = [Tracer(here(), value, weak=x.weak) for value, x in pairs]
        return self.with_arrays(made).container()

    def results(self, values: Sequence[SSAValue]) -> Any:
        """The container of an op's results."""
        return self.inside(values)

    def of_outcome(self, outcome: Any, what: str) -> Carry:
        """What a body returned, which must be such a container."""
        found = Carry.of(self.function, outcome, "result")
        if found.structure != self.structure:
            message = (
                f"{self.function}: {what} returns another structure than it gets; expected the"
                " carry's."
            )
            raise located(ShapeError, message)
        for name, x, y in zip(self.names, self.leaves, found.leaves, strict=True):
            array = isinstance(x, Tracer)
            if array != isinstance(y, Tracer) or not (array or x is y or x == y):
                message = (
                    f"{self.function}: {name} is {_spelled(x)} and {what} returns {_spelled(y)};"
                    " expected an array in the place of each array, and the same constants."
                )
                raise located(DTypeError, message)
        return replace(found, names=self.names)


def _spelled(leaf: Any) -> str:
    return "an array" if isinstance(leaf, Tracer) else repr(leaf)


def run_body(block: Block, body: Callable[..., Any], arguments: Sequence[Any]) -> Any:
    """What a body returns; its ops go into `block`."""
    from mlc.frontend.trace.access import call

    with here().inside(block):
        outcome = call(body, tuple(arguments), {})
        for leaf in flatten(outcome)[0]:
            if isinstance(leaf, Tracer):
                _ = leaf.value  # reads written views again while the body is open
    return outcome


def lifted_in(block: Block, carry: Carry, outcome: Any, what: str) -> Carry:
    """`of_outcome`, with numbers written into the block."""
    with here().inside(block):
        return carry.of_outcome(outcome, what)


def convert_inside(block: Block, x: Tracer, start: Tracer, function: str, name: str) -> SSAValue:
    """A body's result in the dtype of the carried value; ShapeError where its shape is another."""
    if x.dims != start.dims:
        message = (
            f"{function}: {name} starts as {spell(start.dims)} and the body returns"
            f" {spell(x.dims)}; expected one shape."
        )
        raise located(ShapeError, message)
    with here().inside(block):
        return convert(x.value, start.row)


def joined_dtypes(carry: Carry, outcome: Carry) -> list[DType]:
    """The dtypes in which the carry can stay, after a trip that gave `outcome`."""
    joined: list[DType] = []
    triples = zip(carry.arrays, outcome.arrays, carry.array_names, strict=True)
    for start, end, name in triples:
        dtype = common_dtype(carry.function, (start, end))
        if not start.weak and dtype is not start.row and dtype.kind != start.row.kind:
            message = (
                f"{carry.function}: {name} starts as {start.row.numpy} and the body returns"
                f" {end.row.numpy}."
            )
            raise located(
                DTypeError,
                message,
                remedy=f"Start it as {end.row.numpy}, or convert it at the body's end.",
            )
        joined.append(dtype)
    return joined


@dataclass(frozen=True)
class Body:
    """A loop's body, traced: its block ends without a terminator yet."""

    carry: Carry  # with the dtypes that last
    region: Region
    returned: list[SSAValue]  # the next carried values, in these dtypes
    extra: Any  # what else it returned


def trace_body(
    carry: Carry,
    make: Callable[[list[SSAValue]], Region],
    run: Callable[[Block, Carry], tuple[Any, Any]],
) -> Body:
    """
    A body over the carry, traced again with wider dtypes until it returns those it gets.

    `make` gives a region for carried values, `run` traces into its block and gives
    (next carry, anything else).
    """
    for attempt in range(MAX_ROUNDS + 1):
        region = make(carry.values)
        block = region.block
        following, extra = run(block, carry)
        outcome = lifted_in(block, carry, following, "the body")
        dtypes = joined_dtypes(carry, outcome)
        arrays = carry.arrays
        if attempt == MAX_ROUNDS or all(x.row is d for x, d in zip(arrays, dtypes, strict=True)):
            pairs = zip(outcome.arrays, arrays, carry.array_names, strict=True)
            returned = [convert_inside(block, x, c, carry.function, n) for x, c, n in pairs]
            return Body(carry, region, returned, extra)
        discard(block)
        pairs = zip(arrays, dtypes, strict=True)
        wider = [x if x.row is d else Tracer(here(), convert(x.value, d)) for x, d in pairs]
        carry = carry.with_arrays(wider)
    raise AssertionError("the last round returns")
