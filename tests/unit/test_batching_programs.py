"""Batched programs with regions: each example gets what the program gives it alone."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block
from xdsl.irdl import irdl_op_definition

from mlc.dialects.analysis.dominance import verify_dominance
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import F64, I64
from mlc.dialects.tensor.control import ControlOp
from mlc.dialects.tensor.registry import CONTROL_OPS
from mlc.passes.tensor.batch import BatchPass
from mlc.passes.tensor.batching.control import RULES, rule_of
from mlc.passes.tensor.differentiate import DifferentiatePass
from mlc.runtime.interpret import interpret
from mlc.text import parse_text
from tests.every_op.native import Argument, Array, compile_plan, function_of, signature_of, to_plan
from tests.region_programs import FLAT, MATRIX, SHAPE, Regions
from tests.sweeps import leading

NUMBER = tensor_type(I64.ir, ())
SHAPES = (SHAPE, SHAPE, (SHAPE[0] * SHAPE[1],), (), (Dim.symbol("n"),))


def program(seed: int) -> ModuleOp:
    """A function of two matrices, a row of numbers, a number, and something of symbolic size."""
    rng = random.Random(seed)
    block = Block(arg_types=[MATRIX, MATRIX, FLAT, NUMBER, tensor_type(I64.ir, SHAPES[-1])])
    regions = Regions(rng, block, "n")
    regions.steps(6)
    results = [regions.any() for _ in range(3)]
    return function_of(block, [Argument(I64, dims) for dims in SHAPES], results, ["n"])


def drawn(rng: np.random.Generator, count: int, sizes: int) -> list[list[Array]]:
    """Arguments of each example."""
    shapes = [(2, 3), (2, 3), (6,)]
    return [
        [
            *(rng.integers(-9, 10, shape) for shape in shapes),
            np.asarray(rng.integers(-2, 4)),
            np.zeros(sizes, np.int64),
        ]
        for _ in range(count)
    ]


def batched(module: ModuleOp, flags: Sequence[bool]) -> ModuleOp:
    """The batched program."""
    made = module.clone()
    BatchPass(in_axes=tuple(0 if flag else "none" for flag in flags)).apply(Context(), made)
    made.verify()
    verify_dominance(made)
    return made


def check(module: ModuleOp, flags: Sequence[bool], examples: list[list[Array]]) -> ModuleOp:
    """The batched program against the program, example by example."""
    made = batched(module, flags)
    rows = [[row[k] if f else examples[0][k] for k, f in enumerate(flags)] for row in examples]
    stacked = [np.stack([r[k] for r in rows]) if f else rows[0][k] for k, f in enumerate(flags)]
    found = interpret(made, stacked)
    for i, row in enumerate(rows):
        for k, want in enumerate(interpret(module, row)):
            np.testing.assert_array_equal(found[k][i], want, err_msg=f"result {k} of example {i}")
    return made


@pytest.mark.parametrize("start", leading(2, range(0, 240, 40)))
def test_random_programs_give_each_example_its_own(start: int) -> None:
    for seed in range(start, start + 40):
        rng = np.random.default_rng(seed)
        flags = [bool(x) for x in rng.integers(0, 2, 4)] + [False]
        if not any(flags):
            continue
        check(program(seed), flags, drawn(rng, 3, seed % 3))


@pytest.mark.parametrize("seed", leading(6, range(12)))
def test_batched_programs_compile(seed: int) -> None:
    rng = np.random.default_rng(seed)
    examples = drawn(rng, 3, seed % 3)
    flags = [True, True, False, True, False]
    made = check(program(seed), flags, examples)
    arrays = [
        np.stack([row[k] for row in examples]) if f else examples[0][k] for k, f in enumerate(flags)
    ]
    expected = interpret(made, arrays)
    signature = signature_of(made)
    run = compile_plan(to_plan(made, fusion="exact"), signature, opt_level=0)
    for x, y in zip(run(*arrays), expected, strict=True):
        np.testing.assert_array_equal(x, y)


# What an example would not have done must not fail, or loop without end, on its account

UNTAKEN = """
func.func @f(%n: tensor<i64>, %a: tensor<2x2xf64>) -> (tensor<{result}>) {{
  %zero = mlc.constant dense<0> : tensor<i64>
  %table = mlc.constant dense<[5, 6, 7]> : tensor<3xi64>
  %row = mlc.constant dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf64>
  %good = mlc.compare "gt" %n, %zero : tensor<i64> -> tensor<i1>
  %r = mlc.if %good -> (tensor<{result}>) {{
    {ops}
    mlc.yield %y : tensor<{result}>
  }} else {{
    %z = mlc.constant dense<{other}> : tensor<{result}>
    mlc.yield %z : tensor<{result}>
  }}
  func.return %r : tensor<{result}>
}}
"""
WAYS_TO_FAIL = {
    "gather": (
        "i64",
        '%y = mlc.gather "0,->" %table[%n] : tensor<3xi64>, tensor<i64> -> tensor<i64>',
    ),
    "scatter": (
        "3xi64",
        '%y = mlc.scatter "set" "0,->" %table[%n], %n'
        " : tensor<3xi64>, tensor<i64>, tensor<i64> -> tensor<3xi64>",
    ),
    "power": ("i64", "%y = mlc.pow %n, %n : tensor<i64>"),
    "library": ("4xf64", '%y = mlc.library "inv" %a : tensor<2x2xf64> -> tensor<4xf64>'),
    "endless": (
        "i64",
        """%y = mlc.while iter(%i = %zero) -> (tensor<i64>) {
             %c = mlc.compare "lt" %i, %n : tensor<i64> -> tensor<i1>
             %d = mlc.compare "lt" %n, %zero : tensor<i64> -> tensor<i1>
             %e = mlc.max %c, %d : tensor<i1>
             mlc.yield %e : tensor<i1>
           } do {
           ^bb0(%j : tensor<i64>):
             %k = mlc.add %j, %n : tensor<i64>
             mlc.yield %k : tensor<i64>
           }""",
    ),
    "endless for all": (
        "2x2xf64",
        """%y = mlc.while iter(%b = %a) -> (tensor<2x2xf64>) {
             %s = mlc.reduce "min" "ab->" %b : tensor<2x2xf64> -> tensor<f64>
             %p = mlc.constant dense<9.0> : tensor<f64>
             %c = mlc.compare "lt" %s, %p : tensor<f64> -> tensor<i1>
             mlc.yield %c : tensor<i1>
           } do {
           ^bb0(%d : tensor<2x2xf64>):
             %e = mlc.add %d, %d : tensor<2x2xf64>
             mlc.yield %e : tensor<2x2xf64>
           }""",
    ),
}
GOOD = np.array([[2.0, 1.0], [1.0, 2.0]])
SINGULAR = np.zeros((2, 2))


def untaken(way: str) -> ModuleOp:
    """A program that fails, or never ends, for n <= 0 unless it knows what n is."""
    result, ops = WAYS_TO_FAIL[way]
    other = "1" if "i64" in result else "1.0"
    parsed = parse_text(UNTAKEN.format(result=result, ops=ops, other=other), "untaken.mlir")
    function = next(op for op in parsed.body.block.ops if isinstance(op, FuncOp))
    block = function.body.detach_block(0)
    end = block.last_op
    assert end is not None
    results = list(end.operands)
    block.erase_op(end)
    two = Dim.const(2)
    return function_of(block, [Argument(I64, ()), Argument(F64, (two, two))], results)


@pytest.mark.parametrize("way", WAYS_TO_FAIL)
def test_a_branch_that_an_example_does_not_take_does_not_fail_for_it(way: str) -> None:
    module = untaken(way)
    for numbers in ([2, -5, 1, -1], [-5, -6], [1, 2], []):
        examples = [[np.asarray(n), GOOD if n > 0 else SINGULAR] for n in numbers]
        if examples:
            made = check(module, (True, True), examples)
        else:
            made = batched(module, (True, True))
        arrays = [np.array(numbers, np.int64), np.reshape([x for _, x in examples], (-1, 2, 2))]
        expected = interpret(made, arrays)
        signature = signature_of(made)
        run = compile_plan(to_plan(made, fusion="exact"), signature, opt_level=0)
        for x, y in zip(run(*arrays), expected, strict=True):
            np.testing.assert_allclose(x, y, rtol=1e-14)


def test_nobody_runs_a_branch_that_nobody_takes() -> None:
    """Also where the branch itself is the same for all: it would not end."""
    module = untaken("endless for all")
    made = batched(module, (True, False))
    (found,) = interpret(made, [np.array([-1, -2]), SINGULAR])
    np.testing.assert_array_equal(found, np.ones((2, 2, 2)))


@pytest.mark.parametrize(("way", "error"), [("gather", IndexError), ("library", ValueError)])
def test_an_example_that_fails_fails(way: str, error: type[Exception]) -> None:
    made = batched(untaken(way), (True, True))
    with pytest.raises(error):
        interpret(made, [np.array([3, -1]), np.stack([SINGULAR, GOOD])])


def test_an_op_with_regions_that_nobody_knows_is_refused() -> None:
    @irdl_op_definition
    class UnknownOp(ControlOp):
        name = "mlc.unknown"

    with pytest.raises(NotImplementedError, match=r"mlc\.unknown does not state how it is batched"):
        rule_of(UnknownOp.create())
    assert set(RULES) == {op for op in CONTROL_OPS if issubclass(op, ControlOp)}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"in_axes": ("none", "none")}, "no argument of f is batched"),
        ({"in_axes": (0,)}, "in-axes names 1 axes; expected 2"),
        ({"in_axes": (2, 0)}, "in-axes has 2 at place 0; expected none, or an axis from -1 to 0"),
        ({"out_axes": ("none",)}, "result 0 depends on batched arguments"),
        ({"function": "g"}, "no function 'g'; there are: f"),
        ({"size": "n"}, "f has a symbol n already; choose another"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], message: str) -> None:
    module = untaken("gather")
    (function,) = module.body.block.ops
    function.attributes["mlc.symbols"] = ArrayAttr([StringAttr("n")])
    with pytest.raises(ValueError, match=message):
        BatchPass(**options).apply(Context(), module)


def test_axes_may_stand_anywhere() -> None:
    module = untaken("library")
    made = module.clone()
    BatchPass(in_axes=(-1, 1), out_axes=(-1,), size=3).apply(Context(), made)
    made.verify()
    numbers = np.array([1, -1, 2])
    matrices = np.stack([GOOD, SINGULAR, GOOD + 1])
    (found,) = interpret(made, [numbers, matrices.swapaxes(0, 1)])
    rows = [interpret(module, [n, x])[0] for n, x in zip(numbers, matrices, strict=True)]
    np.testing.assert_allclose(found, np.stack(rows, axis=-1))


RULE = """
func.func @f(%x: tensor<3xf64>, %w: tensor<3xf64>) -> tensor<f64> {
  %y = mlc.rule "vjp" (%x, %w) : (tensor<3xf64>, tensor<3xf64>) -> (tensor<f64>) {
  ^bb0(%a : tensor<3xf64>, %b : tensor<3xf64>):
    %c = mlc.contract "a,a->" %a, %b : tensor<3xf64>, tensor<3xf64> -> tensor<f64>
    mlc.yield %c : tensor<f64>
  } {
  ^bb0(%d : tensor<3xf64>, %e : tensor<3xf64>):
    %h = mlc.contract "a,a->" %d, %e : tensor<3xf64>, tensor<3xf64> -> tensor<f64>
    mlc.yield %h, %d, %e : tensor<f64>, tensor<3xf64>, tensor<3xf64>
  } {
  ^bb0(%p : tensor<3xf64>, %q : tensor<3xf64>, %g : tensor<f64>):
    %r = mlc.broadcast "->a" %g : tensor<f64> -> tensor<3xf64>
    %s = mlc.mul %r, %q : tensor<3xf64>
    %t = mlc.mul %r, %p : tensor<3xf64>
    mlc.yield %s, %t : tensor<3xf64>, tensor<3xf64>
  }
  func.return %y : tensor<f64>
}
"""


def test_the_rule_of_a_batch_gives_each_its_cotangent_and_the_shared_the_sum() -> None:
    module = parse_text(RULE, "rule.mlir")
    BatchPass(in_axes=(0, "none"), size=2).apply(Context(), module)
    module.verify()
    DifferentiatePass().apply(Context(), module)
    first, *_ = module.body.block.ops
    first.detach()
    x, w, g = np.arange(6.0).reshape(2, 3), np.array([1.0, 2.0, 3.0]), np.array([2.0, -1.0])
    y, of_x, of_w = interpret(module, [x, w, g])
    np.testing.assert_array_equal(y, x @ w)
    np.testing.assert_array_equal(of_x, np.multiply.outer(g, w))
    np.testing.assert_array_equal(of_w, g @ x)
