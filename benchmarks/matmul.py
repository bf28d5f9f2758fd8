"""Matrix products of float32 and float64 against NumPy's BLAS, also with transposed operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.harness import compare, compiled, report, settings

Array = np.ndarray[Any, Any]
Product = Callable[[Array, Array], Array]
Scalar = type[np.float32] | type[np.float64]
PRODUCTS: dict[str, Product] = {
    "a @ b": lambda a, b: a @ b,
    "a.T @ b": lambda a, b: a.T @ b,
    "a @ b.T": lambda a, b: a @ b.T,
}
SIZES = (64, 128, 256, 512, 1000, 1024, 2048)
SHAPES = ((32, 1024, 4096), (100_000, 64, 64), (1, 1024, 1024), (512, 1024, 1))  # (m, k, n)


def candidates(product: Product, a: Array, b: Array) -> dict[str, Callable[[], object]]:
    """NumPy and mlc for one product."""
    fast = compiled(product)
    return {"mlc": lambda: fast(a, b), "NumPy": lambda: product(a, b)}


def rate(flops: float) -> Callable[[float], str]:
    """The note for a case: its arithmetic per second."""
    return lambda seconds: f"{flops / seconds / 1e9:.0f} GFLOP/s"


def main() -> None:
    """Print square products of each kind and some oblong ones."""
    options = settings("matrix products against NumPy's BLAS")
    sizes = SIZES[:4] if options.quick else SIZES
    rng = np.random.default_rng(3)
    cases: dict[str, dict[str, Callable[[], object]]] = {}
    flops: dict[str, float] = {}

    def case(name: str, product: Product, m: int, k: int, n: int, dtype: Scalar) -> None:
        shape_a = (k, m) if name.startswith("a.T") else (m, k)
        shape_b = (n, k) if name.endswith("b.T") else (k, n)
        a: Array = rng.standard_normal(shape_a).astype(dtype)
        b: Array = rng.standard_normal(shape_b).astype(dtype)
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
    notes = {key: rate(f) for key, f in flops.items()}
    report(options, compare("Matrix products", cases, options, notes=notes))


if __name__ == "__main__":
    main()
