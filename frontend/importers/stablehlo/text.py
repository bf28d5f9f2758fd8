"""StableHLO as text: tokens, types, attributes and literals. SOURCE: StableHLO specification."""

from __future__ import annotations

import re
from collections.abc import Callable
from math import prod
from typing import Any, NoReturn

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dtypes import named_dtype
from mlc.dialects.errors import MlcError
from mlc.dialects.stablehlo import ELEMENTS
from mlc.frontend.importers.bounds import FAR
from mlc.frontend.importers.stablehlo.program import (
    Kind,
    OtherKind,
    Quantised,
    TensorKind,
)

_TOKEN = re.compile(
    r"""
    (?P<space>\s+|//[^\n]*)
  | (?P<string>"(?:[^"\\]|\\.)*")
  | (?P<value>%[\w$.-]+(?:\#\d+)?)
  | (?P<symbol>@(?:[\w$.-]+|"(?:[^"\\]|\\.)*"))
  | (?P<hash>\#[\w$.-]+)
  | (?P<bang>![\w$.-]+)
  | (?P<block>\^[\w$.-]+)
  | (?P<number>-?(?:0x[0-9A-Fa-f]+|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?))
  | (?P<word>[A-Za-z_][\w$.]*)
  | (?P<mark>->|::|[()\[\]{}<>,:=*?/+\-|&])
    """,
    re.VERBOSE,
)
_ALIAS = re.compile(r"^\s*([#!][\w$.-]+)\s*=\s*", re.MULTILINE)

_QUANTISED = re.compile(
    r"!quant\.uniform<(?P<storage>[iu]\d+)(?:<(?P<least>-?\d+):(?P<most>-?\d+)>)?"
    r":(?P<expressed>\w+)(?::(?P<axis>\d+))?,(?P<pairs>\{[-\w.,:+]*\}|[-\w.:+]+)>"
)
NARROW = {"i2": 2, "i4": 4, "ui2": 2, "ui4": 4}
"""Integers that are narrower than a byte, and their bits."""
_TYPE = re.compile(r"(tuple|complex|memref|vector|index|none|[su]?i\d+|tf32|b?f\d\w*)")
"""Words that are types, or begin one."""
DTYPES = {**ELEMENTS, "index": "i64", **{kind: f"{kind[0]}8" for kind in NARROW}}
"""StableHLO's element types -> ours: narrow integers are bytes that hold no more than they may."""

_MOST_BYTES = 1 << 31  # of a literal

_NUMBER = re.compile(r"0x[0-9A-Fa-f]+|[-+]?(?:inf|nan|\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)|true|false")


class StableHloError(MlcError, ValueError):
    """Text that is no StableHLO; the message says line and what was expected."""


