"""Sizes that data decide: what masks pick, as results, in further computation, and reduced."""

# pyright: reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportUnknownMemberType=false, reportUnknownLambdaType=false

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.dims import Dim, highest
from tests.against_numpy import same

RNG = np.random.default_rng(3)
FIRST = RNG.bit_generator.state


@pytest.fixture(autouse=True)
def the_same_numbers_whatever_ran_before() -> None:
    RNG.bit_generator.state = FIRST


X = np.round(RNG.standard_normal((4, 5)) * 3)
Function = Callable[..., Any]


def masks(shape: tuple[int, ...]) -> Iterator[Any]:
    """Empty, all, one and some."""
    one = np.zeros(shape, bool)
    one.flat[-1] = True
    yield from (np.zeros(shape, bool), np.ones(shape, bool), one, RNG.random(shape) < 0.4)


def agree(function: Function, *args: Any, compiled: bool = True) -> None:
    """NumPy, the reference and compiled code, for every mask of the first array's shape."""
    made = mlc.compile(function)
    for mask in masks(args[0].shape):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            want = function(args[0].copy(), mask, *args[1:])
        same(made.reference(args[0].copy(), mask, *args[1:]), want)
        if compiled:
            same(made(args[0].copy(), mask, *args[1:]), want)
    if compiled:
        assert made.stats().compilations + made.stats().cache_hits == 1


def test_results_have_as_many_elements_as_there_are() -> None:
    def picked(x: Any, m: Any) -> Any:
        y = x[m]
        z = y * 2 + 1
        return y, z, z[1:] - z[:-1], np.sort(y), np.cumsum(y), np.concatenate([y, x[0]]), y[y > 0]

    agree(picked, X)


def test_they_own_their_memory() -> None:
    y = mlc.compile(lambda x: x[x > 0])(np.ones(300_000))
    assert y.shape == (300_000,)
    assert y.flags.owndata
    few = mlc.compile(lambda x: x[x > 0])(np.arange(300_000.0) - 299_990)
    assert few.tolist() == list(range(1, 10))
    assert few.base is None


@pytest.mark.parametrize(
    "function",
    [
        lambda x, m: (np.nonzero(m), np.where(x > 0), np.argwhere(m), np.flatnonzero(m)),
        lambda x, m: (x[m[:, 0]], x[:, m[0]], x[m[:, 0], 1], x[m[:, 0]][:, 1:], x[None, m]),
        lambda x, m: (np.compress(m[:, 0], x, axis=0), np.extract(m, x), x[np.nonzero(m)]),
        lambda x, m: (np.delete(x.ravel(), m.ravel()), np.insert(x.ravel(), m.ravel(), 7)),
        lambda x, m: np.unique(x[m], return_index=True, return_inverse=True, return_counts=True),
        lambda x, m: (np.union1d(x[m], x[0]), np.setdiff1d(x, x[m]), np.setxor1d(x, x[m])),
        lambda x, m: (np.intersect1d(x[m], x[0], return_indices=True), np.intersect1d(x[m], x[1])),
        lambda x, m: (np.trim_zeros(np.where(m, x, 0).ravel()), x[x.sum() > 0], x[True]),
        lambda x, m: (x[m][::2], x[m][:3], x[m][-2:], x[m][::-1], x.ravel()[len(x[m]) :]),
        lambda x, m: (np.arange(len(x[m])), np.zeros(len(x[m])), np.outer(x[m], x[m])),
    ],
)
def test_what_is_picked_is_numpys(function: Function) -> None:
    agree(function, X, compiled=False)


def test_names_that_pick_compile() -> None:
    def several(x: Any, m: Any) -> Any:
        i, j = np.nonzero(m)
        found = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
        return (*found, x[i, j] + i, x[m[:, 0]], x[:, m[0]], np.setdiff1d(x, x[m]))

    agree(several, X)


@pytest.mark.parametrize("dtype", ["?", "i1", "u2", "i4", "u8", "f2", "f4", "c8", "c16"])
def test_every_dtype_is_picked(dtype: str) -> None:
    agree(lambda x, m: (x[m], x[m].sum()), X.astype(dtype), compiled=dtype in ("?", "f2", "c16"))


