"""
Numerics "strict": compiled code has the bits of the reference, and the reference has one order of
summation, the same on every machine.
"""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp, StringAttr

import mlc
import tests.test_every_op as every_op
from mlc import nn
from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import BF16, F16, F32, F64, DType
from mlc.dialects.numerics import ATTRIBUTE
from mlc.dialects.target import named_target
from mlc.dialects.tensor.comparison import MaxOp, MinOp
from mlc.dialects.tensor.rounding import FmaxOp, FminOp
from mlc.dialects.tensor.sort import SortOp
from mlc.frontend.errors import NotSupportedError
from mlc.runtime.interpret import interpret
from mlc.runtime.probe import host_target
from tests.differential.batch import TILED, WAYS, Batch, guarded
from tests.every_op import native
from tests.every_op.shapes import SHAPE_CLASSES
from tests.every_op.values import Exact
from tests.strict_programs import is_open_case, strict
from tests.test_differential import batches, last_ops, report, rows

Array = NDArray[Any]
TARGETS = ("avx2", "avx512")


def only_where_it_runs(target: str) -> None:
    """Skips the test where this machine lacks the target's instructions."""
    if target == "avx512" and not host_target().has_lane_tables:
        pytest.skip("no AVX-512 here")
    if not host_target().triple.startswith("x86_64"):
        pytest.skip("another architecture")


def alike(got: Any, want: Any) -> bool:
    """Whether results have the same bits; NaN equals NaN."""
    if isinstance(want, tuple):
        return len(got) == len(want) and all(map(alike, got, want))
    got, want = np.asarray(got), np.asarray(want)
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return False
    if want.dtype.kind == "c":
        return alike(got.real, want.real) and alike(got.imag, want.imag)
    if want.dtype.kind != "f":
        return bool((got == want).all())
    equal = (got == want) & (np.signbit(got) == np.signbit(want))
    return bool((equal | (np.isnan(got) & np.isnan(want))).all())


# The order of the reference


