"""
What is compared: values, dtypes, changed arguments, printed text and classes of exceptions; and
bits, of loops that stay loops and the same trip by trip.
"""

from __future__ import annotations

import copy
import io
import linecache
import math
import re
import signal
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, redirect_stdout
from itertools import count
from typing import Any

import numpy as np

import mlc
from mlc.dialects.errors import CompilerBug, DTypeError
from mlc.frontend.errors import ConcretizationError, NotSupportedError
from mlc.frontend.staging import loops, trials, tried, whiles
from mlc.frontend.trace.containers import flatten
from mlc.lazy_dataclass import dataclass

_numbers = count()
Arguments = tuple[Any, ...]
SECONDS = 2
"""That NumPy may take: a program without its `break` runs for ever."""


def compiled_text(text: str) -> Callable[..., Any]:
    """The function of a program's text, which errors and the compiler can read."""
    name = f"<random program {next(_numbers)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    space: dict[str, Any] = {"np": np, "mlc": mlc, "__name__": "random_program"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(text, name, "exec"), space)
    return space["f"]


def arguments_of(seed: int) -> Arguments:
    """x, y, A, s and n; every second s and n are Python's."""
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((3, 8))[:, ::2] if seed % 3 == 0 else rng.standard_normal((3, 4))
    s, n = rng.standard_normal(), seed % 5
    y = rng.integers(-3, 7, 4)
    x = rng.standard_normal(8)[::-2] if seed % 4 == 1 else rng.standard_normal(4)
    return (x, y, A, float(s), n) if seed % 2 else (x, y, A, np.float64(s), np.int64(n))


@contextmanager
def rolling(always: bool) -> Generator[None]:
    """Loops of a known number of trips stay loops wherever that is possible; or nowhere."""
    few, most = (1, -1) if always else (10**9, 10**9)
    changed = [(loops, "MANY", few), (loops, "FEW", few), (loops, "MOST_SHORT", most)]
    changed += [(tried, "FEW", 2 * few), (tried, "MOST_SHORT", most), (whiles, "MANY", few)]
    changed += [(trials, x, most) for x in ("MOST_OPS", "MOST_OPS_INSIDE", "MOST_OF_FEW")]
    before = [getattr(module, name) for module, name, _ in changed]
    try:
        for module, name, value in changed:
            setattr(module, name, value)
        yield
    finally:
        for (module, name, _), value in zip(changed, before, strict=True):
            setattr(module, name, value)


@dataclass(frozen=True)
class Outcome:
    """What a call gives, prints and leaves."""

    result: Any
    error: Exception | None
    printed: str
    arguments: Arguments


def outcome(function: Callable[..., Any], arguments: Arguments) -> Outcome:
    """Of one call."""
    given, out = copy.deepcopy(arguments), io.StringIO()
    result, error = None, None
    with warnings.catch_warnings(), np.errstate(all="ignore"), redirect_stdout(out):
        warnings.simplefilter("ignore")
        try:
            result = function(*given)
        except Exception as found:  # noqa: BLE001 - whichever it raises is the answer
            error = found
    return Outcome(result, error, out.getvalue(), given)


@dataclass(frozen=True)
class Verdict:
    """What became of a program: "same", "refused" or "differs"; `fault`: in which kind of thing."""

    kind: str
    detail: str = ""
    fault: str = ""


class Endless(BaseException):
    """A program runs too long."""


@contextmanager
def _limited() -> Generator[None]:
    def stop(*_: object) -> None:
        raise Endless

    before = signal.signal(signal.SIGALRM, stop)
    signal.alarm(SECONDS)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def judged(text: str, seeds: range, *, code: bool, only: str = "") -> Verdict:
    """One function, compiled both ways, in calls one after another."""
    plain = compiled_text(text)
    ways = {
        way: mlc.compile(compiled_text(text), numerics="strict")
        for way in ("rolled", "unrolled")
        if only in ("", way)
    }
    refused = ""
    for seed in seeds:
        arguments = arguments_of(seed)
        with _limited():
            wanted = outcome(plain, arguments)
        if isinstance(wanted.error, NameError):
            return Verdict("same")  # what reduces programs has taken a name away
        found: dict[str, Outcome] = {}
        for way, step in ways.items():
            with rolling(way == "rolled"):
                given = outcome(step if code else step.reference, arguments)
            if is_refusal(given.error) and type(wanted.error) is not type(given.error):
                refused = f"{way}: {given.error}"
                continue
            found[way] = given
            if problem := different(wanted, given):
                return Verdict("differs", f"seed {seed}, {way}: {problem}", _fault(problem))
        if len(found) == 2 and (problem := _bits(*found.values())):
            return Verdict("differs", f"seed {seed}, rolled and unrolled: {problem}", "bits")
    return Verdict("refused", refused) if refused else Verdict("same")


