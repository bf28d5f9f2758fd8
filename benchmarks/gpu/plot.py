"""The ratios as bars: how many times as fast as the best peer."""

from __future__ import annotations

import math
from collections.abc import Mapping

LEFT, BAR, HEIGHT, DECADE = 260, 14, 20, 220  # pixels; of a factor of ten


def bars(ratios: Mapping[str, float], title: str) -> str:
    """An SVG with a bar for each, from 1 to the right where mlc is faster."""
    middle = LEFT + DECADE
    rows: list[str] = []
    for number, (name, ratio) in enumerate(ratios.items()):
        y = 40 + number * HEIGHT
        width = max(-1.0, min(math.log10(ratio), 1.0)) * DECADE
        colour = "#2a7" if ratio >= 0.97 else "#c63"
        rows.append(f'<text x="{LEFT - 8}" y="{y + 11}" text-anchor="end">{name}</text>')
        rows.append(
            f'<rect x="{middle + min(width, 0):.1f}" y="{y}" width="{abs(width):.1f}"'
            f' height="{BAR}" fill="{colour}"/>'
        )
        place = middle + width + (4 if width >= 0 else -4)
        anchor = "start" if width >= 0 else "end"
        rows.append(f'<text x="{place:.1f}" y="{y + 11}" text-anchor="{anchor}">{ratio:.2f}</text>')
    high = 50 + len(ratios) * HEIGHT
    line = f'<line x1="{middle}" y1="32" x2="{middle}" y2="{high - 8}" stroke="#888"/>'
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{LEFT + 2 * DECADE + 60}"'
            f' height="{high}" font-family="sans-serif" font-size="11">',
            f'<text x="8" y="20" font-size="13">{title}</text>', line, *rows, "</svg>", "",
        ]
    )  # fmt: skip
