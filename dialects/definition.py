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
    spelled = kind.assembly_format
    made: OpDef | None = None

    def definition() -> OpDef:
        nonlocal made
        with _lock:
            if made is None:
                kind.assembly_format = None  # or it would be read
                found = OpDef.from_pyrdl(cls)
                accessors = get_accessors_from_op_def(found, getattr(cls, "verify_", None))
                kind.assembly_format = found.assembly_format = spelled
                definition_of = accessors.pop("get_irdl_definition")
                for name, value in accessors.items():
                    setattr(kind, name, value)
                kind.get_irdl_definition = definition_of  # last: others wait for this
                made = found
        return made

    @lru_cache(maxsize=1)
    def program() -> Any:
        from xdsl.irdl.declarative_assembly_format import FormatProgram

        return FormatProgram.from_str(spelled, definition())

    def parse(kind: type[OpT], parser: Parser) -> OpT:
        return program().parse(parser, kind)

    def print_(self: OpT, printer: Printer) -> None:
        program().print(printer, self)

    if spelled is not None:
        kind.parse, kind.print = classmethod(parse), print_
    kind.get_irdl_definition = classmethod(lambda _: definition())  # whoever makes an op asks
    said = [x for x in cls.__mro__ if "traits" in vars(x) and x not in Operation.__mro__]
    if not said:
        kind.traits = traits_def()
    elif len(said) > 1:  # the class has those of all
        definition()
    return cls


irdl.irdl_op_definition = irdl_op_definition