class Text:
    """A position in a text, and what stands there."""

    def __init__(self, text: str, name: str) -> None:
        self.name = name
        self.at = 0
        self.kind, self.token = "", ""
        self.start = 0
        self._counted = 0, 1  # a place, and its line
        self.text, self.resources = _without_resources(text)
        self.next()

    # tokens -----------------------------------------------------------------------------------

    def next(self) -> str:
        """Goes on; gives the token that was there."""
        was = self.token
        while True:
            found = _TOKEN.match(self.text, self.at)
            if found is None:
                self.start = self.at
                if self.at >= len(self.text):
                    self.kind, self.token = "end", ""
                    return was
                self.fail(f"the character {self.text[self.at]!r}")
            self.start, self.at = self.at, found.end()
            if found.lastgroup != "space":
                self.kind, self.token = found.lastgroup or "", found[0]
                return was

    def fail(self, found: str, expected: str = "StableHLO", line: int | None = None) -> NoReturn:
        """Raises at this place, or at the beginning of what is wrong, a line before it."""
        line = self.line if line is None else line
        lines = self.text.splitlines()
        shown = lines[line - 1].strip()[:100] if line <= len(lines) else ""
        raise StableHloError(f"{self.name}:{line}: found {found}; expected {expected}\n  {shown}")

    @property
    def found(self) -> str:
        """What stands here, for messages."""
        return repr(self.token) if self.token else "the end"

    @property
    def line(self) -> int:
        """The number of the line, from 1."""
        at, line = self._counted
        if self.start < at:
            at, line = 0, 1
        line += self.text.count("\n", at, self.start)
        self._counted = self.start, line
        return line

    def sees(self, token: str) -> bool:
        """Whether the token stands here."""
        return self.token == token and self.kind != "string"

    def takes(self, token: str) -> bool:
        """Goes on where the token stands here."""
        if self.sees(token):
            self.next()
            return True
        return False

    def wants(self, token: str) -> None:
        """Goes on; fails where another token stands here."""
        if not self.takes(token):
            self.fail(self.found, repr(token))

    def wants_kind(self, kind: str, what: str) -> str:
        """Goes on over a token of a kind."""
        if self.kind != kind:
            self.fail(self.found, what)
        return self.next()

    def listed(self, open_: str, close: str, one: Callable[[], Any]) -> list[Any]:
        """Things between brackets, separated by commas."""
        self.wants(open_)
        found: list[Any] = []
        while not self.takes(close):
            found.append(one())
            if not self.sees(close):
                self.wants(",")
        return found

    def skip_brackets(self) -> str:
        """Goes over a bracket with all that is in it; its text."""
        pairs = {"<": ">", "(": ")", "[": "]", "{": "}"}
        begin, open_ = self.start, [pairs[self.next()]]
        while open_:
            if self.kind == "end":
                self.fail("the end", repr(open_[-1]))
            if self.kind == "mark" and self.token in pairs:
                open_.append(pairs[self.token])
            elif self.kind == "mark" and self.token == open_[-1]:
                open_.pop()
            end = self.at
            self.next()
        return self.text[begin:end]  # pyright: ignore[reportPossiblyUnboundVariable]

    # types ------------------------------------------------------------------------------------

    def a_type(self) -> Kind:
        """A type."""
        if self.sees("tensor"):
            return self._tensor()
        if self.takes("("):
            self.fail("a function's type", "a type")
        begin = self.start
        if self.kind != "bang" and not _TYPE.fullmatch(self.token):
            self.fail(self.found, "a type")
        self.next()
        if self.sees("<"):
            self.skip_brackets()
        return OtherKind(self.text[begin : self.start].strip())

    def _tensor(self) -> TensorKind:
        """`tensor<2x?x3xf32>`: sizes and element type grow together into one word."""
        self.next()
        if not self.sees("<"):
            self.fail(self.found, "'<'")
        begin = self.at
        inside = self.skip_brackets()[1:-1]
        inside = inside.partition(", #")[0].strip()
        sizes = re.match(r"(?:(?:\d+|\?)\s*x\s*)*", inside)
        assert sizes is not None
        element = inside[sizes.end() :].replace(" ", "")
        shape = tuple(None if s == "?" else int(s) for s in re.findall(r"\d+|\?", sizes[0]))
        if any(n is not None and n >= FAR for n in shape):
            self.start = begin
            self.fail(f"tensor<{inside}>", f"sizes of no more than {FAR - 1}")
        if element.startswith("!quant.uniform<"):
            storage, quantised = self._quantised(element, begin)
            return TensorKind(shape, storage, quantised)
        if element not in DTYPES:
            self.start = begin
            self.fail(f"the element type {element!r}", f"one of {', '.join(DTYPES)}")
        return TensorKind(shape, element)

    def _quantised(self, element: str, begin: int) -> tuple[str, Quantised]:
        """`!quant.uniform<i8<-128:127>:f32:1, {0.5:3, 0.25}>`: the stored type, and its meaning."""
        found = _QUANTISED.fullmatch(element)
        storage = "" if found is None else found["storage"].replace("u", "ui", 1)
        if found is None or storage not in DTYPES or found["expressed"] not in DTYPES:
            self.start = begin
            self.fail(f"the element type {element!r}", "!quant.uniform<i8:f32, scale:zero>")
        pairs = [each.split(":") for each in found["pairs"].strip("{}").split(",")]
        bits, signed = int(storage.lstrip("ui")), not storage.startswith("u")
        least, most = (-(1 << bits - 1), (1 << bits - 1) - 1) if signed else (0, (1 << bits) - 1)
        if found["least"]:
            least, most = int(found["least"]), int(found["most"])
        return storage, Quantised(
            expressed=found["expressed"],
            axis=None if found["axis"] is None else int(found["axis"]),
            scales=tuple(float(pair[0]) for pair in pairs),
            zeros=tuple(int(pair[1]) if len(pair) > 1 else 0 for pair in pairs),
            least=least,
            most=most,
        )

    def types(self) -> list[Kind]:
        """One type, or several in parentheses."""
        return self.listed("(", ")", self.a_type) if self.sees("(") else [self.a_type()]

    # attributes -------------------------------------------------------------------------------

    def dictionary(self, open_: str = "{", close: str = "}") -> dict[str, Any]:
        """Attributes by name; a name alone is true."""

        def one() -> tuple[str, Any]:
            name = self.next().strip('"')
            return name, self.attribute() if self.takes("=") else True

        return dict(self.listed(open_, close, one))

    def attribute(self) -> Any:
        """A value: numbers, strings, lists, arrays of NumPy, dictionaries; others as text."""
        kind, token = self.kind, self.token
        if kind == "string":
            self.next()
            return token[1:-1]
        if kind == "number" or token == "-":
            return self.number(typed=True)
        if token == "(":
            kinds = self.types()
            self.wants("->")
            return kinds, self.types()
        if token == "<":
            return self.dictionary("<", ">")
        if token == "[":
            return self.listed("[", "]", self.attribute)
        if token == "{":
            return self.dictionary()
        if token == "dense" or token == "dense_resource":
            return self.dense()
        if token == "array":
            return self._array()
        if kind == "symbol":
            self.next()
            return token[1:].strip('"')
        if kind == "hash":
            return self._hash()
        if token in ("true", "false"):
            self.next()
            return token == "true"
        if token in ("tensor", "complex") or kind == "bang":
            return self.a_type()
        if kind == "word":
            return self._word()
        return self.fail(repr(token), "an attribute")

    def _word(self) -> Any:
        word = self.next()
        if self.sees("<"):
            return word + self.skip_brackets()
        return word

    def number(self, *, typed: bool) -> Any:
        """A number; in dictionaries its type may stand behind it."""
        minus = self.takes("-")
        text = self.wants_kind("number", "a number")
        value: Any = int(text, 0) if re.fullmatch(r"-?(0x[0-9A-Fa-f]+|\d+)", text) else float(text)
        if typed and self.takes(":"):
            kind = self.a_type()
            if isinstance(kind, OtherKind) and kind.text.startswith(("f", "bf")):
                value = float(value)
        return -value if minus else value

    def _array(self) -> Any:
        """`array<i64: 1, 2>`."""
        self.next()
        inside = self.skip_brackets()[1:-1]
        kind, _, numbers = inside.partition(":")
        if kind.strip() == "i1":
            return [x == "true" for x in re.findall(r"true|false", numbers)]
        return [int(x) for x in re.findall(r"-?\d+", numbers)]

    def _hash(self) -> Any:
        """`#stablehlo.gather<k = v, …>` and its kin."""
        name = self.next()[1:]
        if not self.sees("<"):
            return name
        if name in ("stablehlo.gather", "stablehlo.scatter", "stablehlo.dot"):
            return self.dictionary("<", ">")
        inside = self.skip_brackets()[1:-1].strip()
        return inside.split()[-1] if name == "stablehlo" else inside

    # literals ---------------------------------------------------------------------------------

    def dense(self) -> NDArray[Any]:
        """`dense<…> : tensor<…>`."""
        return self.typed_dense()[0]

    def typed_dense(self) -> tuple[NDArray[Any], TensorKind]:
        """The same, and its type as it is said."""
        line, is_named = self.line, self.sees("dense_resource")
        self.next()
        if not self.sees("<"):
            self.fail(self.found, "'<'")
        if self.text.startswith('"', self.at):
            end = self.text.index('"', self.at + 1)
            inside, self.at = self.text[self.at : end + 1], end + 1
        else:
            end = self.text.index(">", self.at)
            inside, self.at = self.text[self.at : end], end
        self.next()
        if is_named:
            if inside not in self.resources:
                self.fail(f"the resource {inside}", "one that the end of the file holds", line)
            inside = self.resources[inside]
        self.wants(">")
        self.wants(":")
        kind = self.a_type()
        if not isinstance(kind, TensorKind) or None in kind.shape:
            self.fail("a literal without a shape", "tensor<…> with sizes")
        try:
            return literal(inside, kind), kind
        except ValueError as error:
            raise StableHloError(f"{self.name}:{line}: dense<{inside[:40]}>: {error}") from None


