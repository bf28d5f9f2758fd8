"""MLIR text in and out: the parser that reads every level."""

from __future__ import annotations

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from mlc import registry


def context() -> Context:
    """A context that knows every dialect a level is written in."""
    from xdsl.dialects import get_all_dialects

    ctx = Context()
    for name, dialect in {**get_all_dialects(), **registry.dialects()}.items():
        ctx.register_dialect(name, dialect)
    return ctx


def parse_text(text: str, name: str) -> ModuleOp:
    """A module from its text; `name` is what messages call it."""
    return Parser(context(), text, name).parse_module()
