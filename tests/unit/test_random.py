"""mlc.random: the paper's bits, the same bits everywhere, and distributions as they should be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.tensor.random import LOW, ArrayWords, philox4x32

R: Any = mlc.random
KEY = R.key(2026)
N = 200_000


def compiled_(draw: Callable[[Any], Any]) -> Any:
    """The function of a key, compiled."""
    return mlc.compile(draw)


# Random123 1.14, kat_vectors, philox4x32 with 10 rounds: counter, key, output
KNOWN = (
    ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ((LOW,) * 4, (LOW,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    (
        (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344),
        (0xA4093822, 0x299F31D0),
        (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
    ),
)


@pytest.mark.parametrize(("counter", "key", "words"), KNOWN)
def test_known_answers(
    counter: tuple[int, int, int, int], key: tuple[int, int], words: tuple[int, ...]
) -> None:
    a = ArrayWords()
    c0, c1, c2, c3 = (a.constant(x) for x in counter)
    found = philox4x32(a, (c0, c1, c2, c3), (a.constant(key[0]), a.constant(key[1])))
    assert tuple(int(x) for x in found) == words


def test_bits_are_the_words_of_blocks_in_order() -> None:
    words = list(KNOWN[0][2])
    assert R.bits(R.key(0), (4,)).tolist() == words
    assert R.bits(R.key(0), (2, 2))[1].tolist() == words[2:]
    pairs = [words[0] | words[1] << 32, words[2] | words[3] << 32]
    assert R.bits(R.key(0), (2,), np.uint64).tolist() == pairs
    assert R.bits(R.key(0), (3,), np.uint16).tolist() == [w & 0xFFFF for w in words[:3]]
    assert R.bits(KEY, (1000,))[:10].tolist() == R.bits(KEY, (10,)).tolist()


DRAWS: dict[str, Callable[[Any], Any]] = {
    "key": lambda key: R.key(7),
    "split": lambda key: R.split(key, 5),
    "fold_in": lambda key: R.fold_in(key, 12345),
    "bits": lambda key: R.bits(key, (3, 5)),
    "bits 8": lambda key: R.bits(key, 9, np.uint8),
    "uniform": lambda key: R.uniform(key, (1001,)),
    "uniform f32": lambda key: R.uniform(key, (7, 11), np.float32, -2, 3),
    "uniform f16": lambda key: R.uniform(key, (9,), np.float16),
    "randint": lambda key: R.randint(key, (100,), -5, 5),
    "randint wide": lambda key: R.randint(key, (9,), -(2**62), 2**62),
    "randint small": lambda key: R.randint(key, (9,), 0, 200, np.uint8),
    "bernoulli": lambda key: R.bernoulli(key, 0.25, (33,)),
    "bernoulli array": lambda key: R.bernoulli(key, np.linspace(0, 1, 9)),
    "permutation": lambda key: R.permutation(key, 17),
    "permutation rows": lambda key: R.permutation(key, np.arange(12).reshape(6, 2)),
    "choice": lambda key: R.choice(key, 5, (20,)),
    "choice once": lambda key: R.choice(key, np.arange(9.0), (2, 3), replace=False),
    "choice p": lambda key: R.choice(key, 3, (50,), p=np.array([0.0, 0.25, 0.75])),
}


@pytest.mark.parametrize("name", DRAWS)
def test_the_same_numbers_eager_interpreted_and_compiled(name: str) -> None:
    draw = DRAWS[name]
    expected = draw(KEY)
    compiled = mlc.compile(draw)
    for run in (compiled.reference, compiled, compiled, mlc.compile(threads=1)(draw)):
        found = run(KEY)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_normal_is_the_same_but_for_the_bounds_of_its_functions(dtype: Any) -> None:
    def draw(key: Any) -> Any:
        return R.normal(key, (501, 3), dtype)

    eps = np.finfo(dtype).eps
    np.testing.assert_allclose(compiled_(draw)(KEY), draw(KEY), rtol=16 * eps, atol=8 * eps)


def test_keys_are_arguments_like_others() -> None:
    draw = compiled_(R.uniform)
    keys = R.split(KEY, 3)
    assert len({float(draw(key)) for key in keys}) == 3
    assert draw.stats().compilations <= 2
    rows = compiled_(lambda keys: mlc.map(lambda k: R.normal(k, (4,)), keys))(keys)
    np.testing.assert_allclose(rows[1], R.normal(keys[1], (4,)), rtol=1e-12)


def test_streams_do_not_meet() -> None:
    numbers = np.concatenate(
        [
            R.bits(KEY, 1000, np.uint64),
            R.split(KEY, 1000),
            [R.fold_in(KEY, k) for k in range(50)],
            R.bits(R.split(KEY)[0], 1000, np.uint64),
        ]
    )
    assert len(np.unique(numbers)) == len(numbers)


def near(found: float, expected: float, deviation: float) -> bool:
    """Within five standard deviations of a mean of N."""
    return bool(abs(found - expected) < 5 * deviation / np.sqrt(N))


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_moments(dtype: Any) -> None:
    u = np.asarray(compiled_(lambda k: R.uniform(k, (N,), dtype))(KEY), np.float64)
    assert 0 <= u.min() < 1e-4
    assert 1 - 1e-4 < u.max() < 1
    assert near(u.mean(), 1 / 2, np.sqrt(1 / 12))
    assert near((u**2).mean(), 1 / 3, np.sqrt(1 / 5 - 1 / 9))
    assert near((u[1:] * u[:-1]).mean(), 1 / 4, np.sqrt(1 / 9 - 1 / 16))
    z = np.asarray(compiled_(lambda k: R.normal(k, (N,), dtype))(KEY), np.float64)
    for power, moment, square in ((1, 0, 1), (2, 1, 3), (3, 0, 15), (4, 3, 105), (6, 15, 10395)):
        assert near((z**power).mean(), moment, np.sqrt(square - moment**2)), power
    assert near((z[1:] * z[:-1]).mean(), 0, 1)


def test_integers_are_equally_likely() -> None:
    counts = np.bincount(compiled_(lambda k: R.randint(k, (N,), 10))(KEY), minlength=10)
    expected = N / 10
    chi2 = ((counts - expected) ** 2 / expected).sum()
    assert chi2 < 27.9  # 0.999 of chi-squared with 9 degrees of freedom
    p = compiled_(lambda k: R.bernoulli(k, 0.3, (N,)))(KEY).mean()
    assert near(p, 0.3, np.sqrt(0.21))
    orders = {tuple(R.permutation(key, 3)) for key in R.split(KEY, 60)}
    assert len(orders) == 6


MISTAKES: dict[str, tuple[type[Exception], Callable[[], Any], str]] = {
    "no key": (TypeError, lambda: R.uniform(3), r"a key is int64 \(\); expected a 0-d uint64"),
    "two keys": (TypeError, lambda: R.uniform(R.split(KEY)), r"a key is uint64 \(2,\)"),
    "seed": (TypeError, lambda: R.key(0.5), r"the seed is float64 \(\); expected an integer"),
    "dtype": (TypeError, lambda: R.normal(KEY, (3,), np.int32), "dtype int32; expected a floating"),
    "empty range": (ValueError, lambda: R.randint(KEY, (3,), 5, 5), r"no integer is in \[5, 5\)"),
    "range": (TypeError, lambda: R.randint(KEY, (3,), 300, dtype=np.uint8), "does not fit uint8"),
    "too many": (
        ValueError,
        lambda: R.choice(KEY, 3, (4,), replace=False),
        "4 of 3 entries without replacement",
    ),
    "bits": (TypeError, lambda: R.bits(KEY, 3, np.int32), "expected an unsigned integer"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_message(name: str) -> None:
    kind, function, message = MISTAKES[name]
    with pytest.raises(kind, match=message):
        function()
