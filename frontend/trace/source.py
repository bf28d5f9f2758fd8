"""Where in the user's source something happens: file, line, columns, the names of values."""

from __future__ import annotations

import inspect
import linecache
import opcode
import os
import sys
from collections.abc import Callable, Container
from functools import lru_cache
from types import CodeType, FrameType, FunctionType
from typing import TYPE_CHECKING, Any, TypeVar, cast

from mlc.cached_property import cached_property
from mlc.lazy_dataclass import dataclass

if TYPE_CHECKING:
    from xdsl.dialects.builtin import FileLineColLoc

_OWN = ("mlc", "numpy")  # packages whose frames are not the user's

_CALLERS = (
    *("mlc.frontend.trace.access", "mlc.frontend.trace.builtin_calls", "mlc.frontend.trace.kinds"),
    *("mlc.frontend.trace.math_calls", "mlc.frontend.staging.items"),
)
"""Where functions are called for the user: function(*args, **kwargs)."""
_CALL_OF_GIVEN = opcode.opmap["CALL_FUNCTION_EX"]
_RAISE = opcode.opmap["RAISE_VARARGS"]
_IN_USERS_NAME: set[CodeType] = set()

F = TypeVar("F", bound=Callable[..., Any])


def in_users_name(function: F) -> F:
    """A function of ours that does itself what the user's code says: what fails there is theirs."""
    _IN_USERS_NAME.add(cast("FunctionType", function).__code__)
    return function


_STORES: dict[int, int] = {}
"""Opcodes that store into a variable; their argument shifted right is its number."""
for _name, _shift in (
    *(("STORE_FAST", 0), ("STORE_DEREF", 0)),
    *(("STORE_FAST_LOAD_FAST", 4), ("STORE_FAST_STORE_FAST", 4)),
):
    if _name in opcode.opmap:
        _STORES[opcode.opmap[_name]] = _shift


@dataclass(frozen=True)
class Site:
    """An expression in a source file. Lines and columns count from 1; `end_column` is exclusive."""

    filename: str
    line: int
    column: int
    end_column: int
    target: str | None = None  # the variable the expression is assigned to
    function: str = "<module>"  # whose expression it is

    def excerpt(self) -> str:
        """``  model.py:12   y = x @ w`` and carets below the expression."""
        head = f"  {shown_path(self.filename)}:{self.line}   "
        text = linecache.getline(self.filename, self.line).rstrip("\n")
        if not text.strip():
            return head.rstrip()
        indent = len(text) - len(text.lstrip())
        start = max(self.column - 1 - indent, 0)
        width = max(1, min(self.end_column - self.column, len(text.rstrip()) - indent - start))
        return f"{head}{text.strip()}\n{' ' * (len(head) + start)}{'^' * width}"

    @property
    def text(self) -> str:
        """The expression as it is written, if it is on one line."""
        line = linecache.getline(self.filename, self.line)
        return line[self.column - 1 : self.end_column - 1].strip()

    @cached_property
    def location(self) -> FileLineColLoc:
        """The location attribute of ops made here."""
        from xdsl.dialects.builtin import FileLineColLoc, IntAttr, StringAttr

        return FileLineColLoc(StringAttr(self.filename), IntAttr(self.line), IntAttr(self.column))


def site_of(location: object) -> Site | None:
    """Where an op comes from; its expression's end is not kept."""
    from xdsl.dialects.builtin import FileLineColLoc

    if not isinstance(location, FileLineColLoc):
        return None
    column = location.column.data
    return Site(location.filename.data, location.line.data, column, column + 1)


def definition_of(function: object) -> Site | None:
    """Where the user defines a function, or the one that it wraps; None where that is unknown."""
    code = getattr(inspect.unwrap(cast("Callable[..., object]", function)), "__code__", None)
    if not isinstance(code, CodeType):
        return None
    return Site(code.co_filename, code.co_firstlineno, 1, 1)


def shown_path(filename: str) -> str:
    """The file, relative to the working directory where it lies inside it."""
    try:
        relative = os.path.relpath(filename)
    except (ValueError, OSError):
        return filename
    return filename if relative.startswith("..") or filename.startswith("<") else relative


def user_frame() -> FrameType | None:
    """The innermost frame that is neither mlc's nor NumPy's."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None:
        if not _is_own(frame):
            return frame
        frame = frame.f_back
    return None


def asked_by_user(through: Container[str]) -> bool:
    """Whether the user's code asks for what is done, itself or through modules of these names."""
    frame: FrameType | None = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]
    while frame is not None and str(frame.f_globals.get("__name__")) in through:
        frame = frame.f_back
    return frame is not None and not _is_own(frame)


