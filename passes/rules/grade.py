"""
Whether a rule is true: by exact arithmetic modulo a prime, and on floats, integers and bools.

*Axiomatic*: there is a derivation from the specifications of the ops (`derive.py`), for all sizes.
*Probabilistic*: both sides are equal at random residues, at several sizes. A false rule between
polynomials of degree k passes a test with probability k/p at most (Schwartz 1980, Zippel 1979).
*Tested*: both sides are equal at random and special numbers; that proves nothing, but refutes.
Every rule is tested, as its class says, and tried modulo a prime where it has a meaning there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.op import Array, element_dtype, tensor_of
from mlc.lazy_dataclass import dataclass
from mlc.passes.rules.addends import Addends
from mlc.passes.rules.degrees import degree_of
from mlc.passes.rules.derive import NONE, Derivation, Proofs, UnprovenError, derived, replay
from mlc.passes.rules.instances import Instance, NoInstanceError, instances
from mlc.passes.rules.match import NotTypedError
from mlc.passes.rules.residues import (
    PRIME,
    LargeNumberError,
    Order,
    Residues,
    UnknownError,
    ZeroDivisorError,
    drawn,
    moduli_of,
    redrawn,
)
from mlc.passes.rules.rule import Grade, Rule
from mlc.passes.rules.uniform import is_uniform

Run = Callable[[ModuleOp, Sequence[Array]], Sequence[Array]]
"""Runs a module's function: the reference interpreter."""
TESTS = 2
"""At random residues, of each instance."""
KINDS = {
    "exact": ("special", "ordinary", "special", "whole"),
    "reassociating": ("ordinary", "whole", "positive", "ends", *["an end"] * 4),
    "approximate": ("ordinary", "whole", "positive"),
}
"""Of numbers at which an instance is tried."""
SPECIAL = (
    0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, 1.1754942e-38, 3.4028235e38, 2.5,
)  # fmt: skip
"""Zeros, ones, infinities, NaN, subnormal numbers and the largest f32."""
ENDS = (0.0, -0.0, 1.0, -1.0, 2.5, np.inf, -np.inf, np.nan)
"""Of these sums and products are finite, infinite or NaN in whatever order."""
MOST_DOUBT = 1e-3  # of a rule that is called probabilistic
EXACT_BITS = 20
TOLERANCE = {"reassociating": 2e-5, "approximate": 1e-3}
"""Of the largest element: 16 sums of 2^-24 each, and what approximate rules are allowed."""


@dataclass(frozen=True)
class Verdict:
    """
    What is known of a rule. `grade` is None where it is refuted, and `counterexample` says by what;
    `bound` is on the probability that a probabilistic grade is wrong.
    """

    rule: Rule
    grade: Grade | None
    counterexample: str = ""
    bound: float | None = None
    why_tested: str = ""
    """Why there is no arithmetic modulo a prime."""
    derivations: tuple[tuple[str, tuple[Derivation, ...]], ...] = ()
    """Of the rule and, where it has two ways, of the other one; by their names."""
    why_unproven: str = ""

    def __str__(self) -> str:
        name, grade = self.rule.name, self.grade
        if grade is None:
            return f"{name}: refuted: {self.counterexample}"
        said = f"{name}: {self.rule.equivalence}, {grade.name}"
        if grade.name == "axiomatic":
            known = [d for _, found in self.derivations for d in found]
            steps = sum(len(d.left) + len(d.right) for d in known)
            said += f" by {steps} steps, for all sizes; tried"
        said += f" at {grade.instances} instances"
        if self.bound is not None:
            said += f", degree {grade.degree}, wrong with probability <= {self.bound:.1e}"
        if grade.shapes == "uniform":
            said += ", for all sizes"
        if self.why_tested:
            said += f", not modulo a prime: {self.why_tested}"
        return f"{said}; no derivation: {self.why_unproven}" if self.why_unproven else said


def verify(rule: Rule, run: Run, proofs: Proofs = NONE) -> Verdict:
    """
    A rule's grade, both ways where it has two. `run` is the meaning of programs on arrays; `proofs`
    has derivations by the names of ways: those that hold are not searched. Only rules that were
    found to be sound by `check.faults` can be asked for.
    """
    verdicts = [_one_way(rule, way, run) for way in _ways(rule)]
    for verdict in verdicts:
        if verdict.grade is None:
            return verdict
    verdict = min(verdicts, key=lambda v: v.bound is not None)
    try:
        found = derivations_of(rule, proofs)
    except UnprovenError as error:
        return replace(verdict, why_unproven=str(error))
    assert verdict.grade is not None
    grade = replace(verdict.grade, name="axiomatic", shapes="proven")
    return replace(verdict, grade=grade, derivations=found)


