"""Loops whose trips run at once: their values on any number of threads, and what is refused."""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false
# pyright: reportPossiblyUnboundVariable=false

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import f64
from xdsl.ir import Block, SSAValue

import mlc
from mlc.dialects.analysis.dependence import trips_together
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.tensor.control import ForOp
from mlc.dialects.tensor.placing import DynamicSliceOp, DynamicUpdateOp
from mlc.frontend.trace.containers import flatten
from mlc.passes.tensor.derivative.emit import Emitter

A = np.arange(60.0).reshape(12, 5) % 7 + 0.5


def rows(x: Any) -> Any:
    """Elements at a place of the trip's own, and numbers that trips add up."""
    out = np.zeros(x.shape[0])
    total, product, least, most = 0.0, 1.0, np.inf, -np.inf
    for i in mlc.prange(x.shape[0]):
        t = 0.0
        for j in range(x.shape[1]):
            t += np.sqrt(x[i, j])
            if t > 2:
                total += t
        out[i] = t
        product *= t / 5
        least = min(least, t)
        most = max(most, t)
    return out, total, product, least, most


def interleaved(x: Any) -> Any:
    y = np.zeros((2 * x.shape[0], x.shape[1]))
    for i in mlc.prange(x.shape[0]):
        for j in range(x.shape[1]):
            y[2 * i, j] = x[i, j]
            y[2 * i + 1, x.shape[1] - 1 - j] = -x[i, j]
    return y


def flattened(x: Any) -> Any:
    """Downwards, by steps, at places i m + j."""
    y = np.full(x.shape[0] * x.shape[1], -1.0)
    m = x.shape[1]
    for i in mlc.prange(x.shape[0] - 1, -1, -2):
        for j in range(m):
            y[i * m + j] = x[i, j]
    return y


def in_place(x: Any) -> Any:
    """Parts of a trip's own that are read and written again, and rows that nobody writes."""
    y = x.copy()
    for i in mlc.prange(1, x.shape[0]):
        y[i] = y[i] * 2 + y[0]
        y[i, 1] -= y[i, 0]
    return y


def last_values(x: Any) -> Any:
    """Numbers that are made in each trip are the last one's afterwards."""
    t = -1.0
    s = 0
    for i in mlc.prange(x.shape[0]):
        t = x[i, 0] * 2
        s += i
    return t, s, i


def no_trips(x: Any) -> Any:
    t = 1.5
    for i in mlc.prange(x.shape[0] % 1):
        t += x[i, 0]
    return t


def one_or_another(x: Any) -> Any:
    """Elements of what is one array or another, which a branch decides."""
    y, z = x.copy(), x * 2
    v = y if x[0, 0] > x[1, 1] else z
    w = z if v is y else y
    for i in mlc.prange(x.shape[0]):
        if x[i, 0] > 1:
            v[i, 1] = v[i, 1] * 2 + x[i, 2]
        w[i] += v[i]
    return y, z


def behind_errors(x: Any) -> Any:
    """In trips of which each may raise something after the loop."""
    y, k = x[0] * 1, 0
    for _ in range(2):
        for i in mlc.prange(4):
            if x[i, 0] > 0.3:
                y[i] = x[i, 1] * y[i]
        while any(e > 2 for e in y) and k < 5:
            k += 1
            assert y[0] < 100
    return y, k


def by_columns(x: Any) -> Any:
    out = np.zeros(x.shape[1])
    for j in mlc.prange(x.shape[1]):
        for i in range(x.shape[0]):
            if x[i, j] > 3:
                continue
            out[j] += x[i, j]
    return out


def within_steps(x: Any) -> Any:
    """A parallel loop in one that is not."""
    y = x.copy()
    for _ in range(3):
        z = y.copy()
        for i in mlc.prange(1, x.shape[0] - 1):
            for j in range(x.shape[1]):
                y[i, j] = (z[i - 1, j] + z[i + 1, j]) / 2
    return y


def row_sums(x: Any) -> Any:
    """Sums of rows, which are arrays."""
    total = np.zeros(x.shape[1])
    for i in mlc.prange(x.shape[0]):
        total = total + x[i] * i
    return total


