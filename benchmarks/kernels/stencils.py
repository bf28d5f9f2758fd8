"""
Stencils and fluids.

SOURCE: PolyBench/C 4.2 (jacobi to deriche); L. A. Barba, G. F. Forsyth, "CFD Python", 2018 (cavity,
channel); the dynamical core of COSMO (horizontal diffusion, vertical advection).
"""

# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownArgumentType=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.kernels.model import Arrays, kernel, matrices

STEPS = 20


@kernel(matrices("n", "n"), 30, 100_000)
def jacobi_1d(A: Any, B: Any) -> None:
    for _ in range(1, STEPS):
        B[1:-1] = 0.33333 * (A[:-2] + A[1:-1] + A[2:])
        A[1:-1] = 0.33333 * (B[:-2] + B[1:-1] + B[2:])


@kernel(matrices("nn", "nn"), 14, 500)
def jacobi_2d(A: Any, B: Any) -> None:
    for _ in range(1, STEPS):
        B[1:-1, 1:-1] = 0.2 * (
            A[1:-1, 1:-1] + A[1:-1, :-2] + A[1:-1, 2:] + A[2:, 1:-1] + A[:-2, 1:-1]
        )
        A[1:-1, 1:-1] = 0.2 * (
            B[1:-1, 1:-1] + B[1:-1, :-2] + B[1:-1, 2:] + B[2:, 1:-1] + B[:-2, 1:-1]
        )


def _heat(A: Any) -> Any:
    c = A[1:-1, 1:-1, 1:-1]
    return (
        0.125 * (A[2:, 1:-1, 1:-1] - 2.0 * c + A[:-2, 1:-1, 1:-1])
        + 0.125 * (A[1:-1, 2:, 1:-1] - 2.0 * c + A[1:-1, :-2, 1:-1])
        + 0.125 * (A[1:-1, 1:-1, 2:] - 2.0 * c + A[1:-1, 1:-1, :-2])
        + c
    )


@kernel(matrices("nnn", "nnn"), 8, 60)
def heat_3d(A: Any, B: Any) -> None:
    for _ in range(1, STEPS):
        B[1:-1, 1:-1, 1:-1] = _heat(A)
        A[1:-1, 1:-1, 1:-1] = _heat(B)


@kernel(matrices("nn"), 12, 120, scalar=True)
def seidel_2d(A: Any) -> None:
    n = A.shape[0]
    for _ in range(STEPS):
        for i in range(1, n - 1):
            A[i, 1:-1] += A[i - 1, :-2] + A[i - 1, 1:-1] + A[i - 1, 2:]
            A[i, 1:-1] += A[i, 2:] + A[i + 1, :-2] + A[i + 1, 1:-1] + A[i + 1, 2:]
            for j in range(1, n - 1):
                A[i, j] += A[i, j - 1]
                A[i, j] /= 9.0


def _fields(rng: np.random.Generator, n: int) -> Arrays:
    return (*(rng.random((n, n)) for _ in range(3)), rng.random(STEPS))


@kernel(_fields, 13, 300)
def fdtd_2d(ex: Any, ey: Any, hz: Any, source: Any) -> None:
    for t in range(source.shape[0]):
        ey[0, :] = source[t]
        ey[1:, :] -= 0.5 * (hz[1:, :] - hz[:-1, :])
        ex[:, 1:] -= 0.5 * (hz[:, 1:] - hz[:, :-1])
        hz[:-1, :-1] -= 0.7 * (ex[:-1, 1:] - ex[:-1, :-1] + ey[1:, :-1] - ey[:-1, :-1])


