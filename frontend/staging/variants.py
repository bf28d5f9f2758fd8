"""
A value of which the compiled function knows the kind: None or a number, one text or another, set
or not. Python sees its options one by one, each where it is known or chosen by a branch.
"""

from __future__ import annotations

import builtins
import operator
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, cast

from xdsl.ir import SSAValue

from mlc.dialects.errors import MlcError
from mlc.frontend.trace.effects import effects
from mlc.frontend.trace.source import unbound_local
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.transform import take_care
from mlc.lazy_dataclass import dataclass

Facts = tuple[tuple[SSAValue, frozenset[int]], ...]
"""Which options a choice may have taken."""


@dataclass(frozen=True)
class Unset:
    """What a variable is that has no value."""

    __mlc_leaf__ = True
    name: str

    def error(self) -> UnboundLocalError:
        """What Python raises where it is read."""
        return unbound_local(self.name)


class Variants:
    """`options[chosen]`: what stands in the others is zeros, which nobody looks at."""

    def __init__(self, chosen: Any, options: Sequence[Any]) -> None:
        self.chosen = chosen
        self.options = tuple(options)

    def __mlc_parts__(self) -> tuple[Any, ...]:
        return (self.chosen, *self.options)

    @classmethod
    def __mlc_rebuilt__(cls, parts: Sequence[Any]) -> Variants:
        return cls(parts[0], parts[1:])

    @property
    def possible(self) -> list[int]:
        """The options that it may be here."""
        found = set(range(len(self.options)))
        value = self.chosen.value
        for chosen, numbers in here().facts:
            if chosen is value:
                found &= numbers
        return sorted(found)

    @property
    def may_be_unset(self) -> bool:
        """Whether it is a variable that may have no value here."""
        return any(isinstance(self.options[k], Unset) for k in self.possible)

    def asked(self, wanted: Callable[[Any], bool]) -> Any:
        """Whether it is such an option: a bool, if that is known here."""
        possible = self.possible
        numbers = frozenset(k for k in possible if wanted(self.options[k]))
        if len(numbers) in (0, len(possible)):
            return bool(numbers)
        from mlc.frontend import numpy as names

        found: Any = None
        for k in sorted(numbers):
            one = names.equal(self.chosen, k)
            found = one if found is None else names.logical_or(found, one)
        rest = frozenset(possible) - numbers
        value = self.chosen.value
        found.weak = True  # Python's own, as of `is None`
        here().meaning[found.value] = ((value, numbers),), ((value, rest),)
        return found

    def apply(self, function: Callable[[Any], Any]) -> Any:
        """The function of the option that it is; what that raises is raised at run time."""
        from mlc.frontend.staging.branches import choice

        first, *rest = self.possible
        if not rest:
            return _tried(function, self.options[first], certain=True)
        value = self.chosen.value

        def others() -> Any:
            with knowing(((value, frozenset(rest)),)):
                return self.apply(function)

        chosen = self.asked(lambda option: option is self.options[first])
        one = partial(_tried, function, self.options[first])
        return choice("it", chosen, one, others, apart=True)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return self.apply(lambda option: getattr(option, name))

    __hash__ = object.__hash__


def _tried(function: Callable[[Any], Any], option: Any, certain: bool = False) -> Any:
    from mlc.frontend.staging.joins import RAISED

    try:
        if isinstance(option, Unset):
            raise option.error()
        return function(option)
    except MlcError:
        raise
    except Exception as error:
        if certain and not here().journals:
            raise
        take_care(here().functions, 2)
        error.__traceback__ = error.__context__ = None
        effects().fail(error)
        return RAISED


def of_options(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """function(*args, **kwargs), of each option that an argument may be, or an item of one."""
    for k, arg in enumerate(args):
        if (value := first_variants(arg)) is not None:
            return value.apply(
                lambda x, k=k, arg=arg, value=value: of_options(
                    function, (*args[:k], _instead(arg, value, x), *args[k + 1 :]), kwargs
                )
            )
    for name, value in kwargs.items():
        if isinstance(value, Variants):
            return value.apply(lambda x, name=name: of_options(function, args, {**kwargs, name: x}))
    return function(*args, **kwargs)


def first_variants(value: Any) -> Variants | None:
    """A value, or the first item in lists and tuples, that has options."""
    if isinstance(value, Variants):
        return value
    if type(value) not in (list, tuple):
        return None
    items = cast("Sequence[Any]", value)
    return next((found for x in items if (found := first_variants(x)) is not None), None)


def _instead(value: Any, old: Variants, new: Any) -> Any:
    """The value, with another one in the place of such an item."""
    if value is old:
        return new
    if type(value) not in (list, tuple):
        return value
    items = cast("Sequence[Any]", value)
    return type(items)([_instead(x, old, new) for x in items])  # pyright: ignore[reportCallIssue]


def narrowed(value: Any) -> Any:
    """The option that a value is known to be here, else the value."""
    if isinstance(value, Variants) and len(possible := value.possible) == 1:
        return value.options[possible[0]]
    return value


def narrowed_in(value: Any) -> Any:
    """Likewise of what is in a tuple."""
    if type(value) is not tuple:
        return narrowed(value)
    items = cast("tuple[Any, ...]", value)
    made = tuple(map(narrowed_in, items))
    return items if all(x is y for x, y in zip(made, items, strict=True)) else made


@contextmanager
def knowing(facts: Facts) -> Generator[None]:
    """What a branch knows as it was taken."""
    trace = here()
    before = trace.facts
    trace.facts = (*before, *facts)
    try:
        yield
    finally:
        trace.facts = before


def facts_of(condition: Any, side: int) -> Facts:
    """What is known where a condition is true (0) or false (1)."""
    return here().meaning.get(condition.value, ((), ()))[side]


def _operator(name: str) -> Any:
    function = getattr(operator, name)

    def left(self: Variants, *others: Any) -> Any:
        return self.apply(lambda option: function(option, *others))

    return left


def _reflected(name: str) -> Any:
    function = getattr(operator, name)

    def right(self: Variants, other: Any) -> Any:
        return self.apply(lambda option: function(other, option))

    return right


def _in_place(name: str) -> Any:
    function = getattr(operator, f"i{name.rstrip('_')}")

    def change(option: Any, other: Any) -> Any:
        from mlc.frontend.staging.journal import touched
        from mlc.frontend.staging.twins import check_twins

        check_twins(option)
        touched(option)
        return function(option, other)

    def changed(self: Variants, other: Any) -> Any:
        return self.apply(lambda option: change(option, other))

    return changed


def _builtin(name: str) -> Any:
    function = getattr(builtins, name)

    def ask(self: Variants) -> Any:
        return self.apply(function)

    return ask


_BINARY = ("add", "sub", "mul", "matmul", "truediv", "floordiv", "mod", "pow", "and_", "or_", "xor")
for _name in (
    *_BINARY,
    "lt",
    "le",
    "gt",
    "ge",
    "eq",
    "ne",
    "getitem",
    "neg",
    "pos",
    "abs",
    "invert",
):
    setattr(Variants, f"__{_name.rstrip('_')}__", _operator(_name))
for _name in _BINARY:
    setattr(Variants, f"__r{_name.rstrip('_')}__", _reflected(_name))
    setattr(Variants, f"__i{_name.rstrip('_')}__", _in_place(_name))
for _name in ("len", "iter", "bool", "int", "float", "complex"):
    setattr(Variants, f"__{_name}__", _builtin(_name))
