"""Multilinear functions: what is said to be one is one, exactly; others get a reason."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false

from __future__ import annotations

import itertools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation, SSAValue

import mlc
import mlc.numpy as mnp
from mlc import nn
from mlc.dialects.dims import Dim, tensor_type
from mlc.dialects.dtypes import F64, I64
from mlc.dialects.tensor.comparison import CompareOp, MaxOp, SelectOp
from mlc.dialects.tensor.control import ForOp, YieldOp, loop_region
from mlc.dialects.tensor.create import ConstantOp, dense, full
from mlc.dialects.tensor.elementwise import AddOp, DivOp, MulOp, NegOp, SubOp
from mlc.dialects.tensor.library import LibraryOp
from mlc.dialects.tensor.op import OpBuilder, TensorOp
from mlc.dialects.tensor.reduce import ContractOp, ReduceOp
from mlc.dialects.tensor.shape import BroadcastOp, ConcatOp, ReshapeOp, SliceOp, TransposeOp
from mlc.passes.tensor.multilinear import Multilinearity, is_multilinear, multilinearity
from mlc.runtime.interpret import entry_function, interpret
from mlc.text import parse_text
from tests.every_op.cases import Case
from tests.every_op.elementwise import creation, elementwise
from tests.every_op.facts import around
from tests.every_op.moving import moving
from tests.every_op.native import Argument, function_module
from tests.every_op.ordering import ORDERING
from tests.every_op.reducing import UNUSUAL, contraction, contractions, reductions
from tests.every_op.shapes import SHAPE_CLASSES
from tests.every_op.windows import WINDOWED
from tests.sweeps import leading

Array = NDArray[Any]
Groups = tuple[tuple[int, ...], ...]
EXACT = 2.0**53
"""Integers below this are exact in f64, and so are their sums and products."""


def is_exact(module: ModuleOp, arrays: Sequence[Array]) -> list[Array] | None:
    """The results; None where a value on the way is not an integer (times 1/64) known exactly."""
    exact = True

    def observe(op: Operation, value: Array) -> None:
        nonlocal exact
        if value.dtype.kind == "f":
            scaled = value * 64
            exact = exact and bool((np.abs(scaled) < EXACT).all() and (scaled % 1 == 0).all())

    results = interpret(module, arrays, observe=observe)
    return results if exact else None


def check_identity(
    module: ModuleOp,
    groups: Groups,
    arrays: Sequence[Array],
    rng: np.random.Generator,
    *,
    rtol: float = 0.0,
) -> bool:
    """
    f(2 x - 3 y, …) = 2 f(x, …) - 3 f(y, …) in each group; False where f64 must round. With `rtol`
    it may round, and the difference is at most that share of the largest element.
    """
    for group in groups:
        other = [rng.integers(-3, 4, a.shape).astype(a.dtype) for a in arrays]

        def at(
            replacement: Callable[[int], Array], group: tuple[int, ...] = group
        ) -> list[Array] | None:
            chosen = [replacement(k) if k in group else a for k, a in enumerate(arrays)]
            return interpret(module, chosen) if rtol else is_exact(module, chosen)

        f_x = at(lambda k: arrays[k])
        f_y = at(lambda k, other=other: other[k])
        f_both = at(lambda k, other=other: 2 * arrays[k] - 3 * other[k])
        if f_x is None or f_y is None or f_both is None:
            return False
        for x, y, both in zip(f_x, f_y, f_both, strict=True):
            difference = 2 * x - 3 * y
            largest = max((float(np.max(np.abs(a), initial=0)) for a in (x, y, both)), default=0.0)
            np.testing.assert_allclose(
                both, difference, rtol=0, atol=rtol * largest, err_msg=f"{groups} of\n{module}"
            )
    return True


# Every op


def _cases() -> list[Case]:
    odd = next(c for c in SHAPE_CLASSES if c.name == "odd")
    families = (moving, reductions, contractions, creation, *ORDERING.values(), *WINDOWED.values())
    found = [*elementwise(odd.dims("m", "n")), *(case for f in families for case in f(odd))]
    return [*found, *(contraction(odd, text, F64) for text in UNUSUAL)]


def _groupings(floats: Sequence[int]) -> list[Groups]:
    """One operand alone, two on their own, two together."""
    pairs = list(itertools.combinations(floats, 2))
    return [
        *(((k,),) for k in floats),
        *(((i,), (j,)) for i, j in pairs),
        *((pair,) for pair in pairs),
    ]


def _integers(case: Case, rng: np.random.Generator) -> list[Array]:
    """The case's own indices and conditions; small powers of two with signs for its numbers."""
    drawn = case.draw(rng, {}, "contiguous")
    powers = np.array([-4.0, -2.0, -1.0, 1.0, 2.0, 4.0])
    return [rng.choice(powers, a.shape) if a.dtype == np.float64 else a for a in drawn]


