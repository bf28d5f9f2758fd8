# pyright: basic
"""Conversions of models to floats of 8 bits and the like."""

from __future__ import annotations

from typing import Any

import numpy as np
from ml_dtypes import finfo

from mlc.dialects.dtypes import is_real

Array = Any


def saturated(x: Array, dtype: np.dtype[Any]) -> Array:
    """A conversion that leaves no number infinite: the largest there is stands for larger ones."""
    wide = x if is_real(x.dtype) else x.astype(np.float32)
    most = wide.dtype.type(finfo(dtype).max)
    return np.clip(wide, -most, most).astype(dtype)
