"""
Random programs: the reference of the traced program, of the program after every pass of the
pipeline, and compiled code give the same results.

2,000 programs, `PER_BATCH` of which share a function (and so a compilation); hypothesis makes every
decision, from a fixed seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block

from mlc import registry
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import BOOL
from mlc.dialects.plan import KernelOp, ScheduleAttr
from mlc.dialects.tensor.op import OpBuilder
from mlc.passes.dominance import verify_dominance
from mlc.passes.tensor.dce import DcePass
from mlc.pipeline import STAGES
from mlc.runtime.interpret import interpret
from tests.differential.programs import (
    SIZES,
    SYMBOLS,
    Chooser,
    Input,
    Program,
    inputs,
    random_axes,
)
from tests.differential.steps import steps
from tests.differential.values import Array, Traced, differs
from tests.every_op.native import (
    Argument,
    compile_plan,
    evaluate,
    function_of,
    signature_of,
)

T = TypeVar("T")

PROGRAMS = 2000
PER_BATCH = 20
SHARDS = 10  # tests; two processes take turns
BATCHES = PROGRAMS // PER_BATCH // SHARDS
MOST_STEPS = 10


@dataclass(frozen=True)
class Hypothesis:
    """Decisions by hypothesis."""

    draw: st.DrawFn

    def pick(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def number(self, low: int, high: int) -> int:
        return low if low >= high else self.draw(st.integers(low, high))


@dataclass
class Batch:
    """Programs in one function: `module` at the tensor level; `results` in its results' order."""

    module: ModuleOp
    inputs: list[Input]
    results: list[tuple[int, Traced]]  # (program, value)
    sizes: dict[str, int]

    def arrays(self) -> list[Array]:
        """Arguments of the function, and last one that names the symbols."""
        rng = np.random.default_rng(0)
        found = [x.draw(rng, evaluate(x.argument.dims, self.sizes)) for x in self.inputs]
        found = [
            _strided(x) if i.argument.strided else x
            for x, i in zip(found, self.inputs, strict=True)
        ]
        return [*found, np.zeros([self.sizes[s] for s in SYMBOLS], bool)]

    def alone(self, program: int) -> str:
        """The text of one program."""
        module = self.module.clone()
        function = next(op for op in module.body.block.ops if isinstance(op, func.FuncOp))
        last = function.body.block.last_op
        assert last is not None
        kept = [x for x, (k, _) in zip(last.operands, self.results, strict=True) if k == program]
        last.operands = kept
        DcePass().apply(Context(), module)
        return str(module)


def _strided(x: Array) -> Array:
    """The same elements, backwards in memory and two apart."""
    wide = np.zeros([2 * n for n in x.shape], x.dtype)
    view = wide[tuple(slice(None, None, -2) for _ in x.shape)]
    view[...] = x
    return view


@st.composite
def batches(draw: st.DrawFn) -> Batch:
    """A batch of programs, as a strategy."""
    return random_batch(Hypothesis(draw))


def random_batch(choose: Chooser) -> Batch:
    """`PER_BATCH` programs over the same symbols."""
    sizes = {name: choose.pick(SIZES) for name in SYMBOLS}
    block = Block()
    b = OpBuilder(block.add_op)
    found: list[Input] = []
    results: list[tuple[int, Traced]] = []
    for number in range(PER_BATCH):
        axes = random_axes(choose, sizes)
        program = Program(b, choose, axes)
        for x, word in inputs(choose, axes):
            kind = tensor_type(x.argument.dtype.ir, x.argument.dims)
            value = block.insert_arg(kind, len(found))
            found.append(x)
            program.add(value, x.argument.dtype, word, x.known)
        steps(program, choose.number(1, MOST_STEPS))
        for _ in range(choose.number(1, 3)):
            chosen = program.any()
            assert chosen is not None
            results.append((number, chosen))
    named = Argument(BOOL, tuple(Dim.symbol(s) for s in SYMBOLS))
    block.insert_arg(tensor_type(BOOL.ir, named.dims), len(found))
    arguments = [*(x.argument for x in found), named]
    module = function_of(block, arguments, [x.value for _, x in results], SYMBOLS)
    return Batch(module, found, results, sizes)


@pytest.mark.parametrize("shard", range(SHARDS))
def test_every_level_means_the_same(shard: int) -> None:
    number = iter(range(BATCHES))

    def check(batch: Batch) -> None:
        _check(batch, parallel=next(number, 0) % 2 == 1)

    # the seed decides, not the name of the test, and nothing is read from or left on the disk
    chosen = settings(
        max_examples=BATCHES,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    seed(shard)(chosen(given(batches())(check)))()


def _check(batch: Batch, parallel: bool) -> None:
    arrays = batch.arrays()
    batch.module.verify()
    wanted = interpret(batch.module, arrays, batch.sizes)
    signature = signature_of(batch.module)
    module = batch.module.clone()
    for stage in STAGES[:2]:
        for step in stage.steps:
            registry.load(step.name)().apply(Context(), module)
            module.verify()
            verify_dominance(module)
            _same(batch, interpret(module, arrays, batch.sizes), wanted, step.name)
    if parallel:
        _cut_finely(module)
    call = compile_plan(module, signature, opt_level=1, thread_count=2 if parallel else 1)
    _same(batch, call(*arrays), wanted, "compiled")


def _cut_finely(module: ModuleOp) -> None:
    """Kernels share their work among threads, however little it is."""
    from dataclasses import replace

    for op in module.walk():
        if isinstance(op, KernelOp) and op.schedule is not None:
            op.properties["schedule"] = ScheduleAttr(replace(op.schedule.data, grain=1))


def _same(batch: Batch, found: Sequence[Array], wanted: Sequence[Array], after: str) -> None:
    for (program, x), got, want in zip(batch.results, found, wanted, strict=True):
        fault = differs(np.asarray(got), want, x.known, x.dtype)
        if fault:
            text = batch.alone(program)
            raise AssertionError(f"after {after}: {fault}\nsizes {batch.sizes}\n{text}")
