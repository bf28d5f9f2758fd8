"""Learning on tables, simulation, graphs, moves of elements, and chains of products."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false

from __future__ import annotations

from typing import Any

import numpy as np

import mlc
import mlc.numpy as mnp
from benchmarks.zoo.basics import softmax
from benchmarks.zoo.model import Arrays, Draw, Model

# ---- learning on tables


def l2svm(x: Any, y: Any, xd: Any, out: Any, w: Any, d: Any) -> Any:
    """
    The inner loop of SystemML's L2SVM, one step of Newton's line search along `d`.
    SOURCE: github.com/apache/systemds, scripts/builtin/l2svm.dml
    """
    step = np.float32(0.3)
    margin = 1 - y * (out + step * xd)
    active = margin > 0
    margin = np.where(active, margin, 0)
    g = (w * d).sum() + step * (d * d).sum() - (margin * y * xd).sum()
    h = (d * d).sum() + (xd * np.where(active, 1.0, 0.0).astype(np.float32) * xd).sum()
    return step - g / h, (margin * margin).sum() + (x[0] * w).sum()


def mlogreg(x: Any, p: Any, v: Any) -> Any:
    """Product with the Hessian of multinomial regression. SOURCE: SystemML's MultiLogReg.dml."""
    q = p * (x @ v)
    return x.T @ (q - p * q.sum(axis=1, keepdims=True))


def page_rank(g: Any, p: Any, e: Any, u: Any) -> Any:
    """Ten iterations of alpha (g p) + (1 - alpha) (e (u p)). SOURCE: SystemML's PageRank.dml."""

    def body(_: Any, p: Any) -> Any:
        return 0.85 * (g @ p) + 0.15 * (e @ (u @ p))

    return mlc.fori_loop(0, 10, body, p)


def linear_regression(x: Any, y: Any) -> Any:
    """Ten iterations of conjugate gradients. SOURCE: SystemML's LinearRegCG.dml."""

    def body(_: Any, carry: Any) -> Any:
        w, r, p, norm = carry
        q = x.T @ (x @ p) + 1e-3 * p
        alpha = norm / (p * q).sum()
        w = w + alpha * p
        r = r + alpha * q
        new = (r * r).sum()
        return w, r, -r + new / norm * p, new

    r = -(x.T @ y)
    zero = mnp.zeros((x.shape[1],), np.float32)
    return mlc.fori_loop(0, 10, body, (zero, r, -r, (r * r).sum()))[0]


def k_means(x: Any, centres: Any) -> Any:
    """One step of Lloyd's."""
    distances = (centres * centres).sum(axis=1) - 2 * (x @ centres.T)
    nearest = distances.argmin(axis=1)
    member = (nearest[:, None] == np.arange(centres.shape[0])).astype(np.float32)
    return (member.T @ x) / np.maximum(member.sum(axis=0), 1)[:, None]


def rbf_sums(x: Any, y: Any) -> Any:
    """Sums of a Gaussian kernel over all pairs."""
    distance = ((x[:, None, :] - y[None, :, :]) ** 2).sum(axis=-1)
    return np.exp(-distance / 2).sum(axis=1)


def n_body(x: Any, mass: Any) -> Any:
    """Accelerations. x: (n, 3)."""
    d = x[None, :, :] - x[:, None, :]
    r2 = (d * d).sum(axis=-1) + 1e-2
    return ((mass[None, :] / (r2 * np.sqrt(r2)))[:, :, None] * d).sum(axis=1)


def factorisation_loss(x: Any, u: Any, v: Any) -> Any:
    """sum(X log(U Vᵀ + ε)). SOURCE: S131."""
    return (x * np.log(u @ v.T + 1e-3)).sum()


def _l2svm(draw: Draw, n: int) -> Arrays:
    y = np.sign(draw(n)).astype("f4")
    return draw(4, 50), y, draw(n), draw(n), draw(50), draw(50)


def _mlogreg(draw: Draw, n: int) -> Arrays:
    p = draw.unit(n, 8)
    return draw(n, 100), p / p.sum(axis=1, keepdims=True), draw(100, 8)


def _graph(draw: Draw, n: int) -> Arrays:
    return draw.unit(n, n) / n, draw.unit(n, 1), draw.unit(n, 1), draw.unit(1, n) / n


# ---- moves of elements


def prefix_sums(x: Any) -> Any:
    return np.cumsum(x, axis=-1), np.cumsum(x[0])


def sorted_rows(x: Any) -> Any:
    return np.sort(x, axis=-1)


def ranked(x: Any) -> Any:
    return np.argsort(x, axis=-1)


def embedding(table: Any, ids: Any) -> Any:
    """Rows of a table, scaled."""
    return table[ids] * 2 + 1


def picked(x: Any, at: Any) -> Any:
    """Single elements."""
    return np.take(x, at) * 0.5


