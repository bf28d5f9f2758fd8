"""A compiled program onto this process's GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from mlc.dialects.launch import LaunchPlan
from mlc.dialects.signature import EntrySignature
from mlc.dialects.target.gpu import GpuTarget
from mlc.runtime.cuda.driver import device
from mlc.runtime.cuda.native import GpuError
from mlc.runtime.cuda.program import ArenaBytes, LoadedProgram, OnError


def load_program(
    plan: LaunchPlan,
    ptx: Mapping[str, str],
    signature: EntrySignature,
    target: GpuTarget,
    *,
    slow: Callable[..., object],
    on_error: OnError,
    arena_bytes: ArenaBytes | None = None,
) -> LoadedProgram:
    """
    The program on this process's GPU. GpuError where there is none, or another one than the
    program is for. `ptx`: of each kernel, by name.

    `slow` gets the arguments that the program does not take. `on_error` raises for a run-time error
    of the kernels. `arena_bytes`: what is between kernels, for an error where there is no room.
    """
    found = device()
    have, want = found.compute_capability, target.compute_capability
    if have < want or (target.arch_specific and have != want):
        raise GpuError(
            f"the program is compiled for {target.sm}, the GPU ({found.name}) has compute "
            f'capability {have}; compile it with target="cuda"'
        )
    return LoadedProgram(
        found, plan, ptx, signature, slow=slow, on_error=on_error, arena_bytes=arena_bytes
    )
