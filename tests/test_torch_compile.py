# pyright: basic, reportMissingImports=false
"""`torch.compile(…, backend=mlc.torch.backend)`: results, gradients and strides as eager's."""

from __future__ import annotations

import subprocess
import sys
import tomllib
import warnings
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any

import pytest

import mlc

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

from tests.torch_ops import FAMILIES  # noqa: E402 - it imports PyTorch

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch warns of itself

SMOOTH = [name for name in FAMILIES if name != "integers"]
QUICK = ("losses", "pools", "attention")
CHECKS = {"aten._assert_async.msg", "with_effects"}
"""What raises an error where a number says so, and is PyTorch's."""
FACTORS = {"aten._linalg_det.default", "aten.linalg_lu_solve.default"}
"""The way back of a determinant, which changes the factors of a singular matrix."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    mlc.torch.clear_report()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def compiled(f: Any, **options: Any) -> Any:
    return torch.compile(f, backend=mlc.torch.backend, **options)


def check(found: Any, expected: Any) -> None:
    """Values, types and strides."""
    for place, (x, y) in enumerate(zip(found, expected, strict=True)):
        assert x.stride() == y.stride(), place
        torch.testing.assert_close(x, y, rtol=1e-4, atol=1e-5, equal_nan=True)


def eager_ops() -> set[str]:
    """Ops of all graphs that PyTorch has run."""
    return {op.name for graph in mlc.torch.report() for op in graph.eager}


@pytest.mark.parametrize("name", FAMILIES)
def test_results_and_strides_are_eagers(name: str) -> None:
    f, arguments = FAMILIES[name]
    given = arguments()
    check(compiled(f)(*given), f(*given))
    assert eager_ops() <= CHECKS


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in SMOOTH]
)
def test_gradients_are_eagers(name: str) -> None:
    f, arguments = FAMILIES[name]
    given = arguments()
    gradients = []
    for function in (compiled(f), f):
        inputs = [x.clone().requires_grad_(x.is_floating_point()) for x in given]
        results = [x for x in function(*inputs) if x.requires_grad]
        seeds = [torch.linspace(-1, 1, x.numel()).reshape(x.shape).to(x.dtype) for x in results]
        torch.autograd.backward(results, seeds)
        gradients.append([x.grad for x in inputs if x.requires_grad])
    check(*gradients)
    assert eager_ops() <= CHECKS | FACTORS
    assert {graph.name for graph in mlc.torch.report()} == {"forward", "backward"}


@pytest.mark.parametrize(
    "name",
    [n if n == "norms" else pytest.param(n, marks=pytest.mark.slow) for n in FAMILIES],
)
def test_open_sizes(name: str) -> None:
    f, arguments = FAMILIES[name]
    given = arguments()
    check(compiled(f, dynamic=True)(*given), f(*given))


def test_one_compilation_serves_all_lengths() -> None:
    w = torch.randn(8, 8)

    def f(x: Any) -> Any:
        return torch.softmax(x @ w, -1).reshape(-1, 2).sum(0), x[:, 1:].transpose(1, 2)

    g = compiled(f, dynamic=True)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for length in (4, 5, 9, 30):
            x = torch.randn(3, length, 8)
            check(g(x), f(x))
    assert len(mlc.torch.report()) == 1


PYTORCHS = {
    "_local_scalar_dense",
    "native_dropout",
    "nonzero",
    "rand",
    "randn",
    "randperm",
    "resize_",
}
"""Core ops that PyTorch runs: they draw random numbers, give what data decide, or resize."""


def test_every_core_op_has_a_row_or_is_taken_apart_or_is_pytorchs() -> None:
    from mlc.frontend.importers.fx.run import ROWS, op_name

    apart = torch._decomp.core_aten_decompositions()
    schemas = (schema.name.partition("::") for schema in torch._C._jit_get_all_schemas())
    names = sorted({name for family, _, name in schemas if family == "aten"})
    packets = [getattr(torch.ops.aten, x) for x in names if hasattr(torch.ops.aten, x)]
    ops = [getattr(p, o) for p in packets if hasattr(p, "overloads") for o in p.overloads()]
    core = [op for op in ops if torch.Tag.core in op.tags]
    rest = {op_name(op) for op in core if op not in apart and op_name(op) not in ROWS}
    # sizes are never computed, and `vec` is what PyTorch's own dispatcher takes apart
    rest -= {name for name in rest if name.startswith(("sym_", "upsample_"))}
    assert len(core) > 150
    assert rest == PYTORCHS


def test_what_has_no_row_runs_between_compiled_pieces() -> None:
    def f(x: Any) -> Any:
        y = torch.exp(x * 2) + x.sin() * x.cos()
        z = torch.special.bessel_j0(y)
        return (z * 3 + y).tanh() * z.sigmoid() - y

    x = torch.randn(4, 5)
    check([compiled(f)(x)], [f(x)])
    (report,) = mlc.torch.report()
    assert report.pieces == 2
    (op,) = report.eager
    assert (op.name, op.count) == ("aten.special_bessel_j0.default", 1)
    assert Path(__file__).name in op.line
    assert "2 pieces" in str(report)


def test_a_graph_of_few_ops_is_left_to_pytorch() -> None:
    def f(x: Any) -> Any:
        return torch.special.bessel_j0(x * 2) + 1

    x = torch.randn(4)
    check([compiled(f)(x)], [f(x)])
    (report,) = mlc.torch.report()
    assert report.pieces == 0
    assert "left to PyTorch" in str(report)


def test_sizes_that_data_decide_are_pytorchs() -> None:
    def f(x: Any) -> Any:
        return (x * 2).exp().sin() + x, x[x > 0]

    x = torch.randn(10)
    check(compiled(f)(x), f(x))

    def places(x: Any) -> Any:
        return (x * 2).exp().sin() + x, torch.nonzero(x.cos() > 0.5), x[x > 0] * 2 + 1

    torch._dynamo.reset()
    with torch._dynamo.config.patch(capture_dynamic_output_shape_ops=True):
        x = torch.randn(4, 5)
        found = compiled(places, fullgraph=True)(x)
    torch.testing.assert_close(found, places(x))


def test_arguments_are_written_in_place() -> None:
    def f(x: Any, count: Any, table: Any) -> Any:
        count += 1
        x.mul_(2).add_(table)
        table[1:3] = x.sum()
        return x.exp()

    given = [torch.ones(4), torch.tensor(3), torch.arange(4.0)]
    other = [x.clone() for x in given]
    places = [x.data_ptr() for x in other]
    with torch.no_grad():
        check([compiled(f)(*other)], [f(*given)])
    check(other, given)
    assert [x.data_ptr() for x in other] == places
    assert not eager_ops()


@pytest.mark.parametrize("layout", [lambda x: x, lambda x: x.t(), lambda x: x[::2, 1:]])
def test_arguments_that_are_written_are_returned(layout: Any) -> None:
    def f(cache: Any, count: Any, x: Any) -> Any:
        cache.index_copy_(0, torch.tensor([1]), x)
        return cache, cache.sum(0) * 2, count.add_(1), cache[1], (cache.sum() + count).exp().tanh()

    whole = torch.randn(6, 6)
    other = whole.clone()
    counts, x = [torch.tensor(3), torch.tensor(3)], layout(whole).sum(0, keepdim=True) * 1
    with torch.no_grad():
        given = layout(other)
        found = compiled(f)(given, counts[0], x)
        check(found, f(layout(whole), counts[1], x))
    assert found[0] is given
    assert found[2] is counts[0]
    check([other, counts[0]], [whole, counts[1]])


def test_arguments_are_written_in_any_order() -> None:
    def f(a: Any, b: Any, c: Any) -> None:
        c.copy_(a.sum() + c * 2)
        a.mul_(3)
        b.copy_(c[:2].sum() - b)

    given = [torch.randn(5), torch.randn(2, 9), torch.randn(3, 4)]
    other = [x.clone() for x in given]
    with torch.no_grad():
        compiled(f)(*other)
        f(*given)
    check(other, given)


def test_an_optimizer_is_compiled_alone() -> None:
    parameters = []
    for wrapped in (compiled, lambda f: f):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Linear(8, 2))
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
        step = wrapped(optimizer.step)
        for _ in range(3):
            optimizer.zero_grad()
            model(torch.ones(3, 4)).sum().backward()
            step()
        parameters.append([p.detach() for p in model.parameters()])
    check(*parameters)
    assert not eager_ops()


def test_arguments_with_gaps_are_written_in_place() -> None:
    def f(x: Any) -> Any:
        x.mul_(2).add_(1)
        return (x * 3).sum() + x.exp().mean()

    whole, other = torch.ones(4, 6), torch.ones(4, 6)
    with torch.no_grad():
        check([compiled(f)(other[:, ::2])], [f(whole[:, ::2])])
    check([other], [whole])


@pytest.mark.parametrize(
    "layout",
    [
        lambda x: x.to(memory_format=torch.channels_last),
        lambda x: x.permute(3, 1, 0, 2),
        lambda x: x[:, :, ::2, 1:],
        lambda x: x[:1].expand(5, -1, -1, -1),
        lambda x: x[:0],
    ],
)
def test_arguments_lie_in_memory_in_any_order(layout: Any) -> None:
    def f(x: Any) -> Any:
        return x + 1, (x * 2).transpose(0, 1), x.sum(1)

    x = layout(torch.randn(4, 3, 6, 5))
    check(compiled(f)(x), f(x))


def test_orders_downwards_and_tails_are_eagers() -> None:
    nan = float("nan")
    x = torch.tensor([[1.0, nan, 3.0, 3.0, -torch.inf, nan, 0.0, -0.0]])

    def f(x: Any) -> Any:
        down = {"dim": 1, "descending": True, "stable": True}
        tail = torch.erfc(torch.linspace(0, 6, 8) + x[:, :1])
        return *torch.sort(x, **down), *torch.sort(x > 0, **down), x.topk(3, 1)[0], tail.log()

    check(compiled(f)(x), f(x))
    assert not eager_ops()


def test_signs_and_orders_of_what_is_no_number_are_eagers() -> None:
    x = torch.tensor([1.0, float("nan"), -torch.inf, 0.0])
    check(compiled(lambda x: (x.sign(), x.sgn(), x * 2))(x), (x.sign(), x.sgn(), x * 2))


def test_a_part_of_a_complex_number_leaves_the_other_as_it_is() -> None:
    x = torch.tensor([1.0, torch.inf, 2.0, -0.0])
    y = torch.tensor([[torch.inf, 1.0, float("nan"), -0.0], [0.0, -torch.inf, -0.0, 3.0]])

    def f(x: Any, y: Any) -> Any:
        return torch.view_as_real(torch.complex(x.clone() * 1, y))

    found = compiled(f)(x, y)
    check([found, found.signbit()], [f(x, y), f(x, y).signbit()])
    assert not eager_ops()


def test_numbers_of_8_bits_are_converted() -> None:
    """Beyond the largest number e4m3fn has that one, e5m2 infinity."""
    x = torch.cat([torch.randn(20), torch.tensor([1e3, -1e6, torch.inf, torch.nan])])
    kinds = torch.float8_e4m3fn, torch.float8_e5m2

    def f(x: Any) -> Any:
        small = [torch.cat([x.to(kind), x.to(kind)[:3]]) for kind in kinds]
        return [*small, *(y.float() * 2 + 1 for y in small)]

    found, expected = (list(g(x)) for g in (compiled(f), f))
    check([y.float() for y in found], [y.float() for y in expected])
    assert [y.dtype for y in found] == [y.dtype for y in expected]
    assert not eager_ops()


def test_what_may_fail_and_is_not_read_is_no_result() -> None:
    def f(x: Any) -> Any:
        return torch.func.jacrev(lambda v: v.sin() * v.sum())(x)

    x = torch.randn(4)
    check([compiled(f)(x)], [f(x)])
    assert not eager_ops()


def test_results_of_pytorchs_lie_as_the_graph_says() -> None:
    """`linalg.inv` says rows and gives columns; compiled code behind it reads them as said."""

    def f(x: Any) -> Any:
        y = torch.linalg.inv((x * 2).sin() + 3 * torch.eye(4))
        return (y * y.exp()).tanh() + x, y.cumsum(1)

    x = torch.randn(4, 4)
    check(compiled(f)(x)[:1], f(x)[:1])
    torch.testing.assert_close(compiled(f)(x)[1], f(x)[1], rtol=1e-4, atol=1e-4)


def test_dropout_of_axes_in_another_order_cuts_no_piece() -> None:
    def f(x: Any) -> Any:
        return torch.nn.functional.dropout(x.mT.sin(), 0.4).exp() * 2

    x = torch.randn(5, 6, requires_grad=True)
    found = []
    for function in (f, compiled(f)):
        torch.manual_seed(7)
        y = function(x)
        found.append([y, *torch.autograd.grad(y.sum(), x), torch.rand(3)])
    check(*found)
    assert {report.pieces for report in mlc.torch.report()} == {1}


@pytest.mark.parametrize("dtype", ["float64", "bfloat16", "float16", "int32", "complex64"])
def test_element_types(dtype: str) -> None:
    x = (torch.randn(4, 6) * 3).to(getattr(torch, dtype))

    def f(x: Any) -> Any:
        return x + x * 2, (x * x).sum(), x.t()

    check(compiled(f)(x), f(x))


def test_random_bits_are_eagers() -> None:
    def f(x: Any) -> Any:
        y = torch.nn.functional.dropout(x * 2, 0.4) + torch.randn(5, 6)
        return (torch.rand_like(y) + y.exp()) * torch.bernoulli(torch.full((5, 6), 0.3))

    x = torch.randn(5, 6, requires_grad=True)
    found = []
    for function in (f, compiled(f)):
        torch.manual_seed(7)
        y = function(x)
        found.append([y, *torch.autograd.grad(y.sum(), x), torch.rand(3)])
    check(*found)


def test_constants_of_a_graph_and_results_that_are_arguments() -> None:
    table = torch.randn(4)

    def f(x: Any, y: Any) -> Any:
        return x * table + torch.tensor([1.0, 2.0, 3.0, 4.0]), y, x.view(2, 2), 3

    x, y = torch.randn(4), torch.randn(2)
    found = compiled(f)(x, y)
    check(found[:3], f(x, y)[:3])
    assert found[1] is y
    assert found[3] == 3


def test_errors_of_a_call_are_raised() -> None:
    table = torch.randn(4, 2)
    f = compiled(lambda i: (table[i] * 2 + 1).exp())
    f(torch.tensor([0, 3]))
    with pytest.raises(IndexError):
        f(torch.tensor([0, 9]))


def test_a_factorisation_that_fails_is_pytorchs_error() -> None:
    def f(x: Any) -> Any:
        return torch.linalg.inv(x * 2 + 1).exp().sin(), (x + 1).tanh()

    check(compiled(f)(torch.eye(3)), f(torch.eye(3)))
    with pytest.raises(torch.linalg.LinAlgError):
        compiled(f)(torch.ones(3, 3))
    assert eager_ops() <= CHECKS

    def told(x: Any) -> Any:
        y, failed = torch.linalg.inv_ex(x * 2 + 1)
        return y.exp().sin(), failed, (x + 1).tanh()

    assert compiled(told)(torch.ones(3, 3))[1] > 0
    assert eager_ops() == {*CHECKS & eager_ops(), "aten.linalg_inv_ex.default"}


def test_options_are_refused() -> None:
    f = torch.compile(lambda x: x + 1, backend=mlc.torch.backend, options={"fast": True})
    with pytest.raises(Exception, match="takes no options"), warnings.catch_warnings():
        f(torch.ones(2))


def test_the_document_runs() -> None:
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "tests.document", "docs/torch.md"]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def test_the_entry_point_is_the_backend() -> None:
    root = Path(__file__).parents[1]
    points = tomllib.loads((root / "pyproject.toml").read_text())["project"]["entry-points"]
    group = points["torch_dynamo_backends"]
    assert EntryPoint("mlc", group["mlc"], "torch_dynamo_backends").load() is mlc.torch.backend


@pytest.mark.parametrize("first", [True, False])
def test_layers_of_pytorchs_fast_path(first: bool) -> None:
    """In inference PyTorch's encoder layer, and its attention, is one op."""
    layer = torch.nn.TransformerEncoderLayer(
        16, 4, 32, 0.0, "gelu" if first else "relu", batch_first=True, norm_first=first
    ).eval()
    x, unseen = torch.randn(2, 5, 16), torch.zeros(2, 5, dtype=torch.bool)
    unseen[1, 3:] = True
    later = torch.triu(torch.ones(5, 5, dtype=torch.bool), 1)
    kinds = ({}, {"src_key_padding_mask": unseen}, {"src_mask": later})
    with torch.no_grad():
        for masks in kinds:
            found = torch.compile(layer, backend=mlc.torch.backend)(x, **masks)
            torch.testing.assert_close(found, layer(x, **masks), rtol=1e-4, atol=1e-5)
        found = torch.compile(layer.self_attn, backend=mlc.torch.backend)(x, x, x)
        torch.testing.assert_close(found, layer.self_attn(x, x, x), rtol=1e-4, atol=1e-5)
    assert not eager_ops()


def test_an_operand_of_pytorchs_with_gaps_and_repeated_places() -> None:
    """As a padded bias is for attention: strides of 0 beside larger ones than the sizes say."""

    def f(x: Any) -> Any:
        y = torch.nn.functional.pad((x.sin() * x.cos()).tanh(), (0, 3))[:, None, :5].expand(4, 6, 5)
        return (torch.special.bessel_j0(y) + y).exp().tanh() * y.cos()

    compiled = torch.compile(f, backend=mlc.torch.backend)
    x = torch.randn(4, 5)
    torch.testing.assert_close(compiled(x), f(x))
    assert sum(report.pieces for report in mlc.torch.report()) == 2
