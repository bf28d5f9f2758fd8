"""What `mlc tile` says of a product on a GPU: every candidate of the three routes, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from mlc.dialects.plan import KernelOp, Schedule
from mlc.dialects.target import GpuTarget
from mlc.dialects.tensor.reduce import ContractOp, Product
from mlc.dialects.tile.words import Words
from mlc.lazy_dataclass import dataclass
from mlc.passes.cost.gpu_products import values_of
from mlc.passes.gpu.block import refused_groups
from mlc.passes.gpu.mma import refused_warps
from mlc.passes.gpu.predict import ROUTES, Prediction, Route, predict
from mlc.passes.gpu.schedule import refused_threads
from mlc.passes.plan.tiling.schedule import schedules_of
from mlc.passes.report.explain.markup import amount

TITLES = "blocks   shared  level 2   memory"
PARTS = (
    ("multiplying", "core_s"), ("reads", "read_s"), ("writes of sums", "write_s"),
    ("adding parts of sums", "join_s"), ("starts", "start_s"),
)  # fmt: skip
"""Of a prediction, by name."""


@dataclass(frozen=True)
class GpuCandidate:
    """A schedule for one product on a GPU, and what it should take."""

    words: Words
    predicted: Prediction

    @property
    def route(self) -> Route:
        """Who multiplies."""
        return self.predicted.route

    @property
    def seconds(self) -> float:
        """Predicted, of the whole product."""
        return self.predicted.seconds


def numbers(predicted: Prediction) -> str:
    """Below `TITLES`."""
    read = "".join(f" {amount(x):>8}" for x in predicted.bytes)
    return f"{predicted.blocks:>6}{read}"


def product_in(kernel: KernelOp) -> Product:
    """A kernel's product."""
    return next(op for op in kernel.block.ops if isinstance(op, Product))


def gpu_candidates(kernel: KernelOp, target: GpuTarget) -> tuple[GpuCandidate, ...]:
    """The schedules that a product's kernel may have, the fastest first."""
    found: list[GpuCandidate] = []
    for offered in schedules_of(kernel, target):
        values = values_of(product_in(kernel), offered, {})
        if values is not None and (offered.cuts or offered.stage):
            found.append(GpuCandidate(offered.words, predict(values, offered, target)))
    return tuple(sorted(found, key=lambda c: c.seconds))


def refusals(kernel: KernelOp, target: GpuTarget) -> Iterator[str]:
    """The routes that a product has not, and why."""
    op = product_in(kernel)
    reasons: Mapping[Route, str | None] = {
        "groups": refused_groups(kernel, op, target) if isinstance(op, ContractOp) else None,
        "warps": refused_warps(op, target),
        "threads": refused_threads(op),
    }
    for route in ROUTES:
        if (said := reasons[route]) is not None:
            yield f"not {route}: {said}"


def peak_of(kernel: KernelOp, target: GpuTarget) -> float:
    """Operations a second of the unit that multiplies by the kernel's words."""
    op = product_in(kernel)
    schedule = kernel.schedule.data if kernel.schedule is not None else Schedule()
    values = values_of(op, schedule, {})
    if values is None or not (schedule.cuts or (schedule.stage and schedule.stage.mma)):
        return target.flops_per_s(op.summand())
    return target.tensor_flops_per_s(values.factor) / values.terms


def said_of_factors(kernel: KernelOp) -> str:
    """What is multiplied instead of numbers as they are given; nothing where they are."""
    values = values_of(product_in(kernel), Schedule(), {})
    if values is None or values.terms == 1:
        return ""
    return f"each as {values.terms} products of {values.factor.name}"