def numpy_of(kind: TensorKind) -> np.dtype[Any]:
    """The element type, as NumPy has it."""
    return named_dtype(DTYPES[kind.dtype]).numpy


def literal(inside: str, kind: TensorKind) -> NDArray[Any]:
    """The elements between the brackets of `dense`."""
    dtype, shape = numpy_of(kind), tuple(n or 0 for n in kind.shape)
    count = prod(shape)
    if inside.startswith('"'):
        data = bytes.fromhex(inside[1:-1].removeprefix("0x"))
        if kind.dtype == "i1":  # bits of each byte, or one byte for all
            found = np.frombuffer(data, np.uint8)
            if data not in (b"\x00", b"\xff"):
                found = np.unpackbits(found, bitorder="little")[:count]
            found = found.astype(bool)
        else:
            found = np.frombuffer(data, dtype)
    else:
        found = _elements(_NUMBER.findall(inside), dtype)
    if count * dtype.itemsize > _MOST_BYTES:
        raise ValueError(f"{count} elements; expected no more than {_MOST_BYTES} bytes")
    if found.size == 1:
        return np.full(shape, found[0], dtype)
    if found.size != count:
        raise ValueError(f"{found.size} elements; expected {count}")
    return found.reshape(shape)


def _elements(words: list[str], dtype: np.dtype[Any]) -> NDArray[Any]:
    if dtype.kind == "b":
        return np.array([word in ("true", "1", "-1") for word in words], bool)
    if dtype.kind == "c":
        part = np.dtype(f"f{dtype.itemsize // 2}")
        return _elements(words, part).view(dtype)
    if dtype.kind in "iu":
        bits = 8 * dtype.itemsize
        numbers = [int(word, 0) for word in words]
        for number in numbers:
            if not -(1 << bits - 1) <= number < 1 << bits:
                raise ValueError(f"{number}, which is no number of {bits} bits")
        numbers = [number & (1 << bits) - 1 for number in numbers]
        return np.array(numbers, f"u{dtype.itemsize}").view(dtype)
    hexes = [word for word in words if word.startswith("0x")]
    if hexes:  # the bits of each
        unsigned = np.dtype(f"u{dtype.itemsize}")
        return np.array(
            [
                np.array(int(word, 16), unsigned).view(dtype)
                if word.startswith("0x")
                else np.array(float(word)).astype(dtype)
                for word in words
            ],
            dtype,
        )
    return np.array(words, np.float64).astype(dtype)


