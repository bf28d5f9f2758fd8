"""Tables as text: cells under one another."""

from __future__ import annotations

from collections.abc import Container, Sequence


def aligned(
    rows: Sequence[Sequence[str]], left: Container[int], gap: str, least: Sequence[int] = ()
) -> list[str]:
    """The rows as lines; columns named by `left` begin below one another, the others end so."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    widths[: len(least)] = map(max, widths, least)
    return [
        gap.join(
            cell.ljust(width) if k in left else cell.rjust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        for row in rows
    ]
