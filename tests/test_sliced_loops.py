"""
Loops over slices that end at the loop's own number stay loops: one kernel that writes in place,
whatever the number of trips. NumPy running the same text is the judge.
"""

# pyright: reportPossiblyUnboundVariable=false, reportUnknownVariableType=false
# pyright: reportUnknownLambdaType=false, reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import copy
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from benchmarks.kernels.algebra import durbin as toeplitz
from benchmarks.kernels.algebra import lu as doolittle
from benchmarks.kernels.algebra import trisolv as forward
from mlc.dialects.errors import MlcError, PlanError
from mlc.frontend.staging import trials
from tests.random_slices import arguments, differs, outcome, program
from tests.sweeps import leading

Array = Any
R = np.random.default_rng(5)
N = 21


def definite(n: int) -> Array:
    a = R.random((n, n))
    return a @ a.T + n * np.eye(n)


def backward(U: Array, b: Array) -> Array:
    x = np.zeros_like(b)
    for i in reversed(range(len(b))):
        x[i] = (b[i] - U[i, i + 1 :] @ x[i + 1 :]) / U[i, i]
    return x


def by_columns(A: Array) -> None:
    for k in range(A.shape[0]):
        A[k + 1 :, k] /= A[k, k]
        for j in range(k + 1, A.shape[0]):
            A[k + 1 :, j] -= A[k + 1 :, k] * A[k, j]


def by_outer_products(A: Array) -> None:
    for k in range(A.shape[0]):
        A[k + 1 :, k] /= A[k, k]
        A[k + 1 :, k + 1 :] -= np.outer(A[k + 1 :, k], A[k, k + 1 :])


def cholesky(A: Array) -> None:
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, A.shape[0]):
        for j in range(i):
            A[i, j] = (A[i, j] - np.dot(A[i, :j], A[j, :j])) / A[j, j]
        A[i, i] = np.sqrt(A[i, i] - np.dot(A[i, :i], A[i, :i]))


def products_of_columns(x: Array) -> Array:
    m = x.shape[1]
    c = np.eye(m)
    for i in range(m - 1):
        c[i + 1 : m, i] = c[i, i + 1 : m] = x[:, i] @ x[:, i + 1 : m]
    return c


def symmetric_update(C: Array, A: Array, alpha: float) -> None:
    for i in range(A.shape[0]):
        C[i, : i + 1] *= 0.5
        for k in range(A.shape[1]):
            C[i, : i + 1] += alpha * A[i, k] * A[: i + 1, k]


def symmetric_product(C: Array, A: Array, B: Array) -> None:
    row = np.empty((C.shape[1],))
    for i in range(C.shape[0]):
        for j in range(C.shape[1]):
            C[:i, j] += 0.5 * B[i, j] * A[i, :i]
            row[j] = B[:i, j] @ A[i, :i]
        C[i, :] += B[i, :] * A[i, i] + row


def triangular_product(A: Array, B: Array) -> None:
    for i in range(B.shape[0]):
        for j in range(B.shape[1]):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])


def windows(x: Array, w: int) -> Array:
    out = np.empty_like(x)
    for i in range(len(x)):
        out[i] = x[max(0, i - w) : min(len(x), i + w + 1)].mean() + x[i : i + 3].max()
    return out


def beyond(x: Array, y: Array) -> Array:
    s = 0.0
    for i in range(len(x)):
        s += x[i + 2 :].sum() - x[-i - 30 : i - 1].sum() + x[i : i + 99] @ y[i : i + 99]
        y[: i - 4] *= 0.9
        y[-i:] += x[-i:] * 0.125
        s += x[i::-1][::2].sum()
    return s


def kept_before_it_changes(x: Array, A: Array) -> Array:
    s = 0.0
    for i in range(1, len(x)):
        old = A[i, :i] * 2
        view = A[i, :i]
        A[i, 0] = s
        x[:i] = x[1 : i + 1]
        s += old.sum() - view.sum() + (A[:i, :i] @ x[:i]).max()
    return s


def triple(A: Array) -> None:
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            for k in range(j, n):
                A[i, k] -= A[i, j] * A[j, k] * 0.01


