# pyright: basic, reportMissingImports=false
"""PyTorch's ops of control flow, `torch.cond` and loops, compiled: results and gradients."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module
from typing import Any

import pytest

import mlc

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch warns of itself

OPS = "torch._higher_order_ops."
while_loop = import_module(OPS + "while_loop").while_loop
scan = import_module(OPS + "scan").scan
loop_map = import_module(OPS + "map").map
associative_scan = import_module(OPS + "associative_scan").associative_scan


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    mlc.torch.clear_report()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def check(f: Any, *calls: Any, gradients: bool = True, **options: Any) -> None:
    """Results and gradients as eager's, with nothing left to PyTorch."""
    compiled = torch.compile(f, backend=mlc.torch.backend, **options)
    for arguments in calls:
        outcomes = []
        for run in (f, compiled):
            given = [x.clone().requires_grad_(gradients) for x in arguments]
            found = run(*given)
            results = [found] if isinstance(found, torch.Tensor) else list(found)
            if gradients:
                torch.autograd.backward([x.sum() for x in results])
            outcomes.append([*results, *(x.grad for x in given)])
        torch.testing.assert_close(*outcomes, rtol=1e-4, atol=1e-5)
    assert mlc.torch.report()
    assert not any(graph.eager for graph in mlc.torch.report()), mlc.torch.report()


def test_one_of_two_branches() -> None:
    def f(x: Any) -> Any:
        def positive(x: Any) -> Any:
            return torch.cond(x.mean() > 1, lambda x: x * 3, lambda x: x.exp(), (x,)), x.sum()

        return torch.cond(x.sum() > 0, positive, lambda x: (x.cos() * 2, x.mean()), (x * 2,))

    x = torch.rand(3, 4) + 0.1
    check(f, [x], [-x], [x * 9])


def test_a_branch_over_open_sizes() -> None:
    def f(x: Any) -> Any:
        there, otherwise = (lambda x: x * x.shape[0]), torch.cos
        return torch.cond(x.sum() > 0, there, otherwise, (x.sin(),)) + 1

    check(f, *([torch.randn(n, 4)] for n in (3, 6, 7)), dynamic=True)
    assert len(mlc.torch.report()) == 2


def test_a_loop_that_data_end() -> None:
    def f(x: Any) -> Any:
        found = while_loop(lambda y: y.sum() < 100, lambda y: (y * 1.5 + 1,), (x.abs(),))
        return while_loop(
            lambda i, y: i < 5, lambda i, y: (i + 1, y * 1.5), (torch.tensor(0), *found)
        )

    check(f, [torch.randn(3, 4)], gradients=False)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_scan_with_what_it_closes_over(reverse: bool) -> None:
    def f(start: Any, xs: Any, w: Any) -> Any:
        def trip(carried: Any, x: Any) -> Any:
            new = torch.tanh(carried @ w + x)
            return new, carried.clone()

        return scan(trip, start, xs, reverse=reverse)

    check(f, [torch.randn(4), torch.randn(6, 4), torch.randn(4, 4)])


def test_scans_over_open_lengths() -> None:
    def f(start: Any, xs: Any) -> Any:
        return scan(lambda c, x: (c * 0.5 + x, (c + x).tanh()), start, xs)

    check(f, *([torch.randn(4), torch.randn(n, 4)] for n in (6, 9)), gradients=False, dynamic=True)
    assert len(mlc.torch.report()) == 1


def test_maps_and_scans_in_any_order() -> None:
    def f(xs: Any, y: Any) -> Any:
        sums = associative_scan(lambda a, b: a * b + 1, xs, 0, combine_mode="generic")
        return loop_map(lambda x, y: (x * y).sum(-1).sin(), xs, y), sums

    check(f, [torch.randn(6, 4), torch.randn(4)], gradients=False)
    check(lambda xs, y: loop_map(lambda x, y: (x @ y).sin(), xs, y),
          [torch.randn(6, 3, 4), torch.randn(4)])  # fmt: skip


def test_a_branch_with_an_op_without_a_row_is_pytorchs() -> None:
    def f(x: Any) -> Any:
        y = x.sin().exp().tanh() + 1
        z = torch.cond(y.sum() > 0, torch.special.bessel_j0, torch.cos, (y,))
        return z.sin().exp() * 3

    x = torch.randn(3, 4)
    found = torch.compile(f, backend=mlc.torch.backend)(x)
    torch.testing.assert_close(found, f(x), rtol=1e-4, atol=1e-5)
    (report,) = mlc.torch.report()
    assert [op.name for op in report.eager] == ["cond"]
    assert report.pieces == 2
