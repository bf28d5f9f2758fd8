"""
Cycles that each op takes, for a vector of a machine's width: data, measured.

`WEIGHT` on the ops is in additions on a machine with AVX-512, where vector math has tables in
registers; an addition is half a cycle. Machines without such tables compute longer polynomials.
"""

from __future__ import annotations

from mlc.dialects.target import CpuTarget
from mlc.dialects.tensor.create import ConstantOp, IotaOp
from mlc.dialects.tensor.op import TensorOp
from mlc.dialects.tensor.reduce import Reduction

ADD_CYCLES = 0.5
"""An addition: two vector units. Source: the optimization guides that `fma_ports` cites."""

WITHOUT_TABLES = {
    "mlc.exp": (9.0, 19.5), "mlc.exp2": (10.5, 20.0), "mlc.expm1": (12.0, 19.0),
    "mlc.log": (23.0, 30.0), "mlc.log2": (30.0, 39.0), "mlc.log10": (33.0, 42.0),
    "mlc.log1p": (25.0, 36.0), "mlc.sqrt": (5.0, 9.0), "mlc.rsqrt": (8.0, 14.5),
    "mlc.cbrt": (43.0, 49.0), "mlc.sin": (21.0, 28.0), "mlc.cos": (21.0, 28.0),
    "mlc.tan": (35.0, 44.0), "mlc.asin": (17.5, 31.0), "mlc.acos": (18.5, 29.0),
    "mlc.atan": (30.0, 43.0), "mlc.sinh": (18.5, 28.0), "mlc.cosh": (14.0, 23.0),
    "mlc.tanh": (23.0, 34.0), "mlc.asinh": (64.0, 76.0), "mlc.acosh": (54.0, 68.0),
    "mlc.atanh": (42.0, 51.0), "mlc.div": (3.0, 5.0), "mlc.pow": (88.0, 115.0),
    "mlc.atan2": (50.0, 62.0), "mlc.mod": (13.0, 14.0), "mlc.rem": (9.0, 10.0),
    "mlc.floor_div": (21.0, 26.0), "mlc.hypot": (18.0, 10.0), "mlc.erf": (73.0, 95.0),
    "mlc.erfc": (79.0, 106.0), "mlc.lgamma": (270.0, 140.0),
}  # fmt: skip
"""f32 and f64, 256 bits. Measured: docs/measurements.md, Cost model."""

IOTA_CYCLES = 1.0
"""A position as a number, per element. Measured: docs/measurements.md, Cost model."""


def op_cycles(op: TensorOp, lanes: int, target: CpuTarget) -> float:
    """Cycles of `lanes` results of an op that is computed element by element, operands at hand."""
    if isinstance(op, IotaOp):
        return IOTA_CYCLES * lanes
    if not op.FLOPS or isinstance(op, Reduction | ConstantOp):
        return 0.0
    native = max(1.0, lanes * op.dtype.bytes * 8 / target.vector_bits)
    found = WITHOUT_TABLES.get(op.name)
    if found is None or target.has_lane_tables:
        return native * op.WEIGHT * ADD_CYCLES
    return native * found[op.dtype.bytes > 4]