def histogram(x: Any, at: Any) -> Any:
    """Sums by group: a scatter."""
    total = np.zeros(256, np.float32)
    np.add.at(total, at, x)
    return total


def transposed(x: Any, y: Any) -> Any:
    return x.T * 2 + y


def joined(x: Any, y: Any) -> Any:
    return np.concatenate([x, y * 2], axis=1)


# ---- products


def product(a: Any, b: Any) -> Any:
    return a @ b


def product_with_transposed(a: Any, b: Any) -> Any:
    return a.T @ b


def batched_product(a: Any, b: Any) -> Any:
    """Small products, many of them."""
    return a @ b


def product_chain(a: Any, b: Any, c: Any, v: Any) -> Any:
    """As written from the left it would take cubes."""
    return a @ b @ c @ v


def weighted_gram(x: Any, w: Any, v: Any) -> Any:
    """Xᵀ (w (X v)). SOURCE: S132."""
    return x.T @ (w * (x @ v))


def classifier(x: Any, w1: Any, b1: Any, w2: Any, b2: Any) -> Any:
    """A perceptron's forward pass."""
    return softmax(np.maximum(x @ w1 + b1, 0) @ w2 + b2)


MODELS = (
    Model("l2svm", l2svm, _l2svm, (1_000, 100_000, 4_000_000), 1e-3),
    Model("mlogreg", mlogreg, _mlogreg, (64, 4_000, 100_000), 1e-4),
    Model("page_rank", page_rank, _graph, (32, 500, 3_000), 1e-4),
    Model(
        "linear_regression",
        linear_regression,
        lambda draw, n: (draw(n, 64), draw(n)),
        (256, 8_000, 200_000),
        1e-2,
    ),
    Model(
        "k_means", k_means, lambda draw, n: (draw(n, 16), draw(32, 16)), (200, 4_000, 100_000), 1e-4
    ),
    Model("rbf_sums", rbf_sums, lambda draw, n: (draw(n, 8), draw(n, 8)), (32, 256, 2_000), 1e-4),
    Model("n_body", n_body, lambda draw, n: (draw(n, 3), draw.unit(n)), (32, 256, 2_000), 1e-3),
    Model(
        "factorisation_loss",
        factorisation_loss,
        lambda draw, n: (draw.unit(n, n), draw.unit(n, 10), draw.unit(n, 10)),
        (48, 400, 3_000),
        1e-4,
    ),
    Model("prefix_sums", prefix_sums, lambda draw, n: (draw(n, 1000),), (8, 200, 4_000), 1e-4),
    Model("sorted_rows", sorted_rows, lambda draw, n: (draw(n, 256),), (8, 200, 4_000)),
    Model("ranked", ranked, lambda draw, n: (draw(n, 256),), (8, 100, 2_000)),
    Model(
        "embedding",
        embedding,
        lambda draw, n: (draw(n, 64), draw.integers(n, n)),
        (64, 4_000, 200_000),
    ),
    Model(
        "picked",
        picked,
        lambda draw, n: (draw(n), draw.integers(n, n)),
        (2_000, 100_000, 4_000_000),
    ),
    Model(
        "histogram",
        histogram,
        lambda draw, n: (draw(n), draw.integers(256, n)),
        (2_000, 100_000, 2_000_000),
        1e-3,
    ),
    Model("transposed", transposed, lambda draw, n: (draw(n, n), draw(n, n)), (48, 400, 2_000)),
    Model("joined", joined, lambda draw, n: (draw(n, 100), draw(n, 28)), (32, 2_000, 60_000)),
    Model("product", product, lambda draw, n: (draw(n, n), draw(n, n)), (48, 256, 768), 1e-4),
    Model(
        "product_with_transposed",
        product_with_transposed,
        lambda draw, n: (draw(n, 64), draw(n, 96)),
        (32, 1_000, 30_000),
        1e-4,
    ),
    Model(
        "batched_product",
        batched_product,
        lambda draw, n: (draw(n, 12, 12), draw(n, 12, 12)),
        (8, 400, 20_000),
    ),
    Model(
        "product_chain",
        product_chain,
        lambda draw, n: (*(draw(n, n, scale=n**-0.5) for _ in range(3)), draw(n)),
        (32, 400, 2_000),
        1e-4,
    ),
    Model(
        "weighted_gram",
        weighted_gram,
        lambda draw, n: (draw(n, 64), draw.unit(n), draw(64)),
        (200, 8_000, 200_000),
        1e-3,
    ),
    Model(
        "classifier",
        classifier,
        lambda draw, n: (
            draw(n, 64),
            draw(64, 256, scale=0.1),
            draw(256),
            draw(256, 10, scale=0.1),
            draw(10),
        ),
        (16, 500, 20_000),
        1e-4,
    ),
)
