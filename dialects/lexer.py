"""MLIR text in linear time: xDSL's lexer and parser, but for what they try in 2ⁿ ways."""

from __future__ import annotations

import re

from xdsl.context import Context
from xdsl.parser import Parser, ParserState
from xdsl.utils.exceptions import ParseError
from xdsl.utils.lexer import Input, Position
from xdsl.utils.mlir_lexer import MLIRLexer, MLIRToken

_MOST_DIGITS = 1000  # of a number: Python converts 4300 at most


class LinearLexer(MLIRLexer):
    """xDSL's lexer in linear time: a string without its closing quote is not tried in 2ⁿ ways."""

    _unescaped_characters_regex = re.compile(r'"(?:[^"\\\n\v\f]++|\\(?:["nt\\]|[0-9A-Fa-f]{2}))*+"')

    def _lex_number(self, start_pos: Position) -> MLIRToken:
        token = super()._lex_number(start_pos)
        if not token.text[0].isascii() or len(token.text) > _MOST_DIGITS:
            raise ParseError(token.span, f"{token.text[:20]!r} begins no number that mlc reads")
        return token


class LinearParser(Parser):
    """xDSL's parser with that lexer; it has no text before `read`."""

    def __init__(self, ctx: Context, name: str) -> None:
        super().__init__(ctx, "", name)

    def read(self, text: str, name: str) -> None:
        """At the beginning of a text, which messages call `name`."""
        self._resume_from(ParserState(LinearLexer(Input(text, name))))
