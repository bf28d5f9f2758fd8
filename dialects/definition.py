"""
The definition of an op: xDSL's, but its assembly format is read when an op is first printed or
parsed. A program that is compiled and run prints none. From here on xDSL's own ops are defined so
too, if nobody has imported them before.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from xdsl import irdl
from xdsl.irdl import IRDLOperation
from xdsl.irdl import irdl_op_definition as defined_at_once

from mlc.dialects import quick as quick  # before classes are derived from xDSL's

if TYPE_CHECKING:
    from xdsl.parser import Parser
    from xdsl.printer import Printer

OpT = TypeVar("OpT", bound=IRDLOperation)


def irdl_op_definition(cls: type[OpT]) -> type[OpT]:
    """Defines an op, whose format `tests/test_every_op.py` reads."""
    spelled = cls.assembly_format
    if spelled is None:
        return defined_at_once(cls)
    cls.assembly_format = None
    defined: Any = defined_at_once(cls)
    definition = defined.get_irdl_definition()
    defined.assembly_format = definition.assembly_format = spelled

    @lru_cache(maxsize=1)
    def program() -> Any:
        from xdsl.irdl.declarative_assembly_format import FormatProgram

        return FormatProgram.from_str(spelled, definition)

    def parse(kind: type[OpT], parser: Parser) -> OpT:
        return program().parse(parser, kind)

    def print_(self: OpT, printer: Printer) -> None:
        program().print(printer, self)

    defined.parse, defined.print = classmethod(parse), print_
    return defined


irdl.irdl_op_definition = irdl_op_definition
