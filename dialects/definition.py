"""
The definition of an op: xDSL's, but made when the first one of its kind is, of hundreds of kinds of
which a program has some dozens, and its assembly format is read when an op is first printed or
parsed. A program that is compiled and run prints none. From here on xDSL's own ops are defined so
too, if nobody has imported them before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

from xdsl import irdl
from xdsl.ir import Operation
from xdsl.irdl import IRDLOperation, OpDef, get_accessors_from_op_def, traits_def

from mlc.dialects import quick as quick  # before classes are derived from xDSL's
from mlc.fork import short_lock

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

OpT = TypeVar("OpT", bound=IRDLOperation)
_lock = short_lock()


def irdl_op_definition(cls: type[OpT]) -> type[OpT]:
    """Defines an op; `tests/unit/test_definition.py` reads what each says, and its format."""
    kind = cast("Any", cls)
    if kind.assembly_format is not None:
        kind.parse, kind.print = _PARSE, _print
    kind.get_irdl_definition = _ASK
    said = [x for x in cls.__mro__ if "traits" in vars(x) and x not in Operation.__mro__]
    if not said:
        kind.traits = traits_def()
    elif len(said) > 1:  # the class has those of all
        _define(kind)
    return cls


def _define(kind: Any) -> None:
    spelled = kind.assembly_format
    kind.assembly_format = None  # or it would be read
    definition = OpDef.from_pyrdl(kind)
    accessors = get_accessors_from_op_def(definition, getattr(kind, "verify_", None))
    kind.assembly_format = definition.assembly_format = spelled
    definition_of = accessors.pop("get_irdl_definition")
    for name, value in accessors.items():
        setattr(kind, name, value)
    kind.get_irdl_definition = definition_of  # last: others wait for this


def _ask(kind: Any) -> OpDef:
    """`get_irdl_definition` of a class that waits: whoever makes an op asks."""
    with _lock:
        for each in kind.__mro__:
            if each.__dict__.get("get_irdl_definition") is _ASK:
                _define(each)
    return kind.get_irdl_definition()


@lru_cache(maxsize=4096)
def _program(kind: Any) -> Any:
    from xdsl.irdl.declarative_assembly_format import FormatProgram

    return FormatProgram.from_str(kind.assembly_format, kind.get_irdl_definition())


def _parse(kind: Any, parser: Parser) -> Any:
    return _program(kind).parse(parser, kind)


def _print(self: Any, printer: Printer) -> None:
    _program(self.__class__).print(printer, self)


_ASK: Any = classmethod(_ask)
_PARSE: Any = classmethod(_parse)
irdl.irdl_op_definition = irdl_op_definition