def derivations_of(
    rule: Rule, proofs: Proofs = NONE
) -> tuple[tuple[str, tuple[Derivation, ...]], ...]:
    """Those of all ways of a rule, by the names of these. Raises UnprovenError."""
    found: list[tuple[str, tuple[Derivation, ...]]] = []
    for way in _ways(rule):
        known = proofs.get(way.name)
        holds = known is not None and replay(way, known)
        found.append((way.name, known if known and holds else derived(way)))
    return tuple(found)


def _ways(rule: Rule) -> list[Rule]:
    return [rule, rule.reversed()] if rule.is_two_way else [rule]


def _one_way(rule: Rule, way: Rule, run: Run) -> Verdict:
    try:
        cases = instances(way)
    except (NoInstanceError, NotTypedError) as error:
        return Verdict(rule, None, str(error))
    for case in cases:
        if found := differing_numbers(case, way, run):
            return Verdict(rule, None, f"{found} where {case.text}")
    reasons = {case.text: _unknown(case) for case in cases}
    known = [case for case in cases if reasons[case.text] is None]
    if any(reasons.values()) or not known:
        said = next(filter(None, reasons.values()), "numbers that are all large")
        return Verdict(rule, Grade("tested", len(cases)), why_tested=said)
    orders: tuple[Order, ...] = ("difference", "random")
    for order in orders:
        outcome = _modular(rule, known, order)
        if outcome.counterexample:
            return outcome
        if outcome.grade is not None:
            return _of_class(outcome, known)
    return Verdict(rule, Grade("tested", len(cases)), why_tested="functions that are not just any")


def _of_class(verdict: Verdict, cases: Sequence[Instance]) -> Verdict:
    """A rule that is true, unless its class is more than it keeps over floats."""
    if verdict.rule.equivalence != "reassociating":
        return verdict
    for case in cases:
        run = Addends(1)
        drawn(run, case.arguments, np.random.default_rng(1))
        run.are_single()
        try:
            run.run(case.ops(), case.exact)
        except (UnknownError, ZeroDivisorError):
            continue
        for left, right in case.pairs():
            x, y = run.values[left], run.values[right]
            is_judged = run.last(x) and run.choices == 0 and element_dtype(left).is_inexact
            if is_judged and not np.array_equal(x[..., :2], y[..., :2]):
                said = f"the sides do not add the same products where {case.text}"
                return Verdict(verdict.rule, None, f"{said}; expected class approximate")
    return verdict


# Modulo a prime


def _unknown(case: Instance) -> str | None:
    """
    Why there is no arithmetic modulo a prime for a case; None where there is, empty where it is
    only that its numbers are large.
    """
    try:
        _tested(case, 0, "difference")
    except LargeNumberError:
        return ""
    except UnknownError as error:
        return str(error)
    return None


def _modular(rule: Rule, cases: Sequence[Instance], order: Order) -> Verdict:
    """The verdict of residues; neither a grade nor a counterexample where they cannot tell."""
    degree, branches, samples, tests, modulus = 0, 0, 0, 0, PRIME
    for case in cases:
        case_degree = degree_of(case.ops(), case.arguments, case.pairs())
        degree = max(degree, case_degree)
        for seed in range(TESTS):
            run = _tested(case, seed + 1, order)
            tests += 1
            modulus = min(modulus, *run.moduli.tolist())
            for left, right in case.pairs():
                x, y = run.values[left], run.values[right]
                if run.last(x):  # of pairs the first one is known behind exponentials, too
                    x, y = x[..., 0], y[..., 0]
                if np.array_equal(x, y):
                    continue
                if not run.is_polynomial:
                    return Verdict(rule, None)
                return Verdict(rule, None, f"{_modular_difference(x, y)} where {case.text}")
            branches = max(branches, run.choices)
            samples += int(np.size(run.values[case.values[0]]))
    if degree >= modulus // 2:
        return Verdict(rule, None, f"degree {degree} reaches the prime {modulus}")
    bound = (degree / (modulus - degree)) ** TESTS
    if branches:
        bound += (1 - 0.5**branches) ** samples
    if bound > MOST_DOUBT:
        why = f"{branches} comparisons meet, of which {samples} elements show few cases"
        return Verdict(rule, Grade("tested", len(cases)), why_tested=why)
    uniform = "uniform" if any(map(is_uniform, cases)) and not rule.vectors else "instances"
    grade = Grade("probabilistic", len(cases), degree, tests, uniform)
    return Verdict(rule, grade, bound=bound)


def _tested(case: Instance, seed: int, order: Order) -> Residues:
    """A run at random residues."""
    ops = case.ops()

    def ask(run: Residues) -> Residues:
        run.run(ops, case.exact)
        return run

    run_of = partial(Residues, moduli_of(ops), order=order)
    return redrawn(run_of, seed, case.arguments, np.random.default_rng(seed), ask)