@kernel(matrices("nn"), 10, 100)
def adi(u: Any) -> None:
    n = u.shape[0]
    v = np.empty_like(u)
    p = np.empty_like(u)
    q = np.empty_like(u)
    b1 = 2.0 * n * n / STEPS
    b2 = 1.0 * n * n / STEPS
    a, d = -b1 / 2.0, -b2 / 2.0
    b, e = 1.0 + b1, 1.0 + b2
    for _ in range(1, STEPS + 1):
        v[0, 1 : n - 1] = 1.0
        p[1 : n - 1, 0] = 0.0
        q[1 : n - 1, 0] = v[0, 1 : n - 1]
        for j in range(1, n - 1):
            p[1 : n - 1, j] = -a / (a * p[1 : n - 1, j - 1] + b)
            q[1 : n - 1, j] = (
                -d * u[j, 0 : n - 2]
                + (1.0 + 2.0 * d) * u[j, 1 : n - 1]
                - d * u[j, 2:n]
                - a * q[1 : n - 1, j - 1]
            ) / (a * p[1 : n - 1, j - 1] + b)
        v[n - 1, 1 : n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            v[j, 1 : n - 1] = p[1 : n - 1, j] * v[j + 1, 1 : n - 1] + q[1 : n - 1, j]
        u[1 : n - 1, 0] = 1.0
        p[1 : n - 1, 0] = 0.0
        q[1 : n - 1, 0] = u[1 : n - 1, 0]
        for j in range(1, n - 1):
            p[1 : n - 1, j] = -d / (d * p[1 : n - 1, j - 1] + e)
            q[1 : n - 1, j] = (
                -a * v[0 : n - 2, j]
                + (1.0 + 2.0 * a) * v[1 : n - 1, j]
                - a * v[2:n, j]
                - d * q[1 : n - 1, j - 1]
            ) / (d * p[1 : n - 1, j - 1] + e)
        u[1 : n - 1, n - 1] = 1.0
        for j in range(n - 2, 0, -1):
            u[1 : n - 1, j] = p[1 : n - 1, j] * u[1 : n - 1, j + 1] + q[1 : n - 1, j]


@kernel(matrices("nn"), 12, 200)
def deriche(image: Any) -> Any:
    k = (1.0 - np.exp(-0.25)) ** 2 / (1.0 + 0.5 * np.exp(-0.25) - np.exp(-0.5))
    a1 = a5 = k
    a2 = a6 = k * np.exp(-0.25) * (0.25 - 1.0)
    a3 = a7 = k * np.exp(-0.25) * (0.25 + 1.0)
    a4 = a8 = -k * np.exp(-0.5)
    b1 = 2.0**-0.25
    b2 = -np.exp(-0.5)
    y1 = np.empty_like(image)
    y1[:, 0] = a1 * image[:, 0]
    y1[:, 1] = a1 * image[:, 1] + a2 * image[:, 0] + b1 * y1[:, 0]
    for j in range(2, image.shape[1]):
        y1[:, j] = a1 * image[:, j] + a2 * image[:, j - 1] + b1 * y1[:, j - 1] + b2 * y1[:, j - 2]
    y2 = np.empty_like(image)
    y2[:, -1] = 0.0
    y2[:, -2] = a3 * image[:, -1]
    for j in range(image.shape[1] - 3, -1, -1):
        y2[:, j] = (
            a3 * image[:, j + 1] + a4 * image[:, j + 2] + b1 * y2[:, j + 1] + b2 * y2[:, j + 2]
        )
    out = y1 + y2
    y1[0, :] = a5 * out[0, :]
    y1[1, :] = a5 * out[1, :] + a6 * out[0, :] + b1 * y1[0, :]
    for i in range(2, image.shape[0]):
        y1[i, :] = a5 * out[i, :] + a6 * out[i - 1, :] + b1 * y1[i - 1, :] + b2 * y1[i - 2, :]
    y2[-1, :] = 0.0
    y2[-2, :] = a7 * out[-1, :]
    for i in range(image.shape[0] - 3, -1, -1):
        y2[i, :] = a7 * out[i + 1, :] + a8 * out[i + 2, :] + b1 * y2[i + 1, :] + b2 * y2[i + 2, :]
    return y1 + y2


def _diffusion(rng: np.random.Generator, n: int) -> Arrays:
    return rng.random((n + 4, n + 4, 20)), rng.random((n, n, 20))


@kernel(_diffusion, 8, 80)
def hdiff(field: Any, coefficient: Any) -> Any:
    i, j = coefficient.shape[0], coefficient.shape[1]
    lap = 4.0 * field[1 : i + 3, 1 : j + 3, :] - (
        field[2 : i + 4, 1 : j + 3, :]
        + field[0 : i + 2, 1 : j + 3, :]
        + field[1 : i + 3, 2 : j + 4, :]
        + field[1 : i + 3, 0 : j + 2, :]
    )
    res = lap[1:, 1 : j + 1, :] - lap[:-1, 1 : j + 1, :]
    step = field[2 : i + 3, 2 : j + 2, :] - field[1 : i + 2, 2 : j + 2, :]
    flx = np.where(res * step > 0, 0, res)
    res = lap[1 : i + 1, 1:, :] - lap[1 : i + 1, :-1, :]
    step = field[2 : i + 2, 2 : j + 3, :] - field[2 : i + 2, 1 : j + 2, :]
    fly = np.where(res * step > 0, 0, res)
    return field[2 : i + 2, 2 : j + 2, :] - coefficient * (
        flx[1:, :, :] - flx[:-1, :, :] + fly[:, 1:, :] - fly[:, :-1, :]
    )


def _columns(rng: np.random.Generator, n: int) -> Arrays:
    return rng.random((n, n, 30)), rng.random((n, n, 30)), rng.random((n + 1, n, 30))


@kernel(_columns, 6, 60)
def vadv(u_stage: Any, u_pos: Any, wcon: Any) -> Any:
    levels = u_stage.shape[2]
    cc = np.empty_like(u_stage)
    dc = np.empty_like(u_stage)
    out = np.empty_like(u_stage)
    for k in range(levels):
        below = (
            0.25 * (wcon[1:, :, k] + wcon[:-1, :, k]) if k > 0 else np.zeros_like(u_pos[:, :, k])
        )
        if k < levels - 1:
            above = 0.25 * (wcon[1:, :, k + 1] + wcon[:-1, :, k + 1])
        else:
            above = np.zeros_like(u_pos[:, :, k])
        a, c = -0.5 * below, 0.5 * above
        b = 3.0 - a - c
        correction = 0.3 * u_pos[:, :, k]
        if k > 0:
            correction = correction - a * (u_stage[:, :, k - 1] - u_stage[:, :, k])
        if k < levels - 1:
            correction = correction - c * (u_stage[:, :, k + 1] - u_stage[:, :, k])
        if k == 0:
            cc[:, :, k] = c / b
            dc[:, :, k] = correction / b
        else:
            divided = 1.0 / (b - cc[:, :, k - 1] * a)
            cc[:, :, k] = c * divided
            dc[:, :, k] = (correction - dc[:, :, k - 1] * a) * divided
    for k in range(levels - 1, -1, -1):
        if k < levels - 1:
            dc[:, :, k] -= cc[:, :, k] * dc[:, :, k + 1]
        out[:, :, k] = 3.0 * (dc[:, :, k] - u_pos[:, :, k])
    return out


def _pressure_source(u: Any, v: Any, dt: float, dx: float) -> Any:
    du = (u[1:-1, 2:] - u[1:-1, :-2]) / (2 * dx)
    dv = (v[2:, 1:-1] - v[:-2, 1:-1]) / (2 * dx)
    cross = (u[2:, 1:-1] - u[:-2, 1:-1]) * (v[1:-1, 2:] - v[1:-1, :-2]) / (2 * dx * dx)
    return (du + dv) / dt - du**2 - cross - dv**2


def _momentum(q: Any, u: Any, v: Any, pressure: Any, dt: float, dx: float) -> Any:
    c = q[1:-1, 1:-1]
    return (
        c
        - u[1:-1, 1:-1] * dt / dx * (c - q[1:-1, :-2])
        - v[1:-1, 1:-1] * dt / dx * (c - q[:-2, 1:-1])
        - dt / (2 * dx) * pressure
        + 0.1 * dt / dx**2 * (q[1:-1, 2:] + q[1:-1, :-2] + q[2:, 1:-1] + q[:-2, 1:-1] - 4 * c)
    )


def _zeros(count: int) -> Any:
    def build(_: np.random.Generator, n: int) -> Arrays:
        return tuple(np.zeros((n, n)) for _ in range(count))

    return build


@kernel(_zeros(3), 12, 80)
def cavity_flow(u: Any, v: Any, p: Any) -> None:
    dx, dt = 2.0 / (u.shape[0] - 1), 0.0001
    b = np.zeros_like(p)
    for _ in range(STEPS):
        un, vn = u.copy(), v.copy()
        b[1:-1, 1:-1] = _pressure_source(u, v, dt, dx)
        for _ in range(10):
            pn = p.copy()
            p[1:-1, 1:-1] = (
                pn[1:-1, 2:]
                + pn[1:-1, :-2]
                + pn[2:, 1:-1]
                + pn[:-2, 1:-1]
                - dx * dx * b[1:-1, 1:-1]
            ) / 4
            p[:, -1] = p[:, -2]
            p[0, :] = p[1, :]
            p[:, 0] = p[:, 1]
            p[-1, :] = 0
        u[1:-1, 1:-1] = _momentum(un, un, vn, p[1:-1, 2:] - p[1:-1, :-2], dt, dx)
        v[1:-1, 1:-1] = _momentum(vn, un, vn, p[2:, 1:-1] - p[:-2, 1:-1], dt, dx)
        u[0, :] = u[:, 0] = u[:, -1] = 0
        u[-1, :] = 1
        v[0, :] = v[-1, :] = v[:, 0] = v[:, -1] = 0


@kernel(_zeros(2), 12, 80)
def channel_flow(u: Any, v: Any) -> int:
    dx, dt = 2.0 / (u.shape[0] - 1), 0.0001
    change = 1.0
    steps = 0
    while change > 0.01:
        un = u.copy()
        vn = v.copy()
        u[1:-1, 1:-1] = _momentum(un, un, vn, 0.0, dt, dx) + dt
        v[1:-1, 1:-1] = _momentum(vn, un, vn, 0.0, dt, dx)
        u[1:-1, 0] = u[1:-1, -2]
        u[1:-1, -1] = u[1:-1, 1]
        u[0, :] = u[-1, :] = 0
        change = (np.sum(u) - np.sum(un)) / np.sum(u)
        steps += 1
    return steps


def _images(rng: np.random.Generator, n: int) -> Arrays:
    return rng.random((2, n, n, 3)), rng.random((3, 3, 3, 8)), rng.random(8)


@kernel(_images, 7, 48)
def conv2d(images: Any, weights: Any, bias: Any) -> Any:
    k = weights.shape[0]
    n, height, width, _ = images.shape
    out = np.empty((n, height - k + 1, width - k + 1, weights.shape[3]))
    for i in range(height - k + 1):
        for j in range(width - k + 1):
            out[:, i, j, :] = np.sum(
                images[:, i : i + k, j : j + k, :, np.newaxis] * weights[np.newaxis, :, :, :],
                axis=(1, 2, 3),
            )
    return out + bias


def _maps(rng: np.random.Generator, n: int) -> Arrays:
    return (rng.random((4, n, n, 8)),)


@kernel(_maps, 12, 32)
def max_pool(x: Any) -> Any:
    n, height, width, channels = x.shape
    out = np.empty((n, height // 2, width // 2, channels), x.dtype)
    for i in range(height // 2):
        for j in range(width // 2):
            out[:, i, j, :] = np.max(x[:, 2 * i : 2 * i + 2, 2 * j : 2 * j + 2, :], axis=(1, 2))
    return out
