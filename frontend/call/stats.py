"""What a compiled function has done so far: `step.stats()`."""

from __future__ import annotations

from mlc.lazy_dataclass import dataclass


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """One compiled program of a function."""

    signature: str  # the types of its arguments
    because: str  # why it exists
    trace_s: float
    compile_s: float
    from_cache: bool


@dataclass(frozen=True, kw_only=True)
class Stats:
    """
    Counters of one compiled function. Times are sums over its artifacts.

    `compilations` counts artifacts that were generated; those found in the cache on disk are
    `cache_hits`. Copies that a program itself makes are in its `exe.plan().copies`.
    """

    calls: int
    compilations: int
    cache_hits: int
    trace_s: float
    compile_s: float
    argument_bytes_copied: int  # of arrays that compiled code cannot address; remarks say why
    artifacts: tuple[Artifact, ...]
    remarks: tuple[str, ...]  # what was specialised, and where it was asked for

    def __str__(self) -> str:
        lines = [
            f"{self.calls} calls, {self.compilations} compilations, {self.cache_hits}"
            " from the cache;"
            f" traced in {self.trace_s * 1e3:.1f} ms, compiled in {self.compile_s * 1e3:.1f} ms"
        ]
        lines += [f"  {a.signature}: {a.because}" for a in self.artifacts]
        lines += [f"  remark: {remark}" for remark in self.remarks]
        return "\n".join(lines)