PROGRAMS: list[Callable[[Any], Any]] = [
    rows,
    interleaved,
    flattened,
    in_place,
    last_values,
    no_trips,
    one_or_another,
    behind_errors,
    by_columns,
    within_steps,
    row_sums,
]


@pytest.mark.parametrize("function", PROGRAMS, ids=lambda f: f.__name__)
def test_values_and_bits(function: Any) -> None:
    expected, _ = flatten(function(A))
    bits: set[bytes] = set()
    for threads in (1, 2, 3):
        found, _ = flatten(mlc.compile(threads=threads)(function)(A))
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-13)
        bits.add(b"".join(np.asarray(x).tobytes() for x in found))
    assert len(bits) == 1


@pytest.mark.parametrize("count", [0, 1, 2, 70, 1000])
def test_counts_that_only_the_call_knows(count: int) -> None:
    def sums(x: Any, n: Any) -> Any:
        total, last = 0.0, -1.0
        for i in mlc.prange(n):
            total += x[i]
            last = x[i]
        return total, last

    def by_size(x: Any) -> Any:
        return sums(x, x.shape[0])

    x = np.arange(1000) % 9 + 0.25
    step = mlc.compile(threads=2)(sums)
    assert step(x, np.int64(count)) == sums(x, count)
    sized = mlc.compile(dynamic=True)(by_size)
    assert sized(x[: max(count, 1)]) == sums(x, max(count, 1))


def test_derivatives_and_batches() -> None:
    def loss(x: Any) -> Any:
        total = 0.0
        y = np.zeros(x.shape[0])
        for i in mlc.prange(x.shape[0]):
            y[i] = x[i] * x[i]
            total += y[i] * i
        return total

    x = np.linspace(0.5, 2, 7)
    found = mlc.compile(mlc.grad(loss))(x)
    np.testing.assert_allclose(found, 2 * x * np.arange(7))
    batch = mlc.compile(mlc.vmap(loss))(np.stack([x, -x, 2 * x]))
    np.testing.assert_allclose(batch, [loss(x), loss(x), loss(2 * x)])


def test_is_range_outside() -> None:
    assert mlc.prange(2, 9, 3) == range(2, 9, 3)


# ---- what is refused


def carried(x: Any) -> Any:
    y = np.zeros(12)
    for i in mlc.prange(1, 12):
        y[i] = y[i - 1] + x[i, 0]  # here
    return y


def one_place(x: Any) -> Any:
    y = np.zeros(3)
    for i in mlc.prange(12):
        y[1] = x[i, 0]  # here
    return y


def overlapping(x: Any) -> Any:
    y = np.zeros(13)
    for i in mlc.prange(12):
        y[i] = x[i, 0]  # here
        y[i + 1] = x[i, 1]  # and here
    return y


def by_data(x: Any) -> Any:
    y = np.zeros(13)
    for i in mlc.prange(12):
        y[int(x[i, 0])] = x[i, 0]  # here
    return y


def from_the_end(x: Any) -> Any:
    y = np.zeros(12)
    k = -1 - int(x[0, 0]) % 5
    for i in mlc.prange(12):
        y[i] = y[k] + x[i, 0]  # here
    return y


def recurrence(x: Any) -> Any:
    s = 0.0
    for i in mlc.prange(12):
        s = s * 0.5 + x[i, 0]  # here
    return s


def running(x: Any) -> Any:
    s = 0.0
    y = np.zeros(12)
    for i in mlc.prange(12):
        s += x[i, 0]
        y[i] = s
    return y


REFUSED: dict[Callable[[Any], Any], tuple[str, ...]] = {
    carried: ("meet in one element", "y[i - 1] + x[i, 0]", "another reads it", "Trips 0 and 1"),
    one_place: ("may meet in one element", "y[1] = x[i, 0]  # here"),
    overlapping: ("meet in one element", "# here", "# and here", "Trips 0 and 1"),
    by_data: ("meet in one element", "y[int(x[i, 0])]", "data decide"),
    from_the_end: ("may meet in one element", "y[k] + x[i, 0]", "another reads it"),
    recurrence: ("needs what the one before it leaves", "s * 0.5 + x[i, 0]  # here"),
    running: ("needs what the one before it leaves", "s"),
}


