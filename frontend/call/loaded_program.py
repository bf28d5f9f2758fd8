"""A traced program with the code that runs it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from mlc.dialects.dims import Shape
from mlc.dialects.errors import RoomError
from mlc.frontend.call.arguments import Call, Leaf
from mlc.frontend.call.donation import check_apart
from mlc.frontend.call.program import MISS, Program
from mlc.frontend.call.specialisation import match_sizes
from mlc.frontend.errors import NotSupportedError
from mlc.frontend.trace.kinds import class_of, is_array, is_scalar, is_tuple
from mlc.frontend.trace.source import Site
from mlc.runtime.interop import result_maker
from mlc.runtime.returned import counted

if TYPE_CHECKING:
    from mlc.frontend.call.compile import Settings
    from mlc.runtime.entry import LoadedEntry


class CaughtError(Exception):
    """
    A call has ended with an error that the function itself may catch, or before which it has done
    something: nothing of it is left, and Python runs it.
    """


FAILURES = (ArithmeticError, LookupError, ValueError)
"""What compiled code raises where NumPy would (runtime/sites.py)."""


class Ready:
    """A program that calls can be sent to."""

    def __init__(self, program: Program, shapes: tuple[Shape, ...]) -> None:
        self.program = program
        self.shapes = shapes
        self.compile_s = 0.0
        self.from_cache = False
        self.native_entry: LoadedEntry | None = None
        self.executable: Any = None
        self.entry: Callable[..., Any] | None = None
        self.again = False  # Python runs a call that fails

    def build(self, settings: Settings, *, slow: Callable[..., Any]) -> None:
        """Compiles the program."""
        from mlc.frontend.call.lowered import executable_of

        begin = time.perf_counter()
        self.executable = executable_of(self.program, settings, slow=slow)
        self.compile_s = time.perf_counter() - begin
        self.from_cache = self.executable.cache_hits > 0
        self.native_entry = self.executable.entry
        self.entry = self.executable.builtin
        self._begin_again({site.raises for site in self.executable.artifact.sites})

    def _begin_again(self, errors: set[type[Exception]]) -> None:
        """
        Compiled code does what it does in another order than Python, and looks whether it has
        failed at the end of a kernel. Where Python would have done something before, or another
        error would have come first, Python says what a call does that fails.
        """
        program, effects = self.program, self.program.outcome
        does = bool(program.written or program.stores or program.tells)
        doubtful = len(errors) > (0 if does else 1) or (effects is not None and effects.unread)
        doubtful = doubtful or OverflowError in errors  # Python's integers have no end
        self.again = program.may_run_as_python and doubtful
        if self.again and effects is not None and program.tells:
            effects.waits = True

    def interpret(self) -> None:
        """Lets the reference interpreter run the program."""
        from mlc.passes.tensor.expand_transforms import one_function
        from mlc.runtime.interpret import interpret

        module, signature = one_function(self.program.module), self.program.signature
        names = [spec.dtype for spec in signature.args]

        def run(*arrays: Any) -> Any:
            from mlc.dialects.dtypes import named_dtype

            typed = [
                np.asarray(a, named_dtype(n).numpy) for a, n in zip(arrays, names, strict=True)
            ]
            results = [
                _placed(r, None if spec.alias_of is None else typed[spec.alias_of])
                for r, spec in zip(interpret(module, typed), signature.results, strict=True)
            ]
            return tuple(results) if signature.as_tuple else results[0]

        self.entry = run
        self._begin_again({IndexError, ZeroDivisionError, OverflowError})

    @property
    def native_builtin(self) -> Callable[..., Any]:
        """The native entry as a callable."""
        assert self.native_entry is not None
        return self.native_entry.builtin

    @property
    def native_calls(self) -> int:
        """Calls that Python did not see."""
        return 0 if self.native_entry is None else self.native_entry.calls

    def fits(self, call: Call) -> bool:
        """Whether the program serves the call."""
        sizes = match_sizes(call, self.shapes)
        if sizes is None:
            return False
        held = self.program.assumptions_hold(sizes, call.values)
        return held and self.program.fits_outside(call.values)

    def fits_outside(self, call: Call) -> bool:
        """Whether what the program reads from outside is as it was."""
        return self.program.fits_outside(call.values)

    def changed(self, call: Call) -> Iterator[str]:
        """What was read from outside and is not as it was."""
        yield from (g.text for g in self.program.guards if not g.holds(call.values))
        if self.program.read_hidden(call.values) is None:
            yield from (f"the type of {h.text}" for h in self.program.hidden)

    def run(self, call: Call) -> Any:
        """The function's result."""
        program = self.program
        given = [call.leaves[k].value for k in program.inputs]
        inputs = self._with_hidden(given, call)
        if program.in_place or program.written or program.stores:
            self._refuse_aliases(call, inputs)
        for k, site in program.written_at.items():
            _check_writeable(call.leaves[k], site)
        assert self.entry is not None
        effects = program.outcome
        saved = self._saved(call) if self.again else ()
        try:
            outcome = self.entry(*inputs)
        except RoomError as error:
            assert program.room is not None
            program.room.grow(error.needed)
            if effects is not None:
                effects.heard.clear()
            return self.run(call)
        except Exception as error:
            if program.catches or (self.again and isinstance(error, FAILURES)):
                self._undo(saved)
                raise CaughtError from error
            if effects is not None:
                effects.check()
            raise
        assert outcome is not MISS, "the entry does not take the arguments of its own program"
        maker = _maker(call)
        if program.direct_result and not program.in_place:
            if maker is None:
                return outcome
            return tuple(map(maker, outcome)) if is_tuple(outcome) else maker(outcome)
        values: list[Any] = list(outcome) if program.signature.as_tuple else [outcome]
        if program.counted:
            values = counted(values, program.counted)
        end = len(values) - len(program.written)
        beside = [] if effects is None else values[end - effects.results : end]
        if effects is not None:
            other = effects.catches or (self.again and effects.unread)
            if other and effects.fails(beside):
                self._undo(saved)
                raise CaughtError
            effects.check()
        for number, k in enumerate(program.written, end):
            _write_back(call.leaves[k], values[number])
        del values[end - len(beside) :]
        held = program.held(call.values)
        if program.stores is not None:
            first = len(values) - program.stores.count
            program.stores.make(call.values, values[first:])
            del values[first:]
        if effects is not None:
            effects.raise_for(beside)
        for number, value in enumerate(values):
            if number in program.in_place:
                given = call.leaves[program.in_place[number]].given
                values[number] = value if given is None or isinstance(given, np.generic) else given
            elif maker is not None and is_array(value):
                values[number] = maker(value)
        return program.returned(values, held)

    def _saved(self, call: Call) -> list[tuple[Any, Any]]:
        """The arrays in whose place the program computes, and what they are now."""
        arrays = [call.leaves[k].value for k in self.program.in_place.values()]
        return [(array, array.copy()) for array in arrays]

    def _undo(self, saved: Sequence[tuple[Any, Any]]) -> None:
        """As if a call had not begun."""
        for array, before in saved:
            np.copyto(array, before)
        if self.program.outcome is not None:
            self.program.outcome.heard.clear()

    def _with_hidden(self, given: list[Any], call: Call) -> list[Any]:
        if not self.program.hidden:
            return given
        return given + (self.program.read_hidden(call.values) or [])

    def _refuse_aliases(self, call: Call, inputs: Sequence[Any]) -> None:
        """Raises where an array that is written shares memory with another one that is read."""
        names = [call.leaves[k].name for k in self.program.inputs]
        names += [h.text for h in self.program.hidden]
        written = {*self.program.written, *self.program.in_place.values()}
        numbers = [n for n, k in enumerate(self.program.inputs) if k in written]
        if self.program.stores is not None:
            first, changed = len(self.program.inputs), self.program.stores.arrays
            numbers += [first + n for n, h in enumerate(self.program.hidden) if h in changed]
        check_apart(self.program.name, names, inputs, numbers)


