"""Random functions as users write them, beside NumPy; each with its loops rolled and unrolled."""

from __future__ import annotations

from functools import partial

import pytest

from tests.random_python.derived import Smooth, judged_batch, judged_derivative
from tests.random_python.judge import Verdict, fails_alike, judged
from tests.random_python.reduce import reduced
from tests.random_python.wider import Wider
from tests.random_python.writer import Writer
from tests.sweeps import leading

CHUNK = 6


def check(seeds: range, *, code: bool, writer: type[Writer] = Writer) -> None:
    """Every program is answered as by NumPy, or refused; few are."""
    refused = 0
    for seed in seeds:
        text = writer(seed).text()
        cases = range(seed % 20, seed % 20 + 2)
        verdict = judged(text, cases, code=code)
        refused += verdict.kind == "refused"
        if verdict.kind == "differs":
            fails = partial(fails_alike, seeds=cases, code=code, fault=verdict.fault)
            small = reduced(text, fails)
            pytest.fail(f"seed {seed}: {judged(small, cases, code=code).detail}\n{small}")
    assert refused <= max(2, len(seeds) // 4)


@pytest.mark.parametrize("first", leading(1, range(0, 4 * CHUNK, CHUNK)))
def test_traced_programs(first: int) -> None:
    check(range(first, first + CHUNK), code=False)


def test_compiled_programs() -> None:
    check(range(1000, 1003), code=True)


def test_programs_with_further_constructs() -> None:
    check(range(4000, 4006), code=False, writer=Wider)


def check_derived(seeds: range) -> None:
    """Gradients are those that differences show; a batch is its examples one by one."""
    kinds: list[str] = []
    for seed in seeds:
        text = Smooth(seed).text()
        for judge in (judged_derivative, judged_batch):
            verdict = judge(text, seed % 20)
            kinds.append(verdict.kind)
            assert verdict.kind != "differs", f"seed {seed}: {verdict.detail}\n{text}"
    assert kinds.count("same") > len(kinds) // 3


def test_derivatives_and_batches() -> None:
    check_derived(range(6))


@pytest.mark.slow
@pytest.mark.parametrize("first", range(1000, 2000, 100))
def test_many_derivatives_and_batches(first: int) -> None:
    check_derived(range(first, first + 100))


@pytest.mark.slow
@pytest.mark.parametrize("writer", [Writer, Wider])
@pytest.mark.parametrize("first", range(2000, 4000, 100))
def test_many_programs(first: int, writer: type[Writer]) -> None:
    check(range(first, first + 100), code=False, writer=writer)


def test_a_fault_is_reduced() -> None:
    """A program that is said to fail wherever it divides keeps the division alone."""
    lines = ["def f(x):", "    a = 1", "    for i in range(3):", "        a = a / (x + i)"]
    text = "\n".join([*lines, "    return a", ""])
    assert len(reduced(text, lambda t: "/" in t).splitlines()) <= 3


def test_what_the_judge_sees() -> None:
    """Not only values: what is printed, stored and raised."""
    head = "def f(x, y, A, s, n):\n    "
    for body in ("return s", "x[0] = 2.0", "print(n)", "raise KeyError"):
        assert judged(f"{head}{body}\n", range(2), code=False) == Verdict("same")


FOUND = {
    "behind a try": """def f(x, y, A, s, n):
    for c in x:
        if n < 0.3:
            raise RuntimeError
    try:
        if s:
            s = s + 1
    finally:
        n += 1
    w = y[n]
    return w
""",
    "each trip raises": """def f(x, y, A, s, n):
    for k in range(n):
        x[4] = k
    with np.errstate(all="ignore"):
        if s:
            s += 1
    return s
""",
    "loops behind a loop that raises": """def f(x, y, A, s, n):
    j = 2
    while n:
        b = A[3, n]
    A *= 0.5
    if True:
        k = 0
        while k < 3:
            k += 1
            j = n + 1
    return j
""",
    "a parallel loop behind an error": """def f(x, y, A, s, n):
    for k in range(2):
        for i in mlc.prange(len(x)):
            if x[i] > s:
                x[i] = i * s
        try:
            if any(x > 1):
                raise ValueError
        except ValueError:
            s = 2.0
    return x
""",
    "parts of places that call": """def f(x, y, A, s, n):
    def g(z):
        print('g', z)
        if z > 2:
            raise ValueError(z)
        return z
    x[::-1][g(n) % 4] += g(n * 2)
    A.T[g(0):].reshape(4, 3)[g(1)][0], y[g(2)] = g(n - 1), g(n)
    A.reshape(4, 3).T[0] += 1
    return g(s)
""",
    "all trips go on": """def f(x, y, A, s, n):
    assert s, 'not so'
    for k in range(7):
        if n:
            continue
        continue
        return k
    return x
""",
    "an error that may be caught": """def f(x, y, A, s, n):
    if all(e > 0 for e in x):
        raise KeyError
    try:
        p = x[n]
    except ZeroDivisionError:
        p = 3
    return p
""",
    "an argument that a branch hands on": """def f(x, y, A, s, n):
    M = A * 1
    if n > 2:
        M[0] = x
    M[2] = 0.5
    return M
""",
    "a constant that a branch hands on": """def f(x, y, A, s, n):
    M = np.arange(12.0).reshape(3, 4)
    if n > 2:
        M = M + s
    M[2] = x
    return M
""",
    "an array that is written later hands on": """def f(x, y, A, s, n):
    v = x * 1.0
    M = A * 1
    for k in range(n):
        x[k:] = M[1, k]
        M[1][:] = M.sum(0) * 0.2
    return v, M
""",
    "lists that += makes longer": """def f(x, y, A, s, n):
    G, H = [], [s]
    while len(G) < 9:
        G += [s]
        if n > 2:
            G += [e for e in x if e > 0] + H
    for k in range(n):
        H += [s * k, s]
        H.extend([s])
    return G, H
""",
    "errors of branches inside a try": """def f(x, y, A, s, n):
    z = 0
    for k in range(n):
        try:
            if k > 2:
                np.zeros(3) + np.zeros(4)
            z += 1
            if k > 1:
                int('z')
            z += 1
        except (TypeError, ValueError):
            z += 10
    return z
""",
    "raise in a try that catches it": """def f(x, y, A, s, n):
    z, k = 0, 0
    try:
        while True:
            k += 1
            try:
                if x[k % 4] > 0:
                    raise ValueError(f'{k} of {n}')
                z += 1
                assert s < 0
            except ValueError as error:
                z += 10
                print(error)
            except AssertionError:
                z += 100
            if k > n:
                raise StopIteration
    except StopIteration:
        x[0] = z
    return z
""",
    "is True": """def f(x, y, A, s, n):
    t = s > 0
    return t is True, False is t, t is None, t is not False, x[0] is True
""",
    "lists whose first trip adds more": """def f(x, y, A, s, n):
    G, H = [], []
    for k in range(4):
        for e in range(2):
            if G:
                G.pop()
        G.insert(0, s)
        H.append(s * k)
    return G, len(G), H, len(H)
""",
    "patterns of numbers and constants": """def f(x, y, A, s, n):
    z = 0
    for k in range(4):
        match [k, None, {'a': True}]:
            case [0 | 2, None, _]:
                z += 1
            case [True, None, {'a': float()}] | [1.5, *_]:
                z += 20
            case [int(e), _, {'a': True}]:
                z += e * 10
    return z
""",
    "what is no iterable": """def f(x, y, A, s, n):
    if n > 3:
        x[0] = 5.0
        for k in 5:
            x[1] = k
    return x
""",
    "errors that are printed": """def f(x, y, A, s, n):
    try:
        print(x[7])
    except IndexError as error:
        print(error, f'is {error}')
    try:
        raise KeyError(3)
    except KeyError as error:
        print(error)
    return n
""",
    "the first of some": """def f(x, y, A, s, n):
    a = next((e for e in x if e > 1), 0.5)
    b = next((k for k in range(n) if x[k % 4] > 0.3), None)
    c = next(e * k for k in range(4) for e in x if k > e > n - 4)
    return a, b, c
""",
    "patterns of series": """def f(x, y, A, s, n):
    L = [x[0], s, x[1]]
    z, r = 5.0, None
    match L:
        case [0.5, *_]:
            r = 1
        case [z, *rest] if z > 0:
            r = len(rest)
        case [a, b, c]:
            r = a + b
    return z, r
""",
    "patterns of a number": """def f(x, y, A, s, n):
    match n:
        case 0:
            return 'none', 0
        case 1 | 2:
            r = x[0]
        case k if k > 3:
            r = x[1] * k
        case _:
            r = s
    return 'some', r
""",
    "patterns in a loop": """def f(x, y, A, s, n):
    t = 0
    u = 0.0
    for v in x:
        match (v > 0, n % 2):
            case (True, 0):
                t += 1
            case (True, m):
                t += 10 + m
                continue
            case (_, 1) if v < -1:
                break
            case _:
                t -= 1
        u += v
    return t, u
""",
    "patterns of a dict": """def f(x, y, A, s, n):
    p = {'k': n, 'w': x[0]}
    match p:
        case {'k': 0, 'w': w}:
            return w
        case {'k': 1 | 3, 'w': float(w)}:
            return w * 2
        case {'q': _}:
            return 0
        case {'k': k}:
            return k, x * k
""",
    "patterns of an object": """def f(x, y, A, s, n):
    class P:
        def __init__(self, a, b):
            self.a = a
            self.b = b
    p = P(n, x[0])
    match p:
        case P(a=0):
            return 0.0
        case P(a=a, b=b) if b > 0:
            return a * b
        case P(c=3):
            return 1.0
        case P(b=b):
            return b
""",
    "a length as a truth value": """def f(x, y, A, s, n):
    j = len(x[x > 0])
    if j:
        return 1
    while not j:
        j += 1
    return 1 if j and n else 2
""",
}
"""What random programs have found."""


@pytest.mark.parametrize("name", FOUND)
def test_found(name: str) -> None:
    verdict = judged(FOUND[name], range(14, 20), code="hands on" in name)
    assert verdict.kind == "same", verdict.detail


MATCHED = """def f(x, y, A, s, n):
    match (n, s > 0):
        case (0, _):
            return 1
        case (k, True):
            return 2
    return 3
"""


def test_a_pattern_does_not_say_of_a_value_that_it_is_another() -> None:
    verdict = judged(MATCHED, range(10, 14), code=False)
    assert verdict.kind == "same", verdict.detail


MAY_BE_ANOTHER = """def f(x, y, A, s, n):
    v = x
    for k in range(n):
        v = A[0]
    x[2] = 5
    return v
"""
WRITTEN_WITH_ANOTHER = """def f(x, y, A, s, n):
    v = x
    while n > 0:
        v = A[0] * 2
        n -= 1
    v += 1
    return x
"""
BY_MISTAKE_ALONE = """def f(x, y, A, s, n):
    for t in range(n):
        v = x
        for k in range(n):
            v = v * 0.5
        if x[0] > 1:
            v = x + 1
        x[:] = v
    return x
"""


def test_after_a_loop_a_variable_may_be_the_array_that_it_was() -> None:
    for text in (MAY_BE_ANOTHER, WRITTEN_WITH_ANOTHER):
        verdict = judged(text, range(14, 16), code=False)
        assert verdict.kind == "refused", verdict.detail
        assert "the same" in verdict.detail
    verdict = judged(BY_MISTAKE_ALONE, range(14, 20), code=False)
    assert verdict.kind == "same", verdict.detail