def best_pairs(seq: Array) -> Array:
    n = len(seq)
    table = np.zeros((n, n), np.int32)
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            table[i, j] = max(table[i, j - 1], table[i + 1 if i + 1 < n else i, j])
            if i < j - 1:
                table[i, j] = max(table[i, j], (table[i, i:j] + table[i + 1 : j + 1, j]).max())
                table[i, j] = max(table[i, j], table[i + 1, j - 1] + (seq[i] + seq[j] == 3))
    return table


LOWER = np.tril(R.random((N, N))) + N * np.eye(N)
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "forward": (forward, (LOWER, R.random(N))),
    "backward": (backward, (LOWER.T.copy(), R.random(N))),
    "doolittle": (doolittle, (definite(N),)),
    "by_columns": (by_columns, (definite(N),)),
    "by_outer_products": (by_outer_products, (definite(N),)),
    "cholesky": (cholesky, (definite(N),)),
    "toeplitz": (toeplitz, (R.random(40) / 400,)),
    "products_of_columns": (products_of_columns, (R.random((33, N)),)),
    "symmetric_update": (symmetric_update, (R.random((N, N)), R.random((N, 9)), 1.5)),
    "symmetric_product": (
        symmetric_product,
        (R.random((N, 17)), R.random((N, N)), R.random((N, 17))),
    ),
    "triangular_product": (triangular_product, (R.random((N, N)), R.random((N, 17)))),
    "windows": (windows, (R.random(N), 4)),
    "beyond": (beyond, (R.random(N), R.random(N))),
    "kept_before_it_changes": (kept_before_it_changes, (R.random(N), R.random((N, N)))),
    "triple": (triple, (R.random((40, 40)),)),
    "best_pairs": (best_pairs, (R.integers(0, 4, N),)),
}


def judged(function: Callable[..., Any], given: tuple[Any, ...], **options: Any) -> Any:
    """Runs both, and compares results and arguments."""
    own, expected = copy.deepcopy(given), copy.deepcopy(given)
    compiled = mlc.compile(function, **options)
    found, wanted = compiled(*own), function(*expected)
    if wanted is not None:
        np.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)
    for x, y in zip(own, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-10, atol=1e-13)
    return compiled


@pytest.mark.parametrize("name", PROGRAMS)
def test_as_numpy(name: str) -> None:
    """The same numbers from one kernel, in which every array lies where it is written."""
    function, given = PROGRAMS[name]
    compiled = judged(function, given)
    plan = compiled.lower(*given).text("plan")
    assert plan.count('mlc.kernel "nest"') == 1
    assert "mlc.for" in plan


@pytest.mark.parametrize("columns", [3, 5, 8, 13])
def test_sums_over_both_axes_with_what_was_just_written(columns: int) -> None:
    """Rows that are no whole vectors are summed no further than they go."""

    def blocks(x: Array) -> Array:
        out = np.zeros(len(x) + 1)
        for k in range(len(x)):
            out[k + 1] = (x[k] + out[k]).sum() / 100
        return out

    given = (R.random((40, 4, columns)),)
    plan = judged(blocks, given).lower(*given).text("plan")
    assert plan.count('mlc.kernel "nest"') == 1


@pytest.mark.parametrize("numerics", ["strict", "fast"])
@pytest.mark.parametrize("name", ["forward", "toeplitz", "products_of_columns", "windows"])
def test_numerics(name: str, numerics: str) -> None:
    function, given = PROGRAMS[name]
    compiled = judged(function, given, numerics=numerics)
    if numerics == "strict":
        np.testing.assert_array_equal(
            compiled(*copy.deepcopy(given)), compiled.reference(*copy.deepcopy(given))
        )


@pytest.mark.parametrize("target", ["avx2", "neon"])
def test_other_targets(target: str) -> None:
    for name in ("doolittle", "toeplitz", "products_of_columns"):
        function, given = PROGRAMS[name]
        text = mlc.compile(function, target=target).lower(*given).text("loops")
        assert "scf.for" in text


@pytest.mark.parametrize("dtype", [np.float32, np.int64, np.complex128])
def test_dtypes(dtype: Any) -> None:
    def sums(x: Array, y: Array) -> Array:
        out = np.zeros_like(x)
        for i in range(len(x)):
            out[i] = x[:i] @ y[:i] + x[i:].sum()
            y[i:] += x[: len(x) - i]
        return out

    x, y = (R.integers(0, 9, 13).astype(dtype) for _ in range(2))
    judged(sums, (x, y))


