"""All programs of a grid as one function of the launch's arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from mlc.dialects.dtypes import F32
from mlc.dialects.errors import DTypeError
from mlc.frontend.block.frame import Factored, Frame, framed
from mlc.frontend.block.memory import Pointer, address
from mlc.frontend.block.parts import Part
from mlc.frontend.block.spans import whole_region
from mlc.frontend.block.value import Block
from mlc.frontend.errors import located
from mlc.frontend.trace import access
from mlc.frontend.trace.tracer import Tracer

if TYPE_CHECKING:
    from mlc.frontend.block.launch import How, Parameter


class Program:
    """A kernel's function, for the whole grid."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function

    def run(self, arrays: dict[str, Any], numbers: dict[str, Any], how: How) -> None:
        """Traces the function once: its values have the grid's axes before their own."""
        memory = {name: array.reshape((-1,)) for name, array in arrays.items()}
        here = Frame([(size,) for size in how.grid])
        while True:
            given = [self._argument(memory, numbers, p, here.grid) for p in how.parameters]
            try:
                with framed(here):
                    result = access.call(self.function, tuple(given), {})
                break
            except Factored as axis:
                here = Frame(here.factored(axis.axis, axis.inner))
        if result is not None:
            kind = "addresses" if isinstance(result, Pointer) else type(result).__name__
            message = f"{self.function.__name__} returns {kind}; a block kernel stores its results"
            raise located(DTypeError, message, remedy="Use tl.store, and return nothing.")

    def _argument(
        self,
        memory: dict[str, Tracer],
        numbers: dict[str, Tracer],
        parameter: Parameter,
        grid: tuple[int, ...],
    ) -> Any:
        if parameter.kind == "array":
            return address(parameter.name, memory[parameter.value], grid)
        if parameter.kind == "number":
            return _scalar(numbers[parameter.value], grid)
        return parameter.value


def _scalar(number: Tracer, grid: tuple[int, ...]) -> Block:
    core = number.astype(F32.numpy).reshape((1,) * len(grid))
    return Block(grid, (), F32, Part(core, whole_region(grid)))
