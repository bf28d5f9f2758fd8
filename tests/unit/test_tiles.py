"""Tile loops: the reference, plans of them and compiled code agree; what they hold and report."""

from __future__ import annotations

import threading
from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp

from mlc.dialects.tensor.op import element_dtype
from mlc.lowering.loops import lower_to_loops
from mlc.memory import memory_plan_of
from mlc.passes.report.report import plan_of
from mlc.runtime.interpret import entry_function, interpret
from mlc.runtime.probe import host_target
from mlc.text import parse_text
from tests.every_op.native import Array, compile_plan, signature_of, to_plan
from tests.tile_programs import (
    PROGRAMS,
    Program,
    attention,
    blocks,
    blocks_of,
    folded,
    layer_norm,
)

FUSIONS = ["exact", "none"]


@pytest.fixture(params=PROGRAMS, ids=str)
def program(request: pytest.FixtureRequest) -> Program:
    return PROGRAMS[request.param]


def parsed(text: str) -> ModuleOp:
    """The module, with attributes for every argument."""
    module = parse_text(text, "test")
    module.verify()
    function = entry_function(module)
    if function.arg_attrs is None:
        nothing = DictionaryAttr({})
        function.properties["arg_attrs"] = ArrayAttr([nothing] * len(function.args))
    return module


def compiled(
    text: str, threads: int | None = None, fusion: str = FUSIONS[0]
) -> Callable[..., tuple[Array, ...]]:
    """The program as a function, by way of every level."""
    module = parsed(text)
    signature = signature_of(module)
    to_plan(module, fusion=fusion).verify()
    return compile_plan(module, signature, thread_count=threads)


def close(found: list[Array] | tuple[Array, ...], expected: list[Array]) -> None:
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


def test_reference(program: Program) -> None:
    arrays = program.draw()
    close(interpret(parsed(program.text), arrays), program.meaning(*arrays))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_plan_means_the_same(program: Program, fusion: str) -> None:
    arrays = program.draw()
    module = to_plan(parsed(program.text), fusion=fusion)
    module.verify()
    close(interpret(module, arrays), program.meaning(*arrays))


@pytest.mark.parametrize("fusion", FUSIONS)
def test_code_means_the_same(program: Program, fusion: str) -> None:
    arrays = program.draw()
    run = compiled(program.text, fusion=fusion)
    for _ in range(2):
        close(run(*arrays), program.meaning(*arrays))


def test_bits_do_not_depend_on_threads(program: Program) -> None:
    arrays = program.draw()
    one, two, three = (compiled(program.text, threads)(*arrays) for threads in (1, 2, 3))
    for x, y, z in zip(one, two, three, strict=True):
        assert x.tobytes() == y.tobytes() == z.tobytes()


def test_any_strides() -> None:
    """Tiles of an argument of any strides lie in it with the same ones."""
    run = compiled(blocks("N", "M", layout="general"))
    x = np.random.default_rng(3).standard_normal((23, 37)).astype(np.float32)
    for y in (x, x[::-1, ::2], x.T, x[:, :1], x[::3]):
        close(run(y), blocks_of(y))


FOLDS = [
    *((fold, "f32") for fold in ("sum", "prod", "max", "min")),
    *((fold, kind) for fold in ("sum", "max") for kind in ("f16", "i32", "f64", "ui8", "i1")),
]


@pytest.mark.parametrize(("fold", "element"), FOLDS)
def test_folds(fold: str, element: str) -> None:
    """What trips combine, in chunks, with what it starts from."""
    text = folded("N", 20, 3, fold, element)
    module = parsed(text)
    dtype = element_dtype(entry_function(module).args[0]).numpy
    runs = [compiled(text, threads) for threads in (1, 2)]
    for rows in (0, 3, 700):
        rng = np.random.default_rng(5)
        x, start = (
            (rng.uniform(0.9, 1.1, shape) if fold == "prod" else rng.integers(0, 9, shape))
            for shape in ((rows, 20), (20,))
        )
        arrays = [x.astype(dtype), start.astype(dtype)]
        (expected,) = interpret(module, arrays)
        one, two = (run(*arrays)[0] for run in runs)
        assert one.tobytes() == two.tobytes()
        np.testing.assert_allclose(one, expected, rtol=1e-2 if element == "f16" else 1e-5)


def test_error_in_a_tile() -> None:
    """An index that is out of bounds is reported when all tiles are done, with its number."""
    text = """func.func @f(%x: tensor<64x4xf32>, %i: tensor<64xi64>) -> tensor<64x4xf32>
    attributes {mlc.symbols = []} {
  %y = mlc.tiles (%p in 64 step 8) -> (tensor<64x4xf32> at (0)) {
    %n = mlc.tile %i[%p] at (0) : tensor<64xi64> -> tensor<8xi64>
    %g = mlc.gather "0j,i->ij" %x[%n] : tensor<64x4xf32>, tensor<8xi64> -> tensor<8x4xf32>
    mlc.yield %g : tensor<8x4xf32>
  }
  func.return %y : tensor<64x4xf32>
}"""
    x = np.arange(256, dtype=np.float32).reshape(64, 4)
    places = np.arange(64)[::-1].copy()
    run = compiled(text)
    np.testing.assert_array_equal(run(x, places)[0], x[places])
    places[37] = 64
    with pytest.raises(IndexError, match="index 64 is out of bounds for size 64"):
        run(x, places)
    np.testing.assert_array_equal(run(x, places % 64)[0], x[places % 64])


def test_calls_at_the_same_time() -> None:
    """Each call has an arena of its own, and each of its threads a part of it."""
    program = PROGRAMS["attention of symbols"]
    run = compiled(program.text, 2)
    arguments = [program.draw(seed) for seed in range(4)]
    expected = [run(*arrays)[0] for arrays in arguments]
    found: list[list[bool]] = [[] for _ in arguments]

    def call(k: int) -> None:
        found[k] += [np.array_equal(run(*arguments[k])[0], expected[k]) for _ in range(20)]

    threads = [threading.Thread(target=call, args=(k,)) for k in range(len(arguments))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [[True] * 20] * len(arguments)


def test_attention_takes_memory_that_does_not_grow() -> None:
    """It is each thread's own, and its tiles are of fixed sizes."""
    module = to_plan(parsed(attention("N", "M", 64, 64, 256, 1)), fusion=FUSIONS[0])
    loops = lower_to_loops(module)
    plan = memory_plan_of(loops)
    small = plan.arena_bytes((512, 512), threads=1)
    assert small == plan.arena_bytes((65536, 65536), threads=1) > 0
    assert plan.arena_bytes((512, 512), threads=2) == 2 * small


def test_report_counts_a_tile_loop_as_one_kernel() -> None:
    module = to_plan(parsed(layer_norm("N", 24, 5)), fusion=FUSIONS[0])
    plan = plan_of(module, host_target(), {"N": 13})
    (kernel,) = plan.kernels
    assert plan.kernel_count == 1
    assert len(kernel.phases) > 1
    assert plan.intermediates == () == plan.copies