def is_refusal(error: Exception | None) -> bool:
    """A clear error that says what the compiler has not."""
    if isinstance(error, DTypeError):
        return "in one branch" in str(error)
    return isinstance(error, NotSupportedError | ConcretizationError)


def _fault(problem: str) -> str:
    """What stays of a difference when the program becomes smaller: errors and kinds, no numbers."""
    kinds = re.findall(r"[A-Za-z]+(?:Error|Bug)\W+[a-z ]{0,30}|float\d+|int\d+|printed", problem)
    return " ".join(["values", *kinds[:3]])


def fails_alike(text: str, seeds: range, code: bool, fault: str) -> bool:
    """Whether a smaller program shows the same kind of difference."""
    try:
        return judged(text, seeds, code=code).fault == fault
    except (Exception, Endless):  # noqa: BLE001 - it is no program any more
        return False


def different(wanted: Outcome, given: Outcome) -> str:
    """In what the second differs from what the first says; empty if in nothing."""
    if wanted.error is not None or given.error is not None:
        if not _same_class(wanted.error, given.error):
            return f"{wanted.error!r:.200} and {given.error!r:.1500}"
    elif problem := _values(wanted.result, given.result, "result"):
        return problem
    if not _same_text(wanted.printed, given.printed):
        return f"printed {wanted.printed!r} and {given.printed!r}"
    return _values(wanted.arguments, given.arguments, "arguments")


def _same_class(wanted: Exception | None, given: Exception | None) -> bool:
    if wanted is None or given is None or isinstance(given, CompilerBug):
        return False
    kind = next(c for c in type(wanted).__mro__ if c.__module__ == "builtins")
    return isinstance(given, kind)


_NUMBER = re.compile(r"-?\d+\.?\d*(?:e[+-]?\d+)?|nan|inf")


def _same_text(wanted: str, given: str) -> bool:
    """But for the last digits of numbers."""
    if _NUMBER.sub("#", wanted) != _NUMBER.sub("#", given):
        return False
    pairs = zip(_NUMBER.findall(wanted), _NUMBER.findall(given), strict=True)
    return all(
        x == y or math.isclose(float(x), float(y), rel_tol=1e-9, abs_tol=1.01e-3) for x, y in pairs
    )


def _values(wanted: Any, given: Any, where: str) -> str:
    """Containers leaf by leaf."""
    (ours, kind), (theirs, other) = flatten(wanted), flatten(given)
    if kind != other:
        return f"{where}: {wanted} and {given}"
    found = (
        _leaf(x, y, f"{where}, leaf {k}") for k, (x, y) in enumerate(zip(ours, theirs, strict=True))
    )
    return next(filter(None, found), "")


def _leaf(wanted: Any, given: Any, where: str) -> str:
    if wanted is None or given is None or isinstance(wanted, str):
        return "" if wanted == given else f"{where}: {wanted!r} and {given!r}"
    x, y = np.asarray(wanted), np.asarray(given)
    if x.dtype.kind not in "biufc":
        return "" if np.array_equal(x, y) else f"{where}: {x!r} and {y!r}"
    if x.dtype != y.dtype:
        return f"{where}: {x.dtype} and {y.dtype}"
    if x.shape != y.shape:
        return f"{where}: {x.shape} and {y.shape}"
    if not np.allclose(x, y, rtol=1e-9 if x.dtype != np.float32 else 1e-5, equal_nan=True):
        return f"{where}: {x} and {y}"
    return ""


def _bits(rolled: Outcome, unrolled: Outcome) -> str:
    """In what two ways of one program differ."""
    if rolled.error is not None:
        return ""
    pairs = zip(flatten(rolled.result)[0], flatten(unrolled.result)[0], strict=True)
    for k, (one, other) in enumerate(pairs):
        x, y = np.asarray(one), np.asarray(other)
        numbers = x.dtype == y.dtype and x.dtype.kind in "biufc"
        if numbers and not np.array_equal(x, y, equal_nan=True):
            return f"bits of leaf {k}: {x} and {y}"
    return ""