def _without_resources(text: str) -> tuple[str, dict[str, str]]:
    """The text without `{-# dialect_resources: … #-}` at its end, and those blobs as literals."""
    module, mark, section = text.partition("{-#")
    blobs = re.findall(r'([\w.$-]+)\s*:\s*"0x([0-9A-Fa-f]+)"', section)
    # four bytes in front say how they are aligned
    return (module if mark else text), {name: f'"0x{data[8:]}"' for name, data in blobs}


_GROWTH, _LONGEST = 4, 16 << 20
"""How long a text may be when aliases are written out: aliases of aliases double it."""


def without_aliases(text: str) -> str:
    """The text with `#loc1 = …` and `!t = …` lines left out, and locations taken off."""
    lines, aliases = list[str](), dict[str, str]()
    for line in text.splitlines(keepends=True):
        m = _ALIAS.match(line)
        lines.append("\n" if m else line)
        if m and not m[1].startswith("#loc"):
            aliases[m[1]] = line[m.end() :].strip()
    found = re.sub(
        r"\s+loc\((?:[^()\"]|\"[^\"]*\"|\((?:[^()]|\([^()]*\))*\))*\)", "", "".join(lines)
    )
    most = _GROWTH * len(text) + _LONGEST
    for name, stands in aliases.items():
        alias = re.compile(rf"{re.escape(name)}(?![\w$.-])")
        if len(found) + len(stands) * sum(1 for _ in alias.finditer(found)) > most:
            raise StableHloError(f"the alias {name} makes the text longer than {most} characters")
        found = alias.sub(lambda _, s=stands: s, found)
    return found
