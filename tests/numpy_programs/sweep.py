"""
Expressions over the whole namespace, written out from the patterns in `patterns.txt`.

A blank line ends a block. In it `% = a; b` and `@ = x; y` say what stands for the two signs in the
patterns below; UNARY and BINARY are the names of all ufuncs of one and two operands.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
SIGNS = {"MODULO": "%", "AT": "@"}  # operators that are signs of the patterns


def _ufuncs(inputs: int) -> list[str]:
    names = sorted(name for name in dir(np) if isinstance(getattr(np, name), np.ufunc))
    return [name for name in names if getattr(np, name).nin == inputs]


def _fillers(line: str) -> list[str]:
    words = line[4:].split("; ")
    known = {"UNARY": 1, "BINARY": 2}
    return [name for w in words for name in (_ufuncs(known[w]) if w in known else [w])]


def blocks() -> Iterator[tuple[str, list[str]]]:
    """Each block's title and its expressions."""
    for text in (FOLDER / "patterns.txt").read_text().split("\n\n"):
        title, *lines = text.strip().splitlines()
        names, operands, patterns = [""], [""], list[str]()
        for line in lines:
            if line.startswith("% = "):
                names = _fillers(line)
            elif line.startswith("@ = "):
                operands = _fillers(line)
            else:
                patterns.append(line)
        made: dict[str, None] = {}
        for pattern, name, operand in itertools.product(patterns, names, operands):
            sign = SIGNS.get(name, name)
            parts = pattern.split("%") if names != [""] else [pattern]
            filled = [part.replace("@", operand) if operands != [""] else part for part in parts]
            made[sign.join(filled)] = None
        yield title.removeprefix("# "), list(made)


def everything() -> list[str]:
    """All expressions."""
    return [text for _, expressions in blocks() for text in expressions]
