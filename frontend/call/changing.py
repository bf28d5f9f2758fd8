"""
Numbers from outside that differ between calls: from their second value on they are inputs of the
program, unless it depends on them (decisions.md D9). Ints on which it does depend, arguments too,
are sizes of it then (`AsSize`); where that cannot be either, each value has its own program.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from mlc.frontend.call.arguments import Call
from mlc.frontend.trace.containers import children_of
from mlc.frontend.trace.kinds import is_varying_number
from mlc.frontend.trace.paths import Guard, Path, equal_value
from mlc.frontend.trace.size_inputs import AsSize

MOST_FAILURES = 3
"""Values for which there was an error: from then on each value has a program of its own."""


class Changing:
    """Those that one function reads: how they are called, by the way to them."""

    def __init__(self, symbols: Iterable[str]) -> None:
        self.inputs: dict[Hashable, str] = {}
        self.fixed: set[Hashable] = set()  # the program is for each value
        self.as_sizes: dict[Hashable, AsSize] = {}  # arguments by name, others by the way to them
        self.limits: dict[str, int] = {}  # how large ints are that are inputs, by name
        self._taken = set(symbols)
        self._settled: set[Hashable] = set()  # what is no size
        self._firsts: dict[Hashable, int] = {}  # ints that decide: the value they first had
        self._failures: dict[Hashable, int] = {}

    def learn(self, guards: Iterable[Guard], values: Sequence[object]) -> None:
        """Finds the numbers among what is not as it was."""
        for guard in guards:
            if guard.kind not in ("value", "contents") or guard.holds(values):
                continue
            try:
                found = guard.path.read(values)
            except (LookupError, AttributeError, ValueError, TypeError):
                continue
            if guard.kind == "value":
                self._changes(guard.path, guard.value, found)
            else:
                self._learn_contents(guard, found)

    def _learn_contents(self, guard: Guard, found: Any) -> None:
        """A container of numbers: each on its own."""
        parts = children_of(found)
        if parts is None or len(guard.value) != 1 + len(parts[1]) + len(parts[2]):
            return
        kind, keys, children = parts
        pairs = zip(children, guard.value[-len(children) :], strict=True)
        for k, (now, before) in enumerate(pairs):
            path = guard.path.item(keys[k] if kind is dict else k)
            if not equal_value(now, before) and self._changes(path, before, now):
                self.inputs.setdefault(guard.path.key, guard.path.text)

    def _changes(self, path: Path, before: Any, now: Any) -> bool:
        if not (is_varying_number(before) and is_varying_number(now)):
            return False
        name = f"the number {path.text}"
        if path.key in self.fixed:
            return type(before) is type(now) is int and self._is_size(path.key, name, now)
        if type(before) is int:
            self._firsts[path.key] = before
        self.inputs.setdefault(path.key, name)
        return True

    def decides(self, leaves: Mapping[str, Any]) -> None:
        """The program is for these values of arguments."""
        for name, value in leaves.items():
            if type(value) is int:
                self._firsts.setdefault(name, value)

    def counts(self, call: Call) -> bool:
        """Whether an int among the arguments is a size from now on: its value is another one."""
        found = [
            self._is_size(leaf.name, leaf.name, leaf.value)
            for leaf in call.leaves
            if leaf.kind == "static" and self._firsts.get(leaf.name, leaf.value) != leaf.value
        ]
        return any(found)

    def _is_size(self, key: Hashable, name: str, value: Any) -> bool:
        """Whether an int that decides is a size from now on."""
        known = key in self._settled or key in self.as_sizes
        if known or type(value) is not int or value < 0:
            return False
        plain = "".join(c if c.isalnum() else "_" for c in name.removeprefix("the number "))
        names = (plain.strip("_") or "n", *(f"{plain}_{k}" for k in range(len(self._taken) + 1)))
        symbol = next(x for x in names if x not in self._taken and x.isidentifier())
        self._taken.add(symbol)
        self.as_sizes[key] = AsSize(symbol, name)
        return True

    def fix(self, names: Iterable[str]) -> bool:
        """These decide about the program; whether any was an input."""
        wanted = set(names)
        found = [key for key, name in self.inputs.items() if name in wanted]
        for key in found:
            name = self.inputs.pop(key)
            self.fixed.add(key)
            self._is_size(key, name, self._firsts.get(key))
        return bool(found)

    def is_no_size(self, symbols: Iterable[str]) -> list[str]:
        """Each value of these has a program of its own; what they are called."""
        wanted = set(symbols)
        found = [key for key, number in self.as_sizes.items() if number.symbol in wanted]
        self._settled.update(found)
        return [self.as_sizes.pop(key).name for key in found]

    def failed(self) -> str | None:
        """
        Tracing has ended with an error: the value of the last of the numbers that were sizes has a
        program of its own, and every value after a few errors. What that number is called; None
        where there was none.
        """
        used = [k for k, number in self.as_sizes.items() if number.value is not None]
        if not used:
            return None
        key, number = used[-1], self.as_sizes[used[-1]]
        assert number.value is not None
        number.apart.add(number.value)
        self._failures[key] = self._failures.get(key, 0) + 1
        if self._failures[key] >= MOST_FAILURES:
            self.is_no_size([number.symbol])
        return number.name

    def limit(self, limits: Mapping[str, int]) -> None:
        """Ints are no larger in programs than said, by name or symbol."""
        for number in self.as_sizes.values():
            number.most = min(number.most, limits.get(number.symbol, number.most))
        for name, most in limits.items():
            self.limits[name] = min(most, self.limits.get(name, most))

    def begin(self) -> None:
        """The function is traced: no number has been read yet."""
        for number in self.as_sizes.values():
            number.value = None