@pytest.mark.parametrize("function", REFUSED, ids=lambda f: f.__name__)
def test_refused(function: Any) -> None:
    with pytest.raises(mlc.ParallelError) as caught:
        mlc.compile(function)(A)
    text = str(caught.value)
    for part in (*REFUSED[function], "range(…)"):
        assert part in text


def test_is_not_left() -> None:
    def early(x: Any) -> Any:
        for i in mlc.prange(x.shape[0]):
            if x[i, 0] > 3:
                return i
        return -1

    with pytest.raises(mlc.NotSupportedError, match="left by break or return"):
        mlc.compile(early)(A)


# ---- loops at random, beside all their places


Places = list[tuple[bool, list[tuple[int, int, int]]]]
"""Whether each access writes, and a, b and c of its place a i + b j + c on each axis."""


def _places_at_random(rng: random.Random) -> list[tuple[int, int, int]]:
    factors = (-2, -1, 0, 1, 1, 2, 3)
    return [(rng.choice(factors), rng.choice((-1, 0, 0, 1)), rng.randint(8, 12)) for _ in range(2)]


def _offsets(
    e: Emitter, i: SSAValue, j: SSAValue, at: list[tuple[int, int, int]]
) -> list[SSAValue]:
    terms = (
        [e.multiply(i, e.integer(f)), e.multiply(j, e.integer(g)), e.integer(h)] for f, g, h in at
    )
    return [e.sum(x) for x in terms]


def _loop(rng: random.Random) -> tuple[ForOp, Places, int]:
    """Four trips over i, and some over j in each, that read and write elements of an array."""
    kind = tensor_type(f64, (Dim.const(64),) * 2)
    cell = tensor_type(f64, (Dim.const(1),) * 2)
    reads = [(False, _places_at_random(rng)) for _ in range(rng.randint(0, 2))]
    places = reads + [(True, _places_at_random(rng)) for _ in range(rng.randint(1, 2))]
    inner = rng.randint(1, 3)
    block = Block(arg_types=[kind])
    b = Emitter(block)

    def trip(e: Emitter, i: SSAValue, j: SSAValue, array: SSAValue) -> list[SSAValue]:
        value = e.number(1.0, cell)
        for writes, at in places:
            offsets = _offsets(e, i, j, at)
            if writes:
                array = e(DynamicUpdateOp, array, value, *offsets)
            else:
                value = e(DynamicSliceOp, array, *offsets, declared=cell)
        return [array]

    def outer(e: Emitter, i: SSAValue, carried: list[SSAValue]) -> list[SSAValue]:
        return e.loop(e.integer(inner), carried, lambda e, j, x: trip(e, i, j, *x))

    (made,) = b.loop(b.integer(4), [block.args[0]], outer)
    assert isinstance(made.owner, ForOp)
    return made.owner, places, inner


def _meets(places: Places, inner: int) -> bool:
    """Whether two trips touch one element, which one of them writes."""
    touched: list[dict[bool, set[tuple[int, ...]]]] = []
    for i in range(4):
        found: dict[bool, set[tuple[int, ...]]] = {False: set(), True: set()}
        for j, (writes, factors) in itertools.product(range(inner), places):
            found[writes].add(tuple(f * i + g * j + h for f, g, h in factors))
        touched.append(found)
    return any(
        one[True] & (other[False] | other[True])
        for one, other in itertools.permutations(touched, 2)
    )


def test_random_loops_beside_their_places() -> None:
    rng = random.Random(5)
    right = independent = 0
    for _ in range(800):
        loop, places, inner = _loop(rng)
        meets = _meets(places, inner)
        found = trips_together(loop).conflict is None
        assert not (found and meets), str(loop)
        independent += not meets
        right += found and not meets
    assert independent > 100
    assert right > 0.2 * independent


