"""
Derivatives of every op on every dtype that has one: forward and reverse mode are each other's
adjoint, forward mode is the central difference, and second derivatives do not depend on the order
of the modes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest

from mlc.dialects.dtypes import F64
from mlc.dialects.tensor.library import ROUTINES
from mlc.dialects.tensor.registry import OPS
from tests.derivative_table import DOCUMENT, document, routine_row, row_of
from tests.every_op.cases import Case
from tests.every_op.covering import forms
from tests.every_op.derivatives import (
    central,
    derived,
    differentiable,
    direction,
    eps_of,
    is_wide,
    pairing,
    point,
    single,
)
from tests.every_op.elementwise import creation, elementwise
from tests.every_op.facts import op_of, values_of
from tests.every_op.moving import moving
from tests.every_op.native import Array, compile_plan, signature_of, to_plan
from tests.every_op.ordering import ORDERING
from tests.every_op.reducing import UNUSUAL, contraction, contractions, reductions
from tests.every_op.shapes import SHAPE_CLASSES, ShapeClass
from tests.every_op.windows import WINDOWED


def _elementwise(c: ShapeClass) -> Iterable[Case]:
    return elementwise(c.dims("m", "n"))


def _unusual(c: ShapeClass) -> Iterable[Case]:
    return [contraction(c, text, F64) for text in UNUSUAL]


ODD = next(c for c in SHAPE_CLASSES if c.name == "odd")
FAMILIES: dict[str, Callable[[ShapeClass], Iterable[Case]]] = {
    "elementwise": _elementwise,
    "moving": moving,
    "reductions": reductions,
    "contractions": contractions,
    "unusual": _unusual,
    "creation": creation,
    **ORDERING,
    **WINDOWED,
}
TURNED = ("svd_full", "svd_reduced", "eigh_lower", "eigh_upper")
"""Their complex vectors have a phase that LAPACK chooses: tested where it does not matter."""


def _cases(family: str) -> list[Case]:
    return [case for case in FAMILIES[family](ODD) if differentiable(case)]


def _rng(case: Case) -> np.random.Generator:
    return np.random.default_rng(list(str(case).encode()))


def _phase_is_free(case: Case) -> bool:
    return case.label in TURNED and op_of(case).dtype.kind == "complex"


EVERY_DTYPE = [False, pytest.param(True, marks=pytest.mark.slow)]
"""Every run has each form of an op, each kind of dtype with each op, and each dtype."""


@pytest.mark.parametrize("all_cases", EVERY_DTYPE, ids=["forms", "all"])
@pytest.mark.parametrize("family", FAMILIES)
def test_forward_and_reverse_mode_are_adjoint(family: str, all_cases: bool) -> None:
    """Re sum(u * J v) = Re sum(J^T u * v), in every dtype, and in each operand alone."""
    faults: list[str] = []
    for case in _cases(family) if all_cases else forms(_cases(family)):
        rng, floats = _rng(case), differentiable(case)
        module, at = single(case), point(rng, case)
        for wrt in [floats, *([k] for k in floats if len(floats) > 1)]:
            v = [direction(rng, case, at[k]) for k in wrt]
            y, moved = values_of(derived(module, "forward", wrt), [*at, *v], {})
            u = direction(rng, case, y)
            _, *back = values_of(derived(module, "reverse", wrt), [*at, u], {})
            for x, found in zip((at[k] for k in wrt), back, strict=True):
                assert (found.shape, found.dtype) == (x.shape, x.dtype), case
            (left, size), (right, other) = pairing([u], [moved]), pairing(back, v)
            if not abs(left - right) <= 64 * eps_of(case) * (size + other):
                faults.append(f"{case} {wrt}: {left} and {right}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("family", FAMILIES)
def test_forward_mode_is_the_central_difference(family: str) -> None:
    faults: list[str] = []
    for case in _cases(family):
        if not is_wide(case) or _phase_is_free(case) or op_of(case).NO_DERIVATIVE:
            continue
        rng, wrt = _rng(case), differentiable(case)
        module, at = single(case), point(rng, case)
        v = [direction(rng, case, at[k]) for k in wrt]
        _, moved = values_of(derived(module, "forward", wrt), [*at, *v], {})
        want = central(module, at, dict(zip(wrt, v, strict=True)))
        error = np.max(np.abs(moved - want), initial=0.0)
        if not error <= 1e-6 * (1 + np.max(np.abs(want), initial=0.0)):
            faults.append(f"{case}: {error}")
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize("all_cases", EVERY_DTYPE, ids=["forms", "all"])
@pytest.mark.parametrize("family", FAMILIES)
def test_second_derivatives_do_not_depend_on_the_order_of_modes(
    family: str, all_cases: bool
) -> None:
    """The gradient of sum(u * J v) is the derivative of J^T u along v."""
    faults: list[str] = []
    wide = [case for case in _cases(family) if is_wide(case) and not _phase_is_free(case)]
    for case in wide if all_cases else forms(wide):
        rng, wrt = _rng(case), differentiable(case)
        module, at = single(case), point(rng, case)
        v = [direction(rng, case, at[k]) for k in wrt]
        forward, reverse = (derived(module, mode, wrt) for mode in ("forward", "reverse"))
        y, _ = values_of(forward, [*at, *v], {})
        u = direction(rng, case, y)
        _, _, *left = values_of(derived(forward, "reverse", wrt), [*at, *v, 0 * u, u], {})
        both = values_of(derived(reverse, "forward", wrt), [*at, u, *v], {})
        for x, z in zip(left, both[len(wrt) + 2 :], strict=True):
            error = np.max(np.abs(x - z), initial=0.0)
            if not error <= 1e-9 * (1 + np.max(np.abs(x), initial=0.0)):
                faults.append(f"{case}: {error}")
    assert not faults, "\n".join(faults)


SAMPLE = {
    "mlc.exp": "",
    "mlc.reduce": "prod mn->m",
    "mlc.scan": "prod mn 1 forward inclusive",
    "mlc.sort": "ascending ties 2",
    "mlc.scatter": "max 0n,k->kn",
    "mlc.window": "max ac(u+i)->acu",
    "mlc.conv": "ac(u+i),fci->afu",
    "mlc.library": "svd_reduced",
    "mlc.gather": "0n,k->kn",
    "mlc.magnitude": "",
}


@pytest.mark.parametrize("name", SAMPLE)
def test_compiled_derivatives_are_those_of_the_interpreter(name: str) -> None:
    cases = [case for family in FAMILIES for case in _cases(family) if is_wide(case)]
    case = next(c for c in cases if c.op.name == name and c.label == SAMPLE[name])
    rng, wrt = _rng(case), differentiable(case)
    at = point(rng, case)
    for mode in ("forward", "reverse"):
        module = derived(single(case), mode, wrt)
        like = values_of(single(case), at, {}) if mode == "reverse" else [at[k] for k in wrt]
        inputs = [*at, *(direction(rng, case, x) for x in like)]
        want = values_of(module, inputs, {})
        found = compile_plan(to_plan(module.clone()), signature_of(module))(*inputs)
        for x, z in zip(found, want, strict=True):
            np.testing.assert_allclose(x, z, rtol=1e-10, atol=1e-10)


def test_every_op_states_where_its_derivative_is_from() -> None:
    """A derivative for each op with floats; a reason for each other one, and a case for both."""
    covered = {case.op for family in FAMILIES for case in FAMILIES[family](ODD)}
    for op in OPS:
        facts = ("transpose", "partials", "jvp")
        assert op.NO_DERIVATIVE or any(op.states(fact) for fact in facts), op.name
        assert op in covered, op.name


def test_the_table_of_ops_and_modes_is_up_to_date() -> None:
    """No empty cell; `python -m tests.derivative_table` writes it anew."""
    for op in OPS:
        assert all(row_of(op)), op.name
    assert all(all(routine_row(name)) for name in ROUTINES)
    assert DOCUMENT.read_text() == document()


@pytest.mark.parametrize("routine", TURNED)
def test_complex_vectors_where_their_phase_does_not_matter(routine: str) -> None:
    """V exp(w) V^H, and U exp(S) V^H: functions of the matrix."""
    case = next(
        c for c in _cases("routines") if c.label == routine and op_of(c).dtype.name in ("c128",)
    )
    rng = _rng(case)
    (a,) = point(rng, case)
    da = direction(rng, case, a)
    module = single(case)
    y, dy = values_of(derived(module, "forward", [0]), [a, da], {})
    n, h = a.shape[-1], 1e-6

    def parts(found: Array) -> list[Array]:
        lead = found.shape[:-1]
        matrix = (*lead, n, n)
        if routine.startswith("eigh"):
            return [found[..., n:].reshape(matrix), found[..., :n]]
        at = n * n
        return [
            found[..., :at].reshape(matrix),
            found[..., at : at + n],
            found[..., at + n :].reshape(matrix),
        ]

    def function(found: Array) -> Array:
        u, s, *rest = parts(found)
        right = rest[0] if rest else np.conj(np.swapaxes(u, -1, -2))
        return u * np.exp(s)[..., None, :] @ right

    (high,), (low,) = (values_of(module, [a + s * h * da], {}) for s in (1, -1))
    want = (function(high) - function(low)) / (2 * h)
    found = (function(y + h * dy) - function(y - h * dy)) / (2 * h)
    np.testing.assert_allclose(found, want, rtol=1e-5, atol=1e-5 * np.max(np.abs(want)))
