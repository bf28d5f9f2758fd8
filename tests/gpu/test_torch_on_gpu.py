# pyright: basic, reportMissingImports=false
"""`torch.compile(model, backend="mlc")` on tensors of a GPU: PyTorch's memory and stream."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest

import mlc

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

from tests.torch_models import MODELS, WORDS, Gpt2, ids  # noqa: E402 - PyTorch's

pytestmark = [pytest.mark.gpu, pytest.mark.filterwarnings("default")]  # PyTorch warns of itself

F: Any = torch.nn.functional


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    if not torch.cuda.is_available():
        pytest.skip("PyTorch has no CUDA")
    torch._dynamo.reset()
    mlc.torch.clear_report()
    torch.manual_seed(0)
    yield
    torch._dynamo.reset()


def on_gpu(x: Any) -> Any:
    return x.cuda() if isinstance(x, torch.Tensor) else x


@pytest.mark.parametrize("name", ["ResNet-18", "U-Net", "BERT", "GPT-2"])
def test_infers_over_sizes(name: str) -> None:
    make, arguments = MODELS[name]
    model = make().eval().cuda()
    compiled = torch.compile(model, backend=mlc.torch.backend, dynamic=True)
    with torch.no_grad():
        for size in (4, 5):
            given = [on_gpu(x) for x in arguments(size)]
            found, expected = compiled(*given), model(*given)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert sum(report.pieces for report in mlc.torch.report())


def trained(model: Any, run: Any) -> list[Any]:
    """Losses of five steps, then the parameters and buffers."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    losses = []
    for step in range(5):
        generator = torch.Generator().manual_seed(step)
        x, y = torch.randn(32, 8, generator=generator), torch.randn(32, 4, generator=generator)
        optimizer.zero_grad()
        loss = F.mse_loss(run(x.cuda()), y.cuda())
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
    return [dict(enumerate(losses)), model.state_dict()]


def test_trains_as_eager_does_with_dropout_and_statistics() -> None:
    nn = torch.nn
    layers = [nn.Linear(8, 64), nn.BatchNorm1d(64), nn.GELU(), nn.Dropout(0.3), nn.Linear(64, 4)]
    model = nn.Sequential(*layers).cuda()
    other = copy.deepcopy(model)
    found = trained(other, torch.compile(other, backend=mlc.torch.backend))
    torch.testing.assert_close(found, trained(model, model), rtol=1e-4, atol=1e-5)
    assert [report.name for report in mlc.torch.report()] == ["forward", "backward"]
    assert all(report.pieces == 1 for report in mlc.torch.report())


def test_a_step_of_gpt2() -> None:
    model = Gpt2().cuda().eval()
    text = ids(2, 12).cuda()

    def gradients(run: Any) -> Any:
        model.zero_grad()
        logits = run(text[:, :-1])[0]
        F.cross_entropy(logits.reshape(-1, WORDS), text[:, 1:].reshape(-1)).backward()
        return {k: x.grad.clone() for k, x in model.named_parameters() if x.grad is not None}

    expected = gradients(model)
    found = gradients(torch.compile(model, backend=mlc.torch.backend))
    torch.testing.assert_close(found, expected, rtol=1e-3, atol=1e-5)


def test_what_is_written_and_begins_anywhere() -> None:
    def f(x: Any, y: Any) -> Any:
        x.mul_(2).add_(y.sin().cos())
        return (x * y).tanh().exp()

    whole = torch.randn(66, device="cuda")
    y = torch.randn(64, device="cuda")
    a, b = whole.clone(), whole.clone()
    found = torch.compile(f, backend=mlc.torch.backend)(a[1:65], y)
    torch.testing.assert_close(found, f(b[1:65], y))
    torch.testing.assert_close(a, b)


def test_the_current_stream_is_used() -> None:
    def f(x: Any) -> Any:
        return (x.sin() * x.cos()).tanh() + x

    compiled = torch.compile(f, backend=mlc.torch.backend)
    x = torch.randn(1 << 22, device="cuda")
    torch.testing.assert_close(compiled(x), f(x))
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        side.wait_stream(torch.cuda.default_stream())
        for _ in range(20):
            x = compiled(x) * 0.5
        found = x.sum()
    side.synchronize()
    again = torch.randn(0, device="cuda")
    assert bool(torch.isfinite(found))
    assert again.numel() == 0


def test_tensors_of_the_host_beside_it_are_pytorchs() -> None:
    def f(x: Any, s: Any) -> Any:
        return (x.sin() * x.cos()).tanh() + x * s

    x, s = torch.randn(64, device="cuda"), torch.tensor(0.5)
    compiled = torch.compile(f, backend=mlc.torch.backend)
    torch.testing.assert_close(compiled(x, s), f(x, s))
