"""HTML and SVG text, escaped; numbers as people read them."""

from __future__ import annotations

from collections.abc import Iterable
from html import escape


def tag(name: str, content: str = "", /, **attributes: object) -> str:
    """
    An element around content that is markup already. `class_` and `aria_label` stand for `class`
    and `aria-label`; None leaves an attribute out.
    """
    said = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(_plain(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{said}>{content}</{name}>"


def text(value: object) -> str:
    """Text of a document, escaped."""
    return escape(str(value))


def lines(parts: Iterable[str]) -> str:
    """Markup, a part a line."""
    return "\n".join(parts)


def seconds(value: float) -> str:
    """``4.2 µs``."""
    for limit, unit, scale in ((1e-6, "ns", 1e9), (1e-3, "µs", 1e6), (1.0, "ms", 1e3)):
        if value < limit:
            return f"{value * scale:.3g} {unit}"
    return f"{value:.3g} s"


def amount(value: float) -> str:
    """``1.5 MB`` without the unit: powers of 1000 as k, M, G, T."""
    for limit, suffix in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= limit:
            return f"{value / limit:.3g} {suffix}"
    return f"{value:.3g} "


def short(place: str) -> str:
    """``file:line`` without the folders."""
    return place.rpartition("/")[2]


def _plain(value: object) -> str:
    return f"{value:.1f}".removesuffix(".0") if isinstance(value, float) else str(value)
