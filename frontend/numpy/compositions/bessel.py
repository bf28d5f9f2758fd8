"""The modified Bessel function of order 0, by the Chebyshev series that NumPy has."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlc.dialects.errors import DTypeError
from mlc.frontend import numpy as mnp
from mlc.frontend.errors import located
from mlc.frontend.numpy.registry import composed
from mlc.frontend.numpy.values import strong
from mlc.frontend.trace.tracer import Tracer

NEAR = (
    *(-4.4153416464793395e-18, 3.3307945188222384e-17, -2.431279846547955e-16),
    *(1.715391285555133e-15, -1.1685332877993451e-14, 7.676185498604936e-14),
    *(-4.856446783111929e-13, 2.95505266312964e-12, -1.726826291441556e-11),
    *(9.675809035373237e-11, -5.189795601635263e-10, 2.6598237246823866e-09),
    *(-1.300025009986248e-08, 6.046995022541919e-08, -2.670793853940612e-07),
    *(1.1173875391201037e-06, -4.4167383584587505e-06, 1.6448448070728896e-05),
    *(-5.754195010082104e-05, 0.00018850288509584165, -0.0005763755745385824),
    *(0.0016394756169413357, -0.004324309995050576, 0.010546460394594998),
    *(-0.02373741480589947, 0.04930528423967071, -0.09490109704804764),
    *(0.17162090152220877, -0.3046826723431984, 0.6767952744094761),
)
"""For |x| <= 8, in x/2 - 2. Source: Cephes, i0.c; NumPy has the same numbers."""

FAR = (
    *(-7.233180487874754e-18, -4.830504485944182e-18, 4.46562142029676e-17),
    *(3.461222867697461e-17, -2.8276239805165836e-16, -3.425485619677219e-16),
    *(1.7725601330565263e-15, 3.8116806693526224e-15, -9.554846698828307e-15),
    *(-4.150569347287222e-14, 1.54008621752141e-14, 3.8527783827421426e-13),
    *(7.180124451383666e-13, -1.7941785315068062e-12, -1.3215811840447713e-11),
    *(-3.1499165279632416e-11, 1.1889147107846439e-11, 4.94060238822497e-10),
    *(3.3962320257083865e-09, 2.266668990498178e-08, 2.0489185894690638e-07),
    *(2.8913705208347567e-06, 6.889758346916825e-05, 0.0033691164782556943),
    *(0.8044904110141088,),
)
"""Beyond, in 32/x - 2."""


def _series(x: Tracer, coefficients: tuple[float, ...]) -> Tracer:
    """Clenshaw's recurrence."""
    ahead, twice_ahead = mnp.full_like(x, coefficients[0]), mnp.zeros_like(x)
    before = twice_ahead
    for value in coefficients[1:]:
        before, twice_ahead = twice_ahead, ahead
        ahead = x * twice_ahead - before + value
    return 0.5 * (ahead - before)


@composed(np.i0)
def i0(x: Any) -> Tracer:
    """The modified Bessel function of the first kind, order 0."""
    source = strong(x)
    if source.row.kind == "complex":
        raise located(DTypeError, "i0 not supported for complex values")
    source = source if source.row.kind == "float" else source.astype(np.float64)
    size = mnp.abs(source)
    near = mnp.less_equal(size, 8.0)
    low, high = mnp.where(near, size, 8.0), mnp.where(near, 8.0, size)
    inside = mnp.exp(low) * _series(low / 2.0 - 2.0, NEAR)
    outside = mnp.exp(high) * _series(32.0 / high - 2.0, FAR) / mnp.sqrt(high)
    return mnp.where(near, inside, outside)
