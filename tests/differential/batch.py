"""Batches of random programs in one function, and whether every level gives them one meaning."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis.vendor.pretty import RepresentationPrinter
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ArrayAttr, FunctionType, ModuleOp
from xdsl.ir import Block

from mlc import registry
from mlc.backends import backend_of
from mlc.dialects.analysis.dominance import verify_dominance
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BOOL
from mlc.dialects.plan import KernelOp, ScheduleAttr
from mlc.dialects.target.attribute import target_of
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.tiles import TilesOp
from mlc.dialects.tile.kernel import KernelOp as TileKernelOp
from mlc.dialects.tile.words import Grain
from mlc.passes import wellformed
from mlc.passes.plan.fusion.choose_fusion import ChooseFusionPass
from mlc.passes.plan.place_barriers import PlaceBarriersPass
from mlc.passes.plan.tiling.form_tiles import FormTilesPass
from mlc.passes.tensor.dce import DcePass
from mlc.runtime.interpret import interpret
from tests.differential.cutting import cut_products
from tests.differential.elementwise import elementary_op
from tests.differential.programs import (
    SYMBOLS,
    Chooser,
    Input,
    Program,
    random_axes,
    random_inputs,
    random_sizes,
)
from tests.differential.steps import steps
from tests.differential.tiling import row_program
from tests.differential.values import Array, Traced, differs
from tests.every_op.native import Argument, compile_plan, evaluate, function_of, signature_of

RUNS = 2  # sizes of the symbols at which each compilation runs
TEAMS = (2, 3, 16)  # whose results have the bits of one worker's
WORKERS = 3  # of the interpreter
MOST_STEPS = 7
Sizes = Mapping[str, int]


TRIES = 4
"""Of an op that a program is to end with: on other values where some do not suit it."""


@dataclass(frozen=True)
class Way:
    """
    How a batch is compiled: whether ops share kernels, whether threads share their work, and how
    hard LLVM tries (at 0 a batch takes 28 % less time). `verified`: after every pass, not only at
    the end of the plan. `tile`: rows and columns of tile loops for all that may be one. `words`:
    which of `cutting.FORMS` all products have.
    """

    fused: bool = True
    parallel: bool = False
    opt_level: int = 0
    verified: bool = False
    tile: tuple[int, ...] = ()
    words: int | None = None


WAYS = (
    Way(opt_level=1),
    Way(parallel=True, tile=(2, 5), words=1),
    Way(fused=False, verified=True, words=2),
    Way(verified=True, parallel=True, words=0),
    Way(tile=(3, 8), verified=True, words=3),
)
TILED = (
    Way(tile=(3, 8), verified=True),
    Way(tile=(4, 3), parallel=True, words=1),
    Way(tile=(1, 2), opt_level=1, words=3),
    Way(tile=(2, 16), fused=False, verified=True),
    Way(tile=(16, 5)),
)
"""Of programs of rows, where tiles come out even and do not, and hold all there is."""


@dataclass
class Batch:
    """
    Programs in one function: `module` at the tensor level; `results` in its results' order, each
    with the number of its program; `made`: every value outside of regions; `loops`: how many tile
    loops of each kind the last check formed; `programs`: how many tile programs.
    """

    module: ModuleOp
    inputs: list[Input]
    results: list[tuple[int, Traced]]
    made: list[tuple[int, Traced]]
    runs: Sequence[Sizes]
    loops: Counter[str] = field(default_factory=Counter[str])
    programs: int = 0

    def _repr_pretty_(self, printer: RepresentationPrinter, cycle: bool) -> None:
        """What hypothesis prints of a failure: not all that values refer to, which never ends."""
        printer.text(f"Batch({len(self.inputs)} inputs, {len(self.results)} results)")

    def arrays(self, sizes: Sizes) -> list[Array]:
        """Arguments of the function, and last one that names the symbols."""
        rng = np.random.default_rng(0)
        found = [x.draw(rng, evaluate(x.argument.dims, sizes)) for x in self.inputs]
        found = [
            _strided(x) if i.argument.strided else x
            for x, i in zip(found, self.inputs, strict=True)
        ]
        return [*found, np.zeros([sizes[s] for s in SYMBOLS], bool)]

    def returning(self, results: list[tuple[int, Traced]]) -> Batch:
        """The batch with other results, and only the ops that these need."""
        function = _function(self.module)
        last = function.body.block.last_op
        assert last is not None
        old = list(last.operands)
        last.operands = [x.value for _, x in results]
        kinds = [x.value.type for _, x in results]
        before = function.function_type
        function.function_type = FunctionType.from_lists(before.inputs.data, kinds)
        module = self.module.clone()
        last.operands, function.function_type = old, before
        DcePass().apply(Context(), module)
        return replace(self, module=module, results=results, made=[]).without_arguments()

    def without_arguments(self) -> Batch:
        """The batch without the arguments that no op reads, in place."""
        function = _function(self.module)
        block, marks = function.body.block, function.arg_attrs
        assert marks is not None
        named = len(self.inputs)  # the last one gives the symbols their sizes
        kept = [k for k, x in enumerate(block.args) if x.uses or k == named]
        for argument in [x for k, x in enumerate(block.args) if k not in kept]:
            block.erase_arg(argument)
        function.arg_attrs = ArrayAttr([marks.data[k] for k in kept])
        results = function.function_type.outputs.data
        function.function_type = FunctionType.from_lists([x.type for x in block.args], results)
        return replace(self, inputs=[self.inputs[k] for k in kept[:-1]])

    def coverage(self) -> Counter[str]:
        """How often each op stands in a program, where a result needs it."""
        found: Counter[str] = Counter()
        for op in self.returning(self.results).module.walk():
            if isinstance(op, TensorOp | ControlOp):
                found[op.name] += 1
        return found


def _function(module: ModuleOp) -> func.FuncOp:
    return next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))


def _strided(x: Array) -> Array:
    """The same elements, backwards in memory and two apart."""
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    view = wide[tuple(slice(None, None, -2) for _ in x.shape)]
    view[...] = x
    return view


def random_batch(choose: Chooser, last: Sequence[type[TensorOp]]) -> Batch:
    """Programs over the same symbols, each of which ends with one of these elementwise ops."""

    def write(program: Program, number: int) -> None:
        random_inputs(program)
        steps(program, choose.number(2, MOST_STEPS))
        for _ in range(TRIES):
            made = len(program.values)
            elementary_op(program, last[number])
            if any(isinstance(x.value.owner, last[number]) for x in program.values[made:]):
                break

    return _batch(choose, len(last), write)


def random_rows(choose: Chooser, count: int) -> Batch:
    """Programs over the same symbols, of what tile loops are made of."""
    return _batch(choose, count, lambda p, _: row_program(p, choose.number(2, MOST_STEPS)))


def _batch(choose: Chooser, count: int, write: Callable[[Program, int], None]) -> Batch:
    runs = [random_sizes(choose) for _ in range(RUNS)]
    block = Block()
    b = OpBuilder(block.add_op)
    inputs: list[Input] = []
    results: list[tuple[int, Traced]] = []
    made: list[tuple[int, Traced]] = []
    for number in range(count):
        program = Program(b, block, choose, random_axes(choose, runs), inputs)
        write(program, number)
        made += [(number, x) for x in program.values]
        results += [(number, x) for x in _ends(program)]
    named = Argument(BOOL, tuple(Dim.symbol(s) for s in SYMBOLS))
    block.insert_arg(tensor_type(BOOL.ir, named.dims), len(inputs))
    arguments = [*(x.argument for x in inputs), named]
    module = function_of(block, arguments, [x.value for _, x in results], SYMBOLS)
    return Batch(module, inputs, results, made, runs)


def _ends(program: Program) -> list[Traced]:
    """One to four values, first those that nobody reads."""
    ends = [x for x in reversed(program.values) if not x.value.uses]
    found = ends[: program.choose.number(1, 4)]
    if len(found) < 2 and (more := program.any()) is not None:
        found.append(more)
    return found


def check(batch: Batch, way: Way) -> str:
    """
    What is wrong: the reference of the program, of the program after every pass of tensor and plan
    and as tiles, and compiled code must give equal results at all sizes; compiled code the same
    bits for every team. Empty where nothing is.
    """
    batch.module.verify()
    verify_dominance(batch.module)
    arrays = [batch.arrays(sizes) for sizes in batch.runs]
    pairs = list(zip(arrays, batch.runs, strict=True))
    wanted = [interpret(batch.module, a, sizes) for a, sizes in pairs]
    signature = signature_of(batch.module)
    module = batch.module.clone()
    backend = backend_of(target_of(module))
    plan = backend.stage("plan")
    for stage in (backend.stage("tensor"), plan):
        for step in stage.steps:
            chosen = registry.load(step.name)()
            if isinstance(chosen, ChooseFusionPass) and not way.fused:
                chosen = ChooseFusionPass(fusion="none")
            if isinstance(chosen, FormTilesPass) and way.tile:
                chosen = FormTilesPass(tile=way.tile)
            if isinstance(chosen, PlaceBarriersPass):  # who shares work decides who waits
                if way.words is not None:
                    cut_products(module, way.words)
                if way.parallel:
                    _cut_finely(module)
            chosen.apply(Context(), module)
            if isinstance(chosen, FormTilesPass):
                batch.loops = tile_loops(module)
            if way.verified or step is plan.steps[-1]:
                module.verify()
                verify_dominance(module)
            run = len(step.name) % RUNS  # the reference takes longer than the pass
            found = interpret(module, *pairs[run])
            if fault := _fault(batch, found, wanted[run], f"after {step.name}", run):
                return fault
    if wrong := [message for _, message in wellformed.faults(module)]:
        return f"the plan: {wrong[0]}"
    for step in backend.stage("tiles").steps:
        registry.load(step.name)().apply(Context(), module)
    module.verify()
    batch.programs = sum(isinstance(op, TileKernelOp) for op in module.walk())
    run = RUNS - 1
    found = interpret(module, *pairs[run], workers=WORKERS)
    if fault := _fault(batch, found, wanted[run], "as tiles", run):
        return fault
    call = compile_plan(module, signature, opt_level=way.opt_level, thread_count=1)
    for run in (*range(RUNS), 0):  # the first sizes again, after others
        found = call(*arrays[run])
        if fault := _fault(batch, found, wanted[run], "compiled", run):
            return fault
        for count in TEAMS if way.parallel else ():
            call.set_threads(count)
            if fault := _other_bits(batch, call(*arrays[run]), found, count, run):
                return fault
        call.set_threads(1)
    return ""


def _other_bits(
    batch: Batch, found: Sequence[Array], alone: Sequence[Array], count: int, run: int
) -> str:
    """The first result that a team of so many does not make as one worker does."""
    for (program, _), got, want in zip(batch.results, found, alone, strict=True):
        if np.asarray(got).tobytes() != np.asarray(want).tobytes():
            return f"program {program}, {count} threads, sizes {dict(batch.runs[run])}: other bits"
    return ""


def tile_loops(module: ModuleOp) -> Counter[str]:
    """
    How many tile loops there are: in all; over `columns` in a tile of rows; over columns, with sums
    that are `rescaled` whenever a maximum grows.
    """
    found: Counter[str] = Counter()
    for op in module.walk():
        if isinstance(op, TilesOp):
            is_inner = isinstance(op.parent_op(), TilesOp)
            found["all"] += 1
            found["columns"] += is_inner
            found["rescaled"] += is_inner and "" in op.folds
    return found


def _cut_finely(module: ModuleOp) -> None:
    """Kernels share their work among threads, however little it is."""
    for op in module.walk():
        if isinstance(op, KernelOp) and op.schedule is not None and not op.schedule.data.cuts:
            op.properties["schedule"] = ScheduleAttr(op.schedule.data.having(Grain(1)))


def _fault(
    batch: Batch, found: Sequence[Array], wanted: Sequence[Array], when: str, run: int
) -> str:
    """The first difference, with the number of its program."""
    for (program, x), got, want in zip(batch.results, found, wanted, strict=True):
        fault = differs(np.asarray(got), want, x.known, x.dtype)
        if fault:
            return f"program {program}, {when}, sizes {dict(batch.runs[run])}: {fault}"
    return ""


def guarded(batch: Batch, way: Way) -> str:
    """`check`, with whatever it raises as its fault."""
    try:
        return check(batch, way)
    except Exception as error:  # noqa: BLE001 - any exception of the compiler is the finding
        return f"{type(error).__name__}: {error}"


def smallest(batch: Batch, way: Way) -> tuple[Batch, str]:
    """The first value of a program that comes out wrong on its own, and how."""
    for entry in batch.made:
        alone = batch.returning([entry])
        if fault := guarded(alone, way):
            return alone, fault
    for program in dict.fromkeys(number for number, _ in batch.results):
        alone = batch.returning([x for x in batch.results if x[0] == program])
        if fault := guarded(alone, way):
            return alone, fault
    return batch, "only all programs of the batch together fail"
