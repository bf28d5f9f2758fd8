"""Which contractions a plan cuts by words, and by which."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from mlc.dialects.plan import KernelOp
from mlc.dialects.tile.words import Block, Pack, Words, spell
from mlc.passes.tile.products import contraction_of, refusal
from tests.plans import TARGETS, planned, spec


def product(a: Any, b: Any) -> Any:
    return a @ b


def kernel_of(f: Callable[..., Any], *specs: Any, target: str, **options: Any) -> KernelOp:
    levels = planned(f, *specs, target=target, **options)
    found = [x for x in levels.plan().walk() if isinstance(x, KernelOp) and contraction_of(x)]
    (kernel,) = found
    return kernel


def words_of(f: Callable[..., Any], *specs: Any, target: str, **options: Any) -> Words:
    kernel = kernel_of(f, *specs, target=target, **options)
    assert kernel.schedule is not None
    return kernel.schedule.data.words


@pytest.mark.parametrize("dtype", ["f32", "f64"])
@pytest.mark.parametrize("target", TARGETS)
def test_products_of_every_size_have_words(target: str, dtype: str) -> None:
    for m, n, k in ((16, 16, 16), (64, 64, 64), (300, 300, 300), (1000, 5, 64), (32, 4096, 1024)):
        words = words_of(product, spec(m, k, dtype=dtype), spec(k, n, dtype=dtype), target=target)
        assert words, (m, n, k)


@pytest.mark.parametrize("target", TARGETS)
def test_words_are_those_for_any_team(target: str) -> None:
    """Bits do not depend on how many workers there are."""
    shapes = (spec(500, 700), spec(700, 600))
    found = {words_of(product, *shapes, target=target, threads=n) for n in (1, 2, 16)}
    assert len(found) == 1


@pytest.mark.parametrize("target", ["avx2", "avx512"])
def test_workers_share_batches_whose_copies_fit_their_caches(target: str) -> None:
    """Of larger ones they share the rows of each."""
    for size, teams in ((128, ["g"]), (1024, ["m"])):
        words = words_of(product, *[spec(8, size, size)] * 2, target=target)
        blocks = [word for word in words if isinstance(word, Block)]
        assert (blocks[0].axis, blocks[0].step) == ("g", 1)
        assert [word.axis for word in blocks if word.team] == teams, spell(words)
        packs = [word for word in words if isinstance(word, Pack) and word.operand == "b"]
        assert all(word.team == (teams == ["m"]) for word in packs)


@pytest.mark.parametrize(
    ("f", "shapes", "options", "why"),
    [
        (product, [("M", 64), (64, 64)], {}, "when the program runs"),
        (product, [(64, 64), (64, 64)], {"numerics": "strict"}, "one order"),
        (lambda a, b: np.einsum("ijk,kjl->il", a, b), [(64, 8, 9), (9, 8, 64)], {}, "letter"),
    ],
)
def test_why_a_contraction_keeps_numbers(
    f: Callable[..., Any], shapes: Any, options: dict[str, str], why: str
) -> None:
    kernel = kernel_of(f, *(spec(*x) for x in shapes), target="avx512", **options)
    op = contraction_of(kernel)
    assert op is not None
    assert why in str(refusal(kernel, op))
    assert kernel.schedule is not None
    assert not kernel.schedule.data.words
