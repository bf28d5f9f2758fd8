"""MLIR text in: a parser that reads every level and knows where each op stands."""

from __future__ import annotations

import difflib
import math
import re
import struct
import sys
import traceback
from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import Any, cast

from xdsl.context import Context
from xdsl.dialects.builtin import (
    AnyFloat,
    BytesAttr,
    ComplexType,
    DenseIntOrFPElementsAttr,
    FileLineColLoc,
    FloatAttr,
    IntAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    UnknownLoc,
)
from xdsl.ir import Operation
from xdsl.parser import AttrParser
from xdsl.parser.core import ForwardDeclaredValue
from xdsl.utils.exceptions import ParseError, VerifyException
from xdsl.utils.lexer import Position, Span

from mlc import registry
from mlc.dialects.analysis import dominance
from mlc.dialects.errors import MlcError
from mlc.dialects.lexer import LinearParser
from mlc.lazy_dataclass import dataclass
from mlc.passes import wellformed


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


class MlcParser(LinearParser):
    """
    xDSL's parser, with differences. An op without `loc` gets its place in the text. In a dense
    constant an element written as 0x… is the bits of a float, as MLIR has it (xDSL 0.74 takes
    ``dense<0xFF800000> : tensor<2xf32>`` for 4286578688.0, where -inf is meant), one element for
    all is stored once, and an element that its type cannot hold is an error at its place.
    """

    def __init__(self, ctx: Context, name: str) -> None:
        super().__init__(ctx, name)
        self._file = StringAttr(name)

    def begin(self, text: str, line_offset: int) -> None:
        """At the beginning of a text, before which its file has so many lines."""
        self.read(text, self._file.data)
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

    def parse_optional_builtin_int_or_float_attr(self) -> Any:
        start = self.pos
        found: Any = super().parse_optional_builtin_int_or_float_attr()
        kind: Any = getattr(found, "type", None)
        if found is not None and found.name == FloatAttr.name:
            try:
                kind.pack((0.0,))
            except NotImplementedError:
                self.raise_error(f"numbers of type {kind} cannot be written", start)
        return found

    def parse_dense_int_or_fp_elements_attr(self, type: Any) -> Any:  # noqa: A002 - xDSL's name
        start = self.pos
        self.parse_punctuation("<", " in dense attribute")
        raw: str | None = None
        elements: list[AttrParser._TensorLiteralElement] = []
        shape: list[int] = []
        if self.parse_optional_punctuation(">") is None:
            raw = self.parse_optional_str_literal()
            if raw is None:
                elements, shape = self._parse_tensor_literal()
            self.parse_punctuation(">", " in dense attribute")
        if type is None:
            self.parse_punctuation(":", " in dense attribute")
            type = self._parse_dense_literal_type()  # noqa: A001
        if raw is not None:
            data = self._raw_elements(raw, type, start)
        else:
            data = b"".join(self._element_bytes(x, type.element_type) for x in elements)
        wanted, is_one = list(type.get_shape()), bool(elements) and not shape
        count = math.prod(wanted)
        if not is_one and raw is None and shape != wanted and (elements or count):
            self.raise_error(f"found elements of shape {shape}; expected {wanted}", start)
        if is_one and not count:
            data = b""
        return DenseIntOrFPElementsAttr(type, BytesAttr(data))

    def _raw_elements(self, text: str, kind: Any, start: Position) -> bytes:
        """The bytes of a constant written as one string of hexadecimal digits."""
        count = math.prod(kind.get_shape())
        try:
            size = kind.element_type.compile_time_size
            data = bytes.fromhex(text.removeprefix("0x"))
        except (ValueError, NotImplementedError):
            self.raise_error(f"{text[:20]!r} is no elements of {kind} in hexadecimal", start)
        if len(data) not in (size, count * size):
            self.raise_error(
                f"found {len(data)} bytes; expected {count * size} of {count} elements, or"
                f" {size} of one for all",
                start,
            )
        return data

    def _element_bytes(self, element: AttrParser._TensorLiteralElement, kind: Any) -> bytes:
        """An element as it is stored."""
        said = element.span.text
        if ComplexType.name == kind.name and not isinstance(element, _Pair):
            self.raise_error(f"{said} is no complex element; expected (real, imag)", element.span)
        try:
            value: Any = element.to_type(self, kind)
            if isinstance(kind, IntegerType):
                value = kind.get_normalized_value(value)
            data: bytes = kind.pack((value,))
        except (OverflowError, struct.error, ValueError, VerifyException, NotImplementedError):
            self.raise_error(f"{said} is no element of type {kind}", element.span)
        return data

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
    parser = MlcParser(ctx, name)
    try:
        parser.begin(text, line_offset)
        return parser.parse_module()
    except ParseError as error:
        at = error.span.get_location()
        message = _with_hint(error.msg.strip() or "this is not MLIR")
        if not text.strip():
            message = "found nothing; expected a module, or an op such as func.func"
        line = at.line + line_offset
        raise SourceError(_pointed(name, line, at.col, message, text, line_offset)) from None
    except RecursionError:
        raise SourceError(f"{name}: error: regions are nested too deeply") from None
    except Exception as error:
        message = str(error)
        if not isinstance(error, VerifyException):  # an attribute that refuses its parameters
            if not _is_xdsls(error):
                raise
            message = f"this cannot be read: {type(error).__name__}: {error}"
        at = Span(parser.pos, parser.pos, parser.lexer.input).get_location()
        raise SourceError(
            _pointed(name, at.line + line_offset, at.col, message, text, line_offset)
        ) from None


def _is_xdsls(error: Exception) -> bool:
    """
    Whether xDSL raised this itself, where it should have raised ParseError or VerifyException:
    0.74 raises ValueError, AssertionError, struct.error and bare Exception for wrong texts too.
    """
    frames = list(traceback.walk_tb(error.__traceback__))
    module: object = frames[-1][0].f_globals.get("__name__", "")
    return str(module).partition(".")[0] == "xdsl"


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
    for op, message in _faults(module):
        raise SourceError(_at(op, message, text, name, line_offset))


def _faults(module: ModuleOp) -> Iterator[tuple[Operation, str]]:
    for op in module.walk():
        if any(isinstance(x, ForwardDeclaredValue) for x in op.operands):
            yield op, "uses a value that is defined in no region around it"
    for op in module.walk(region_first=True):  # who verifies a region asks what its ops say
        try:
            op.verify(verify_nested_ops=False)
        except VerifyException as error:
            yield op, str(error)
        except Exception as error:
            if not _is_xdsls(error):
                raise
            yield op, f"{type(error).__name__}: {error}"
    yield from dominance.faults(module)


def check_program(module: ModuleOp, text: str, name: str, *, runs: bool = False) -> None:
    """
    SourceError at the first op that fits neither the tensor nor the plan level, or, of a program
    that `runs`, at the first slice that may read past the end of an array.
    """
    late = wellformed.slices_past_ends(module) if runs else ()
    for op, message in chain(wellformed.faults(module), late):
        raise SourceError(_at(op, message, text, name, 0))


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


def read_text(path: str | None, what: str = "MLIR text") -> str:
    """The text of a file, or of stdin; MlcError where there is none."""
    try:
        data = sys.stdin.buffer.read() if path in (None, "-") else Path(str(path)).read_bytes()
    except OSError as error:
        raise MlcError(f"{path}: {error.strerror}; expected a file with {what}") from None
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise MlcError(f"{path}: byte {error.start} is not UTF-8; expected {what}") from None