def test_masks_on_more_axes() -> None:
    x = RNG.standard_normal((2, 3, 4))
    m = RNG.random((2, 3)) < 0.5

    def several(x: Any, m: Any) -> Any:
        x = x.copy()
        y = x[m], x[m, 1:], x[m][:, 0].mean()
        x[m] *= 2
        x[m, 0] = np.arange(len(x[m]))
        x[m] += x[m]
        return *y, x

    same(mlc.compile(several)(x, m), several(x, m))
    same(mlc.compile(several).reference(x, ~m), several(x, ~m))


def test_writes_by_masks() -> None:
    def written(x: Any, m: Any) -> Any:
        x[m] = x[m] ** 2
        x[m] += 1
        y = x.copy()
        y[m] = np.sort(y[m])
        np.add.at(y, m, 3)
        x[m[:, 0]] = np.arange(5)
        return x, y

    agree(written, X)


# Reductions


def test_what_is_only_reduced_is_not_gathered() -> None:
    def reduced(x: Any, m: Any) -> Any:
        y = x[m]
        rows = x[m[:, 0]]
        return (
            (y.sum(), y.mean(), y.prod(), ((y - y.mean()) ** 2).sum(), y.std(), y @ y),
            ((y > 0).any(), (y > 0).all(), len(y), y.size * 2, np.count_nonzero(y)),
            (rows.sum(0), rows.mean(axis=0), (rows * 2).sum(1).sum(), x[m[:, 0], 1].sum()),
            (x[x > 1] - x[x > 1].mean()).sum(),
        )

    agree(reduced, X)
    text = mlc.compile(reduced).lower(X, X > 0).text("tensor")
    assert not [word for word in ("mlc.bind", "mlc.positions", "mlc.gather") if word in text]


def test_groups_by_label() -> None:
    def groups(x: Any, lab: Any) -> Any:
        return np.stack([x[lab == k].sum(0) for k in range(3)])

    lab = np.array([0, 2, 0, 1])
    made = mlc.compile(groups)
    same(made(X, lab), groups(X, lab))
    assert "mlc.positions" not in made.lower(X, lab).text("tensor")


@pytest.mark.parametrize("name", ["max", "min", "argmax"])
def test_of_nothing_there_is_no_extremum(name: str) -> None:
    made = mlc.compile(lambda x, m: getattr(x[m], name)() * 1)
    m = np.array([True, False, True])
    x = np.array([-np.inf, 5.0, -np.inf])
    assert made(x, m) == getattr(x[m], name)()
    with pytest.raises(ValueError, match=r"zero-size array|empty sequence") as found:
        made(x, m & False)
    assert any("test_program_sizes.py" in str(entry.path) for entry in found.traceback)
    with pytest.raises(ValueError, match=r"zero-size array|empty sequence"):
        made.reference(x, m & False)


def test_strict_sums_are_those_of_the_reference() -> None:
    made = mlc.compile(lambda x: x[x > 0].sum(), numerics="strict")
    x = RNG.standard_normal(1000)
    assert made(x) == made.reference(x)


# Numbers that decide


def test_sizes_decide() -> None:
    def decided(x: Any, m: Any) -> Any:
        y = x[m]
        total = 0.0
        for k in range(len(y)):
            total += y[k] * k
        if len(y) == 0:
            return -1.0
        if y.size > 3 and len(y) != 7:
            total += y[-1]
        return total

    agree(decided, X)


def test_loops_and_branches_may_pick() -> None:
    @mlc.compile
    def looped(x: Any, n: Any) -> Any:
        total = 0.0
        for k in range(n[0]):
            y = np.sort(x[x > k * 0.1])
            if len(y) > 2:
                total += y[1]
        return total

    def plain(x: Any, n: Any) -> Any:
        found = (np.sort(x[x > k * 0.1]) for k in range(n[0]))
        return sum(y[1] for y in found if len(y) > 2)

    x = RNG.standard_normal(30)
    np.testing.assert_allclose(looped(x, np.array([6])), plain(x, [6]))


def sieve(limit: Any) -> Any:
    """The primes below 60, one by one."""
    rest, found, count = np.arange(2, 60), np.zeros(20, np.int64), limit - limit
    while len(rest) > 0:
        found[count] = rest[0]
        count += 1
        rest = rest[rest % rest[0] != 0]
    return found, count


