# pyright: basic
"""
Functions of CHLO and PyTorch that are not NumPy's, made of what there is.

SOURCE: inverse of the error function: Giles, "Approximating the erfinv function", GPU Computing
Gems 2, 2010, and two steps of Newton's method; digamma: Abramowitz and Stegun 6.3.5, 6.3.7, 6.3.18;
Hurwitz zeta: 23.2.7 there, and 6.4.10; Bessel functions: Abramowitz and Stegun 9.6.10, 9.7.1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from mlc.frontend.numpy.elementwise_math import erf, erfc, lgamma

Array = Any

_CENTRAL = (
    2.81022636e-08, 3.43273939e-07, -3.5233877e-06, -4.39150654e-06, 0.00021858087, -0.00125372503,
    -0.00417768164, 0.246640727, 1.50140941,
)  # fmt: skip
_TAIL = (
    -0.000200214257, 0.000100950558, 0.00134934322, -0.00367342844, 0.00573950773, -0.0076224613,
    0.00943887047, 1.00167406, 2.83297682,
)  # fmt: skip
_TERMS = 12
# B(2k) / (2k)! for k = 1, 2, …
_BERNOULLI = (
    1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000, 43867 / 5109094217170944000,
)  # fmt: skip
_STEPS = 3  # of Newton's method, from 1e-7 to the last bit of 64


def _polynomial(coefficients: tuple[float, ...], x: Array) -> Array:
    total = np.full_like(x, coefficients[0])
    for each in coefficients[1:]:
        total = total * x + x.dtype.type(each)
    return total


def erf_inv(x: Array) -> Array:
    """The number whose error function is x."""
    wide = x.astype(np.float64)
    inside = np.abs(wide) < 1
    y = np.where(inside, wide, 0.0)
    w = -np.log1p(-y * y)
    central, far = w < 5, np.sqrt(np.where(w < 5, 5.0, w)) - 3
    found = y * np.where(central, _polynomial(_CENTRAL, w - 2.5), _polynomial(_TAIL, far))
    for _ in range(_STEPS):
        positive = np.abs(found)
        left = np.where(positive > 0.5, (1 - np.abs(y)) - erfc(positive), np.abs(y) - erf(positive))
        left = np.where(positive > 0.5, -left, left)
        step = left * (np.sqrt(np.pi) / 2) * np.exp(positive * positive)
        found = np.copysign(positive + np.where(np.isfinite(step), step, 0.0), y)
    ends = np.where(np.abs(wide) == 1, np.copysign(np.inf, wide), np.nan)
    return np.where(inside, found, ends).astype(x.dtype)


def digamma(x: Array) -> Array:
    """The logarithmic derivative of the gamma function."""
    wide = x.astype(np.float64)
    mirrored = wide < 0.5
    y = np.where(mirrored, 1 - wide, wide)
    total = np.zeros_like(y)
    for _ in range(10):
        small = y < 10
        total = total - np.where(small, 1 / y, 0.0)
        y = y + np.where(small, 1.0, 0.0)
    r = 1 / (y * y)
    series = r * (1 / 12 - r * (1 / 120 - r * (1 / 252 - r * (1 / 240 - r * (1 / 132)))))
    found = total + np.log(y) - 0.5 / y - series
    found = np.where(mirrored, found - np.pi / np.tan(np.pi * (wide - np.rint(wide))), found)
    pole = (wide <= 0) & (wide == np.floor(wide))
    return np.where(pole, np.nan, found).astype(x.dtype)


def zeta(x: Array, q: Array) -> Array:
    """Hurwitz's zeta function, the sum of (q + k)^-x: by Euler and Maclaurin."""
    s, first = x.astype(np.float64), q.astype(np.float64)
    s = np.where(s > 1, s, 2.0)
    total = np.zeros_like(first + s)
    for k in range(_TERMS):
        total = total + (first + k) ** -s
    a = first + _TERMS
    power = a**-s
    total = total + power * a / (s - 1) + power / 2
    factor, power = s, power / a
    for k, number in enumerate(_BERNOULLI):
        total = total + number * factor * power
        factor = factor * (s + 2 * k + 1) * (s + 2 * k + 2)
        power = power / (a * a)
    wide, q = x.astype(np.float64), q.astype(np.float64)
    pole = (q <= 0) & (q == np.floor(q))
    nowhere = (wide < 1) | ((q < 0) & (wide != np.floor(wide)))
    total = np.where(wide == 1, np.inf, np.where(pole, np.inf, np.where(nowhere, np.nan, total)))
    return np.where(np.isnan(wide) | np.isnan(q), np.nan, total).astype(x.dtype)


def polygamma(n: Array, x: Array) -> Array:
    """The derivative of order n of `digamma`."""
    order = n.astype(np.float64)
    wide = x.astype(np.float64)
    sign = np.where(order % 2 == 0, -1.0, 1.0)
    found = sign * np.exp(lgamma(order + 1)) * zeta(order + 1, wide)
    found = np.where(order == 0, digamma(wide), found)
    wrong = (order < 0) | (order != np.floor(order))
    return np.where(wrong, np.nan, found).astype(x.dtype)


def bessel(order: int) -> Callable[[Array], Array]:
    """exp(-|x|) times the modified Bessel function of the first kind."""

    def apply(x: Array) -> Array:
        wide = np.abs(x.astype(np.float64))
        near = np.where(wide < 25, wide, 0.0)
        term = np.ones_like(near) if order == 0 else near / 2
        total, square = term, near * near / 4
        for k in range(1, 70):
            term = term * square / (k * (k + order))
            total = total + term
        far = np.where(wide < 25, 25.0, wide)
        part, asymptotic = np.ones_like(far), np.ones_like(far)
        for k in range(1, 20):
            part = -part * (4 * order * order - (2 * k - 1) ** 2) / (k * 8 * far)
            asymptotic = asymptotic + part
        found = np.where(wide < 25, total * np.exp(-near), asymptotic / np.sqrt(2 * np.pi * far))
        found = np.where(np.isinf(wide), 0.0, found)
        found = np.where(np.isnan(wide), np.nan, found)
        return (np.where(x < 0, -found, found) if order else found).astype(x.dtype)

    return apply


ROWS: Mapping[str, Callable[..., Array]] = {
    "chlo.erf": erf, "chlo.erfc": erfc, "chlo.lgamma": lgamma, "chlo.erf_inv": erf_inv,
    "chlo.digamma": digamma, "chlo.zeta": zeta,
    "chlo.polygamma": polygamma, "chlo.bessel_i0e": bessel(0), "chlo.bessel_i1e": bessel(1),
}  # fmt: skip