def _modular_difference(x: Array, y: Array) -> str:
    at = _first(x != y)
    return f"left {x[at]} and right {y[at]} modulo {PRIME} at {list(at)}"


# On numbers


def differing_numbers(case: Instance, rule: Rule, run: Run) -> str:
    """A difference that the rule's class does not allow; empty where none was found."""
    half = len(case.values) // 2
    for kind, arrays in _inputs(case, rule):
        try:
            found = run(case.module, arrays)
        except MlcError as error:
            return f"the reference says {error}"
        for left, right in zip(found[:half], found[half:], strict=True):
            if (at := _difference(left, right, rule, kind)) is not None:
                shown = f"left {left[at]!s} and right {right[at]!s} at {list(at)}"
                return f"{shown}{_inputs_at(arrays, left, at)}"
    return ""


def _inputs_at(arrays: Sequence[Array], result: Array, at: tuple[int, ...]) -> str:
    """What elementwise rules read there."""
    if not arrays or any(x.shape != result.shape for x in arrays):
        return ""
    return f" of {', '.join(str(x[at]) for x in arrays)}"


def _inputs(case: Instance, rule: Rule) -> Iterator[tuple[str, list[Array]]]:
    rng = np.random.default_rng(17)
    for kind in KINDS[rule.equivalence]:
        yield kind, [_array(x, kind, rng) for x in case.arguments]


def _array(value: SSAValue, kind: str, rng: np.random.Generator) -> Array:
    """Numbers for an argument: ordinary ones, small whole ones, or those that are special."""
    shape, dtype = tensor_of(value).get_shape(), element_dtype(value)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        if kind in ("whole", "positive"):
            return rng.integers(0, 5, shape).astype(dtype.numpy)
        low, high = int(dtype.lowest), int(dtype.highest)
        found = rng.integers(low, high, shape, np.int64, endpoint=True)
        ends = rng.choice(np.array([low, low + 1, 0, 1, high]), shape)
        return np.where(rng.integers(0, 3, shape) == 0, ends, found).astype(dtype.numpy)
    found = np.empty(shape, dtype.numpy)
    with np.errstate(all="ignore"):
        if dtype.kind == "complex":
            found.real, found.imag = _reals(shape, kind, rng), _reals(shape, kind, rng)
        else:
            found[...] = _reals(shape, kind, rng)
    return found


def _reals(shape: tuple[int, ...], kind: str, rng: np.random.Generator) -> Array:
    if kind == "whole":
        return rng.integers(-4, 5, shape)
    if kind == "special":
        return rng.choice(np.array(SPECIAL), shape)
    if kind == "ends":
        return rng.choice(np.array(ENDS), shape)
    if kind == "an end":  # long sums of many are NaN on either side
        found = rng.integers(-4, 5, shape).astype(float)
        found.flat[rng.integers(found.size, size=min(found.size, 1))] = rng.choice(ENDS)
        return found
    found = np.asarray(rng.standard_normal(shape))
    return np.abs(found) + 0.1 if kind == "positive" else found


def _difference(left: Array, right: Array, rule: Rule, kind: str) -> tuple[int, ...] | None:
    """Where two results differ more than the class allows."""
    differs = left != right
    if left.dtype.kind in "fc":
        nan = np.isnan(left) & np.isnan(right)
        if rule.equivalence == "exact":
            differs = (_bits(left) != _bits(right)) & ~nan
        elif not (kind == "whole" and _is_whole(left) and rule.equivalence == "reassociating"):
            differs = ~_is_close(left, right, rule)
        else:
            differs &= ~nan
    if not differs.any():
        return None
    return _first(differs)


def _first(differs: Array) -> tuple[int, ...]:
    """The first place that is true."""
    return tuple(int(k) for k in np.argwhere(differs)[0])


def _bits(x: Array) -> Array:
    if x.dtype.kind == "c":
        return np.ascontiguousarray(x).view(np.uint64)
    return np.ascontiguousarray(x).view(np.uint32)


def _is_whole(x: Array) -> bool:
    """Whether all are whole numbers whose sums are exact."""
    return bool(np.all((np.abs(x) < 2**EXACT_BITS) & (x == np.rint(x))))


def _is_close(left: Array, right: Array, rule: Rule) -> Array:
    """To a part of the largest element; approximate rules say nothing of numbers out of range."""
    finite = np.isfinite(left) & np.isfinite(right)
    same = np.ones(left.shape, bool)
    if rule.equivalence == "reassociating":
        same = (np.isnan(left) == np.isnan(right)) & (finite | np.isnan(left) | (left == right))
    largest = np.max(np.abs(np.where(finite, left, 0)), initial=1.0)
    with np.errstate(all="ignore"):
        close = np.abs(left - right) <= TOLERANCE[rule.equivalence] * largest
    return same & (close | ~finite)
