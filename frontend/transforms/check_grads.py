"""`mlc.check_grads`: derivatives against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from mlc.dialects.dtypes import numpy_dtype
from mlc.frontend.trace.containers import flatten, leaf_names, unflatten
from mlc.frontend.trace.subprogram import Transformed, traced
from mlc.frontend.transforms.derivative_arguments import check_callable
from mlc.frontend.transforms.derivatives import jvp, vjp

MODES = ("fwd", "rev")
Array = NDArray[Any]


def check_grads(
    f: Callable[..., Any],
    args: Sequence[Any],
    order: int = 2,
    modes: Sequence[str] = MODES,
    atol: float | None = None,
    rtol: float | None = None,
    eps: float | None = None,
) -> None:
    """
    AssertionError unless the derivatives of `f` at `args` fit its differences, up to `order`.

    Forward mode ("fwd"): J v against the central difference of step `eps` along a random v.
    Reverse mode ("rev"): ⟨Jᵀ u, v⟩ against ⟨u, difference⟩, of complex numbers the real parts.
    Higher orders check the derivatives in the same way.
    Step and tolerances follow from the dtype unless they are given: the step is the cube root of
    its precision, where truncation (of order eps²) and rounding are equal. `args` are arrays,
    floats, or containers of them; integers stay as they are.
    """
    check_callable("check_grads", f)
    unknown = [mode for mode in modes if mode not in MODES]
    if unknown or order < 1:
        raise ValueError(f"mlc.check_grads: order={order}, modes={modes!r}; expected {MODES}")
    _Check(np.random.default_rng(0), atol, rtol, eps).run(f, tuple(args), order, modes, "")


class _Check:
    def __init__(
        self,
        rng: np.random.Generator,
        atol: float | None,
        rtol: float | None,
        eps: float | None,
    ) -> None:
        self.rng, self.atol, self.rtol, self.eps = rng, atol, rtol, eps

    def run(
        self,
        f: Callable[..., Any],
        args: tuple[Any, ...],
        order: int,
        modes: Sequence[str],
        above: str,
    ) -> None:
        """Checks the first derivative, and calls itself for derivatives of it."""
        tangents = self.random_like(args)
        outcome, difference = self.difference(f, args, tangents)
        precision = _coarsest((args, outcome))
        if "fwd" in modes:
            pushed = jvp(f, args, tangents)[1]
            names = leaf_names(pushed, "result")
            pairs = zip(flatten(pushed)[0], flatten(difference)[0], strict=True)
            for name, (found, expected) in zip(names, pairs, strict=True):
                what = f"{above}fwd: J v and its difference, {name}"
                self.close(np.asarray(found), np.asarray(expected), precision, what)
        if "rev" in modes:
            cotangent = self.random_like(outcome)
            pulled = vjp(f, *args)[1](cotangent)
            names = ", ".join(leaf_names(args, "args"))
            what = f"{above}rev: ⟨Jᵀ u, v⟩ and ⟨u, difference⟩ for {names}"
            self.close(_dot(pulled, tangents), _dot(cotangent, difference), precision, what)
        if order == 1:
            return
        if "fwd" in modes:
            push = _given(lambda *values: jvp(f, values, tangents)[1], len(args))
            self.run(push, args, order - 1, modes, f"{above}fwd of ")
        if "rev" in modes:
            cotangent = self.random_like(outcome)
            pull = _given(lambda *values: vjp(f, *values)[1](cotangent), len(args))
            self.run(pull, args, order - 1, modes, f"{above}rev of ")

    def difference(
        self, f: Callable[..., Any], args: tuple[Any, ...], tangents: tuple[Any, ...]
    ) -> tuple[Any, Any]:
        """The result, and its central difference along the tangents in double precision."""
        step = self.eps or _coarsest(args) ** (1 / 3)
        run = Transformed(f, lambda *values: traced(f, *values))
        outcome = run(*args)
        low, high = (flatten(run(*_moved(args, tangents, sign * step)))[0] for sign in (-1.0, 1.0))
        found: list[Any] = []
        for x, y in zip(low, high, strict=True):
            wide = np.result_type(np.asarray(x).dtype, np.float64)
            found.append((np.asarray(y, wide) - np.asarray(x, wide)) / (2 * step))
        return outcome, unflatten(flatten(outcome)[1], found)

    def close(self, found: Array, expected: Array, precision: float, what: str) -> None:
        """AssertionError unless the arrays are equal within the tolerances."""
        atol = 20 * precision ** (1 / 3) if self.atol is None else self.atol
        rtol = 20 * precision ** (1 / 3) if self.rtol is None else self.rtol
        wide = np.result_type(np.asarray(found).dtype, np.float64)
        np.testing.assert_allclose(
            np.asarray(found, wide), expected, atol=atol, rtol=rtol, err_msg=what
        )

    def random_like(self, value: Any) -> Any:
        """Directions: normal numbers for floats, nothing for the rest."""
        leaves, structure = flatten(value)
        return unflatten(structure, [self._direction(x) for x in leaves])

    def _direction(self, leaf: Any) -> Any:
        x: Array = np.asarray(leaf)
        if not _inexact(x):
            return np.zeros_like(x) if x.dtype.kind in "biu" else leaf
        drawn: Array = np.asarray(self.rng.standard_normal(x.shape))
        if x.dtype.kind == "c":
            drawn = drawn + 1j * self.rng.standard_normal(x.shape)
        made = drawn.astype(x.dtype)
        return float(made) if type(leaf) is float else made


def _given(f: Callable[..., Any], count: int) -> Callable[..., Any]:
    """A function of `count` arguments: compiled functions have named ones."""
    names = ", ".join(f"x{k}" for k in range(count))
    made: Any = eval(f"lambda {names}: f({names})", {"f": f})
    return made


def _inexact(x: Array) -> bool:
    try:
        return numpy_dtype(x.dtype).is_inexact
    except TypeError:
        return False


def _precision(dtype: Any) -> float:
    """The distance from 1 to the next number."""
    import ml_dtypes

    finfo: Any = ml_dtypes.finfo
    try:
        return float(finfo(dtype).eps)
    except (TypeError, ValueError):
        return float(np.finfo(np.float64).eps)


def _coarsest(value: Any) -> float:
    """The coarsest precision among the arrays of a container."""
    arrays: list[Array] = [np.asarray(x) for x in flatten(value)[0]]
    return max((_precision(x.dtype) for x in arrays if _inexact(x)), default=1e-16)


def _moved(args: Any, tangents: Any, step: float) -> Any:
    leaves, structure = flatten(args)
    pairs = zip(leaves, flatten(tangents)[0], strict=True)
    return unflatten(structure, [_step_by(x, t, step) for x, t in pairs])


def _step_by(leaf: Any, tangent: Any, step: float) -> Any:
    x: Array = np.asarray(leaf)
    if not _inexact(x):
        return leaf
    wide = np.result_type(x.dtype, np.float64)
    moved = (x.astype(wide) + step * np.asarray(tangent, wide)).astype(x.dtype)
    return float(moved) if type(leaf) is float else moved


def _dot(left: Any, right: Any) -> Array:
    """The real part of Σ l r over all arrays of two like containers, without conjugation."""
    total: Array = np.asarray(0.0)
    for x, y in zip(flatten(left)[0], flatten(right)[0], strict=True):
        if _inexact(np.asarray(x)):
            wide = np.result_type(np.asarray(x).dtype, np.float64)
            total = total + np.sum(np.asarray(x, wide) * np.asarray(y, wide))
    return np.real(total)
