"""What StableHLO calls element types. SOURCE: StableHLO specification, "Types"."""

from __future__ import annotations

from collections.abc import Mapping

ELEMENTS: Mapping[str, str] = {
    "i1": "bool", "i8": "i8", "i16": "i16", "i32": "i32", "i64": "i64", "ui8": "u8", "ui16": "u16",
    "ui32": "u32", "ui64": "u64", "f16": "f16", "bf16": "bf16", "f32": "f32", "f64": "f64",
    "complex<f32>": "c64", "complex<f64>": "c128", "f8E4M3FN": "f8e4m3fn", "f8E5M2": "f8e5m2",
}  # fmt: skip
"""StableHLO's element types -> ours."""