def _placed(result: Any, donated: Any) -> Any:
    """The result, in the donated array where there is one; of no axes, a NumPy scalar."""
    if donated is None:
        return result if result.ndim else result[()]
    np.copyto(donated, result)
    return donated


def _check_writeable(leaf: Leaf, site: Site) -> None:
    """What NumPy raises where an array that the function writes to cannot be written."""
    if leaf.kind != "array" or not is_array(leaf.value):
        return
    held = leaf.given if is_array(leaf.given) else leaf.value
    if not held.flags.writeable:
        message = f"assignment destination is read-only: argument {leaf.name} is written."
        raise ValueError(f"{message}\n{site.excerpt()}\nPass {leaf.name}.copy().")
    kind = class_of(leaf.given)
    shared = hasattr(kind, "__dlpack__") or is_scalar(leaf.given)
    if hasattr(kind, "__array__") and not shared:
        name = f"argument {leaf.name} is a {kind.__name__}"
        message = f"{name}, of which an array is made, and is written."
        raise NotSupportedError(f"{message}\n{site.excerpt()}\nPass np.asarray({leaf.name}).")


def _write_back(leaf: Leaf, new: Any) -> None:
    """What the function wrote to its argument, written to the caller's array."""
    target = leaf.given if is_array(leaf.given) else leaf.value
    if target is not new:
        np.copyto(target, new)


def _maker(call: Call) -> Callable[[object], object] | None:
    """What turns results into the library of the arguments, where that is not NumPy."""
    for leaf in call.leaves:
        if leaf.kind == "array" and not is_array(leaf.value):
            return None  # a GPU program gives arrays of the right library
        if leaf.given is not None and type(leaf.given) is not np.ndarray:
            maker = result_maker(leaf.given)
            if maker is not None:
                return maker
    return None


def describe(call: Call, shapes: Sequence[Shape]) -> str:
    """``f32[B, 784], int``: the types of the arguments."""
    from mlc.frontend.call.arguments import row_of

    parts: list[str] = []
    for leaf, shape in zip(call.leaves, shapes, strict=True):
        if leaf.kind in ("array", "spec"):
            sizes = ", ".join(map(str, shape))
            strided = " strided" if leaf.layout == "general" else ""
            parts.append(f"{row_of(leaf).name}[{sizes}]{strided}")
        elif leaf.kind == "static":
            parts.append(f"{leaf.name}={leaf.value!r}"[:40])
        else:
            parts.append(leaf.kind if leaf.kind != "opaque" else type(leaf.value).__name__)
    return ", ".join(parts)
