"""Matrix products of float32 and float64 against NumPy's BLAS, also with transposed operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mlc
from benchmarks.harness import compare, report, settings

Array = np.ndarray[Any, Any]
Product = Callable[[Array, Array], Array]
PRODUCTS: dict[str, Product] = {
    "a @ b": lambda a, b: a @ b,
    "a.T @ b": lambda a, b: a.T @ b,
    "a @ b.T": lambda a, b: a @ b.T,
}
SIZES = (64, 128, 256, 512, 1000, 1024, 2048)
SHAPES = ((32, 1024, 4096), (100_000, 64, 64), (1, 1024, 1024), (512, 1024, 1))  # (m, k, n)


def candidates(product: Product, a: Array, b: Array) -> dict[str, Callable[[], object]]:
    """NumPy and mlc for one product."""
    compiled = mlc.compile(product)
    return {"mlc": lambda: compiled(a, b), "NumPy": lambda: product(a, b)}


def main() -> None:
    """Print square products of each kind and some oblong ones."""
    options = settings("matrix products against NumPy's BLAS")
    sizes = SIZES[:4] if options.quick else SIZES
    rng = np.random.default_rng(3)
    cases: dict[str, dict[str, Callable[[], object]]] = {}
    flops: dict[str, float] = {}

    def case(name: str, product: Product, m: int, k: int, n: int, dtype: type) -> None:
        shape_a = (k, m) if name.startswith("a.T") else (m, k)
        shape_b = (n, k) if name.endswith("b.T") else (k, n)
        a = rng.standard_normal(shape_a).astype(dtype)
        b = rng.standard_normal(shape_b).astype(dtype)
        key = f"{name}  {m}x{k}x{n}  {np.dtype(dtype).name}"
        cases[key] = candidates(product, a, b)
        flops[key] = 2.0 * m * n * k

    for n in sizes:
        case("a @ b", PRODUCTS["a @ b"], n, n, n, np.float32)
    for n in (256, 1024)[: 1 if options.quick else 2]:
        case("a.T @ b", PRODUCTS["a.T @ b"], n, n, n, np.float32)
        case("a @ b.T", PRODUCTS["a @ b.T"], n, n, n, np.float32)
        case("a @ b", PRODUCTS["a @ b"], n, n, n, np.float64)
    for m, k, n in () if options.quick else SHAPES:
        case("a @ b", PRODUCTS["a @ b"], m, k, n, np.float32)
    notes = {key: lambda s, f=f: f"{f / s / 1e9:.0f} GFLOP/s" for key, f in flops.items()}
    report(options, compare("Matrix products", cases, options.rounds, notes=notes))


if __name__ == "__main__":
    main()
