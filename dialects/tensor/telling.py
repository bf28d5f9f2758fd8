"""
What a program tells Python while it runs: calls such as that of `print`, in the program's order.

The routine "tell" of `mlc.library` takes rows of 64-bit words: whom they are for, the number of the
call, and the bits of its values. It gives the first word of each row, which the next call begins
with: so calls keep their order, and none is left out, by the values that they pass on.
"""

from __future__ import annotations

from typing import Any, Protocol
from weakref import WeakValueDictionary

from numpy.typing import NDArray


class Listener(Protocol):
    """Who is told."""

    def hear(self, number: int, words: NDArray[Any]) -> None:
        """A call, and the bits of its values; raises nothing."""
        ...


LISTENERS: WeakValueDictionary[float, Listener] = WeakValueDictionary()
"""By the word that stands for them."""

FIRST = 2.0**52
"""Listeners have whole numbers from this one on, which no computed value is likely to be."""


def tell(words: NDArray[Any]) -> NDArray[Any]:
    """Tells each row to the listener that it names."""
    for row in words.reshape(-1, words.shape[-1]):
        word: Any = row[0]
        found = LISTENERS.get(float(word.real)) if len(row) > 1 else None
        if found is not None:
            found.hear(int(row[1]), row[2:])
    return words[..., :1]
