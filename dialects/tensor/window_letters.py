"""Index letters with windows: ``"nc(2y+i),fci->nfy"`` names axes read at sums of positions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.errors import ShapeError
from mlc.dialects.tensor.letters import is_letters, spell

ONE = Dim.const(1)

Axis = tuple[tuple[int, str], ...]
"""What one axis is read at: the sum of coefficient * letter."""

_AXIS = re.compile(r"\(([0-9]{0,9})([A-Za-z])\+([0-9]{0,9})([A-Za-z])\)|([A-Za-z])")


@lru_cache(maxsize=1024)
def split_windows(text: str) -> tuple[tuple[tuple[Axis, ...], ...], str]:
    """The axes of each operand and the letters of the result; ShapeError if it is malformed."""
    left, arrow, result = text.partition("->")
    found: list[tuple[Axis, ...]] = []
    for word in left.split(","):
        axes: list[Axis] = []
        for match in _AXIS.finditer(word):
            scale, outer, dilation, inner, plain = match.groups()
            pair = ((int(scale or 1), outer), (int(dilation or 1), inner))
            axes.append(((1, plain),) if plain else pair)
        flat = "".join(c for axis in axes for _, c in axis)
        whole = "".join(m.group(0) for m in _AXIS.finditer(word)) == word
        if not whole or not is_letters(flat) or any(c == 0 for axis in axes for c, _ in axis):
            arrow = ""
        found.append(tuple(axes))
    if not arrow or not is_letters(result):
        raise ShapeError(
            f"window letters {text!r}: expected the form 'nc(2y+i),fci->nfy', positive"
            " coefficients, no letter twice in one operand"
        )
    return tuple(found), result


def spell_axes(axes: Sequence[Axis]) -> str:
    """An operand's axes as text."""

    def term(pair: tuple[int, str]) -> str:
        return (str(pair[0]) if pair[0] != 1 else "") + pair[1]

    return "".join(
        axis[0][1] if len(axis) == 1 else f"({'+'.join(map(term, axis))})" for axis in axes
    )


def flat_word(axes: Sequence[Axis]) -> str:
    """The letters of an operand, those of a sum one after another."""
    return "".join(c for axis in axes for _, c in axis)


def window_count(size: Dim, window: Dim, stride: int, dilation: int) -> Dim:
    """How many windows fit into an axis."""
    return (size - (window - 1) * dilation - 1) // stride + 1


def bind_windows(
    op: str,
    operands: Sequence[Sequence[Axis]],
    result: str,
    shapes: Sequence[Shape],
    declared: Shape,
) -> dict[str, Dim]:
    """The dim of every letter but of windows that no operand holds; ShapeError on contradiction."""
    sizes: dict[str, Dim] = {}

    def meet(letter: str, dim: Dim, where: str) -> None:
        if sizes.setdefault(letter, dim) != dim:
            raise ShapeError(f"{op}: '{letter}' is {sizes[letter]}, and {dim} in {where}")

    for k, (axes, shape) in enumerate(zip(operands, shapes, strict=True)):
        if len(axes) != len(shape):
            raise ShapeError(
                f"{op}: operand {k} has {len(shape)} axes {spell(shape)}, expected {len(axes)}"
            )
        for axis, dim in zip(axes, shape, strict=True):
            if len(axis) == 1:
                meet(axis[0][1], dim, f"operand {k} {spell(shape)}")
    if len(result) != len(declared):
        raise ShapeError(f"{op}: the result has {len(declared)} axes, expected {len(result)}")
    for letter, dim in zip(result, declared, strict=True):
        meet(letter, dim, f"the result {spell(declared)}")
    return sizes


def check_reach(
    op: str, operands: Sequence[Sequence[Axis]], shapes: Sequence[Shape], sizes: Mapping[str, Dim]
) -> None:
    """Raises where a window would read past the end of an axis, as far as sizes are known."""
    for axes, shape in zip(operands, shapes, strict=True):
        for axis, dim in zip(axes, shape, strict=True):
            if missing := [c for _, c in axis if c not in sizes]:
                raise ShapeError(f"{op}: no operand says how large the window {missing[0]!r} is")
            if len(axis) == 1 or any(sizes[c].constant == 0 for _, c in axis):
                continue
            room = dim - sum(((sizes[c] - 1) * scale for scale, c in axis), ONE)
            if room.constant is not None and room.constant < 0:
                raise ShapeError(
                    f"{op}: windows {spell_axes([axis])} reach {dim - room} elements of"
                    f" an axis with {dim}"
                )
