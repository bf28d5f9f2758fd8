"""What StableHLO calls element types. SOURCE: StableHLO specification, "Types"."""

from __future__ import annotations

from collections.abc import Mapping

ELEMENTS: Mapping[str, str] = {
    "i1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "ui8": "u8", "ui16": "u16",
    "ui32": "u32", "ui64": "u64", "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64",
    "complex<f32>": "c64", "complex<f64>": "c128", "f8E4M3FN": "f8e4m3fn", "f8E5M2": "f8e5m2",
    "f8E4M3FNUZ": "f8e4m3fnuz", "f8E5M2FNUZ": "f8e5m2fnuz", "f8E8M0FNU": "f8e8m0fnu",
    "f4E2M1FN": "f4e2m1fn", "i2": "i2", "i4": "i4", "ui2": "u2", "ui4": "u4",
}  # fmt: skip
"""StableHLO's element types -> ours."""
