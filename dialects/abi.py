"""
The frozen native interface between generated code and the runtime (decisions.md D2), as numbers.

``i32 f(ptr ctx, ptr args, ptr sizes, ptr outs)``: `args` and `outs` are arrays of data pointers,
`sizes` holds the i64 index arguments of the main function in order. Lowering writes code against
these offsets, the runtime fills them; neither imports the other.
"""

from __future__ import annotations

from typing import Final

STATUS_OK: Final = 0
STATUS_RUN_TIME_ERROR: Final = 1  # see the error word: site, value, extent
STATUS_OUT_OF_MEMORY: Final = 2  # the grow callback failed; error_value holds the bytes asked for
STATUS_CANCELLED: Final = 3

# Byte offsets in the context that every call receives.
CTX_ARENA: Final = 0  # ptr, 64-byte aligned
CTX_ARENA_BYTES: Final = 8  # i64
CTX_THREADS: Final = 16  # i64
CTX_CANCEL: Final = 24  # ptr to an i64 counter
CTX_CANCEL_BASE: Final = 32  # i64; cancelled when the counter differs from it
CTX_ERROR_SITE: Final = 40  # i64; 0 none, else the site's number
CTX_ERROR_VALUE: Final = 48  # i64
CTX_GROW: Final = 56  # ptr to i32 (ptr ctx, i64 bytes); 0 when it could
CTX_PRIVATE: Final = 64  # ptr, the runtime's
CTX_ERROR_EXTENT: Final = 72  # i64
CTX_TAKEN: Final = 80  # i64, trips that workers have taken since they met; zero before a call
CTX_TEAM: Final = 128  # the barrier's lines of 64 bytes: word, root, 16 groups; zero before a call
CTX_BYTES: Final = 1280

# Byte offsets in the state of one loaded entry, which the shim reads. Private to shim and runtime.
STATE_FREE_CONTEXTS: Final = 0  # ptr, head of a list linked through CTX_PRIVATE
STATE_SLOW: Final = 8  # PyObject*, called with the same arguments when a check fails
STATE_ON_STATUS: Final = 16  # PyObject*, called with (status, site, value, extent); raises
STATE_THREADS: Final = 24  # ptr to an i64
STATE_CALLS: Final = 32  # i64, calls that the shim took
STATE_BYTES: Final = 40

STATE_SYMBOL: Final = "mlc_entry_state"

LIBRARY_SYMBOL: Final = "mlc_library"
"""Imported by kernels that let NumPy compute: runtime/library.py."""

LAPACK_SYMBOL: Final = "mlc_lapack_routine"
"""``ptr (i64 number)``: a routine by its place in `LAPACK`; null where nobody has it."""

_BOTH: Final = {
    "gesv": "iiaiaai",  # n nrhs A lda pivots B ldb
    "potrf": "ciai",  # uplo n A lda
    "getrf": "iiaia",  # m n A lda pivots
    "geqrf": "iiaiaai",  # m n A lda tau work lwork
}
LAPACK: Final[dict[str, str]] = {
    **{f"{kind}{name}": takes for name, takes in _BOTH.items() for kind in "dz"},
    "dorgqr": "iiiaiaai",  # m n k A lda tau work lwork
    "zungqr": "iiiaiaai",
    "dgesdd": "ciiaiaaiaiaia",  # jobz m n A lda S U ldu VT ldvt work lwork iwork
    "zgesdd": "ciiaiaaiaiaiaa",  # … rwork iwork
    "dsyevd": "cciaiaaiai",  # jobz uplo n A lda W work lwork iwork liwork
    "zheevd": "cciaiaaiaiai",  # … rwork lrwork iwork liwork
    "dgeev": "cciaiaaaiaiai",  # jobvl jobvr n A lda wr wi VL ldvl VR ldvr work lwork
    "zgeev": "cciaiaaiaiaia",  # jobvl jobvr n A lda w VL ldvl VR ldvr work lwork rwork
    "dgelsd": "iiiaiaiaaaaia",  # m n nrhs A lda B ldb S rcond rank work lwork iwork
    "zgelsd": "iiiaiaiaaaaiaa",  # … rwork iwork
}
"""
Routine -> its arguments: characters, integers, addresses of arrays. Behind them all take `info`,
and then the length of each character. Code asks for a routine by its place in this table. Double
precision alone: NumPy computes all of ``numpy.linalg`` so. SOURCE: LAPACK Users' Guide, 3rd edition
"""

