"""`mlc.compile(schedule=)`: words that a user gives to the one product of a function."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

import mlc
from mlc.dialects.errors import MlcError
from mlc.knobs import scope

TILE = "register(m 4, n 16), via(fma), edge(m, clamp), edge(n, mask)"
BLOCKS = f"block(n, 64, team, dynamic), block(k, 128), pack(b, panels 16), {TILE}"
LISTED = BLOCKS.replace("), ", ")|").split("|")


def curved(a: Any, b: Any) -> Any:
    return np.tanh(0.1 * (a @ b))


def inputs() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return rng.standard_normal((100, 300), np.float32), rng.standard_normal((300, 200), np.float32)


@pytest.mark.parametrize("words", [TILE, BLOCKS, f"[{BLOCKS}]", LISTED])
@pytest.mark.parametrize("threads", [1, 3])
def test_words_are_the_plan_s(words: Any, threads: int) -> None:
    a, b = inputs()
    compiled: Any = mlc.compile(schedule=words, target="avx2", threads=threads)(curved)
    text = words if isinstance(words, str) else ", ".join(words)
    assert text.strip("[]") in compiled.lower(a, b).text("plan")
    host: Any = mlc.compile(schedule=words, threads=threads)(curved)
    np.testing.assert_allclose(host(a, b), curved(a, b), atol=1e-5)


def test_each_schedule_is_a_program_of_its_own(tmp_path: Path) -> None:
    a, b = inputs()
    with scope(cache_dir=tmp_path):
        for words in (None, TILE, BLOCKS):
            compiled: Any = mlc.compile(schedule=words)(curved)
            compiled(a, b)
            (artifact,) = compiled.stats().artifacts
            assert not artifact.from_cache


@pytest.mark.parametrize(
    ("words", "error", "said"),
    [
        ("blok(n, 3)", ValueError, "has no word 'blok'"),
        ("block(n, 3, dynamic)", ValueError, "expected team too"),
        ("block(q, 4), " + TILE, MlcError, "no axis 'q'; expected one of m, n, k"),
        ("register(m 40, n 160), via(fma)", MlcError, "does not fit into the registers"),
        ("register(m 4, n 16), via(fmx)", MlcError, "no instruction fmx"),
        ("block(k, 8), block(k, 4), " + TILE, MlcError, "expected one block of k"),
    ],
)
def test_words_that_cannot_be_applied(words: str, error: type[Exception], said: str) -> None:
    compiled: Any = mlc.compile(schedule=words)(curved)
    with pytest.raises(error, match=said):
        compiled(*inputs())


@pytest.mark.parametrize(
    ("words", "target", "said"),
    [
        *((word, "avx2", rf"{re.escape(word)} is no word of kernels on avx2; expected.* register")
          for word in ("threads(32)", "share(4)", "tile(m 64, n 64, k 32)", "stages(3)",
                       "roles(producer 1, consumer 2)", "raster(8)", "cluster(2)", "overlap(items)",
                       "split_k(blocks 4, parts 2)", "hold(rows 1, threads 32, lanes 4)")),
        ("rows(4)", "avx2", r"rows\(4\); expected none"),
        ("turn(0, rows 8, columns 8)", "avx2", "expected no turn"),
        ("flat(3)", "avx2", r"flat\(3\); expected none"),
        ("vector(8, axis 7)", "avx2", "expected no axis, or one from 1 to 2"),
        ("register(m 4, n 15), via(fma)", "avx2", "expected a multiple of 8 along n"),
        ("register(m 4, n 16), via(fma), edge(k, mask)", "avx2", "k is no axis of the result"),
        *((word, "h200", rf"{re.escape(word)} is no word of kernels on h200; expected.* tile")
          for word in ("register(m 4, n 16)", "block(m, 8)", "pack(b, panels 16)", "rows(4)",
                       "split(k, 2)", "strip(a, rows 4)", "via(fma)", "flat(3)")),
        ("threads(32)", "h200", "no vector; expected the axis along which threads run"),
        ("grain(3)", "h200", r"\[grain\(3\)\]; expected threads"),
        ("stages(3)", "h200", r"stages\(3\) without tile"),
    ],
)  # fmt: skip
def test_words_that_the_machine_or_the_nest_has_no_place_for(
    words: str, target: str, said: str
) -> None:
    """Each says which word, and what could stand there, before anything is lowered."""
    compiled: Any = mlc.compile(schedule=words, target=target)(curved)
    with pytest.raises(MlcError, match=said):
        compiled.lower(*inputs()).text("loops")


def test_there_is_one_product() -> None:
    def squared(a: Any, b: Any) -> Any:
        return a @ b @ b.T

    def next_to(a: Any) -> Any:
        return a + 1

    twice: Any = mlc.compile(schedule=TILE)(squared)
    with pytest.raises(MlcError, match=r"2 kernels with a product; expected one\n.*test_schedule"):
        twice(*inputs())
    none: Any = mlc.compile(schedule=TILE)(next_to)
    with pytest.raises(MlcError, match="0 kernels with a product"):
        none(inputs()[0])
    with pytest.raises(TypeError, match="expected words such as"):
        mlc.compile(schedule=cast("Any", 5))(curved)
