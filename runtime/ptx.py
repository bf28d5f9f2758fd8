"""LLVM IR text to PTX, from the cache where the text is known. Needs no GPU and no CUDA toolkit."""

from __future__ import annotations

from mlc.dialects.target.gpu import GpuTarget
from mlc.runtime import cache
from mlc.runtime.llvm import emit_nvptx

_HEAD_ENDS = ".address_size 64\n"
OPT_LEVEL = 3  # kernels arrive as loops over single elements: unrolling is LLVM's


def emit_ptx(llvm_text: str, target: GpuTarget) -> str:
    """The PTX of one module with kernels."""
    key = cache.object_key(b"ptx", llvm_text.encode(), target.isa().encode(), bytes([OPT_LEVEL]))
    objects = cache.object_cache()
    known = objects.get(key)
    if known is None or _HEAD_ENDS.encode() not in known:
        known = emit_nvptx(llvm_text, target.sm, target.ptx_version, OPT_LEVEL).encode()
        objects.put(key, known)
    return known.decode(errors="replace")
