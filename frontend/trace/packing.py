"""Values as rows of words, as a program tells them to Python (effects.py), and from these again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from mlc.frontend.trace.trace import lift_size
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class Layout:
    """How the leaves of a recipe lie in a row of words: dtype and sizes of each, None if open."""

    parts: tuple[tuple[np.dtype[Any], tuple[int | None, ...]], ...]

    @staticmethod
    def of(leaves: Sequence[Tracer]) -> Layout:
        """Of traced values."""
        return Layout(tuple((x.row.numpy, tuple(d.constant for d in x.dims)) for x in leaves))

    def values(self, words: Any) -> list[Any]:
        """The values again."""
        found: list[Any] = []
        at = 0
        for dtype, dims in self.parts:
            shape: list[int] = []
            for size in dims:
                shape.append(int(words[at]) if size is None else size)
                at += size is None
            width = 2 if dtype.kind == "c" else 1
            count = int(np.prod(shape, dtype=np.int64)) * width
            found.append(_unpacked(words[at : at + count], dtype, tuple(shape)))
            at += count
        return found


def _unpacked(words: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    words = np.array(words, np.float64)
    if dtype.kind == "c":
        wide: Any = words.view(np.complex128)
    elif dtype.kind in "iub":
        wide = words.view(np.uint64 if dtype.kind == "u" else np.int64)
    else:
        wide = words
    return wide.astype(dtype).reshape(shape)[()]


def packed(leaves: Sequence[Tracer]) -> list[Tracer]:
    """The leaves as rows of words, in the layout of `Layout.of`; no derivative goes through."""
    from mlc.frontend import numpy as names

    rows: list[Any] = []
    for x in leaves:
        rows += [_word(lift_size(d)) for d in x.dims if d.constant is None]
        if x.row.kind == "complex":
            pair = names.stack([x.real, x.imag], axis=-1)
            rows.append(_bits(names.astype(pair, "float64")))
        elif x.row.kind == "float" or x.row.kind == "storage":
            rows.append(_bits(names.astype(x, "float64")))
        else:
            rows.append(_bits(names.astype(x, "uint64" if x.row.kind == "uint" else "int64")))
    return rows


def _word(x: Tracer) -> Any:
    from mlc.frontend import numpy as names

    return names.astype(x, "float64").reshape(1)


def _bits(x: Any) -> Any:
    from mlc.frontend import numpy as names

    whole = names.bits_as(names.bits_as(x, np.int64), np.float64)
    return names.reshape(whole, (-1,))
