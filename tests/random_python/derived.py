"""Derivatives and batches of random functions, beside differences and one example after another."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

import mlc
from tests.random_python.judge import Verdict, arguments_of, compiled_text, is_refusal, outcome
from tests.random_python.wider import Wider

STEPS = (1e-6, 3e-6)
"""Of differences; where they do not agree, there is a step or a kink."""


FLOAT32 = 2.0**-22
"""NumPy rounds sin of a float32 otherwise than of an array of them: an ulp each, of up to four."""


class Smooth(Wider):
    """Writes functions of x, A and s that give one number, raise nothing and print nothing."""

    results = (
        "np.sin(a) + np.cos(b) + np.sin(c) + np.sin(v).sum() + np.cos(M).sum() + np.sin(p['q'])"
        " + np.sin(L[0]) + np.sin(box.w).sum()"
    )

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.rare = False

    def text(self) -> str:
        body = super().text().replace("def f(", "def inner(")
        call = "inner(x * 1.0, y * 1, A * 1.0, s * 1.0, n)"
        return f"{body}\ndef f(x, A, s, y, n):\n    return {call}\n"

    def tells(self) -> str:
        return self.scalar()


def judged_derivative(text: str, seed: int) -> Verdict:
    """The gradient along one direction."""
    x, y, A, s, n = arguments_of(seed)
    rng = np.random.default_rng(seed)
    given = x, A, np.float64(s)
    along = tuple(rng.standard_normal(np.shape(z)) for z in given)
    plain = compiled_text(text)

    def moved(step: float) -> Any:
        return [z + step * d for z, d in zip(given, along, strict=True)]

    def value(step: float) -> float:
        found = outcome(plain, (*moved(step), y, n))
        return np.nan if found.error is not None else float(found.result)

    rates = [(value(h) - value(-h)) / (2 * h) for h in STEPS]
    if not np.isclose(*rates, rtol=1e-4, atol=1e-5) or abs(rates[0]) > 1e4:
        return Verdict("rough")
    gradient = mlc.compile(mlc.grad(compiled_text(text), argnums=(0, 1, 2)))
    found = outcome(gradient.reference, (*given, y, n))
    if is_refusal(found.error):
        return Verdict("refused", str(found.error))
    if found.error is not None:
        return Verdict("differs", f"seed {seed}: {found.error!r:.1500}", f"{type(found.error)}")
    rate = sum(np.sum(g * d) for g, d in zip(found.result, along, strict=True))
    if np.isclose(rate, rates[0], rtol=1e-3, atol=1e-4):
        return Verdict("same")
    return Verdict("differs", f"seed {seed}: the rates {rates[0]} and {rate}", "gradient")


def judged_batch(text: str, seed: int) -> Verdict:
    """Three examples at once, and one after another."""
    x, y, A, s, n = arguments_of(seed)
    rng = np.random.default_rng(seed)
    batch = [np.stack([z, -np.asarray(z), rng.standard_normal(np.shape(z))]) for z in (x, A, s)]
    plain = compiled_text(text)
    one = [outcome(plain, (*(z[k] for z in copy.deepcopy(batch)), y, n)) for k in range(3)]
    if any(found.error is not None for found in one):
        return Verdict("rough")
    batched = mlc.compile(mlc.vmap(compiled_text(text), in_axes=(0, 0, 0, None, None)))
    found = outcome(batched.reference, (*batch, y, n))
    if is_refusal(found.error) or "vmap" in str(found.error):
        return Verdict("refused", str(found.error))
    if found.error is not None:
        return Verdict("differs", f"seed {seed}: {found.error!r:.1500}", f"{type(found.error)}")
    wanted = [float(x.result) for x in one]
    if np.allclose(found.result, wanted, rtol=1e-9, atol=FLOAT32, equal_nan=True):
        return Verdict("same")
    return Verdict("differs", f"seed {seed}: {wanted} and {found.result}", "batch")