def test_every_op_that_is_said_to_be_multilinear_is() -> None:
    rng = np.random.default_rng(0)
    said: set[tuple[str, int, int]] = set()
    checked = 0
    for case in _cases():
        floats = [k for k, x in enumerate(case.operands) if x.dtype is F64]
        module = around(case, lambda b, op, extra: [op.results[0]])
        for groups in _groupings(floats):
            if not multilinearity(entry_function(module), groups):
                continue
            # what a library computes is rounded, even where all that goes in is an integer
            rtol = 1e-12 if case.op is LibraryOp else 0.0
            arrays = _integers(case, rng)
            assert check_identity(module, groups, arrays, rng, rtol=rtol), case
            said.add((case.op.name, len(groups), len(groups[0])))
            checked += 1
    print(f"{checked} identities of {len({name for name, _, _ in said})} ops")
    for name in ("mul", "contract", "conv"):
        assert (f"mlc.{name}", 2, 1) in said, f"{name} is bilinear"
    for name in ("add", "sub", "concat", "select", "pad", "scatter", "dynamic_update"):
        assert (f"mlc.{name}", 1, 2) in said, f"{name} is linear in both together"
        assert (f"mlc.{name}", 2, 1) not in said, f"{name} is not bilinear"
    one = "neg div broadcast transpose reshape slice gather reduce scan window convert mul conv"
    for name in one.split():
        assert (f"mlc.{name}", 1, 1) in said, f"{name} is linear"
    assert not {f"mlc.{n}" for n in ("exp", "max", "abs", "sort", "floor")} & {n for n, *_ in said}


# Random graphs


SIDE = 2
SQUARE = (Dim.const(SIDE), Dim.const(SIDE))


def random_graph(seed: int, arguments: int = 3, length: int = 9) -> ModuleOp:
    """A function of square matrices, of ops that are linear, bilinear, affine and neither."""
    draw = random.Random(seed)

    def body(b: OpBuilder, values: Sequence[SSAValue]) -> Sequence[SSAValue]:
        known = [*values, full(b, 0.0, F64, SQUARE)]
        numbers = np.array([[draw.randint(-2, 2) for _ in range(SIDE)] for _ in range(SIDE)], float)
        known.append(b(ConstantOp, value=dense(numbers, F64)))
        for _ in range(length):
            # often the latest value, so that graphs are deep
            x, y = (draw.choice((known[-1], draw.choice(known))) for _ in range(2))
            known.append(_step(b, draw, x, y, known[arguments + 1]))
        return [known[-1]]

    return function_module([Argument(F64, SQUARE)] * arguments, body)


def _step(b: OpBuilder, draw: random.Random, x: SSAValue, y: SSAValue, fixed: SSAValue) -> SSAValue:
    kind = tensor_type(F64.ir, SQUARE)
    match draw.randrange(14):
        case 0 | 1:
            return b(MulOp, x, y)
        case 2:
            return b(ContractOp, x, y, letters="mk,kn->mn")
        case 3 | 4:
            return b(draw.choice((AddOp, SubOp)), x, y)
        case 5:
            return b(NegOp, x)
        case 6:
            return b(TransposeOp, x, letters="mn->nm")
        case 7:
            row = b(ReduceOp, x, monoid="sum", letters="mn->n")
            return b(BroadcastOp, row, letters="n->mn", declared=kind)
        case 8:
            flat = b(ReshapeOp, x, declared=tensor_type(F64.ir, (Dim.const(4),)))
            return b(ReshapeOp, flat, declared=kind)
        case 9:
            return _halves(b, x, y)
        case 10:
            return b(MulOp, x, fixed)
        case 11:
            return b(DivOp, x, full(b, 2.0, F64, SQUARE))
        case 12:
            condition = b(CompareOp, fixed if draw.random() < 0.7 else x, y, predicate="lt")
            return b(SelectOp, condition, x, y)
        case _:
            return _loop(b, x, y) if draw.random() < 0.7 else b(MaxOp, x, y)


