"""Code of a CPU, from whatever has kept it, in this process: no compiler stands behind it."""

from __future__ import annotations

from collections.abc import Callable

from mlc.artifact import Artifact
from mlc.dialects.errors import MlcError
from mlc.dialects.target import CpuTarget
from mlc.runtime.entry import LoadedEntry, load_entry
from mlc.runtime.features import of_vectors
from mlc.runtime.sites import raiser


def load_cpu(
    artifact: Artifact, target: CpuTarget, slow: Callable[..., object], threads: int | None
) -> LoadedEntry:
    """The entry; LoadError where its objects cannot be linked, MlcError on another machine."""
    _check_runs(artifact, target)
    assert isinstance(artifact.host, tuple)
    return load_entry(
        [code.image for code in (*artifact.kernels, *artifact.host)],
        artifact.name,
        artifact.signature,
        slow=slow,
        on_error=raiser(artifact.sites),
        thread_count=threads,
    )


def needs_of(artifact: Artifact, target: CpuTarget) -> list[str]:
    """Extensions, by LLVM's names, that a machine must have for the code."""
    if target.name == "host":
        return [x[1:] for x in target.features.split(",") if x.startswith("+")]
    vectors = of_vectors(target.arch, target.vector_bits)
    return [*vectors, *artifact.needs]


def _check_runs(artifact: Artifact, target: CpuTarget) -> None:
    """Raises where a named machine's code would stop this process at its first instruction."""
    if target.name == "host":
        return
    from mlc.runtime.host import host

    arch = host().triple.split("-")[0]
    lacks: list[str] = [target.arch] if target.arch != arch else []
    if not lacks:
        has = host().features
        lacks = [name for name in needs_of(artifact, target) if not has.get(name, False)]
    if lacks:
        raise MlcError(
            f"{artifact.name} is compiled for the target {target.name}: its code needs"
            f" {', '.join(lacks)}, which this machine does not have. Compile it for the target"
            " host; `mlc show` and f.lower(…) show programs for any target."
        )
