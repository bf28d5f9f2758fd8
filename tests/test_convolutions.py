"""Convolutions of many shapes, cut into strips: NumPy's results, the same bits for every team."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.dialects.plan import KernelOp
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tile.words import Strip
from mlc.passes.tile.windows import in_strips
from mlc.runtime.interpret import interpret
from tests.plans import HOSTED, TARGETS, planned, spec
from tests.sweeps import covering

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, eq=False)
class Case:
    """Shapes with channels first, and the arguments of `mlc.nn.conv`."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    options: dict[str, Any] = field(default_factory=dict[str, Any])


CASES = {
    "padded": Case((2, 8, 13, 18), (20, 8, 3, 3), {"padding": 1}),
    "strides": Case((2, 6, 21, 23), (18, 6, 3, 3), {"padding": 1, "stride": 2}),
    "one stride": Case((2, 6, 15, 23), (18, 6, 3, 2), {"stride": (1, 3)}),
    "large stride": Case((2, 8, 20, 20), (24, 8, 2, 2), {"stride": 4}),
    "dilation": Case((2, 8, 17, 19), (24, 8, 3, 3), {"padding": 2, "dilation": 2}),
    "both": Case((1, 8, 31, 33), (16, 8, 3, 3), {"stride": (2, 3), "dilation": (3, 2)}),
    "one place": Case((2, 16, 18, 18), (32, 16, 1, 1), {"stride": 2}),
    "groups": Case((2, 24, 14, 14), (32, 6, 3, 3), {"padding": 1, "groups": 4}),
    "one image": Case((1, 16, 20, 20), (16, 16, 5, 5), {"padding": 2}),
    "few channels": Case((2, 3, 34, 34), (16, 3, 7, 7), {"padding": 3, "stride": 2}),
    "line": Case((3, 16, 90), (24, 16, 5), {"padding": 2}),
    "one line": Case((1, 64, 60), (64, 64, 3), {"dilation": 2}),
    "one row": Case((1, 64, 3, 60), (64, 64, 3, 3), {"dilation": (1, 2)}),
    "volume": Case((2, 8, 6, 9, 20), (16, 8, 3, 2, 3), {"padding": 1}),
    "each channel": Case((2, 16, 14, 14), (16, 1, 3, 3), {"padding": 1, "groups": 16}),
}  # fmt: skip
PADDED = CASES["padded"]
NETWORK = {
    Case((4, 64, 56, 56), (64, 64, 3, 3), {"padding": 1}): True,
    Case((4, 3, 224, 224), (64, 3, 7, 7), {"padding": 3, "stride": 2}): True,
    Case((4, 64, 56, 56), (128, 64, 3, 3), {"padding": 1, "stride": 2}): True,
    Case((4, 64, 56, 56), (64, 8, 3, 3), {"padding": 1, "groups": 8}): True,
    Case((4, 512, 7, 7), (512, 512, 3, 3), {"padding": 1}): False,  # rows of 7 positions
    Case((4, 64, 56, 56), (64, 1, 3, 3), {"padding": 1, "groups": 64}): False,  # no product
}


def reference(x: Array, w: Array, case: Case) -> Array:
    """Channels first, in float64: one shifted product for each place in the window."""
    rank, groups = x.ndim - 2, case.options.get("groups", 1)
    stride, dilation, pad = (
        np.broadcast_to(case.options.get(name, least), rank)
        for name, least in (("stride", 1), ("dilation", 1), ("padding", 0))
    )
    x = np.pad(x.astype(np.float64), [(0, 0), (0, 0), *((p, p) for p in pad)])
    x = x.reshape(len(x), groups, -1, *x.shape[2:])
    w = w.reshape(groups, -1, *w.shape[1:]).astype(np.float64)
    sizes = [
        (n - d * (k - 1) - 1) // s + 1
        for n, k, s, d in zip(x.shape[3:], w.shape[3:], stride, dilation, strict=True)
    ]
    total = np.zeros((len(x), groups, w.shape[1], *sizes))
    for place in product(*map(range, w.shape[3:])):
        part = tuple(
            slice(d * i, d * i + s * (n - 1) + 1, s)
            for i, n, s, d in zip(place, sizes, stride, dilation, strict=True)
        )
        total += np.einsum("ngc...,gfc->ngf...", x[(..., *part)], w[(..., *place)])
    return total.reshape(len(x), -1, *sizes)


