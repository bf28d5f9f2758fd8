"""The passes of a plan's kernels, for passes that try a plan out to see what it takes."""

from __future__ import annotations

from xdsl.passes import ModulePass

from mlc.passes.plan.fusion.choose_fusion import ChooseFusionPass
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.plan.memory.donate_arguments import DonateArgumentsPass
from mlc.passes.plan.memory.plan_buffers import PlanBuffersPass
from mlc.passes.plan.tiling.schedule import SchedulePass


def kernel_passes(fusion: str) -> tuple[ModulePass, ...]:
    """From formed tile loops to kernels with their schedules and places in memory."""
    return (
        ChooseFusionPass(fusion),
        FormKernelsPass(),
        DonateArgumentsPass(),
        SchedulePass(),
        PlanBuffersPass(),
    )