def test_the_one_element_of_an_array_is_that_of_the_last_trip() -> None:
    def last(x: Any) -> Any:
        kept = np.zeros(1)
        for i in mlc.prange(len(x)):
            kept[0] = x[i]
        return kept

    for count in (0, 1, 7, 200):
        x = np.arange(1.0, count + 1)
        np.testing.assert_array_equal(mlc.compile(last)(x), last(x))


def scattered(v: Any, idx: Any) -> Any:
    """At places that data decide; some elements are read again."""
    out, total = v.copy(), 0.0
    for i in mlc.prange(len(idx), check=True):
        out[idx[i]] = v[i] * 2
        if v[i] > 2:
            out[idx[i]] += 1
            total += out[idx[i]]
    return out, total


def gathered(v: Any, idx: Any) -> Any:
    out = v.copy()
    for i in mlc.prange(len(idx), check=True):
        out[i] = v[i] + 1
        if v[i] > 2:
            out[i] += out[idx[i]]
    return out


def moved_rows(m: Any, idx: Any) -> Any:
    for i in mlc.prange(1, len(idx), check=True):
        m[idx[i]] = m[idx[i]] * 2 + i
        for j in range(m.shape[1]):
            m[idx[i], j] += j
    return m


V, APART, MEET = np.arange(6.0), np.array([3, 1, 0, 5, 4, 2]), np.array([3, 1, 0, 5, 1, 2])


@pytest.mark.parametrize("f", [scattered, moved_rows])
@pytest.mark.parametrize("threads", [1, 2])
def test_places_that_data_decide(f: Any, threads: int) -> None:
    given = np.ones((6, 3)) if f is moved_rows else V
    step: Any = mlc.compile(f, threads=threads)
    found, wanted = flatten(step(given.copy(), APART))[0], flatten(f(given.copy(), APART))[0]
    for x, y in zip(found, wanted, strict=True):
        np.testing.assert_allclose(x, y)
    assert step.lower(given, APART).text("trace").count("mlc.checked") == 1


@pytest.mark.parametrize(
    ("f", "idx", "told"),
    [
        (scattered, MEET, r"Trip 1 writes it here:\n.*\nTrip 4 (reads|writes)"),
        (moved_rows, MEET, r"Trip 0 writes it here:\n.*\nTrip 3 reads it here:\n"),
        (
            gathered,
            MEET,
            r"Trip 1 writes it here:\n.*out\[i\].*\nTrip 4 reads it here:\n.*idx",
        ),
    ],
)
def test_trips_that_meet_at_run_time(f: Any, idx: Any, told: str) -> None:
    given = np.ones((6, 3)) if f is moved_rows else V
    step: Any = mlc.compile(f)
    for function in (step, step.reference):
        x = given.copy()
        with pytest.raises(mlc.ParallelError, match=told):
            function(x, idx)
        np.testing.assert_array_equal(x, given)


def test_what_is_known_is_not_asked() -> None:
    def doubled(x: Any) -> Any:
        out = np.zeros(len(x))
        for i in mlc.prange(len(x), check=True):
            out[i] = 2 * x[i]
        return out

    def shifted(x: Any) -> Any:
        for i in mlc.prange(len(x) - 1, check=True):
            x[i + 1] = x[i]

    assert "select" not in mlc.compile(doubled).lower(V).text("trace")
    np.testing.assert_array_equal(list(mlc.prange(2, 9, 3, check=True)), [2, 5, 8])
    with pytest.raises(mlc.ParallelError, match="Trips 0 and 1 do"):
        mlc.compile(shifted)(V.copy())


def test_derivatives_and_batches_of_checked_trips() -> None:
    def total(v: Any) -> Any:
        out = np.zeros(6)
        for i in mlc.prange(6, check=True):
            out[APART[i]] = v[i] * v[i] * (i + 1)
        return (out * np.arange(6)).sum()

    np.testing.assert_allclose(mlc.grad(total)(V), 2 * V * np.arange(1, 7) * APART)
    rows = np.stack([V, V + 1])
    np.testing.assert_allclose(mlc.vmap(total)(rows), [total(row) for row in rows])
