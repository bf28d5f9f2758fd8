"""
Programs whose gradients were computed by JAX, kept in `tests/data/jax_gradients.json`.

    python -m tests.jax_programs        # in an environment with JAX: writes that file anew

Each is written for a namespace like NumPy's and for what both libraries name alike: `scan`, `vmap`,
`grad`, `cond`. It takes a container of arrays and gives one number.
"""

from __future__ import annotations

import functools
import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parent / "data" / "jax_gradients.json"
DTYPES = ("float32", "float64")


@dataclass(frozen=True)
class Library:
    """What a program may use."""

    np: Any
    scan: Callable[..., Any]
    vmap: Callable[..., Any]
    grad: Callable[..., Any]
    cond: Callable[..., Any]


def max_ties(m: Library, x: Any) -> Any:
    """Of several largest elements each gets its part."""
    return (m.np.max(x["ties"], axis=1) ** 2).sum() + m.np.min(x["ties"]) * 3


def maximum_ties(m: Library, x: Any) -> Any:
    return (m.np.maximum(x["ties"], x["ties"][:, ::-1]) * x["rows"]).sum()


def sort_ties(m: Library, x: Any) -> Any:
    """A stable sort: equal elements keep their order."""
    return (m.np.sort(x["ties"], axis=1) * x["rows"]).sum()


def relu_at_zero(m: Library, x: Any) -> Any:
    """Half a slope. (|x| at zero has none here, but 1 in JAX: it stays away from there.)"""
    return m.np.maximum(x["ties"] - 1, 0).sum() + m.np.abs(x["rows"]).sum()


def product_with_zeros(m: Library, x: Any) -> Any:
    """Each partial product without its own factor, none of them by division."""
    return m.np.prod(x["ties"], axis=1).sum() + m.np.cumprod(x["ties"], axis=1).sum()


def double_where(m: Library, x: Any) -> Any:
    """A root of what may be negative, made harmless before and after."""
    safe = m.np.where(x["m"] > 0, x["m"], 1.0)
    return m.np.where(x["m"] > 0, m.np.sqrt(safe) * m.np.log(safe), 0.0).sum()


def scan_of_dicts(m: Library, x: Any) -> Any:
    """A recurrent net with a dict of parameters and one of states."""

    def step(c: Any, row: Any) -> Any:
        h = m.np.tanh(c["h"] @ x["m"] + row + x["v"])
        return {"h": h, "sum": c["sum"] + h.sum()}, h * c["sum"]

    c, ys = m.scan(step, {"h": x["v"], "sum": x["v"][0]}, x["rows"])
    return c["sum"] + (ys * ys).sum()


def vmap_of_scan(m: Library, x: Any) -> Any:
    """One recurrence per row, with shared weights."""

    def step(h: Any, row: Any) -> tuple[Any, Any]:
        return m.np.sin(h @ x["m"]) + row, h.sum()

    def one(h: Any, rows: Any) -> Any:
        return m.scan(step, h, rows)

    h, ys = m.vmap(one)(x["rows"], m.np.stack([x["rows"], x["rows"] * 2, x["rows"] - 1, x["rows"]]))
    return (h * h).sum() + m.np.cos(ys).sum()


def vmap_of_grad(m: Library, x: Any) -> Any:
    """A gradient per row, of which a gradient is taken."""

    def energy(r: Any) -> Any:
        return m.np.exp(m.np.sin(r @ x["m"]) @ r / 4)

    return (m.vmap(m.grad(energy))(x["rows"]) ** 2).sum()


def branches(m: Library, x: Any) -> Any:
    first = m.cond(x["v"][0] > 0, m.np.sin, m.np.square, x["v"])
    second = m.cond(x["v"][1] > 0, m.np.sin, m.np.square, x["v"])
    return (first * second @ x["m"]).sum()


def normalised(m: Library, x: Any) -> Any:
    """Softmax, a logarithm of a sum of exponentials, a norm, a solved system."""
    e = m.np.exp(x["m"] - m.np.max(x["m"], axis=1, keepdims=True))
    weights = e / e.sum(axis=1, keepdims=True)
    system = m.np.eye(3, dtype=x["m"].dtype) * 4 + x["m"]
    return (weights * m.np.linalg.solve(system, x["m"])).sum() + m.np.linalg.norm(x["rows"])


Program = Callable[[Library, Any], Any]
PROGRAMS: tuple[Program, ...] = (
    max_ties,
    maximum_ties,
    sort_ties,
    relu_at_zero,
    product_with_zeros,
    double_where,
    scan_of_dicts,
    vmap_of_scan,
    vmap_of_grad,
    branches,
    normalised,
)


def inputs(dtype: str) -> dict[str, Any]:
    """The argument of every program: small numbers that f32 holds exactly."""
    rng = np.random.default_rng(5)

    def some(*shape: int) -> Any:
        return (np.round(rng.standard_normal(shape) * 64) / 64).astype(dtype)

    ties = np.array([[1, 2, 2], [0, 0, 0], [3, 1, 3], [2, 0, 1]], dtype)
    return {"ties": ties, "m": some(3, 3), "v": some(3), "rows": some(4, 3)}


def write() -> None:
    """Computes all gradients in JAX."""
    jax: Any = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    library = Library(jax.numpy, jax.lax.scan, jax.vmap, jax.grad, jax.lax.cond)
    found: dict[str, dict[str, Any]] = {}
    for program in PROGRAMS:
        gradient = jax.grad(functools.partial(program, library))
        for dtype in DTYPES:
            slopes: dict[str, Any] = gradient(inputs(dtype))
            numbers = {k: np.asarray(v, np.float64).tolist() for k, v in slopes.items()}
            found.setdefault(program.__name__, {})[dtype] = numbers
    DATA.parent.mkdir(exist_ok=True)
    DATA.write_text(json.dumps({"jax": jax.__version__, "gradients": found}) + "\n")


if __name__ == "__main__":
    write()