BARRIER_SYMBOL: Final = "mlc_team_barrier"
"""``i1 (ptr ctx, i64 worker, i64 workers)``: true where the team must stop. runtime/barrier.ll."""

TAKE_SYMBOL: Final = "mlc_team_take"
"""``i64 (ptr ctx, i64 last, i64 threads)``: the next trip. runtime/barrier.ll."""

TEAM_SYMBOL: Final = "mlc_team_size"
"""``i64 (i64 threads, i64 shares, i64 waking)``: workers of a call's team. runtime/team.ll."""

PROFILE_BEGIN: Final = "mlc_profile_begin"
PROFILE_END: Final = "mlc_profile_end"
"""Called around kernel number i64 by entries that are profiled: runtime/kernel_clock.ll."""

POINTER_ALIGNMENT: Final = 16
"""Bytes; what kernels of a GPU take for granted of every array."""

LARGE_RESULT_BYTES: Final = 1 << 20
"""Results from this size on come from the pool of released buffers (decisions.md D12)."""

GIL_RELEASE_NS: Final = 20_000
"""Predicted time from which a call releases the GIL (decisions.md D4; a pair costs 40 ns)."""


def shim_symbol(name: str) -> str:
    """The symbol of the METH_FASTCALL | METH_KEYWORDS function in front of entry `name`."""
    return f"{name}.shim"


# Struct offsets of CPython 3.11-3.14 (default build) and NumPy 2 that the shim reads.
# runtime/layout.py checks each of them on a small array before any shim is used.
OBJECT_TYPE: Final = 8  # PyObject.ob_type
FLOAT_VALUE: Final = 16  # PyFloatObject.ob_fval
ARRAY_DATA: Final = 16  # PyArrayObject_fields.data
ARRAY_NDIM: Final = 24  # .nd, i32
ARRAY_DIMENSIONS: Final = 32  # .dimensions
ARRAY_STRIDES: Final = 40  # .strides, bytes
ARRAY_DESCR: Final = 56  # .descr
ARRAY_FLAGS: Final = 64  # .flags, i32
DESCR_KIND: Final = 24  # kind, type, byteorder, flags (a byte each), then type_num (i32)
DESCR_BYTEORDER: Final = 26
DESCR_TYPE_NUM: Final = 28

FLAG_C_CONTIGUOUS: Final = 0x1
FLAG_ALIGNED: Final = 0x100
FLAG_WRITEABLE: Final = 0x400

# NumPy's fixed type numbers (numpy/ndarraytypes.h, enum NPY_TYPES) on LP64 systems.
TYPE_NUMS: Final = {
    "bool": 0,
    "i8": 1,
    "u8": 2,
    "i16": 3,
    "u16": 4,
    "i32": 5,
    "u32": 6,
    "i64": 7,
    "u64": 8,
    "f32": 11,
    "f64": 12,
    "c64": 14,
    "c128": 15,
    "f16": 23,
}
ML_DTYPES: Final = {
    "bf16": "bfloat16",
    "f8e4m3fn": "float8_e4m3fn",
    "f8e5m2": "float8_e5m2",
    "f8e4m3fnuz": "float8_e4m3fnuz",
    "f8e5m2fnuz": "float8_e5m2fnuz",
    "f8e8m0fnu": "float8_e8m0fnu",
    "f4e2m1fn": "float4_e2m1fn",
    "i2": "int2",
    "u2": "uint2",
    "i4": "int4",
    "u4": "uint4",
}
"""Dtypes of ml_dtypes, which NumPy numbers when they are registered, with their names there."""
STORED: Final = tuple(name for name in ML_DTYPES if name != "bf16")
"""Dtypes that are only stored, an element a byte."""
ITEM_BYTES: Final = {
    "bool": 1,
    "i8": 1,
    "u8": 1,
    "i16": 2,
    "u16": 2,
    "i32": 4,
    "u32": 4,
    "i64": 8,
    "u64": 8,
    "f16": 2,
    "bf16": 2,
    "f32": 4,
    "f64": 8,
    "c64": 8,
    "c128": 16,
    **dict.fromkeys(STORED, 1),
}


def dtype_symbol(dtype: str) -> str:
    """The imported symbol with the type number of a dtype that NumPy numbers at run time."""
    return f"mlc_type_num_{dtype}"
