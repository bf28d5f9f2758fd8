"""
Numbers from outside that differ between calls: from their second value on they are inputs of the
program, unless it depends on them (decisions.md D9).
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any

from mlc.frontend.trace.containers import children_of
from mlc.frontend.trace.kinds import is_varying_number
from mlc.frontend.trace.paths import Guard, Path, equal_value


class Changing:
    """Those that one function reads: how they are called, by the way to them."""

    def __init__(self) -> None:
        self.inputs: dict[Hashable, str] = {}
        self.fixed: set[Hashable] = set()  # the program is for each value

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

    def _changes(self, path: Path, before: object, now: object) -> bool:
        if not (is_varying_number(before) and is_varying_number(now)) or path.key in self.fixed:
            return False
        self.inputs.setdefault(path.key, f"the number {path.text}")
        return True

    def fix(self, names: Iterable[str]) -> bool:
        """These decide about the program; whether any was an input."""
        wanted = set(names)
        found = [key for key, name in self.inputs.items() if name in wanted]
        for key in found:
            del self.inputs[key]
            self.fixed.add(key)
        return bool(found)