def _is_own(frame: FrameType) -> bool:
    # by the module's name: the hash of a code object takes as long as the function is
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in _OWN


def user_site() -> Site | None:
    """The expression that the user's code is evaluating."""
    frame = user_frame()
    return None if frame is None else site_at(frame.f_code, frame.f_lasti)


def site_of_error(error: BaseException) -> Site | None:
    """The expression of the user's code that has raised an error."""
    found = None
    at = error.__traceback__
    while at is not None:
        if not _is_own(at.tb_frame):
            found = site_at(at.tb_frame.f_code, at.tb_lasti)
        at = at.tb_next
    return found


def of_local(error: NameError, function: FunctionType) -> NameError:
    """
    What Python says of a variable of the function's without a value, which a body made of its
    statements reads as one of a function around it.
    """
    frame, code = raising_frame(error), function.__code__
    inside = frame is not None and frame.f_code.co_name.startswith("__mlc_")
    if not inside or error.name not in (*code.co_varnames, *code.co_cellvars):
        return error
    return unbound_local(error.name).with_traceback(error.__traceback__)


def unbound_local(name: str) -> UnboundLocalError:
    """What Python raises where a variable without a value is read."""
    text = f"cannot access local variable '{name}' where it is not associated with a value"
    return UnboundLocalError(text)


def is_raised_by_user(error: BaseException) -> bool:
    """
    Whether the user's code has raised it, or what that calls; of ours, what does in its name what
    fails, or says by `raise` what Python or NumPy would.
    """
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    if at is None:
        return False
    code, module = at.tb_frame.f_code, str(at.tb_frame.f_globals.get("__name__", ""))
    if module.partition(".")[0] != "mlc" or code in _IN_USERS_NAME:
        return True
    op = code.co_code[at.tb_lasti]
    if op == _RAISE:
        return not isinstance(error, AssertionError | NotImplementedError)
    return op == _CALL_OF_GIVEN and module in _CALLERS


def raising_frame(error: BaseException) -> FrameType | None:
    """The frame that has raised an error."""
    at = error.__traceback__
    while at is not None and at.tb_next is not None:
        at = at.tb_next
    return None if at is None else at.tb_frame


def site_at(code: CodeType, last_instruction: int) -> Site:
    """The expression at a bytecode offset."""
    return _site_at(Same(code), last_instruction)


class Same:
    """
    A code object as a key, by identity. Those of one text in two files are equal; and `==` of two
    compares what is nested in them twice on each level, so it takes as long as 2**depth.
    """

    __slots__ = ("code",)

    def __init__(self, code: CodeType) -> None:
        self.code = code

    def __hash__(self) -> int:
        return id(self.code)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Same) and self.code is other.code


@lru_cache(maxsize=4096)
def _site_at(same: Same, last_instruction: int) -> Site:
    code = same.code
    line, _, column, end_column = _positions(same)[last_instruction // 2]
    line = code.co_firstlineno if line is None else line
    start = 1 if column is None else column + 1
    return Site(
        filename=code.co_filename,
        line=line,
        column=start,
        end_column=start + 1 if end_column is None else end_column + 1,
        target=_stored_name(same, last_instruction),
        function=code.co_name,
    )


@lru_cache(maxsize=64)
def _positions(same: Same) -> list[tuple[int | None, int | None, int | None, int | None]]:
    return list(same.code.co_positions())


@lru_cache(maxsize=64)
def _bytecode(same: Same) -> bytes:
    return same.code.co_code


def _stored_name(same: Same, last_instruction: int) -> str | None:
    """The variable that the instruction's result goes into, if the next one stores it."""
    code, words = same.code, _bytecode(same)
    at = last_instruction + 2
    while at < len(words) and words[at] == 0:  # inline cache entries
        at += 2
    if at >= len(words) or (shift := _STORES.get(words[at])) is None:
        return None
    number = words[at + 1] >> shift
    cells = [name for name in code.co_cellvars if name not in code.co_varnames]
    names = [*code.co_varnames, *cells, *code.co_freevars]
    return names[number] if number < len(names) else None


def name_of(value: object) -> str | None:
    """The variable that holds `value` in the user's frame; searched by identity."""
    frame = user_frame()
    if frame is None:
        return None
    for name, held in frame.f_locals.items():
        if held is value and name.isidentifier() and not name.startswith("__mlc"):
            return name
    return None
