"""Several LLVM modules that were emitted here as one module, which LLVM reads."""

from __future__ import annotations

import re
from collections.abc import Sequence

MARK = "; unit "  # before what one of the modules defines
_NUMBERED = re.compile(r'"[^"]*"|([#!])(\d+)\b')  # strings are passed over


def joined(units: Sequence[tuple[str, str]]) -> str:
    """
    The text of named modules for one machine as one: what they define, each after a line with its
    name. Declarations of what another one defines are left out; numbers of metadata and of groups
    of attributes, and names of constants, are unique in the whole.
    """
    if len(units) == 1:
        return units[0][1]
    whole = _Whole()
    for name, text in units:
        whole.add(name, text)
    return whole.text()


class _Whole:
    """A module under construction."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.constants: dict[str, str] = {}  # name -> its line
        self.declarations: dict[str, str] = {}
        self.defined: set[str] = set()
        self.body: list[str] = []
        self.groups: dict[str, int] = {}  # attributes -> number
        self.metadata: list[str] = []

    def add(self, name: str, text: str) -> None:
        """Takes a module in."""
        lines = self._renamed(name, text).splitlines()
        attributes = [line.partition(" = ")[2] for line in lines if line.startswith("attributes #")]
        for each in attributes:
            self.groups.setdefault(each, len(self.groups))
        first = len(self.metadata)

        def number(found: re.Match[str]) -> str:
            if found[1] is None:
                return found[0]
            k = int(found[2])
            return f"!{first + k}" if found[1] == "!" else f"#{self.groups[attributes[k]]}"

        self.body += ["", f"{MARK}{name}"]
        for line in lines:
            self._take(line, _NUMBERED.sub(number, line))

    def _take(self, line: str, numbered: str) -> None:
        kind = line.partition(" ")[0]
        if kind in ("target", "source_filename"):
            if kind == "target" and line not in self.head:
                self.head.append(line)
        elif kind.startswith("@"):
            self.constants[kind] = line
        elif kind == "declare":
            self.declarations.setdefault(_symbol(line), line)
        elif kind.startswith("!"):
            self.metadata.append(numbered)
        elif kind != "attributes" and (line or self.body[-1]):
            if kind == "define":
                self.defined.add(_symbol(line))
            self.body.append(numbered)

    def _renamed(self, unit: str, text: str) -> str:
        """The module's text, without a constant of a name that another one has given away."""
        for line in text.splitlines():
            name, equals, _ = line.partition(" = ")
            if equals and name.startswith("@") and self.constants.get(name, line) != line:
                text = re.sub(rf"{re.escape(name)}(?![\w.$-])", f"{name}.{unit}", text)
        return text

    def text(self) -> str:
        """The module."""
        declared = [line for name, line in self.declarations.items() if name not in self.defined]
        groups = [f"attributes #{k} = {each}" for each, k in self.groups.items()]
        parts = [*self.head, "", *self.constants.values(), *declared, *self.body]
        return "\n".join([*parts, "", *groups, *self.metadata, ""])


def _symbol(line: str) -> str:
    """The name of the function that a line declares or defines."""
    found = re.search(r'@("[^"]*"|[\w.$-]+)\(', line)
    assert found is not None, line
    return found[0][:-1]
