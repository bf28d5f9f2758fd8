"""
What a word of a schedule is: a name, and arguments that are printed, parsed and checked by its
fields.
"""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields
from typing import Any, ClassVar

from xdsl.utils.exceptions import VerifyException

from mlc.lazy_dataclass import dataclass

LARGEST = 2**31 - 1
PACKED = ("f32", "bf16", "f16", "i8", "u8", "i16", "i32")
"""What elements may become where they are packed."""


def bare(*, least: int = 1, most: int = LARGEST, default: int | None = None) -> Any:
    """A number without its name: ``block(n, 3072)``."""
    return _field({"least": least, "most": most}, default)


def named(*, least: int = 1, most: int = 4096, default: int | None = None) -> Any:
    """A number behind its name: ``panels 32``. With a default it is left out where it has it."""
    return _field({"least": least, "most": most, "named": True}, default)


def one_of(*choices: str, default: str | None = None) -> Any:
    """One of a few words: ``edge(m, clamp)``. With a default, which is "", it may be left out."""
    if default is None:
        return field(metadata={"choices": choices})
    return field(default=default, metadata={"choices": (default, *choices)})


def dtype_name() -> Any:
    """The name of a dtype, left out where it is that of what is copied."""
    return one_of(*PACKED, default="")


def _field(metadata: dict[str, Any], default: int | None) -> Any:
    if default is None:
        return field(metadata=metadata)
    return field(default=default, metadata=metadata)


@dataclass(frozen=True)
class Word:
    """
    One word. Its fields, in order, are its arguments: an identifier for ``str``, a number for
    ``int``, for ``bool`` the field's name where it holds.
    """

    NAME: ClassVar[str]

    def __str__(self) -> str:
        shown = (_spelled(f, getattr(self, f.name)) for f in fields(self))
        return f"{self.NAME}({', '.join(filter(None, shown))})"

    def check(self) -> None:
        """VerifyException where a value is outside its range."""
        for f in fields(self):
            value = getattr(self, f.name)
            least, most = f.metadata.get("least"), f.metadata.get("most")
            choices = f.metadata.get("choices")
            if least is not None and value != f.default and not least <= value <= most:
                raise VerifyException(
                    f"schedule: {self}: {f.name} = {value};"
                    f" expected a number from {least} to {most}"
                )
            if choices is not None and value not in choices:
                raise VerifyException(
                    f"schedule: {self}: {f.name} = {value}; expected "
                    + " or ".join(filter(None, choices))
                )


def _spelled(f: Field[Any], value: object) -> str:
    """One argument; empty where it is left out."""
    if f.type == "bool":
        return f.name if value else ""
    if f.default is not MISSING and value == f.default:
        return ""
    return f"{f.name} {value}" if f.metadata.get("named") else str(value)


def is_named(f: Field[Any]) -> bool:
    """Whether an argument stands behind its name."""
    return bool(f.metadata.get("named"))


def is_flag(f: Field[Any]) -> bool:
    """Whether an argument is a word that stands there or not."""
    return f.type == "bool"


def form_of(f: Field[Any]) -> str:
    """How an argument looks, for an error."""
    if is_flag(f):
        return f"[{f.name}]"
    if choices := f.metadata.get("choices"):
        shown = "|".join(filter(None, choices))
        return shown if f.default is MISSING else f"[{shown}]"
    shown = f"{f.name} N" if is_named(f) else f.name.upper() if f.type == "int" else f.name
    return shown if f.default is MISSING else f"[{shown}]"
