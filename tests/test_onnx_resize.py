# pyright: basic
"""`Resize`: places, lengths and sums in f32, as ONNX Runtime's; each element from neighbours."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from tests.onnx_graphs import f32, node, ran

F = np.float32


def resized(x: Any, sizes: list[int] | None = None, **more: Any) -> Any:
    """The input resized to sizes, or by the factors `scales`."""
    if sizes is None:
        scales = np.array(more.pop("scales"), np.float32)
        resize = node("Resize", "x - s", "y", **more)
        return ran([resize], {"x": x}, ["y"], weights={"s": scales}, opset=19)
    resize = node("Resize", "x - - s", "y", **more)
    return ran([resize], {"x": x}, ["y"], weights={"s": np.array(sizes)}, opset=19)


@pytest.mark.parametrize(
    ("n", "factor", "size"), [(6, 5 / 6, 5), (7, 19 / 7, 19), (5, 1.8, 9), (3, 0.5, 1)]
)
def test_a_length_is_that_of_onnx_runtime_and_pytorch(n: int, factor: float, size: int) -> None:
    """The product in f32: 6 times 0.8333333 is 4.99999988 in f64."""
    assert resized(f32(n), scales=[factor]).shape == (size,)


@pytest.mark.parametrize(
    ("n", "size", "nearest", "how", "wanted"),
    [
        (7, 8, "round_prefer_ceil", "asymmetric", [0, 1, 2, 3, 4, 4, 5, 6]),
        (7, 4, "round_prefer_ceil", "asymmetric", [0, 2, 4, 5]),
        (20, 6, "round_prefer_ceil", "half_pixel", [1, 5, 8, 11, 15, 18]),
        (28, 19, "round_prefer_floor", "half_pixel",
         [0, 2, 3, 5, 6, 8, 9, 11, 12, 13, 15, 16, 18, 19, 21, 22, 24, 25, 27]),
        (6, 17, "ceil", "half_pixel", [0, 1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4, 5, 5, 5, 5]),
        (8, 7, "floor", "asymmetric", [0, 1, 2, 3, 4, 5, 6]),
    ],
)  # fmt: skip
def test_the_nearest_is_that_of_onnx_runtime(
    n: int, size: int, nearest: str, how: str, wanted: list[int]
) -> None:
    """Its results, where the place lies at a border or is a half before it is rounded."""
    more = {"nearest_mode": nearest, "coordinate_transformation_mode": how}
    assert resized(np.arange(n, dtype=F), [size], **more).tolist() == wanted


def test_a_factor_of_f32_decides_what_is_nearest() -> None:
    """1.5 / 0.33333334 - 0.5 is 4 in f32, and less in f64."""
    found = resized(np.arange(6, dtype=F), scales=[1 / 3], nearest_mode="floor")
    assert found.tolist() == [1, 4]


def places(size: int, n: int) -> list[np.float32]:
    return [F((F(i) + F(0.5)) / (F(size) / F(n))) - F(0.5) for i in range(size)]


def cubic(x: Any, n: int, place: np.float32) -> Any:
    """The sum of four neighbours along the last axis, each step of f32."""
    a, s = F(-0.75), place - np.floor(place)
    apart = (F(1) + s, s, F(1) - s, F(2) - s)
    near = [((a + F(2)) * t - (a + F(3))) * t * t + F(1) for t in apart]
    far = [((a * t - F(5) * a) * t + F(8) * a) * t - F(4) * a for t in apart]
    index = [min(max(int(np.floor(place)) + k, 0), n - 1) for k in range(-1, 3)]
    total = np.zeros_like(x[..., 0])
    for i, share in zip(index, (far[0], near[1], near[2], far[3]), strict=True):
        total = total + share * x[..., i]
    return total


@pytest.mark.parametrize(("n", "size"), [((3, 5), (7, 11)), ((3, 1), (596, 2)), ((9, 8), (4, 6))])
def test_cubic_sums_have_the_bits_of_onnx_runtime(n: Any, size: Any) -> None:
    """Near a pole of `Tan` other bits are other numbers."""
    x = f32(2, *n)
    wide = np.stack([cubic(x, n[1], p) for p in places(size[1], n[1])], -1)
    flipped = np.swapaxes(wide, 1, 2)
    wanted = np.stack([cubic(flipped, n[0], p) for p in places(size[0], n[0])], -1)
    found = resized(x, [2, *size], mode="cubic")
    np.testing.assert_array_equal(found, np.swapaxes(wanted, 1, 2))


@pytest.mark.parametrize(
    ("n", "size"), [((3, 5), (7, 11)), ((9, 8), (4, 6)), ((2, 3, 4), (5, 7, 6))]
)
def test_linear_sums_have_the_bits_of_onnx_runtime(n: Any, size: Any) -> None:
    """All corners at once, the last axis first."""
    x, sides = f32(*n), []
    for a, b in zip(n, size, strict=True):
        inside = [min(max(p, F(0)), F(a - 1)) for p in places(b, a)]
        first = [int(p) for p in inside]
        second = [min(i + 1, a - 1) for i in first]
        half = [i == j for i, j in zip(first, second, strict=True)]
        far = [F(0.5) if h else abs(p - F(j)) for p, j, h in zip(inside, second, half, strict=True)]
        near = [F(0.5) if h else abs(p - F(i)) for p, i, h in zip(inside, first, half, strict=True)]
        sides.append(((np.array(first), np.array(far)), (np.array(second), np.array(near))))
    total = np.zeros(size, np.float32)
    for corner in itertools.product(*sides):
        share = F(1)
        for k, (_, s) in reversed(list(enumerate(corner))):
            share = share * s.reshape(-1, *[1] * (len(n) - 1 - k))
        total = total + share * x[np.ix_(*(i for i, _ in corner))]
    np.testing.assert_array_equal(resized(x, list(size), mode="linear"), total)


@pytest.mark.parametrize("smooth", [0, 1])
@pytest.mark.parametrize("mode", ["linear", "cubic"])
def test_an_infinity_stays_where_it_is(mode: str, smooth: int) -> None:
    """What is no neighbour has no share, not one of 0."""
    x = np.zeros(24, np.float32)
    x[0] = np.inf
    for size in (48, 12):
        found = resized(x, [size], mode=mode, antialias=smooth)
        assert not found[size // 2 :].any()


def test_integers_are_cut_as_those_of_onnx() -> None:
    x = np.array([0, 3, -5, 100], np.int32)
    assert resized(x, [8], mode="linear").tolist() == [0, 0, 2, 1, -3, 21, 73, 100]


def test_places_of_each_kind() -> None:
    x = np.arange(4, dtype=F)
    how = "coordinate_transformation_mode"
    resize = node("Resize", "x r r s", "y", nearest_mode="floor", **{how: "tf_half_pixel_for_nn"})
    weights = {"r": np.zeros(0, F), "s": np.array([8])}
    half = ran([resize], {"x": x}, ["y"], weights=weights, opset=11)
    assert half.tolist() == [0, 0, 1, 1, 2, 2, 3, 3]
    one = resized(x + 5, [1], mode="cubic", **{how: "pytorch_half_pixel"})
    assert one.tolist() == [5]


@pytest.mark.parametrize(
    "more", [{"mode": "area"}, {"nearest_mode": "even"}, {"coordinate_transformation_mode": "x"}]
)
def test_a_word_that_is_none_is_refused(more: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=f"{next(iter(more))}: '.*'; expected one of"):
        resized(f32(4), [8], **more)