def test_text_does_not_grow_with_the_trips() -> None:
    """Ten trips and ten thousand are the same program, but for the numbers in it."""
    lengths = {
        n: mlc.compile(toeplitz).lower(R.random(n)).text("plan").count("\n") for n in (10, 10_000)
    }
    assert lengths[10] == lengths[10_000]


def test_open_sizes() -> None:
    compiled = mlc.compile(forward, dynamic={"L": {0: "n", 1: "n"}, "b": {0: "n"}})
    for n in (0, 1, 5, N):
        L, b = LOWER[:n, :n].copy(), R.random(n)
        np.testing.assert_allclose(compiled(L, b), forward(L, b))
    assert len(compiled.stats().artifacts) == 1


def test_counts_that_data_decide() -> None:
    def partial(x: Array, m: Array) -> Array:
        s = x[0] * 0
        for i in range(m[0]):
            s = s + x[:i] @ x[:i]
        k = 0
        while s < 100.0 and k < 9:
            s = s + x[k:].sum()
            k += 1
        return s, k

    for m in (0, 4, N):
        x = R.random(N)
        np.testing.assert_allclose(mlc.compile(partial)(x, np.array([m])), partial(x, [m]))


def test_derivatives_and_batches() -> None:
    """Their programs have a trip after another, of sizes that are known."""
    L, b = LOWER[:7, :7].copy(), R.random(7)

    def loss(L: Array, b: Array) -> Array:
        return (forward(L, b) ** 2).sum()

    found, step = mlc.grad(loss)(L, b), 1e-6
    for i, j in ((5, 2), (3, 3)):
        up, down = L.copy(), L.copy()
        up[i, j] += step
        down[i, j] -= step
        slope = (loss(up, b) - loss(down, b)) / (2 * step)
        np.testing.assert_allclose(found[i, j], slope, rtol=1e-5, atol=1e-9)
    many = R.random((3, 7))
    wanted = [forward(L, row) for row in many]
    np.testing.assert_allclose(mlc.vmap(forward, in_axes=(None, 0))(L, many), wanted)


