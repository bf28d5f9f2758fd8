"""The passes of a plan's kernels, for passes that try a plan out to see what it takes."""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass

from mlc.dialects.target import Target
from mlc.passes.cost.prediction import call_seconds
from mlc.passes.plan.fusion.choose_fusion import ChooseFusionPass
from mlc.passes.plan.fusion.form_kernels import FormKernelsPass
from mlc.passes.plan.fusion.merge_reductions import MergeReductionsPass
from mlc.passes.plan.memory.donate_arguments import DonateArgumentsPass
from mlc.passes.plan.memory.plan_buffers import PlanBuffersPass
from mlc.passes.plan.tiling.schedule import SchedulePass
from mlc.passes.plan.tiling.split_folds import SplitFoldsPass


def kernel_passes(fusion: str) -> tuple[ModulePass, ...]:
    """From formed tile loops to kernels with their schedules and places in memory."""
    return (
        ChooseFusionPass(fusion),
        FormKernelsPass(),
        DonateArgumentsPass(),
        SchedulePass(),
        PlanBuffersPass(),
    )


def seconds_of(module: ModuleOp, target: Target, fusion: str, sizes: Mapping[str, int]) -> float:
    """
    What a module whose tile loops are formed should take, for values of its symbols: it becomes a
    plan without places in memory.
    """
    for each in (
        SplitFoldsPass(),
        ChooseFusionPass(fusion),
        FormKernelsPass(),
        MergeReductionsPass(fusion),
        SchedulePass(),
    ):
        each.apply(Context(), module)
    return call_seconds(module, target, sizes)