def _halves(b: OpBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """The first row of x above the first row of y."""
    row = tensor_type(F64.ir, (Dim.const(1), Dim.const(SIDE)))
    options: dict[str, Any] = {"offsets": (0, 0), "steps": (1, 1), "declared": row}
    return b(ConcatOp, b(SliceOp, x, **options), b(SliceOp, y, **options), axis=0)


def _loop(b: OpBuilder, x: SSAValue, y: SSAValue) -> SSAValue:
    """Twice: (u, v) becomes (u + v, v), or (v * y, u)."""
    region = loop_region([x.type, y.type])
    _, u, v = region.block.args
    inner = OpBuilder(region.block.add_op)
    add = isinstance(x.owner, MulOp | AddOp)
    region.block.add_op(
        YieldOp.create(
            operands=[inner(AddOp, u, v), v] if add else [inner(MulOp, v, y), u],
        )
    )
    count = b(ConstantOp, value=dense(np.asarray(2), I64))
    loop = ForOp(count, [x, y], region)
    b.insert(loop)
    return loop.results[0]


@pytest.mark.parametrize("graphs", leading(1, (200, 600)))
def test_random_graphs_that_are_said_to_be_multilinear_are(graphs: int) -> None:
    rng = np.random.default_rng(1)
    said = checked = 0
    for seed in range(graphs):
        module = random_graph(seed)
        arrays = [rng.integers(-3, 4, (SIDE, SIDE)).astype(float) for _ in range(3)]
        for groups in [*_groupings((0, 1, 2)), ((0,), (1,), (2,)), ((0, 1, 2),), ((0, 1), (2,))]:
            if multilinearity(entry_function(module), groups):
                said += 1
                checked += check_identity(module, groups, arrays, rng)
    print(f"{said} of {graphs * 12} groupings are multilinear, {checked} checked exactly")
    assert checked > graphs // 2


# The constructs by name, and what must be refused


def asked(function: Callable[..., Any], *arrays: Array, of: Sequence[Any]) -> Multilinearity:
    """The answer for a traced function, whose parameters are called a, b, c, …"""
    return mlc.compile(function).lower(*arrays).multilinearity(*of)


A = np.ones((3, 4), np.float32)
B = np.ones((4, 5), np.float32)
STACK = np.ones((2, 3, 4), np.float32)
IMAGE = np.ones((1, 4, 6, 6), np.float32)
KERNEL = np.ones((4, 4, 3, 3), np.float32)
CHANNELS = np.ones(4, np.float32)

CONSTRUCTS: dict[str, tuple[Callable[..., Any], Sequence[Array], Sequence[Any]]] = {
    "add": (lambda a, b: a + b, (A, A), [("a", "b")]),
    "mul": (lambda a, b: a * b, (A, A), ["a", "b"]),
    "conv": (lambda a, b: nn.conv(a, b, padding=1), (IMAGE, KERNEL), ["a", "b"]),
    "groupconv": (
        lambda a, b: nn.conv(a, b, groups=2, stride=2),
        (IMAGE, KERNEL[:, :2]),
        ["a", "b"],
    ),
    "dilatedconv": (lambda a, b: nn.conv(a, b, dilation=2), (IMAGE, KERNEL), ["a", "b"]),
    "batchnorm": (
        nn.batch_norm,
        (IMAGE, *[CHANNELS] * 4),
        [("x", "mean", "beta")],
    ),
    "batchnorm without shift": (
        nn.batch_norm,
        (IMAGE, *[CHANNELS] * 3),
        [("x", "mean"), "gamma"],
    ),
    "avgpool": (lambda a: nn.avg_pool(a, 2), (IMAGE,), ["a"]),
    "avgpool with borders": (
        lambda a: nn.avg_pool(a, 3, 1, 1, count_include_pad=False),
        (IMAGE,),
        ["a"],
    ),
    "matmul": (lambda a, b: a @ b, (A, B), ["a", "b"]),
    "batchmatmul": (lambda a, b: a @ b, (STACK, np.ones((2, 4, 5), np.float32)), ["a", "b"]),
    "concat": (lambda a, b: mnp.concatenate([a, b]), (A, A), [("a", "b")]),
    "split": (lambda a: mnp.split(a, 2, axis=1), (A,), ["a"]),
    "transpose": (lambda a: a.T, (A,), ["a"]),
    "reshape": (lambda a: a.reshape(2, 6), (A,), ["a"]),
}


@pytest.mark.parametrize("name", CONSTRUCTS)
def test_the_multilinear_constructs_are_recognised(name: str) -> None:
    function, arrays, groups = CONSTRUCTS[name]
    found = asked(function, *arrays, of=groups)
    assert found, found.why


def square_by_another_way(a: Any) -> Any:
    return (a + a) * a.T.T


def powers(a: Any) -> Any:
    def grow(_: Any, x: Any) -> Any:
        return x * a

    return mlc.fori_loop(0, 3, grow, a)


REFUSED: dict[str, tuple[Callable[..., Any], Sequence[Array], Sequence[Any], str]] = {
    "a square": (lambda a: a * a, (A,), ["a"], "mlc.mul"),
    "a square on the way": (square_by_another_way, (A,), ["a"], "mlc.mul multiplies two values"),
    "a product with itself": (lambda a: a @ a.T, (A,), ["a"], "mlc.contract"),
    "a sum, each alone": (lambda a, b: a + b, (A, A), ["a", "b"], "mlc.add puts together a value"),
    "concat, each alone": (
        lambda a, b: mnp.concatenate([a, b]),
        (A, A),
        ["a", "b"],
        "mlc.concat puts together",
    ),
    "a product, both together": (lambda a, b: a * b, (A, A), [("a", "b")], "multiplies two values"),
    "an affine map": (lambda a: a + 1, (A,), ["a"], "depends on a and one that does not"),
    "a divisor": (lambda a, b: a / b, (A, A), ["a", "b"], "mlc.div is not linear in its operand 1"),
    "a function": (lambda a: -mnp.exp(a), (A,), ["a"], "mlc.exp is not linear"),
    "relu": (lambda a: -nn.relu(a), (A,), ["a"], "is not linear"),
    "its own condition": (lambda a: mnp.where(a > 0, a, 0), (A,), ["a"], "mlc.compare"),
    "max pooling": (lambda a: nn.max_pool(a, 2), (IMAGE,), ["a"], "mlc.window is not linear"),
    "batch statistics": (nn.batch_norm, (IMAGE,), ["x"], "mlc."),
    "batchnorm, the input alone": (
        nn.batch_norm,
        (IMAGE, CHANNELS, CHANNELS),
        ["x"],
        "mlc.sub puts together",
    ),
    "batchnorm, the variance": (
        nn.batch_norm,
        (IMAGE, CHANNELS, CHANNELS),
        [("x", "mean"), "var"],
        "mlc.",
    ),
    "a real part": (lambda a: -mnp.real(a), (A.astype(np.complex64),), ["a"], "complex factors"),
    "an unused argument": (lambda a, b: a * 2, (A, A), ["a", "b"], "does not depend on b"),
    "a constant": (lambda a: mnp.ones(3), (A,), ["a"], "does not depend on a"),
    "a power by a loop": (powers, (A,), ["a"], "mlc."),
    "bool": (lambda a, b: a * b, (A > 0, A > 0), ["a", "b"], "bool"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_not_multilinear_is_refused_with_a_reason(name: str) -> None:
    function, arrays, groups, why = REFUSED[name]
    found = asked(function, *arrays, of=groups)
    assert not found
    assert why in found.why


def test_a_reason_names_the_line() -> None:
    found = asked(square_by_another_way, A, of=["a"])
    assert "test_multilinear.py:" in found.why


def test_zero_is_of_every_degree() -> None:
    assert asked(lambda a: a + 0.0, A, of=["a"])
    assert asked(lambda a: a * 0.0, A, of=["a"])
    assert asked(lambda a: mnp.where(A > 0, a, 0.0), A, of=["a"])
    assert asked(lambda a: mnp.pad(a, 2), A, of=["a"])
    assert not asked(lambda a: mnp.pad(a, 2, constant_values=1), A, of=["a"])


def test_groups_are_checked() -> None:
    lowered = mlc.compile(lambda a, b: a * b).lower(A, A)
    with pytest.raises(ValueError, match="no argument is called 'x'; expected one of a, b"):
        lowered.multilinearity("x")
    with pytest.raises(ValueError, match="expected each argument once"):
        lowered.multilinearity("a", ("a", "b"))


OPS = """
func.func @ops(%x: tensor<2x4x4xf64>, %y: tensor<2x4x4xf64>, %w: tensor<3x2x2xf64>,
               %k: tensor<4xi64>)
    -> tensor<2x4x4xf64> {
  %c = mlc.constant dense<9.0> : tensor<2x4x4xf64>
  %o = mlc.constant dense<0.0> : tensor<f64>
  %yes0 = mlc.add %x, %y : tensor<2x4x4xf64>
  %yes1 = mlc.add %x, %x : tensor<2x4x4xf64>
  %yes2 = mlc.mul %x, %y : tensor<2x4x4xf64>
  %no0 = mlc.mul %x, %x : tensor<2x4x4xf64>
  %yes3 = mlc.conv "c(y+i)x,fci->fyx" %x, %w
     : tensor<2x4x4xf64>, tensor<3x2x2xf64> -> tensor<3x3x4xf64>
  %yes4 = mlc.window "sum" "cy(2x+i)->cyx" [<2>] %x : tensor<2x4x4xf64> -> tensor<2x4x2xf64>
  %no1 = mlc.window "max" "cy(2x+i)->cyx" [<2>] %x : tensor<2x4x4xf64> -> tensor<2x4x2xf64>
  %yes5 = mlc.contract "gmk,gkn->gmn" %x, %y
     : tensor<2x4x4xf64>, tensor<2x4x4xf64> -> tensor<2x4x4xf64>
  %no2 = mlc.contract "gmk,gkn->gmn" %x, %x
     : tensor<2x4x4xf64>, tensor<2x4x4xf64> -> tensor<2x4x4xf64>
  %yes6 = mlc.concat 0 %x, %y : tensor<2x4x4xf64>, tensor<2x4x4xf64> -> tensor<4x4x4xf64>
  %yes7 = mlc.slice %x[<0, 0, 0>, <1, 1, 1>] : tensor<2x4x4xf64> -> tensor<1x4x4xf64>
  %yes8 = mlc.transpose "abc->cab" %x : tensor<2x4x4xf64> -> tensor<4x2x4xf64>
  %yes9 = mlc.reshape %x : tensor<2x4x4xf64> -> tensor<2x16xf64>
  %yes10 = mlc.pad %x, %o [<0, 1, 1>, <0, 1, 1>]
     : tensor<2x4x4xf64>, tensor<f64> -> tensor<2x6x6xf64>
  %yes11 = mlc.div %x, %c : tensor<2x4x4xf64>
  %no3 = mlc.div %c, %x : tensor<2x4x4xf64>
  %no4 = mlc.max %x, %c : tensor<2x4x4xf64>
  %no5 = mlc.exp %x : tensor<2x4x4xf64>
  %no6 = mlc.add %k, %k : tensor<4xi64>
  func.return %yes0 : tensor<2x4x4xf64>
}
"""


def test_which_ops_are_multilinear() -> None:
    """Each on its own: factors are two values, divisors constants; sums are in both at once."""
    block = entry_function(parse_text(OPS, "ops.mlir")).body.block
    ops = [op for op in block.ops if isinstance(op, TensorOp)]
    found = {str(op.results[0].name_hint): is_multilinear(op) for op in ops}
    assert found.pop("c") is None
    assert found.pop("o") is None
    assert found == {name: name.startswith("yes") for name in found}