OF_A_SLICE: dict[str, Callable[[Array, Array], Array]] = {
    "median": lambda w, A: np.median(w),
    "sort": lambda w, A: np.sort(w)[len(w) // 2],
    "argsort": lambda w, A: np.argsort(w)[0],
    "cumsum": lambda w, A: np.cumsum(w).max(),
    "percentile": lambda w, A: np.percentile(w, 30.0),
    "unique": lambda w, A: len(np.unique(np.round(w, 1))),
    "picked": lambda w, A: w[w > 0.5].sum() + len(w[w < 0.2]),
    "searched": lambda w, A: np.searchsorted(np.sort(w), 0.4),
    "product": lambda w, A: (A @ A.T).sum(),
    "solve": lambda w, A: np.linalg.solve(A, w)[0],
    "det": lambda w, A: np.linalg.det(A),
    "tile": lambda w, A: np.tile(w, 2).sum(),
    "kron": lambda w, A: np.kron(w, np.array([1.0, 2.0])).max(),
    "columns": lambda w, A: np.sort(A, axis=0)[0, 0] + np.cumsum(A, axis=1).sum(),
}


@pytest.mark.parametrize("name", OF_A_SLICE)
def test_what_is_no_nest_has_kernels_of_its_own(name: str) -> None:
    """One loop, in which arrays have room for the largest trip."""
    of_slice = OF_A_SLICE[name]

    def prefixes(x: Array, A: Array) -> Array:
        out = np.zeros(len(x))
        for i in range(len(x)):
            out[i] = of_slice(x[: i + 1], A[: i + 1, : i + 1])
        return out

    given = R.random(N), R.random((N, N)) + 9 * np.eye(N)
    text = judged(prefixes, given).lower(*given).text("trace")
    assert text.count("mlc.for") == 1
    few = R.random(9), R.random((9, 9)) + 9 * np.eye(9)
    judged(prefixes, few, dynamic={"x": {0: "n"}, "A": {0: "n", 1: "n"}})


def test_windows_cut_at_both_ends() -> None:
    def medians(x: Array, k: int) -> Array:
        out = np.empty_like(x)
        for i in range(len(x)):
            out[i] = np.median(x[max(0, i - k) : min(len(x), i + k + 1)])
        return out

    lengths = {
        n: mlc.compile(medians).lower(R.random(n), 3).text("plan").count("\n")
        for n in (100, 10_000)
    }
    assert lengths[100] == lengths[10_000]
    judged(medians, (R.random(30), 3))


def test_derivatives_of_what_is_no_nest() -> None:
    def loss(x: Array) -> Array:
        s = x[0] * 0
        for i in range(1, 9):
            s = s + np.median(x[:i]) * np.cumsum(x[:i])[-1] ** 2
        return s

    x, step = R.random(9), 1e-6
    found = mlc.grad(loss)(x)
    for k in (0, 4, 8):
        ends = [loss(x + sign * step * (np.arange(9) == k)) for sign in (1, -1)]
        np.testing.assert_allclose(found[k], (ends[0] - ends[1]) / (2 * step), rtol=1e-5, atol=1e-8)


def test_products_of_slices_of_a_nest_are_held() -> None:
    """A product that rules have put in the place of another one is read by the next."""

    def orthogonal(A: Array) -> Array:
        Q = A.copy()
        for j in range(A.shape[1]):
            q = Q[:, j] - Q[:, :j] @ (Q[:, :j].T @ Q[:, j])
            Q[:, j] = q / np.sqrt(q @ q)
        return Q

    def attention(Q: Array, K: Array, V: Array) -> Array:
        out = np.zeros_like(V)
        for i in range(len(Q)):
            s = Q[i] @ K[: i + 1].T
            w = np.exp(s - s.max())
            out[i] = (w / w.sum()) @ V[: i + 1]
        return out

    judged(orthogonal, (R.random((N, 9)),))
    judged(attention, tuple(R.random((N, 5)) for _ in range(3)))


def test_products_of_matrices_are_kernels_of_their_own() -> None:
    def blocked(A: Array) -> None:
        n = A.shape[0]
        for k in range(0, n, 8):
            A[k + 8 :, k + 8 :] -= A[k + 8 :, k : k + 8] @ A[k : k + 8, k + 8 :]

    judged(blocked, (R.random((48, 48)) / 48,))
    plan = mlc.compile(blocked, target="avx2").lower(R.random((256, 256))).text("plan")
    assert "nest" not in plan
    assert plan.count('mlc.kernel "contraction"') == 1
    assert re.search(r"register\(m [2-9]", plan)  # for the largest trip, not for none


def test_what_only_a_trip_has_the_size_of_is_lost_after_it() -> None:
    def last(x: Array, n: Array) -> Array:
        row = x
        for i in range(n[0]):
            part = x[:i] * 2
            row = row + part.sum()
        return row, part

    with pytest.raises(MlcError, match="part has a size of its own after each trip"):
        mlc.compile(last)(R.random(5), np.array([3]))


def test_gpus_refuse_by_name() -> None:
    lowered = mlc.compile(forward, target="h200").lower(LOWER, R.random(N))
    with pytest.raises(PlanError, match="sizes that the program computes are for CPUs"):
        lowered.text("loops")


def test_gpus_have_a_trip_after_another() -> None:
    """Of what is no nest: their programs have no sizes that they compute."""

    def medians(x: Array) -> Array:
        return np.array([np.median(x[: i + 1]) for i in range(len(x))])

    text = mlc.compile(medians, target="h200").lower(R.random(9)).text("trace")
    assert "mlc.for" not in text
    assert "mlc.bind" not in text


# Random programs


def check(seeds: range, monkeypatch: pytest.MonkeyPatch, least: float) -> None:
    """None differs from NumPy; of those that NumPy runs most have loops."""
    monkeypatch.setattr(trials, "FAULTS", ())  # what is no loop is refused
    loops = total = 0
    for seed in seeds:
        _, function = program(seed)
        given = arguments(seed)
        if not isinstance(outcome(function, given), list):
            continue
        total += 1
        try:
            mlc.compile(function).lower(*given).text("trace")
        except MlcError:
            continue
        loops += 1
        if fault := differs(seed):
            pytest.fail(f"seed {seed}: {fault}")
    assert loops >= least * total


@pytest.mark.parametrize("start", leading(1, range(0, 30, 10)))
def test_random_programs(start: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(range(start, start + 10), monkeypatch, 0.5)


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 1400, 50))
def test_many_random_programs(first: int, monkeypatch: pytest.MonkeyPatch) -> None:
    check(range(first, first + 50), monkeypatch, 0.7)
