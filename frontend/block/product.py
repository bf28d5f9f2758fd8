"""The matrix product of two blocks, of the parts of them that their masks let through."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import mlc.frontend.numpy as mnp
from mlc.dialects.dtypes import F32
from mlc.dialects.errors import ShapeError
from mlc.frontend.block import parts
from mlc.frontend.block.parts import Part, sizes_of
from mlc.frontend.block.spans import Region, Span, cut
from mlc.frontend.block.value import Block
from mlc.frontend.errors import located
from mlc.frontend.trace.tracer import Tracer
from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True)
class _Factor:
    """A factor; `axes`: where its axes are in (grid…, rows, columns, depth)."""

    part: Part
    sizes: tuple[int, ...]
    axes: tuple[int, ...]

    @property
    def spans(self) -> list[tuple[int, ...]]:
        """What each axis of the core is."""
        return [tuple(self.axes[a] for a in span.axes) for span in self.part.region]

    def alone(self) -> _Factor:
        """With each axis by itself."""
        return _Factor(parts.whole(self.part, self.sizes), self.sizes, self.axes)


def product(a: Block, b: Block) -> Block:
    """a @ b, of blocks (M, K) and (K, N)."""
    if len(a.shape) != 2 or len(b.shape) != 2 or a.shape[1] != b.shape[0]:
        message = f"tl.dot of blocks of shapes {a.shape} and {b.shape}; expected (M, K) and (K, N)"
        raise located(ShapeError, message)
    rank = len(a.grid)
    wide = F32 if a.row.is_inexact and a.row.bytes < 4 else a.row
    given = [x.to(a.dtype).to(wide.numpy) for x in (a, b)]
    grid = tuple(range(rank))
    ends = ((rank, rank + 2), (rank + 2, rank + 1))
    factors = [_Factor(x.part, x.sizes, (*grid, *end)) for x, end in zip(given, ends, strict=True)]
    sizes = (*a.grid, a.shape[0], b.shape[1], a.shape[1])
    part = _of_parts(factors, sizes) or _of_parts([f.alone() for f in factors], sizes)
    assert part is not None, "single axes fit each other"
    return Block(a.grid, sizes[rank:-1], part.core.row, part)


def _of_parts(factors: Sequence[_Factor], sizes: tuple[int, ...]) -> Part | None:
    """The product as it stands; None where the factors' spans do not fit."""
    depth = len(sizes) - 1
    spans: dict[tuple[int, ...], Span] = {}
    for factor in factors:
        if cut(factor.part.region) and factor.part.outside != 0:  # also where it is an array
            return None
        for axes, span in zip(factor.spans, factor.part.region, strict=True):
            if depth in axes and axes != (depth,):
                return None
            known = spans.setdefault(axes, span)
            if axes == (depth,):
                first, end = max(known.first, span.first), min(known.end, span.end)
                spans[axes] = Span((depth,), first, max(first, end), span.size)
            elif (known.first, known.end) != (span.first, span.end):
                return None
    taken = [axis for axes in spans for axis in axes if not _single(factors, axes, spans)]
    if len(taken) != len(set(taken)):
        return None
    letters = {axes: "abcdefghijklmnop"[k] for k, axes in enumerate(sorted(spans))}
    words: list[str] = []
    cores: list[Tracer] = []
    for factor in factors:
        word, core = _operand(factor, spans[(depth,)], letters)
        words.append(word)
        cores.append(core)
    return _placed(words, cores, spans, letters, sizes)


def _single(
    factors: Sequence[_Factor], axes: tuple[int, ...], spans: dict[tuple[int, ...], Span]
) -> bool:
    """Whether no factor varies along the axes."""
    sized = (
        sizes_of(factor.part.core)[factor.spans.index(axes)]
        for factor in factors
        if axes in factor.spans
    )
    return all(n == 1 for n in sized) and spans[axes].whole


def _operand(
    factor: _Factor, depth: Span, letters: dict[tuple[int, ...], str]
) -> tuple[str, Tracer]:
    """The factor's letters, and its core with the axes that it varies along, and the depth."""
    core, word = factor.part.core, ""
    shape: list[int] = []
    for k, (axes, span) in enumerate(zip(factor.spans, factor.part.region, strict=True)):
        if axes == depth.axes:
            if sizes_of(core)[k] == 1 != span.count:
                core = mnp.broadcast_to(
                    core, (*sizes_of(core)[:k], span.count, *sizes_of(core)[k + 1 :])
                )
            at = slice(depth.first - span.first, depth.end - span.first)
            core = core[(*(slice(None),) * k, at)]
        elif sizes_of(core)[k] == 1:
            continue
        word += letters[axes]
        shape.append(int(sizes_of(core)[k]))
    return word, core.reshape(tuple(shape))


def _placed(
    words: Sequence[str],
    cores: Sequence[Tracer],
    spans: dict[tuple[int, ...], Span],
    letters: dict[tuple[int, ...], str],
    sizes: tuple[int, ...],
) -> Part:
    """The product, as a part of (grid…, rows, columns)."""
    depth = len(sizes) - 1
    varies = [axes for axes in sorted(spans) if letters[axes] in words[0] + words[1]]
    kept = [axes for axes in varies if axes != (depth,)]
    core = mnp.einsum(f"{words[0]},{words[1]}->{''.join(letters[x] for x in kept)}", *cores)
    region: list[Span] = []
    for axes in kept:
        found = spans[axes]
        region.append(Span(axes, found.first, found.end, prod(sizes[a] for a in axes)))
    still = [k for k in range(depth) if all(k not in axes for axes in kept)]
    region += [Span((k,), 0, sizes[k], sizes[k]) for k in still]
    region.sort(key=lambda span: span.axes)
    shape = [1 if span.axes[0] in still else span.count for span in region]
    made: Region = tuple(region)
    return Part(core.reshape(tuple(shape)), made, 0 if cut(made) else None)
