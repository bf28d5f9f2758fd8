"""
Backends as rows: the passes that bring a program down for each kind of machine, in order and why,
and what may be left when each level ends. `mlc.pipeline` walks them.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, Literal

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp

from mlc import registry
from mlc.artifact import Artifact, Built, CodeUnit, Request
from mlc.dialects.target import CpuTarget, GpuTarget, Target
from mlc.dialects.target.attribute import target_of
from mlc.lazy_dataclass import dataclass
from mlc.loading import load_cpu, needs_of
from mlc.runtime.support import loaded_meanwhile, reserved_names, support_object
from mlc.timing import measure

if TYPE_CHECKING:
    from mlc.dialects.plan import KernelOp
    from mlc.dialects.program import Take
    from mlc.lowering.loops.function import Scratch
    from mlc.passes.remarks import Remark
    from mlc.passes.report.launches import LaunchReport
    from mlc.passes.report.report import KernelReport
    from mlc.runtime.cuda import LoadedProgram
    from mlc.runtime.entry import LoadedEntry

    Loaded = LoadedEntry | LoadedProgram

Level = Literal["tensor", "plan", "tiles", "loops", "code"]
LEVELS: tuple[Level, ...] = ("tensor", "plan", "tiles", "loops", "code")


@dataclass(frozen=True)
class Step:
    """One pass: its name, the fields it takes from `Options`, and the reason it stands here."""

    name: str
    because: str
    options: tuple[str, ...] = ()


@dataclass(frozen=True)
class Stage:
    """
    Passes that bring a program to the end of one level. `leaves`: the ops that may be left, by name
    or by dialect ("scf.").
    """

    name: Level
    steps: tuple[Step, ...]
    leaves: tuple[str, ...]

    def may_leave(self, op: str) -> bool:
        """Whether an op of this name may be left."""
        dialect, dot, _ = op.partition(".")
        return op in self.leaves or dialect + dot in self.leaves


@dataclass(frozen=True)
class Backend:
    """
    A kind of machine: how a program gets there, stage by stage, and what becomes of its loops. The
    functions take a target of this kind.
    """

    kind: type[Target]
    stages: tuple[Stage, ...]
    scratch: Callable[[KernelOp], tuple[Scratch, ...]]  # what a kernel needs while it runs
    emit: Callable[[ModuleOp, Any], list[CodeUnit]]  # loops to LLVM IR
    assembly: Callable[[str, Any], str]  # of LLVM IR
    build: Callable[[Callable[[Take | None], ModuleOp], Request, Any], Built]  # plan to code
    load: Callable[[Artifact, Any, Callable[..., object], int | None], Loaded]
    reserved: Callable[[], Container[str]]  # names that no function may have
    meanwhile: Callable[[], AbstractContextManager[object]]  # made ready while a plan is made
    files: Mapping[str, Callable[[str, Any], bytes]]  # of LLVM IR, by kind; the usual one first
    for_c: tuple[str, ...]  # kinds of files of a program that C calls
    launches: Callable[
        [Callable[[], ModuleOp], Mapping[str, int], Sequence[KernelReport], Any],
        tuple[LaunchReport, ...],
    ]  # of a call, from its loops, symbols and the plan's kernels
    libraries: Callable[[ModuleOp], tuple[Remark, ...]]  # who computes what a plan leaves to others
    measure: Callable[..., list[float]]  # as `mlc.timing.measure`
    beside: Callable[[Artifact, Any], tuple[list[str], bytes]]
    """Of code in a file: extensions that a machine must have, and the object that it runs with."""

    def stage(self, name: Level) -> Stage:
        """The stage of a level."""
        return next(stage for stage in self.stages if stage.name == name)


def _scratch_of_kernel(kernel: KernelOp) -> tuple[Scratch, ...]:
    if kernel.schedule is None or not kernel.schedule.data.cuts:
        from mlc.lowering.loops.scratch import scratch_of

        return scratch_of(kernel)
    from mlc.lowering.tiles.kernel import scratch_of as scratch_of_tiles
    from mlc.passes.tile.plan_to_tiles import program_of

    return scratch_of_tiles(program_of(kernel))


def _as_it_is(llvm: str, _: Target) -> bytes:
    return llvm.encode()


def native():
    """What makes code for CPUs: imported where no cache has it."""
    from mlc import native

    return native


def launches():
    """What reads launches off loops: as above."""
    from mlc import launches

    return launches


def libraries():
    """What says who computes factorisations: as above."""
    from mlc import libraries

    return libraries


def llvm():
    """What makes code of LLVM IR: as above."""
    from mlc.runtime import llvm

    return llvm


def device():
    """What GPUs take: imported where a program is for one."""
    from mlc import device

    return device


# What both kinds share

RULES = (
    Step("mlc-expand-transforms", "functions are as they were written, with all their rules"),
    Step("mlc-inline-calls", "derivatives are functions by now; all that follows sees one"),
    Step("mlc-inline-rules", "derivatives are taken; what said how is now a program"),
    Step("mlc-autocast", "the products of derivatives are there, and nobody else looks at factors"),
    Step("mlc-check-parallel", "loops are as they were written, and their derivatives' too"),
    Step("mlc-chunk-folds", "who adds up over trips has just been found out"),
    Step("mlc-mask-reductions", "rules are inlined, and no pass has met sizes that are computed"),
    Step("mlc-roll-loops", "trips are still as they were traced; all passes see them once"),
)
VIEWS = (
    Step("mlc-canonicalize", "constants and identities vanish before anybody counts uses"),
    Step("mlc-fold-views", "index letters absorb the views that composition left over"),
)
ALGEBRA = (
    Step("mlc-fold-affine", "what follows a contraction reads it directly by now"),
    Step("mlc-canonicalize", "folded views leave broadcasts and reshapes that compose"),
    Step("mlc-cse", "equal values look equal only in canonical form"),
    Step("mlc-exchange-sums", "a sum that is at hand is one value, however it was written"),
    Step("mlc-dce", "the originals of what was rewritten have no reader any more"),
    Step("mlc-divide-factors", "who reads a quotient besides products is known by now"),
    Step("mlc-cse", "products of one factor were divided each for itself"),
    Step("mlc-dce", "quotients that nobody reads any more are no readers of factors"),
    Step("mlc-reorder-contractions", "a chain is whole where inner results have one use"),
)
LOOPS = (
    Step("mlc-prove-bounds", "what does not fail and does not change may leave its loop"),
    Step("mlc-hoist-invariants", "what is left in a loop and does not change leaves it"),
    Step("mlc-sum-after-loops", "whoever reads the factors of a sum is known by now"),
    Step("mlc-multiply-before-loops", "factors that do not change have left their loops"),
    Step("mlc-dce", "loops still carry the sums that left them"),
    Step("mlc-prepack-loop-factors", "no index letters absorb views any more"),
    Step("mlc-find-parallel", "loops carry what they must, and places are what they will be"),
    Step("mlc-drop-barriers", "nothing merges values any more"),
    Step("mlc-sum-products", "what reads a factor is what will read it"),
    Step("mlc-share-factors", "sums of products are sums of elements"),
    Step("mlc-dce", "products that others took the place of are read by nobody"),
    Step("mlc-rematerialise", "copies of what is computed again stay apart", options=("fusion",)),
)
FUSION = (
    Step("mlc-choose-fusion", "all that may be stored or not is there", options=("fusion",)),
    Step("mlc-form-kernels", "what is stored says which ops share a loop nest"),
)
KERNELS = (
    Step("mlc-donate-arguments", "which kernels may write over arguments, or else copies"),
    Step("mlc-schedule", "how each nest is cut, for the module's target"),
    Step("mlc-plan-buffers", "lifetimes are known once kernels have an order"),
)
TENSOR_LEAVES = ("builtin.", "func.", "mlc.")
PLAN_LEAVES = (
    "builtin.", "func.", "mlc.kernel", "mlc.for", "mlc.while", "mlc.if", "mlc.yield", "mlc.bind",
    "mlc.constant", "mlc.reshape", "mlc.size", "mlc.tiles",
    "mlc.tile",  # GPUs refuse tile loops in the next stage
)  # fmt: skip
LOOPS_LEAVES = (
    "builtin.", "func.", "scf.", "memref.", "vector.", "arith.", "mlc_vec.", "mlc_par.",
    "math.absf", "math.absi", "math.ceil", "math.copysign", "math.ctlz", "math.ctpop", "math.cttz",
    "math.floor", "math.fma", "math.round", "math.roundeven", "math.sqrt", "math.trunc",
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
                    Step("mlc-expand-library", "whole routines have had their derivatives"),
                    VIEWS[0],
                    Step(
                        "mlc-prove-bounds", "where slices begin is arithmetic of trip numbers"
                    ),
                    Step("mlc-count-bits", "a loop in a loop keeps that from being raised"),
                    Step("mlc-raise-loops", "places are polynomials, and no nest holds a loop yet"),
                    Step("mlc-form-slice-nests", "sizes that a loop computes are nobody's else"),
                    *VIEWS[1:],
                    Step("mlc-form-convolutions", "letters of products say which axes are shifted"),
                    *ALGEBRA,
                    Step("mlc-merge-siblings", "contractions have their final order and letters"),
                    Step("mlc-winograd", "convolutions are what they will be"),
                    *LOOPS,
                    Step("mlc-pack-before-loops", "factors lie as registers want them, or never"),
                    Step("mlc-turn-walked-axes", "no pass after this reads views as letters"),
                    Step("mlc-combine-late", "loops are what they will be, and no kernels yet"),
                ),
                leaves=TENSOR_LEAVES,
            ),
            Stage(
                "plan",
                (
                    Step("mlc-form-nests", "loops of single elements have nothing to fuse"),
                    Step(
                        "mlc-form-tiles",
                        "what is stored between kernels is known",
                        options=("fusion",),
                    ),
                    Step("mlc-split-folds", "which loops stand in others is known"),
                    *FUSION,
                    Step(
                        "mlc-merge-reductions",
                        "kernels are known, and nothing was said of their memory yet",
                        options=("fusion",),
                    ),
                    Step(
                        "mlc-pad-strips",
                        "which kernels pad what others read, and no argument is given away yet",
                        options=("fusion",),
                    ),
                    Step("mlc-widen", "which values leave their kernel is known"),
                    Step("mlc-form-nests", "which kernels compute single elements is known"),
                    Step("mlc-check-before-loops", "loops of nests are what they will be"),
                    Step(
                        "mlc-write-parts-in-place",
                        "kernels are what they will be, and no argument is given away yet",
                    ),
                    *KERNELS,
                    Step("mlc-place-barriers", "who writes where is known: who must wait is too"),
                    Step("mlc-form-waves", "where arrays lie, and what a team runs, is known"),
                ),
                leaves=PLAN_LEAVES,
            ),
            Stage(
                "tiles",
                (
                    Step("mlc-plan-to-tiles", "schedules that are words are for tile programs"),
                    Step("mlc-apply-words", "each word cuts what those before it have left"),
                    Step("mlc-check-tiles", "lowering relies on what no op can see alone"),
                ),
                leaves=(*PLAN_LEAVES, "mlc_tile."),
            ),
            Stage(
                "loops",
                (
                    Step("mlc-plan-to-loops", "kernels become functions, the rest the entry"),
                    Step("mlc-shift-lanes", "each block says all that it reads of a row"),
                    Step("mlc-expand-math", "exp, log and tanh as polynomials, which vectorise"),
                ),
                leaves=LOOPS_LEAVES,
            ),
        ),
        scratch=_scratch_of_kernel,
        emit=lambda loops, target: native().emit_cpu(loops, target),
        assembly=lambda text, target: llvm().emit_assembly(text, target),
        build=lambda lower, request, target: native().build_cpu(lower, request, target),
        load=load_cpu,
        reserved=reserved_names,
        meanwhile=loaded_meanwhile,
        files={
            "obj": lambda text, target: llvm().compile_object(text, target),
            "ll": _as_it_is,
            "asm": lambda text, target: llvm().emit_assembly(text, target).encode(),
        },
        for_c=("obj", "header", "a", "so"),
        launches=lambda lower, symbols, kernels, target: (),
        libraries=lambda plan: libraries().of_cpu(plan),
        measure=measure,
        beside=lambda artifact, target: (needs_of(artifact, target), support_object(target)),
    ),
    Backend(
        GpuTarget,
        stages=(
            Stage(
                "tensor",
                (
                    *RULES,
                    Step("mlc-expand-partition", "only sorts have loops; what it adds folds"),
                    Step("mlc-expand-positions", "only scans have loops; what it adds folds"),
                    VIEWS[0],
                    Step("mlc-prove-bounds", "which parts of arrays a trip touches is to be known"),
                    Step("mlc-count-bits", "a loop in a loop keeps that from being raised"),
                    Step("mlc-raise-loops", "each trip of a loop would be launches of its own"),
                    *VIEWS[1:],
                    *ALGEBRA,
                    *LOOPS,
                    Step("mlc-split-factors", "products are what they will be, and where"),
                ),
                leaves=TENSOR_LEAVES,
            ),
            Stage(
                "plan",
                (
                    Step("mlc-form-streams", "masks and scalings stand where they end up"),
                    Step("mlc-compare-updates", "what is updated is known to be one number"),
                    *FUSION,
                    Step("mlc-merge-streams", "what kernels of streams share is known"),
                    Step(
                        "mlc-merge-rows",
                        "kernels are known, and nothing was said of their memory yet",
                        options=("fusion",),
                    ),
                    Step("mlc-widen", "which values leave their kernel is known"),
                    *KERNELS,
                ),
                leaves=PLAN_LEAVES,
            ),
            Stage(
                "tiles",
                (
                    Step("mlc-plan-to-tiles", "schedules that are words are for tile programs"),
                    Step("mlc-apply-words", "which slots there are, the words say"),
                    Step("mlc-place-slots", "rings and slots of all programs are known"),
                    Step("mlc-insert-fences", "what is stored where, and copied, stays from here"),
                ),
                leaves=(*PLAN_LEAVES, "mlc_tile."),
            ),
            Stage(
                "loops",
                (
                    Step("mlc-plan-to-loops", "phases of kernels become functions of one thread"),
                    Step("mlc-expand-math", "exp, log and tanh by the special function unit"),
                ),
                leaves=(*LOOPS_LEAVES, "mlc_gpu.", "mlc_math.exp2_estimate", "mlc_math.saturate"),
            ),
        ),
        scratch=lambda kernel: device().scratch_of_phases(kernel),
        emit=lambda loops, target: device().emit_kernels(loops, target),
        assembly=lambda llvm, target: device().emit_ptx(llvm, target),
        build=lambda lower, request, target: device().build_gpu(lower, request, target),
        load=lambda artifact, target, slow, n: device().load_gpu(artifact, target, slow, n),
        reserved=frozenset,
        meanwhile=nullcontext,
        files={
            "ptx": lambda llvm, target: device().emit_ptx(llvm, target).encode(),
            "ll": _as_it_is,
        },
        for_c=("c", "header"),
        launches=lambda lower, symbols, kernels, target: launches().launches_of_call(
            lower, symbols, kernels, target
        ),
        libraries=lambda plan: libraries().of_gpu(plan),
        measure=lambda *given: device().measure(*given),
        beside=lambda artifact, target: ([], b""),
    ),
)  # fmt: skip


def at_tiles(plan: ModuleOp) -> ModuleOp:
    """A plan at the end of its tiles stage; the plan itself stays."""
    module = plan.clone()
    for step in backend_of(target_of(plan)).stage("tiles").steps:
        registry.load(step.name)().apply(Context(), module)
    return module


def backend_of(target: Target) -> Backend:
    """The row of a machine's kind."""
    return next(row for row in BACKENDS if row.kind is type(target))
