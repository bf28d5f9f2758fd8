"""MLIR text in: a parser that reads every level and knows where each op stands."""

from __future__ import annotations

import difflib
import re
from bisect import bisect_right
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    ComplexType,
    FileLineColLoc,
    IntAttr,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation
from xdsl.parser import AttrParser, Parser
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Span

from mlc import registry
from mlc.dialects.errors import MlcError
from mlc.passes.dominance import faults


class SourceError(MlcError):
    """
    MLIR text is wrong: file, line, caret, what was found and what was expected.

    ``f.mlir:3:8: error: mlc.add: shapes (3,) and (4,) differ; expected equal shapes``
    """


def context() -> Context:
    """A context that knows every dialect a level is written in, and xDSL's own."""
    ctx = Context()
    for name, dialect in _dialects().items():
        ctx.register_dialect(name, dialect)
    return ctx


@lru_cache(maxsize=1)
def _dialects() -> dict[str, Any]:
    from xdsl.dialects import get_all_dialects

    return {**get_all_dialects(), **registry.dialects()}


class MlcParser(Parser):
    """
    xDSL's parser, with two differences. An op without `loc` gets its place in the text. An element
    of a dense constant written as 0x… is the bits of a float, as MLIR has it: xDSL 0.74 takes
    ``dense<0xFF800000> : tensor<2xf32>`` for 4286578688.0, where -inf is meant.
    """

    def __init__(self, ctx: Context, text: str, name: str, line_offset: int = 0) -> None:
        super().__init__(ctx, text, name)
        self._file = StringAttr(name)
        self._first_line = 1 + line_offset
        self._starts = [0, *(k + 1 for k, c in enumerate(text) if c == "\n")]

    def parse_operation(self) -> Operation:
        start = self.pos
        op = super().parse_operation()
        if isinstance(op.location, UnknownLoc):
            line = bisect_right(self._starts, start)
            column = start - self._starts[line - 1] + 1
            op.location = FileLineColLoc(
                self._file, IntAttr(line - 1 + self._first_line), IntAttr(column)
            )
        return op

    def _parse_tensor_literal_element(self) -> AttrParser._TensorLiteralElement:
        start = self.pos
        if self.parse_optional_punctuation("("):
            real = self._parse_tensor_literal_element()
            self.parse_punctuation(",")
            imag = self._parse_tensor_literal_element()
            self.parse_punctuation(")")
            return _Pair(False, 0, Span(start, self.pos, self.lexer.input), real, imag)
        is_hexadecimal = self._current_token.text[:2] in ("0x", "0X")
        element = super()._parse_tensor_literal_element()
        if not is_hexadecimal:
            return element
        return _Bits(element.is_negative, element.value, element.span)


@dataclass
class _Bits(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """An element given by its bits."""

    def to_type(self, parser: AttrParser, type: Any) -> Any:  # noqa: A002 - xDSL's name
        if not isinstance(type, AnyFloat):
            return super().to_type(parser, type)
        assert isinstance(self.value, int)
        try:
            raw = self.value.to_bytes(type.compile_time_size, "little")
        except OverflowError:
            parser.raise_error(f"{self.span.text} has more bits than {type}", at_position=self.span)
        return next(type.iter_unpack(raw))


@dataclass
class _Pair(AttrParser._TensorLiteralElement):  # pyright: ignore[reportPrivateUsage]
    """A complex element."""

    real: AttrParser._TensorLiteralElement  # pyright: ignore[reportPrivateUsage]
    imag: AttrParser._TensorLiteralElement  # pyright: ignore[reportPrivateUsage]

    def to_type(self, parser: AttrParser, type: Any) -> Any:  # noqa: A002 - xDSL's name
        if not isinstance(type, ComplexType):
            parser.raise_error(f"a complex number cannot be a {type}", at_position=self.span)
        part = cast("ComplexType[AnyFloat]", type).element_type
        return self.real.to_type(parser, part), self.imag.to_type(parser, part)


def parse_text(
    text: str, name: str, *, line_offset: int = 0, unregistered: bool = False
) -> ModuleOp:
    """The module that `text` is; SourceError where it is not one. `name` is what messages say."""
    ctx = context()
    ctx.allow_unregistered = unregistered
    try:
        return MlcParser(ctx, text, name, line_offset).parse_module()
    except ParseError as error:
        at = error.span.get_location()
        message = _with_hint(error.msg.strip() or "this is not MLIR")
        line = at.line + line_offset
        raise SourceError(_pointed(name, line, at.col, message, text, line_offset)) from None
    except VerifyException as error:  # an attribute that refuses its parameters
        raise SourceError(f"{name}: error: {error}") from None
    except RecursionError:
        raise SourceError(f"{name}: error: regions are nested too deeply") from None


def _with_hint(message: str) -> str:
    """The message about an op that nobody knows, with the op that may have been meant."""
    found = re.search(r"Operation (\S+) is not registered", message)
    if found is None:
        return message
    prefix, dot, name = found[1].partition(".")
    if not dot:
        return f"found {prefix!r}; expected an op such as func.func or mlc.add"
    if prefix not in _dialects():
        return f"no dialect is called {prefix!r}; --allow-unregistered-dialect accepts its ops"
    known = [op.name for op in _dialects()[prefix]().operations]
    near = difflib.get_close_matches(f"{prefix}.{name}", known, n=1)
    meant = f"did you mean {near[0]}?" if near else f"expected one of {', '.join(known)}"
    return f"no op is called {prefix}.{name}; {meant}"


def verify_text(module: ModuleOp, text: str, name: str, *, line_offset: int = 0) -> None:
    """SourceError at the first op that does not verify or uses what is not defined."""
    for op in module.walk():
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            raise SourceError(_at(op, str(error), text, name, line_offset)) from None
    for op, message in faults(module):
        raise SourceError(_at(op, message, text, name, line_offset))


def _at(op: Operation, message: str, text: str, name: str, line_offset: int) -> str:
    location = op.location
    if not message.startswith(op.name):
        message = f"{op.name} {message}" if message.startswith("uses ") else f"{op.name}: {message}"
    if not isinstance(location, FileLineColLoc) or location.filename.data != name:
        return f"{name}: error: {message}"
    line, column = location.line.data, location.column.data
    return _pointed(name, line, column, message, text, line_offset)


def _pointed(name: str, line: int, column: int, message: str, text: str, line_offset: int) -> str:
    """The message with its line of the text and a caret."""
    lines = text.split("\n")
    index = line - 1 - line_offset
    shown = lines[index] if 0 <= index < len(lines) else ""
    caret = "".join("\t" if c == "\t" else " " for c in shown[: column - 1]) + "^"
    return f"{name}:{line}:{column}: error: {message}\n{shown}\n{caret}"
