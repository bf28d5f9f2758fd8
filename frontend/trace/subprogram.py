"""
What transformations of functions share: a Python function traced into a block of its own, the block
put into the program, and the callable that such a transformation gives.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import FunctionType
from typing import Any, cast
from weakref import WeakKeyDictionary

from xdsl.ir import Attribute, Block, SSAValue

from mlc.dialects.tensor.calls import uses_of_functions
from mlc.fork import RenewedLock
from mlc.frontend.errors import NotSupportedError, located
from mlc.frontend.trace.access import call
from mlc.frontend.trace.definitions import keep_text
from mlc.frontend.trace.effects import Raised, effects_of
from mlc.frontend.trace.regions import Carry, run_body
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Subprogram:
    """A function traced into a detached block: its arguments, and what the function returned."""

    function: str  # for messages
    block: Block
    outcome: Carry  # its arrays are values of the block, or from outside
    effects: tuple[tuple[Tracer, SSAValue], ...]  # of what it did beside: states, and their values
    first_made: int = 0  # of the trace's values, those made in it

    @property
    def outputs(self) -> list[SSAValue]:
        """The values of the arrays that the function returned, then those of states."""
        with here().inside(self.block):
            return [*self.outcome.values, *(value for _, value in self.effects)]

    def written_out(self) -> Subprogram:
        """The same, in whose block stands all that it names of private functions."""
        if not any(uses_of_functions(self.block)):
            return self
        from mlc.passes.tensor.expand_transforms import write_out

        return self.ending(write_out(self.block, self.outputs, here().private))

    def ending(self, values: Sequence[SSAValue]) -> Subprogram:
        """The same with other outputs."""
        arrays = zip(values, self.outcome.arrays, strict=False)
        made = [Tracer(here(), value, weak=x.weak) for value, x in arrays]
        last = values[len(values) - len(self.effects) :]
        pairs = zip(self.effects, last, strict=True)
        effects = tuple((state, value) for (state, _), value in pairs)
        return replace(self, outcome=self.outcome.with_arrays(made), effects=effects)

    def settle(self, values: Sequence[SSAValue]) -> None:
        """States have the last ones of these, which stand where the trace is."""
        for (state, _), value in zip(reversed(self.effects), reversed(values), strict=False):
            state.write(value)


def subprogram(
    function: str,
    inputs: Carry,
    run: Callable[[Any], Any],
    types: Sequence[Attribute] | None = None,
    *,
    passes: bool = False,
) -> Subprogram:
    """
    `run`, called with the container `inputs` in which each array is a fresh block argument, of its
    own type or of that in `types`.

    Values from around may be used inside; they stay what they are. `function` is named in messages.
    `passes`: what it does beside is among its outputs, which the caller settles.
    """
    block = Block(arg_types=types or [x.type for x in inputs.arrays])
    first_made = len(here().made)
    for argument, x in zip(block.args, inputs.arrays, strict=True):
        argument.name_hint = x.hint
    with here().inside(block):
        container = inputs.inside(block.args)
    trace = here()
    before = {} if (beside := effects_of(trace)) is None else beside.now()
    trace.passing += [block] * passes
    try:
        outcome = run_body(block, run, (container,))
    except Raised:
        if not passes:
            raise
        message = (
            "a function of which a derivative or a batch is taken raises an error in any case."
        )
        remedy = "Ask by `if` before what would raise it."
        raise located(NotSupportedError, message, remedy=remedy) from None
    finally:
        del trace.passing[len(trace.passing) - passes :]
    with trace.inside(block):
        found = Carry.of(function, outcome, "result")
        effects = () if (beside := effects_of(trace)) is None else beside.taken_back(before)
    sub = Subprogram(function, block, found, effects, first_made)
    ends = sub.outputs
    if trace.counted:
        from mlc.passes.tensor.mask_reductions import with_masks

        ends = with_masks(block, ends)
    return sub.ending(ends)  # as arrays of their own: what they were views of may be forgotten


def inline(block: Block, values: Sequence[SSAValue], outputs: Sequence[SSAValue]) -> list[SSAValue]:
    """
    Moves the block's ops to where the trace is, its arguments replaced by `values`. Gives
    `outputs`, values of the block, as they are called afterwards.
    """
    into = here().scopes[-1]
    renamed: dict[SSAValue, SSAValue] = dict(zip(block.args, values, strict=True))
    for argument, value in renamed.items():
        argument.replace_all_uses_with(value)
    for op in list(block.ops):
        op.detach()
        into.add_op(op)
    return [renamed.get(x, x) for x in outputs]


class Transformed:
    """
    A function made from another one. In a compiled function it is traced; a call outside of one is
    compiled, once for each signature, as `mlc.compile` does it.
    """

    def __init__(self, function: Callable[..., Any], run: Callable[..., Any]) -> None:
        keep_text(function)
        functools.update_wrapper(self, function)
        if not hasattr(self, "__name__"):  # a partial function, or an instance with __call__
            self.__name__ = getattr(getattr(function, "func", None), "__name__", None) or (
                type(function).__name__
            )
        self._run = run
        self._lock = RenewedLock()
        self._compiled: Any = None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if current() is not None:
            return self._run(*args, **kwargs)
        return self.compiled(*args, **kwargs)

    @property
    def compiled(self) -> Any:
        """What calls from outside go to: `.stats()`, `.lower(…)` and `.reference(…)` are there."""
        with self._lock():
            if self._compiled is None:
                from mlc.frontend.call.compile import compile as compile_

                self._compiled = compile_(self)
            return self._compiled


class _Made(dict[Any, Transformed]):
    """What was made of a function, by how: kept by it, so that both are freed together."""

    def __init__(self, function: object = None) -> None:
        super().__init__()
        self.function = function

    def __reduce__(self) -> tuple[Any, ...]:
        return (_Made, ())  # a pickled function takes nothing along


_NAME = "__mlc_made__"
_MADE: WeakKeyDictionary[Any, _Made] = WeakKeyDictionary()
"""Of what is no function: objects with `__call__`, NumPy's functions."""


def _made_of(function: Any) -> _Made:
    """What was made of a function; TypeError where there is nothing to remember it by."""
    from mlc.frontend.call.compile import Compiled

    if not isinstance(function, FunctionType | Transformed | Compiled):
        return _MADE.setdefault(function, _Made())
    space: dict[str, Any] = function.__dict__
    found = space.get(_NAME)
    if found is None or found.function is not function:  # `functools.wraps` copies it
        found = space[_NAME] = _Made(cast("object", function))
    return found


def transformed_once(
    function: Callable[..., Any], key: Any, make: Callable[[], Transformed]
) -> Transformed:
    """
    `make()`, or what it made before for the same function and key: ``mlc.grad(f)(x)`` in a loop
    compiles once. What a traced function makes is not remembered: it may hold traced values.
    """
    if current() is not None:
        return make()
    try:
        made = _made_of(function)
        found = made.get(key)
    except TypeError:  # no weak reference or no hash: nothing to remember it by
        return make()
    if found is None:
        found = made[key] = make()
    return found


def traced(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """A call of the user's function in the trace, staged as in a compiled function."""
    return call(function, args, kwargs)