def halved(x: Any, n: Any) -> Any:
    y, total = x[x > -1], x[0] * 0
    for k in range(n[0]):
        y = y[y > k * 0.1]
        total += (y**2).sum()
    return y, total


def shortened(x: Any, n: Any) -> Any:
    y, total = x[x > 0], 0.0
    while len(y) > n[0]:
        total += y[0] * len(y)
        y = y[1:]
    return y, total


@pytest.mark.parametrize("function", [halved, shortened])
def test_loops_hand_on_arrays_whose_sizes_change(function: Function) -> None:
    made = mlc.compile(function)
    x = RNG.standard_normal(30)
    for n in (0, 1, 5, 40):
        want = function(x, [n])
        same(made(x, np.array([n])), want)
        same(made.reference(x, np.array([n])), want)

    def loss(x: Any) -> Any:
        return function(x, np.array([3]))[1]

    step = 1e-6 * np.eye(30)
    want = [(loss(x + h) - loss(x - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(mlc.grad(loss)(x), want, rtol=1e-5, atol=1e-6)


def test_a_sieve() -> None:
    want = sieve(np.int64(0))
    same(mlc.compile(sieve)(np.int64(0)), want)


def test_a_size_beyond_the_array_is_an_index_error() -> None:
    made = mlc.compile(lambda x: x[x > 0][2])
    assert made(np.array([1.0, 2.0, 3.0])) == 3.0
    with pytest.raises(IndexError, match="index 2 is out of bounds"):
        made(np.array([1.0, 2.0, -3.0]))


# Sizes that nothing bounds


def test_repeats_by_counts() -> None:
    made = mlc.compile(lambda x, c: (np.repeat(x, c), np.repeat(x, c).sum(), x * 2))
    x = RNG.standard_normal(4)
    for counts in ([1, 0, 3, 2], [0, 0, 0, 0], [9000, 1, 1, 1], [1, 1, 1, 1]):
        c = np.array(counts)
        want = np.repeat(x, c), np.repeat(x, c).sum(), x * 2
        same(made(x, c), want)
        same(made.reference(x, c), want)
    assert made.stats().compilations + made.stats().cache_hits == 1
    with pytest.raises(ValueError, match="may not contain negative"):
        made(x, np.array([1, -1, 1, 1]))


def test_a_call_that_begins_again_writes_once() -> None:
    @mlc.compile
    def doubled(x: Any, c: Any) -> Any:
        x *= 2
        return np.repeat(x, c, axis=1)

    x = np.arange(6.0).reshape(2, 3)
    want = np.repeat(x * 2, [9000, 0, 1], axis=1)
    same(doubled(x, np.array([9000, 0, 1])), want)
    assert x.tolist() == [[0, 2, 4], [6, 8, 10]]


def test_bins_up_to_the_largest_number() -> None:
    made = mlc.compile(np.bincount)
    for numbers in ([1, 2, 5, 1], [0], [70_000, 3]):
        same(made(np.array(numbers)), np.bincount(numbers))
    same(made.reference(np.zeros(0, np.int64)), np.bincount(np.zeros(0, np.int64)))
    with pytest.raises(ValueError, match="no negative elements"):
        made(np.array([-1, 2]))


# Branches


def test_branches_leave_arrays_of_different_sizes() -> None:
    def two(x: Any, m: Any) -> Any:
        y = x[m] if x[0, 0] > 0 else x[~m]
        z = x
        if y.size > 3:
            z = np.column_stack([np.ones(4), z])
        if len(y) == 0:
            return z[:2].sum(), y, z
        return np.sort(y)[0], y * 2, z @ np.ones((z.shape[1], 3))

    agree(lambda x, m: two(x, m)[:2], X)
    agree(lambda x, m: two(-x, m)[:2], X, compiled=False)


def test_a_column_more() -> None:
    @mlc.compile
    def fitted(x: Any, intercept: Any) -> Any:
        if intercept[0]:
            x = np.column_stack([np.ones(len(x)), x])
        return x.T @ x, x

    for intercept in (True, False):
        flag = np.array([intercept])
        same(fitted(X, flag), fitted.__wrapped__(X, flag))


# Transformations


def test_gradients_scatter_back() -> None:
    x = RNG.standard_normal(9)

    def loss(x: Any) -> Any:
        y = x[x > 0]
        z = np.cumsum(y) ** 2
        return z.sum() + (y**2).mean() + np.sort(y)[0]

    def by_where(x: Any) -> Any:
        y = np.where(x > 0, x, 0)
        n = (x > 0).sum()
        return (np.where(x > 0, np.cumsum(y) ** 2, 0).sum()) + (y**2).sum() / n + x[x > 0].min()

    np.testing.assert_allclose(mlc.grad(loss)(x), mlc.grad(by_where)(x), rtol=1e-12)


def by_loop(x: Any) -> Any:
    total = x[0] * 0
    for k in range(40):
        total = total + np.sort(np.exp(x[x > k * 0.01]))[1] * k
    return total


def by_while(x: Any) -> Any:
    total, k = x[0] * 0, 0
    while k < 4:
        total = total + (np.cumsum(x[x > k * 0.01]) ** 2).sum()
        k += 1
    return total


def by_branch(x: Any) -> Any:
    y = x[x > 0] if x[0] > 0 else x[x < 0]
    return (np.cumsum(y) ** 2).sum()


@pytest.mark.parametrize("function", [by_loop, by_while, by_branch])
def test_gradients_go_back_through_loops_and_branches(function: Function) -> None:
    x = RNG.standard_normal(9)
    step = 1e-6 * np.eye(9)
    want = [(function(x + h) - function(x - h)) / 2e-6 for h in step]
    np.testing.assert_allclose(mlc.grad(function)(x), want, rtol=1e-5, atol=1e-7)


def test_batches_of_reductions() -> None:
    x = RNG.standard_normal((3, 8))
    found = mlc.vmap(lambda r: (r[r > 0].mean(), r[r > 0].max(), len(r[r > 0])))(x)
    rows = [r[r > 0] for r in x]
    np.testing.assert_allclose(found[0], [r.mean() for r in rows])
    np.testing.assert_allclose(found[1], [r.max() for r in rows])
    assert found[2].tolist() == [len(r) for r in rows]
    gradient = mlc.vmap(mlc.grad(lambda r: (r[r > 0] ** 2).sum()))(x)
    np.testing.assert_allclose(gradient, np.where(x > 0, 2 * x, 0))
    same(mlc.vmap(lambda r: np.sort(r[x[0] > 0]))(x), np.sort(x[:, x[0] > 0]))
    with pytest.raises(ValueError, match="differs from example to example"):
        mlc.vmap(lambda r: np.sort(r[r > 0]))(x)


# What is refused


def test_what_grows_in_a_loop_has_no_largest_size() -> None:
    @mlc.compile
    def growing(x: Any, n: Any) -> Any:
        y = x[x > 0]
        for k in range(n[0]):
            y = np.append(y, k)
        return y

    with pytest.raises(NotImplementedError, match=r"y .*(grows|changes)|type of y"):
        growing(X[0], np.array([3]))


def test_sizes_that_python_must_know() -> None:
    with pytest.raises(NotImplementedError, match="known only when the program runs"):
        mlc.compile(lambda x: [0] * len(x[x > 0]))(X[0])


def test_a_mask_of_another_shape() -> None:
    with pytest.raises(
        IndexError, match=r"a boolean mask \(4,\) does not fit x \(5,\) from axis 0"
    ):
        mlc.compile(lambda x, m: x[m])(X[0], X[:, 0] > 0)


def test_gpus_say_what_they_lack() -> None:
    with pytest.raises(ValueError, match=r"mlc\.bind: sizes that the program computes"):
        mlc.compile(lambda x: x[x > 0], target="h200").lower(X).text("loops")
    mlc.compile(lambda x: x[x > 0].mean(), target="h200").lower(X).text("loops")


# Dims


def test_the_highest_value() -> None:
    most = {"k": Dim.of("n"), "j": Dim.const(4)}
    assert highest(Dim.of("2*k + j - 1"), most) == Dim.of("2*n + 3")
    assert highest(Dim.of("n - k"), most) == Dim.of("n")
    assert highest(Dim.of("(k + 1) // 2"), most) == Dim.of("(n + 1) // 2")
    assert highest(Dim.of("m"), most) == Dim.of("m")