def last(x: Array) -> Array:
    """Channels last."""
    return np.ascontiguousarray(np.moveaxis(x, 1, -1))


def drawn(*shapes: tuple[int, ...]) -> list[Array]:
    """Small whole numbers, whose sums are exact in any order."""
    rng = np.random.default_rng(5)
    return [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]


def _of(case: Case) -> Callable[..., Any]:
    def f(x: Any, w: Any) -> Any:
        return mlc.nn.conv(x, w, **case.options)

    return f


@pytest.mark.parametrize(
    ("name", "channels_last", "target"), covering([*CASES], [False, True], HOSTED)
)
def test_shapes(name: str, channels_last: bool, target: str) -> None:
    """With what follows in the same kernel: a bias, another tensor of the result's shape, a max."""
    case = CASES[name]
    x, w = drawn(case.x, case.w)
    wanted = reference(x, w, case)
    b, z = drawn((wanted.shape[1],), wanted.shape)
    layout = "channels_last" if channels_last else "channels_first"
    each = b if channels_last else b.reshape(-1, *[1] * (x.ndim - 2))

    def f(x: Any, w: Any, b: Any, z: Any) -> Any:
        y: Any = mlc.nn.conv(x, w, layout=layout, **case.options)
        return np.maximum(y + b + z, 0)

    wanted = np.maximum(wanted + b.reshape(-1, *[1] * (x.ndim - 2)) + z, 0)
    if channels_last:
        x, z, wanted = last(x), last(z), last(wanted)
        w = np.ascontiguousarray(np.moveaxis(w, (1, 0), (-2, -1)))
    found = [mlc.compile(target=target, threads=threads)(f)(x, w, each, z) for threads in (1, 2, 3)]
    np.testing.assert_array_equal(found[0], wanted)
    for other in found[1:]:
        np.testing.assert_array_equal(other, found[0])


@pytest.mark.parametrize("target", TARGETS)
def test_which_are_cut_into_strips(target: str) -> None:
    """Where positions fill register tiles, and each filter takes the sum over several channels."""
    for case, wanted in NETWORK.items():
        x, w = spec(*case.x), spec(*case.w)
        levels = planned(_of(case), x, w, target=target)
        kernels = [op for op in levels.plan().walk() if isinstance(op, KernelOp)]
        (found,) = (k for k in kernels if any(isinstance(op, Product) for op in k.block.ops))
        assert found.schedule is not None
        assert in_strips(found.schedule.data.words) == wanted, case.w


@pytest.mark.parametrize("target", TARGETS)
def test_strips_stay_in_level_2(target: str) -> None:
    """Of wide images a strip has fewer rows."""
    rows: list[int] = []
    for size in (28, 112):
        levels = planned(_of(PADDED), spec(16, 64, size, size), spec(64, 64, 3, 3), target=target)
        words = [
            word
            for op in levels.plan().walk()
            if isinstance(op, KernelOp) and op.schedule is not None
            for word in op.schedule.data.words
        ]
        (strip,) = (word for word in words if isinstance(word, Strip))
        assert strip.operand == "b"
        assert 64 * (strip.rows + 2) * (size + 2) * 4 <= levels.options.target.l2_bytes / 2
        rows.append(strip.rows)
    assert rows[1] < 112


def test_strict_sums_are_in_order() -> None:
    """The bits of the interpreter's sums, one product after another."""
    rng = np.random.default_rng(5)
    x, w = (rng.standard_normal(s).astype(np.float32) for s in ((2, 8, 13, 18), (20, 8, 3, 3)))
    levels = planned(_of(PADDED), x, w, target=HOSTED[0], numerics="strict")
    (expected,) = interpret(levels.plan(), [x, w])
    found = mlc.compile(numerics="strict", target=HOSTED[0])(_of(PADDED))(x, w)
    np.testing.assert_array_equal(found, expected)
