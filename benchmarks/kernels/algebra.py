"""
Linear algebra and statistics, from PolyBench's definitions, written with NumPy.

SOURCE: L.-N. Pouchet, T. Yuki, "PolyBench/C 4.2", 2016.
"""

# pyright: reportConstantRedefinition=false, reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kernels.model import definite, kernel, matrices, triangular


@kernel(matrices("nm", "nm", "mm"), 17, 500)
def gemm(C: Any, A: Any, B: Any) -> None:
    C[:] = 1.5 * A @ B + 1.2 * C


@kernel(matrices("nn", "n", "n", "n", "n", "n", "n"), 17, 1000)
def gemver(A: Any, u: Any, v: Any, p: Any, q: Any, y: Any, z: Any) -> Any:
    A += np.outer(u, v) + np.outer(p, q)
    x = 1.2 * y @ A + z
    return x, 1.5 * A @ x


@kernel(matrices("nm", "mn", "nm", "nm"), 17, 400)
def two_mm(A: Any, B: Any, C: Any, D: Any) -> None:
    D[:] = 1.5 * A @ B @ C + 1.2 * D


@kernel(matrices("nm", "mn", "nm", "mn"), 17, 400)
def three_mm(A: Any, B: Any, C: Any, D: Any) -> Any:
    return (A @ B) @ (C @ D)


@kernel(matrices("nm", "m"), 17, 1000)
def atax(A: Any, x: Any) -> Any:
    return (A @ x) @ A


@kernel(matrices("nm", "m", "n"), 17, 1000)
def bicg(A: Any, p: Any, r: Any) -> Any:
    return r @ A, A @ p


@kernel(matrices("nn", "n", "n", "n", "n"), 17, 1000)
def mvt(A: Any, x: Any, y: Any, u: Any, v: Any) -> None:
    x += A @ u
    y += v @ A


@kernel(matrices("nn", "nn", "n"), 17, 1000)
def gesummv(A: Any, B: Any, x: Any) -> Any:
    return 1.5 * A @ x + 1.2 * B @ x


@kernel(matrices("nm"), 17, 400)
def covariance(data: Any) -> Any:
    mean = np.mean(data, axis=0)
    data = data - mean
    m = data.shape[1]
    cov = np.zeros((m, m), data.dtype)
    for i in range(m):
        cov[i:m, i] = data[:, i] @ data[:, i:m] / (data.shape[0] - 1.0)
        cov[i, i:m] = cov[i:m, i]
    return cov


@kernel(matrices("nm"), 17, 400)
def correlation(data: Any) -> Any:
    std = np.std(data, axis=0)
    std[std <= 0.1] = 1.0
    data = (data - np.mean(data, axis=0)) / (np.sqrt(data.shape[0]) * std)
    m = data.shape[1]
    corr = np.eye(m)
    for i in range(m - 1):
        corr[i + 1 :, i] = corr[i, i + 1 :] = data[:, i] @ data[:, i + 1 :]
    return corr


@kernel(definite(), 13, 250)
def lu(A: Any) -> None:
    n = A.shape[0]
    for i in range(n):
        for j in range(i):
            A[i, j] -= A[i, :j] @ A[:j, j]
            A[i, j] /= A[j, j]
        for j in range(i, n):
            A[i, j] -= A[i, :i] @ A[:i, j]


@kernel(definite("n"), 13, 250)
def ludcmp(A: Any, b: Any) -> Any:
    n = A.shape[0]
    x = np.zeros_like(b)
    y = np.zeros_like(b)
    for i in range(n):
        for j in range(i):
            A[i, j] = (A[i, j] - A[i, :j] @ A[:j, j]) / A[j, j]
        for j in range(i, n):
            A[i, j] -= A[i, :i] @ A[:i, j]
    for i in range(n):
        y[i] = b[i] - A[i, :i] @ y[:i]
    for i in range(n - 1, -1, -1):
        x[i] = (y[i] - A[i, i + 1 :] @ x[i + 1 :]) / A[i, i]
    return x


@kernel(definite(), 13, 400)
def cholesky(A: Any) -> None:
    A[0, 0] = np.sqrt(A[0, 0])
    for i in range(1, A.shape[0]):
        for j in range(i):
            A[i, j] -= np.dot(A[i, :j], A[j, :j])
            A[i, j] /= A[j, j]
        A[i, i] -= np.dot(A[i, :i], A[i, :i])
        A[i, i] = np.sqrt(A[i, i])


@kernel(matrices("n"), 13, 1000)
def durbin(r: Any) -> Any:
    y = np.empty_like(r)
    alpha = -r[0]
    beta = 1.0
    y[0] = -r[0]
    for k in range(1, r.shape[0]):
        beta *= 1.0 - alpha * alpha
        alpha = -(r[k] + np.dot(np.flip(r[:k]), y[:k])) / beta
        y[:k] += alpha * np.flip(y[:k])
        y[k] = alpha
    return y


@kernel(triangular("n"), 13, 2000)
def trisolv(L: Any, b: Any) -> Any:
    x = np.empty_like(b)
    for i in range(x.shape[0]):
        x[i] = (b[i] - L[i, :i] @ x[:i]) / L[i, i]
    return x


@kernel(matrices("nm"), 13, 200)
def gramschmidt(A: Any) -> Any:
    n = A.shape[1]
    Q = np.zeros_like(A)
    R = np.zeros((n, n), A.dtype)
    for k in range(n):
        R[k, k] = np.sqrt(np.dot(A[:, k], A[:, k]))
        Q[:, k] = A[:, k] / R[k, k]
        for j in range(k + 1, n):
            R[k, j] = np.dot(Q[:, k], A[:, j])
            A[:, j] -= Q[:, k] * R[k, j]
    return Q, R


@kernel(matrices("nn", "nm"), 13, 300)
def syrk(C: Any, A: Any) -> None:
    for i in range(A.shape[0]):
        C[i, : i + 1] *= 1.2
        for k in range(A.shape[1]):
            C[i, : i + 1] += 1.5 * A[i, k] * A[: i + 1, k]


@kernel(triangular("nm"), 13, 300)
def trmm(A: Any, B: Any) -> None:
    for i in range(B.shape[0]):
        for j in range(B.shape[1]):
            B[i, j] += np.dot(A[i + 1 :, i], B[i + 1 :, j])
    B *= 1.5


@kernel(matrices("nn", "nm", "nm"), 13, 200)
def syr2k(C: Any, A: Any, B: Any) -> None:
    for i in range(A.shape[0]):
        C[i, : i + 1] *= 1.2
        for k in range(A.shape[1]):
            C[i, : i + 1] += A[: i + 1, k] * 1.5 * B[i, k] + B[: i + 1, k] * 1.5 * A[i, k]


@kernel(matrices("nnn", "nn"), 7, 60)
def doitgen(A: Any, C4: Any) -> None:
    for r in range(A.shape[0]):
        for q in range(A.shape[1]):
            A[r, q, :] = A[r, q, :] @ C4