def in_lanes(x: Array) -> Array:
    """The sum of a vector as `dialects/tensor/order.py` says, in the plainest words."""
    size = max(-(-len(x) // 64), 8192)
    size = -(-size // 16) * 16
    total = x.dtype.type(0)
    for start in range(0, len(x), size):
        lanes = [x.dtype.type(0)] * 16
        for k, value in enumerate(x[start : start + size]):
            lanes[k % 16] += value
        while len(lanes) > 1:
            half = len(lanes) // 2
            lanes = [a + b for a, b in zip(lanes[:half], lanes[half:], strict=True)]
        total += lanes[0]
    return total


@pytest.mark.parametrize("size", [0, 1, 15, 16, 17, 1000, 8192, 20011])
def test_the_reference_sums_in_sixteen_lanes_and_blocks(size: int) -> None:
    x = np.random.default_rng(size).standard_normal(size).astype(np.float32)
    f = mlc.compile(numerics="strict")(lambda x: x.sum())
    assert f.reference(x) == in_lanes(x)
    assert f(x) == in_lanes(x)


def test_the_reference_adds_the_terms_of_a_matrix_product_in_turn() -> None:
    rng = np.random.default_rng(0)
    x, y = (rng.standard_normal(s).astype(np.float32) for s in ((7, 300), (300, 9)))
    total = np.zeros((7, 9), np.float32)
    for k in range(300):
        total = total + x[:, k, None] * y[k]
    f = mlc.compile(lambda x, y: x @ y)
    assert alike(f.reference(x, y), total)
    assert alike(mlc.compile(numerics="strict")(f.__wrapped__)(x, y), total)


# Every op


def strict_module(cases: Any, c: Any) -> Any:
    """The function of the cases, with strict numerics."""
    module = MODULE_OF(cases, c)
    module.attributes[ATTRIBUTE] = StringAttr("strict")
    return module


MODULE_OF = every_op._module  # pyright: ignore[reportPrivateUsage]
FAMILIES = ("reductions", "contractions", "scans", "convolutions", "windows", "elementwise")
COMBINING = FAMILIES[:-1]


def strict_faults(family: str, name: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """What differs in a bit, of the family's cases that compute with inexact numbers."""
    c = next(c for c in SHAPE_CLASSES if c.name == name)
    monkeypatch.setattr(every_op, "_module", strict_module)
    faults: list[str] = []
    for cases, runs in every_op._batches(family, c):  # pyright: ignore[reportPrivateUsage]
        chosen = [
            replace(case, tolerance=Exact())
            for case in cases
            if any(x.dtype.is_inexact for x in case.operands) and not is_open_case(case)
        ]
        if chosen:
            faults += every_op._compare(chosen, c, runs)  # pyright: ignore[reportPrivateUsage]
    return faults


@pytest.mark.parametrize("family", COMBINING)
def test_every_sum_has_the_bits_of_the_reference(
    family: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    faults = strict_faults(family, "odd", monkeypatch)
    assert not faults, "\n".join(faults)


def signed(dtype: DType, size: int) -> Array:
    """Zeros of both signs between numbers, infinities and NaN."""
    values = [-0.0, np.nan, -np.inf, 1.5, -2.25, 0.0, 0.0, -0.0, -0.0, 3.0, np.inf, 0.0]
    return np.resize(np.array(values, dtype.numpy), size)


def judge_of(module: ModuleOp) -> Callable[..., list[Array]]:
    """The reference of a module as it is now."""
    kept = module.clone()
    return lambda *x: list(interpret(kept, x))


@pytest.mark.parametrize("target", TARGETS)
def test_extremes_have_the_zeros_of_the_reference(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """0.0 is larger than -0.0, in every lane, whatever stands on the other side."""
    only_where_it_runs(target)
    monkeypatch.setattr(native, "host_target", lambda: named_target(target))
    ops = (MaxOp, MinOp, FmaxOp, FminOp)
    for dtype in (F16, BF16, F32, F64):
        arguments = [native.Argument(dtype, (Dim.symbol("n"),))] * 2
        module = native.function_module(arguments, lambda b, x: [b(op, *x) for op in ops], ["n"])
        module.attributes[ATTRIBUTE] = StringAttr("strict")
        judged, signature = judge_of(module), native.signature_of(module)
        call = native.compile_plan(native.to_plan(module), signature)
        x, y = signed(dtype, 12 * 12), np.repeat(signed(dtype, 12), 12)
        got, want = (tuple(v.astype(np.float64) for v in f) for f in (call(x, y), judged(x, y)))
        assert alike(got, want)
        # -0.0 beside -0.0, and beside -inf, -2.25 and NaN
        assert np.signbit(got[2][got[2] == 0]).sum() == 3 * 3 + 2 * 3 * 3


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("order", ["ascending", "descending"])
def test_negative_zeros_are_sorted_before_zeros(
    order: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In rows of any length, with the order that NumPy gives everything else."""
    only_where_it_runs(target)
    monkeypatch.setattr(native, "host_target", lambda: named_target(target))
    for dtype in (F16, BF16, F32, F64):
        module = native.function_module(
            [native.Argument(dtype, (Dim.symbol("n"),))],
            lambda b, x: [b(SortOp, *x, order=order)],
            ["n"],
        )
        judged, signature = judge_of(module), native.signature_of(module)
        call = native.compile_plan(native.to_plan(module), signature)
        for size in (5, 17, 40, 300):
            x = signed(dtype, size)
            got, want = (f(x)[0].astype(np.float64) for f in (call, judged))
            in_order = np.sort(x.astype(np.float64))[:: 1 if order == "ascending" else -1]
            np.testing.assert_array_equal(got, in_order)
            negative = np.signbit(got[got == 0])
            assert list(negative) == sorted(negative, reverse=order == "ascending")
            assert alike(got, want)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("name", [c.name for c in SHAPE_CLASSES])
@pytest.mark.parametrize("family", FAMILIES)
def test_every_op_has_the_bits_of_the_reference(
    family: str, name: str, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_where_it_runs(target)
    monkeypatch.setattr(native, "host_target", lambda: named_target(target))
    faults = strict_faults(family, name, monkeypatch)
    assert not faults, "\n".join(faults)


# Random programs


def check_random(programs: Any, ways: Any, count: int, number: int) -> int:
    """So many batches in turn; how many results had to have certain bits."""
    checked = certain = 0

    def check(batch: Batch) -> None:
        nonlocal checked, certain
        strict(batch)
        certain += sum(x.known.certain for _, x in batch.results)
        way = ways[checked % len(ways)]
        checked += 1
        if guarded(batch, way):
            pytest.fail(report(batch, way), pytrace=False)

    chosen = settings(
        max_examples=count,
        database=None,
        deadline=None,
        derandomize=False,
        phases=[Phase.generate],
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    seed(number)(chosen(given(programs)(check)))()
    return certain


def test_random_programs_have_the_bits_of_the_reference() -> None:
    assert check_random(batches(last_ops(3)[:6]), WAYS, 2, 3) > 10


def test_random_programs_of_rows_have_the_bits_of_the_reference() -> None:
    assert check_random(rows(), TILED, 1, 5) > 5


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("shard", range(10))
def test_many_random_programs_have_the_bits_of_the_reference(
    shard: int, target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    only_where_it_runs(target)
    monkeypatch.setattr(native, "host_target", lambda: named_target(target))
    assert check_random(batches(last_ops(shard)), WAYS, 5, 100 + shard) > 50
    assert check_random(rows(), TILED, 2, 100 + shard) > 10


# Python programs: all passes, options and layouts


def floats(*shape: int, dtype: str = "f4") -> Array:
    """Normally distributed numbers."""
    rng = np.random.default_rng(list(shape))
    if dtype.startswith("c"):
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def squared_softmax(x: Any) -> Any:
    """A softmax without its exponentials."""
    e = (x - x.max(-1, keepdims=True)) ** 2
    return e / e.sum(-1, keepdims=True)


def normalised(x: Any) -> Any:
    """Batch normalisation."""
    axes = (0, 2, 3)
    centred = x - x.mean(axes, keepdims=True)
    return centred / np.sqrt(x.var(axes, keepdims=True) + 1e-5)


def loss(w: Any, b: Any, v: Any, x: Any) -> Any:
    """A mean of squares of a network."""
    return ((np.maximum(x @ w + b, 0) @ v) ** 2).mean()


NETWORK = (floats(20, 64), floats(64), floats(64, 10), floats(32, 20))
HALF = (floats(33, 70, dtype="f2"), floats(70, 33, dtype="f2"))
PAIRS = (floats(33, 20, dtype="c8"), floats(20, 33, dtype="c8"))
PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Array, ...]]] = {
    "sum of all": (lambda x: (x.sum(), x.sum(0), x.T.sum(1), x.T.sum()), (floats(1000, 333),)),
    "sums of strided": (lambda x: (x[::2, ::3].sum(), x.prod(0)), (floats(333, 100),)),
    "long sum": (lambda x: (x * x - x).sum(), (floats(200_003),)),
    "means": (lambda x: (x.mean((0, 2)), x.var(0), x.std()), (floats(10, 33, 70),)),
    "norm": (lambda x: 2 * np.linalg.norm(x), (floats(3330, dtype="f8"),)),
    "dot": (lambda x, y: x @ y, (floats(50_000), floats(50_000))),
    "matrix times vector": (
        lambda x, y: (x @ y[0], y[1, :300] @ x, x.T @ y[1, :300]),
        (floats(300, 500), floats(2, 500)),
    ),
    "deep product": (lambda x, y: x @ y, (floats(300, 1500), floats(1500, 200))),
    "epilogue": (
        lambda x, y: np.maximum(x @ y + 1, 0) * 2.5,
        (floats(4, 30, 1500), floats(1500, 20)),
    ),
    "chain": (lambda x, y, z: x @ y @ z, (floats(100, 50), floats(50, 80), floats(80, 1))),
    "transposed": (lambda x, y: (x @ y.T, x.T @ x), (floats(150, 300), floats(200, 300))),
    "einsum": (
        lambda x, y: np.einsum("ijk,kjl->il", x, y),
        (floats(20, 30, 40), floats(40, 30, 25)),
    ),
    "elementwise": (
        lambda a, b: (
            a * b + a - a / 3.0,
            a**2 / 7.0,
            1 / np.sqrt(abs(a)),
            a % 0.7,
            np.hypot(a, b),
        ),
        (floats(1000), floats(1000)),
    ),
    "extremes of zeros": (
        lambda x: (
            np.clip(x * 0, -0.0, 0.5),
            np.maximum(x * 0, 0.0),
            (x * 0).max(),
            np.sort(x * 0),
        ),
        (floats(50, 20),),
    ),
    "running": (
        lambda x: (np.cumsum(x, 1), np.cumsum(x, 0), np.cumprod(x[:, ::-1], 1)),
        (floats(100, 70),),
    ),
    "softmax": (squared_softmax, (floats(64, 300),)),
    "gradient": (mlc.grad(loss, argnums=(0, 1, 2)), NETWORK),
    "vmap": (mlc.vmap(lambda x, y: (x @ y).sum() * x[0]), (floats(8, 30), floats(8, 30))),
    "hessian": (
        mlc.hessian(lambda w, x, y: ((x @ w - y) ** 2).sum()),
        (floats(5), floats(30, 5), floats(30)),
    ),
    "batch normalisation": (normalised, (floats(8, 16, 7, 7),)),
    "its gradient": (mlc.grad(lambda x: (normalised(x) ** 3).sum()), (floats(8, 16, 7, 7),)),
    "convolution": (
        lambda x, w: nn.conv(x, w)[..., ::-1],
        (floats(2, 3, 32, 32), floats(8, 3, 3, 3)),
    ),
    "gradient of a convolution": (
        mlc.grad(lambda x, w: np.square(nn.conv(x, w)).sum(), argnums=(0, 1)),
        (floats(2, 3, 16, 16), floats(8, 3, 3, 3)),
    ),
    "pooling": (lambda x: (nn.avg_pool(x, 2), nn.max_pool(x, 2)), (floats(2, 3, 32, 32),)),
    "half": (lambda x, y: (x @ y, x.sum(), (x * y.T).mean(0), x * 2.5 + y.T), HALF),
    "complex": (
        lambda x, y: (x @ y, x * y.T, x / y.T, abs(x), x.sum(), np.vdot(x, y.T), np.prod(x[:, 0])),
        PAIRS,
    ),
    "scan": (
        lambda x, w: mlc.scan(
            lambda h, y: (np.maximum(h @ w + y @ w, 0), h), np.zeros(20, np.float32), x
        ),
        (floats(20, 20), floats(20, 20)),
    ),
    "loop": (
        lambda x: mlc.fori_loop(0, 5, lambda i, c: c @ c * 0.1 + c, x),
        (floats(20, 20),),
    ),
    "siblings": (
        lambda x, a, b, c: (x @ a, x @ b, x @ c),
        (floats(64, 64), floats(64, 64), floats(64, 32), floats(64, 16)),
    ),
    "affine": (
        lambda x, a, s, t: (x @ a) * s + t,
        (floats(64, 64), floats(64, 64), floats(64), floats(64)),
    ),
}
WAYS_TO_COMPILE: tuple[dict[str, Any], ...] = (
    {"target": "avx2"},
    {"target": "avx512", "threads": 2},
    {"dynamic": True, "threads": 2},
    {"fusion": "none", "target": "avx512"},
    {},  # of strided arrays
)


def runs() -> Iterator[Any]:
    """Each program in one way in every run, in all ways in slow ones."""
    for number, name in enumerate(PROGRAMS):
        for k, way in enumerate(WAYS_TO_COMPILE):
            marks = () if k == number % len(WAYS_TO_COMPILE) else pytest.mark.slow
            label = "-".join(f"{key}={value}" for key, value in way.items()) or "strided"
            yield pytest.param(name, way, marks=marks, id=f"{name}-{label}")


@pytest.mark.parametrize(("name", "way"), list(runs()))
def test_programs_have_the_bits_of_the_reference(name: str, way: dict[str, Any]) -> None:
    if "target" in way:
        only_where_it_runs(way["target"])
    function, arguments = PROGRAMS[name]
    if not way:
        arguments = tuple(np.repeat(x, 2, axis=-1)[..., ::2] for x in arguments)
    f = mlc.compile(numerics="strict", **way)(function)
    assert alike(f(*arguments), f.reference(*arguments))


# What is written


@pytest.mark.parametrize(("numerics", "fused"), [("strict", False), ("standard", True)])
def test_strict_products_are_not_fused_with_sums(numerics: Any, fused: bool) -> None:
    f = mlc.compile(numerics=numerics, target="avx2")(lambda x, y: x @ y)
    lowered = f.lower(mlc.TensorSpec(64, 64, dtype="f32"), mlc.TensorSpec(64, 64, dtype="f32"))
    assert ("math.fma" in lowered.text("loops")) == fused
    assert ("@llvm.fma" in lowered.text("code")) == fused


def test_the_module_says_its_numerics() -> None:
    f = mlc.compile(numerics="strict")(lambda x: x.sum())
    lowered = f.lower(mlc.TensorSpec(64, dtype="f32"))
    for level in ("tensor", "plan", "loops"):
        assert 'mlc.numerics = "strict"' in lowered.text(level)


def test_strict_is_for_cpus() -> None:
    with pytest.raises(NotSupportedError, match="an order of their own"):
        mlc.compile(numerics="strict", target="cuda:sm_90a")(lambda x: x.sum())
