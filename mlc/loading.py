"""Code of a CPU, from whatever has kept it, in this process: no compiler stands behind it."""

from __future__ import annotations

from collections.abc import Callable

from mlc.artifact import Artifact
from mlc.dialects.target import CpuTarget
from mlc.error_sites import raiser
from mlc.runtime.entry import LoadedEntry, load_entry


def load_cpu(
    artifact: Artifact, target: CpuTarget, slow: Callable[..., object], threads: int | None
) -> LoadedEntry:
    """The entry; LoadError where its objects cannot be linked."""
    assert isinstance(artifact.host, tuple)
    return load_entry(
        [code.image for code in (*artifact.kernels, *artifact.host)],
        artifact.name,
        artifact.signature,
        slow=slow,
        on_error=raiser(artifact.sites),
        thread_count=threads,
    )
