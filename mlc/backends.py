"""
Backends as rows: the passes that bring a program down for each kind of machine, in order and why,
and what may be left when each level ends. `mlc.pipeline` walks them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from mlc.dialects.plan import KernelOp
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.lowering.loops.function import Scratch
from mlc.lowering.loops.lower import scratch_of

Level = Literal["tensor", "plan", "loops", "code"]
LEVELS: tuple[Level, ...] = ("tensor", "plan", "loops", "code")


@dataclass(frozen=True)
class Step:
    """One pass: its name, the fields it takes from `Options`, and the reason it stands here."""

    name: str
    because: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """Passes that bring a program to the end of one level; `leaves`: the ops that may be left."""

    name: Level
    steps: tuple[Step, ...]
    leaves: tuple[str, ...]


@dataclass(frozen=True)
class Backend:
    """A kind of machine: how a program gets there."""

    kind: type[Target]
    stages: tuple[Stage, ...]
    scratch: Callable[[KernelOp], tuple[Scratch, ...]]  # what a kernel needs while it runs

    def stage(self, name: Level) -> Stage:
        """The stage of a level."""
        return next(stage for stage in self.stages if stage.name == name)


def _scratch_of_phases(kernel: KernelOp) -> tuple[Scratch, ...]:
    from mlc.lowering.gpu.lower import work_of

    return work_of(kernel, frozenset()).scratch


# What both kinds share

RULES = (Step("mlc-inline-rules", "derivatives are taken; what said how is now a program"),)
ALGEBRA = (
    Step("mlc-canonicalize", "constants and identities vanish before anybody counts uses"),
    Step("mlc-fold-views", "index letters absorb the views that composition left over"),
    Step("mlc-fold-affine", "what follows a contraction reads it directly by now"),
    Step("mlc-canonicalize", "folded views leave broadcasts and reshapes that compose"),
    Step("mlc-cse", "equal values look equal only in canonical form"),
    Step("mlc-dce", "the originals of what was rewritten have no reader any more"),
    Step("mlc-reorder-contractions", "a chain is whole where inner results have one use"),
)
LOOPS = (
    Step("mlc-hoist-invariants", "what is left in a loop and does not change leaves it"),
    Step("mlc-sum-after-loops", "whoever reads the factors of a sum is known by now"),
    Step("mlc-multiply-before-loops", "factors that do not change have left their loops"),
    Step("mlc-dce", "loops still carry the sums that left them"),
    Step("mlc-turn-factors", "no index letters absorb views any more"),
    Step("mlc-drop-barriers", "nothing merges values any more"),
    Step("mlc-rematerialise", "copies of what is computed again stay apart", options=("fusion",)),
)
KERNELS = (
    Step("mlc-form-kernels", "which ops share a loop nest", options=("fusion",)),
    Step("mlc-donate-arguments", "which kernels may write over arguments, or else copies"),
    Step("mlc-schedule", "how each nest is cut, for the module's target"),
    Step("mlc-plan-buffers", "lifetimes are known once kernels have an order"),
)
TENSOR_LEAVES = ("builtin.", "func.", "mlc.")
PLAN_LEAVES = (
    "builtin.", "func.", "mlc.kernel", "mlc.for", "mlc.while", "mlc.if", "mlc.yield",
    "mlc.constant", "mlc.reshape", "mlc.size", "mlc.tiles",
    "mlc.tile",  # GPUs refuse tile loops in the next stage
)  # fmt: skip
LOOPS_LEAVES = (
    "builtin.", "func.", "scf.", "memref.", "vector.", "arith.", "math.", "mlc_vec.", "mlc_par.",
    "mlc_math.scale", "mlc_math.exponent", "mlc_math.significand", "mlc_math.reciprocal_estimate",
    "mlc_math.root_estimate", "mlc_math.lookup",
)  # fmt: skip

# The rows

BACKENDS = (
    Backend(
        CpuTarget,
        stages=(
            Stage(
                "tensor",
                (
                    *RULES,
                    *ALGEBRA,
                    Step("mlc-merge-siblings", "contractions have their final order and letters"),
                    *LOOPS,
                ),
                leaves=TENSOR_LEAVES,
            ),
            Stage(
                "plan",
                (
                    Step(
                        "mlc-form-tiles",
                        "what is stored between kernels is known",
                        options=("fusion",),
                    ),
                    *KERNELS,
                ),
                leaves=PLAN_LEAVES,
            ),
            Stage(
                "loops",
                (
                    Step("mlc-plan-to-loops", "kernels become functions, the rest the entry"),
                    Step("mlc-expand-math", "exp, log and tanh as polynomials, which vectorise"),
                ),
                leaves=LOOPS_LEAVES,
            ),
        ),
        scratch=scratch_of,
    ),
    Backend(
        GpuTarget,
        stages=(
            Stage(
                "tensor",
                (
                    *RULES,
                    Step("mlc-expand-partition", "only sorts have loops; what it adds folds"),
                    *ALGEBRA,
                    *LOOPS,
                ),
                leaves=TENSOR_LEAVES,
            ),
            Stage("plan", KERNELS, leaves=PLAN_LEAVES),
            Stage(
                "loops",
                (
                    Step("mlc-plan-to-loops", "phases of kernels become functions of one thread"),
                    Step("mlc-expand-math", "exp, log and tanh by the special function unit"),
                ),
                leaves=(*LOOPS_LEAVES, "mlc_gpu.", "mlc_math.exp2_estimate", "mlc_math.saturate"),
            ),
        ),
        scratch=_scratch_of_phases,
    ),
)  # fmt: skip


def backend_of(target: Target) -> Backend:
    """The row of a machine's kind."""
    return next(row for row in BACKENDS if row.kind is type(target))
