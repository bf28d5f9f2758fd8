"""
Differentiable functions at their special points: zeros, ties, equal values, whole numbers, the ends
of their domains. Where a function is smooth, its derivatives are the differences of lower ones.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import mlc

mnp: Any = mlc.numpy
nn: Any = mlc.nn
One = Callable[[Any], Any]
Program = tuple[One, Any]

_rng = np.random.default_rng(3)
WEIGHT = _rng.standard_normal(64)
MATRIX = _rng.standard_normal((3, 3))
MORE = _rng.standard_normal((3, 3))
ROW = _rng.standard_normal(4)


def weighted(f: One) -> One:
    """One number of an array: its elements times fixed weights."""

    def total(x: Any) -> Any:
        y = f(x)
        return (y.ravel() * WEIGHT[: y.size]).sum()

    return total


def _each(f: One, *points: float) -> Program:
    return weighted(f), np.array(points)


def _of_two(f: Callable[[Any, Any], Any], *points: tuple[float, float]) -> Program:
    return weighted(lambda p: f(p[0], p[1])), np.array(points).T


def _of(f: One, x: Any) -> Program:
    return weighted(f), np.asarray(x, np.float64)


ANY = (0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 3.0)
POSITIVE = (1.0, 0.25, 2.0, 3.7)
INSIDE = (0.0, 0.5, -0.3, -0.9)
NOT_WHOLE = (0.3, -0.7, 2.4, -3.6)

UNARY: dict[str, Program] = {
    "exp": _each(np.exp, *ANY),
    "exp2": _each(np.exp2, *ANY),
    "expm1": _each(np.expm1, *ANY),
    "log": _each(np.log, *POSITIVE),
    "log2": _each(np.log2, *POSITIVE),
    "log10": _each(np.log10, *POSITIVE),
    "log1p": _each(np.log1p, 0.0, -0.5, 2.0),
    "sqrt": _each(np.sqrt, *POSITIVE),
    "cbrt": _each(np.cbrt, 1.0, -8.0, 0.2),
    "rsqrt": _each(mnp.rsqrt, *POSITIVE),
    "square": _each(np.square, *ANY),
    "reciprocal": _each(np.reciprocal, 1.0, -2.0, 0.5),
    "sin": _each(np.sin, *ANY),
    "cos": _each(np.cos, *ANY),
    "tan": _each(np.tan, *INSIDE),
    "arcsin": _each(np.arcsin, *INSIDE),
    "arccos": _each(np.arccos, *INSIDE),
    "arctan": _each(np.arctan, *ANY),
    "sinh": _each(np.sinh, *ANY),
    "cosh": _each(np.cosh, *ANY),
    "tanh": _each(np.tanh, *ANY),
    "arcsinh": _each(np.arcsinh, *ANY),
    "arccosh": _each(np.arccosh, 1.5, 2.0, 5.0),
    "arctanh": _each(np.arctanh, *INSIDE),
    "erf": _each(mnp.erf, *ANY),
    "erfc": _each(mnp.erfc, *ANY),
    "lgamma": _each(mnp.lgamma, 1.0, 2.0, 0.4, -0.6, 0.5, 7.0),
    "sinc": _each(np.sinc, *ANY, 1e-9, 0.32),
    "abs": _each(np.abs, 1.0, -0.5),
    "degrees": _each(np.degrees, *ANY),
    "floor": _each(lambda x: x * np.floor(x), *NOT_WHOLE),
    "sign": _each(lambda x: x * np.sign(x) * x, 0.5, -0.7),
    "x * |x| * x": _each(lambda x: x**3 * np.abs(x) * x, 0.0, 1.0, -1.0),
    "x**0": _each(lambda x: x**0 + x**0.0, *ANY),
    "x**1": _each(lambda x: x**1 + x**1.0, *ANY),
    "x**2": _each(lambda x: x**2 + x**2.0, *ANY),
    "x**3": _each(lambda x: np.power(x, 3), *ANY),
    "x**5.0": _each(lambda x: np.power(x, 5.0), *ANY),
    "x**40": _each(lambda x: np.power(x, 40.0), 0.0, 1.0, -0.9),
    "x**-3": _each(lambda x: x**-3.0, 1.0, -2.0, 0.5),
    "x**2.5": _each(lambda x: x**2.5, *POSITIVE),
    "2**x": _each(lambda x: 2**x, *ANY),
    "x**x": _each(lambda x: x**x, *POSITIVE),
    "float_power": _each(lambda x: np.float_power(x, 3), *ANY),
}

BINARY: dict[str, Program] = {
    "power": _of_two(np.power, (2, 0), (2, 1), (0.5, 2), (1, 0), (3, -1), (1.5, 0.5)),
    "power at 0": _of(lambda x: np.power(x, np.array([4.0, 5.0, 6.0])), [0.0, 0.0, -0.0]),
    "divide": _of_two(np.divide, (0, 1), (2, -1), (-3, 0.5)),
    "multiply": _of_two(np.multiply, (0, 0), (0, 1), (2, -1)),
    "hypot": _of_two(np.hypot, (0, 1), (1, 0), (-3, 4), (2, 2)),
    "arctan2": _of_two(np.arctan2, (0, 1), (1, 0), (-1, 0), (-3, -4), (2, 2)),
    "logaddexp": _of_two(np.logaddexp, (0, 0), (1, 1), (-2, 3), (700, 0), (-1, -1)),
    "logaddexp2": _of_two(np.logaddexp2, (0, 0), (1, 1), (-2, 3), (-1, -1)),
    "remainder": _of_two(np.remainder, (0.3, 1), (-7.3, 2), (7.3, -2)),
    "fmod": _of_two(np.fmod, (0.3, 1), (-7.3, 2), (7.3, -2)),
    "maximum": _of_two(np.maximum, (0, 1), (2, -1)),
    "fmin": _of_two(np.fmin, (0, 1), (2, -1)),
    "copysign": _of_two(np.copysign, (0.5, 1), (2, -1), (-3, -2)),
    "heaviside": _of_two(lambda x, y: np.heaviside(x, y) * x * y, (0.5, 1), (-2, -1)),
    "|x|**2": _each(lambda x: np.abs(x) ** 2 + np.square(np.abs(x)) + np.abs(x) ** 4, *ANY),
    "hypot**2": _of_two(lambda x, y: np.hypot(x, y) ** 2, (0, 0), (1, -2)),
    "clip": _of(lambda x: np.clip(x, -1, 1) ** 3, [0.0, 0.5, -2.0, 3.0]),
    "interp": _of(lambda x: np.interp(x, [0.0, 1, 2], ROW[:3]) ** 2, [0.5, 1.3, -1.0, 3.0]),
}

ACTIVATIONS: dict[str, Program] = (
    {
        name: _each(getattr(nn, name), *ANY)
        for name in ("sigmoid", "softplus", "log_sigmoid", "silu", "mish", "gelu", "tanh")
    }
    | {
        name: _each(getattr(nn, name), 0.5, -0.7, 2.0)
        for name in ("relu", "relu6", "leaky_relu", "elu", "celu", "selu", "softsign", "hard_swish")
    }
    | {
        "exact gelu": _each(lambda x: nn.gelu(x, approximate=False), *ANY),
        "glu": _of(nn.glu, [0.0, 0.0, 1.0, -1.0]),
        "swiglu": _of(nn.swiglu, [0.0, 0.0, 1.0, -1.0]),
        "softmax": _of(nn.softmax, [[0.0, 0, 0], [1, 2, 1]]),
        "log_softmax": _of(nn.log_softmax, [[0.0, 0, 0], [1, 2, 1]]),
        "softmin": _of(nn.softmin, [[0.0, 0, 0], [1, 2, 1]]),
        "logsumexp": _of(lambda x: nn.logsumexp(x, axis=1), [[0.0, 0, 0], [1, 2, 1]]),
        "layer_norm": _of(lambda x: nn.layer_norm(x, eps=0.5), [[0.0, 0, 0], [1, 2, 1]]),
        "rms_norm": _of(lambda x: nn.rms_norm(x, eps=0.5), [[0.0, 0, 0], [1, 2, 1]]),
        "batch_norm": _of(lambda x: nn.batch_norm(x, eps=0.5), [[0.0, 0, 0], [0, 2, 1]]),
        "normalize": _of(lambda x: nn.normalize(x, eps=2.0), [[0.0, 0.1, 0], [1, 2, 1]]),
        "normalize zeros": _of(lambda x: nn.normalize(x, eps=2.0), [[0.0, 0, 0]]),
        "cosine_similarity": _of(lambda x: nn.cosine_similarity(x, MATRIX), MORE),
        "avg_pool": _of(lambda x: nn.avg_pool(x[None, None], (2, 2)) ** 2, MATRIX),
        "max_pool": _of(lambda x: nn.max_pool(x[None, None], (2, 2)) ** 2, MATRIX),
        "conv": _of(lambda x: nn.conv(x[None, None], x[None, None, :2, :2]), MATRIX),
    }
)

TARGETS = np.array([0.0, 1.0, 0.25])
LOSSES: dict[str, Program] = {
    "binary_cross_entropy": _of(lambda x: nn.binary_cross_entropy(x, TARGETS), [0.0, 0, 0]),
    "huber_loss": _of(lambda x: nn.huber_loss(x, TARGETS), [0.0, 1, 0.5]),
    "mse_loss": _of(lambda x: nn.mse_loss(x, TARGETS), [0.0, 1, 0.5]),
    "l1_loss": _of(lambda x: nn.l1_loss(x, TARGETS), [0.5, 2, 0.5]),
    "cross_entropy": _of(lambda x: nn.cross_entropy(x, np.array([0, 2])), [[0.0, 0, 0], [1, 1, 2]]),
    "soft cross_entropy": _of(lambda x: nn.cross_entropy(x, nn.softmax(x)), [[0.0, 0, 0]]),
    "nll_loss": _of(lambda x: nn.nll_loss(nn.log_softmax(x), np.array([0])), [[0.0, 0, 0]]),
    "kl_div": _of(lambda x: nn.kl_div(nn.log_softmax(x), nn.softmax(x**2)), [0.0, 0.0, 1.0]),
}

REDUCTIONS: dict[str, Program] = {
    "sum": _of(lambda x: x.sum(axis=0) ** 3, MATRIX),
    "mean": _of(lambda x: x.mean(axis=1) ** 3, MATRIX),
    "var": _of(lambda x: x.var(axis=1), np.ones((2, 3))),
    "std": _of(lambda x: x.std(axis=1), MATRIX),
    "max": _of(lambda x: x.max(axis=1) ** 3, MATRIX),
    "median": _of(lambda x: np.median(x, axis=1) ** 3, MATRIX),
    "quantile": _of(lambda x: np.quantile(x, 0.3) ** 3, MATRIX),
    "sort": _of(lambda x: np.sort(x, axis=None) ** 3, MATRIX),
    "average": _of(lambda x: np.average(x, axis=0, weights=x**2), MATRIX),
    "prod": _of(np.prod, [2.0, 0.0, 3.0, 0.0]),
    "prod of zeros": _of(np.prod, [0.0, 0.0, 0.0, 0.0, 0.0]),
    "prod without zeros": _of(np.prod, ROW),
    "prod over axes": _of(lambda x: np.prod(x, axis=1), [[0.0, 0, 0], [1, 0, 2], [1, 2, 3]]),
    "prod of all": _of(np.prod, [[0.0, 3], [1, 0]]),
    "cumprod": _of(np.cumprod, [2.0, 0.0, 3.0, 0.0, 5.0]),
    "cumprod of zeros": _of(np.cumprod, [0.0, 0.0, 0.0]),
    "cumprod without zeros": _of(np.cumprod, ROW),
    "cumprod along rows": _of(lambda x: np.cumprod(x, axis=1), [[0.0, 0, 1], [1, 2, 3]]),
    "cumsum": _of(lambda x: np.cumsum(x) ** 3, ROW),
    "cumlogsumexp": _of(mnp.cumlogsumexp, [0.0, 0.0, 1.0, np.log(2 + np.e)]),
    "cummax": _of(lambda x: mnp.cummax(x) ** 3, ROW),
    "norm": _of(np.linalg.norm, [0.0, 0.0, 1.0]),
    "norm**2": _of(lambda x: np.linalg.norm(x) ** 2, np.zeros(3)),
    "norms**4": _of(lambda x: np.linalg.norm(x, axis=1, keepdims=True) ** 4, [[0.0, 0], [1, 2]]),
    "std**2": _of(lambda x: np.std(x) ** 2, np.ones(3)),
    "norms of rows": _of(lambda x: np.linalg.norm(x, axis=1), [[0.0, 1], [2, 0], [3, 4]]),
    "3-norm": _of(lambda x: np.linalg.norm(x, 3), [0.5, 2.0, -1.0]),
    "4-norm": _of(lambda x: np.linalg.norm(x, 4), [0.0, 0.0, 1.0]),
    "diff": _of(lambda x: np.diff(x) ** 3, ROW),
    "top_k": _of(lambda x: mnp.top_k(x, 2)[0] ** 3, ROW),
}

MATRICES: dict[str, Program] = {
    "inv": _of(np.linalg.inv, np.eye(3)),
    "solve": _of(lambda x: np.linalg.solve(x, x[:, :2] ** 2), np.eye(3)),
    "det": _of(np.linalg.det, np.ones((3, 3))),
    "slogdet": _of(lambda x: np.linalg.slogdet(x)[1], np.eye(3)),
    "cholesky": _of(np.linalg.cholesky, np.eye(3)),
    "qr": _of(lambda x: np.linalg.qr(x)[1], MATRIX),
    "tall qr": _of(lambda x: np.linalg.qr(x)[0], MATRIX[:, :2]),
    "eigh": _of(lambda x: np.linalg.eigh(x)[1] ** 2, np.diag([1.0, 2, 4])),
    "eigvalsh": _of(np.linalg.eigvalsh, np.diag([1.0, 2, 4])),
    "eigvals": _of(lambda x: (np.linalg.eigvals(x) ** 4).sum().real, MATRIX),
    "svd": _of(lambda x: np.linalg.svd(x)[0] ** 2, np.diag([1.0, 2, 4])),
    "reduced svd": _of(lambda x: np.linalg.svd(x, full_matrices=False)[2] ** 2, MATRIX[:, :2]),
    "nuclear norm": _of(lambda x: np.linalg.norm(x, "nuc"), np.diag([1.0, 2, 4])),
    "pinv": _of(np.linalg.pinv, np.eye(3, 2)),
    "lstsq": _of(lambda x: np.linalg.lstsq(x, x[:, :1] ** 2)[0], np.eye(3, 2)),
    "matrix_power": _of(lambda x: np.linalg.matrix_power(x, 5), np.zeros((2, 2))),
    "matrix_power -2": _of(lambda x: np.linalg.matrix_power(x, -2), np.eye(2)),
    "matmul": _of(lambda x: x @ x @ x, np.zeros((2, 2))),
    "einsum": _of(lambda x: np.einsum("ab,bc,ca->ab", x, x, x), np.eye(2)),
    "fft": _of(lambda x: np.abs(np.fft.rfft(x)) ** 2, ROW),
    "cond": _of(np.linalg.cond, np.diag([1.0, 2, 4])),
    "complex abs": _of(lambda x: np.abs(x[:2] + 1j * x[2:]), [0.0, 1, 2, 0]),
    "complex abs**2": _of(lambda x: np.abs(x[:2] + 1j * x[2:]) ** 2, [0.0, 1, 0, 0]),
    "complex exp": _of(lambda x: np.exp(x[:2] + 1j * x[2:]).real, [0.0, 1, 2, 0]),
    "complex power": _of(lambda x: ((x[:2] + 1j * x[2:]) ** 3).real, [0.0, 1, 0, 0]),
    "complex power of two": _of(
        lambda x: ((x[:1] + 1j * x[1:2]) ** (x[2:3] + 1j * x[3:])).real, [0.5, 1, 0, 0]
    ),
}

KINKS: dict[str, Program] = {
    name: _each(getattr(nn, name), 0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 6.0)
    for name in (
        *("relu", "relu6", "leaky_relu", "elu", "celu", "selu", "softsign"),
        *("hard_tanh", "hard_sigmoid", "hard_swish"),
    )
} | {
    "abs": _each(lambda x: np.abs(x) + np.fabs(x), *ANY),
    "steep elu": _each(lambda x: nn.elu(x, 2.0), *ANY),
    "x |x|": _each(lambda x: x * np.abs(x), *ANY),
    "|x|**3": _each(lambda x: np.abs(x) ** 3, *ANY),
    "rounding": _each(lambda x: x * (np.floor(x) + np.ceil(x) + np.rint(x) + np.sign(x)), *ANY),
    "clip": _each(lambda x: np.clip(x, 0, 1) ** 2, *ANY),
    "maximum": _of_two(np.maximum, (0, 0), (-0.0, 0), (1, 1)),
    "minimum": _of_two(np.minimum, (0, 0), (-0.0, 0), (1, 1)),
    "fmax": _of_two(np.fmax, (0, 0), (1, 1)),
    "hypot": _of_two(np.hypot, (0, 0)),
    "arctan2": _of_two(np.arctan2, (0, 0)),
    "power": _of_two(np.power, (0, 0), (0, 1), (0, 2)),
    "remainder": _of_two(np.remainder, (0, 1), (2, 1), (-2, -2)),
    "huber_loss": _of(lambda x: nn.huber_loss(x, np.array([0.0, 1, -1])), [1.0, 0, -2]),
    "l1_loss": _of(lambda x: nn.l1_loss(x, 0 * x), [0.0, 1, -2]),
    "max": _of(lambda x: np.max(x, axis=1) ** 2, [[0.0, 0, -1], [1, 1, 1]]),
    "min": _of(lambda x: np.min(x, axis=1) ** 2, [[0.0, 0, -1], [1, 1, 1]]),
    "sort": _of(lambda x: np.sort(x) ** 2, [1.0, 0, 1, 0]),
    "median": _of(lambda x: np.median(x) ** 2, [1.0, 0, 1, 1]),
    "cummax": _of(lambda x: mnp.cummax(x) ** 2, [1.0, 1, 0, 2, 2]),
    "top_k": _of(lambda x: mnp.top_k(x, 2)[0] ** 2, [1.0, 0, 1, 1]),
    "max_pool": _of(lambda x: nn.max_pool(x[None, None], (2, 2)) ** 2, np.ones((3, 3))),
    "norm": _of(np.linalg.norm, np.zeros(3)),
    "norm of order 3": _of(lambda x: np.linalg.norm(x, 3), np.zeros(3)),
    "norm of order 1": _of(lambda x: np.linalg.norm(x, 1), np.zeros(3)),
    "std": _of(np.std, np.ones(3)),
    "complex abs": _of(lambda x: np.abs(x[:1] + 1j * x[1:]), np.zeros(2)),
    "where": _each(lambda x: np.where(x > 0, np.sqrt(x) * np.log(x), x * x), *ANY),
    "deep where": _each(lambda x: np.where(x != 0, np.sin(x) / x + np.exp(-1 / x**2), 0), *ANY),
}
"""Where a rule decides: the derivatives are finite, and those of one order are the same."""

ENDS: dict[str, Program] = {
    name: (lambda x, f=f: f(x).sum(), np.array([end]))
    for name, f, end in (
        *(("sqrt", np.sqrt, 0.0), ("log", np.log, 0.0), ("log2", np.log2, 0.0)),
        *(("log1p", np.log1p, -1.0), ("rsqrt", mnp.rsqrt, 0.0), ("reciprocal", np.reciprocal, 0.0)),
        *(
            ("arcsin", np.arcsin, 1.0),
            ("arcsin below", np.arcsin, -1.0),
            ("arccos", np.arccos, 1.0),
        ),
        *(("arccosh", np.arccosh, 1.0), ("arctanh", np.arctanh, 1.0)),
    )
}
"""At the end of a domain derivatives are infinite, in every mode with one sign."""

FAMILIES: dict[str, dict[str, Program]] = {
    "unary": UNARY,
    "binary": BINARY,
    "activations": ACTIVATIONS,
    "losses": LOSSES,
    "reductions": REDUCTIONS,
    "matrices": MATRICES,
}
