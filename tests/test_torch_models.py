# pyright: basic, reportMissingImports=false
"""Whole models through `torch.compile`: inference over sizes, and training, as eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import mlc

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

from tests.torch_models import MODELS, WORDS, Gpt2, ResNet18, ids  # noqa: E402 - PyTorch's

pytestmark = pytest.mark.filterwarnings("default")  # PyTorch warns of itself

F: Any = torch.nn.functional
QUICK = ("GPT-2", "LSTM tagger")


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    torch._dynamo.reset()
    mlc.torch.clear_report()
    torch.manual_seed(0)
    with torch._dynamo.config.patch(allow_rnn=True):  # without it no LSTM reaches a backend
        yield
    torch._dynamo.reset()


@pytest.mark.parametrize(
    "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in MODELS]
)
def test_one_compilation_infers_over_sizes(name: str) -> None:
    make, arguments = MODELS[name]
    model = make().eval()
    compiled = torch.compile(model, backend=mlc.torch.backend, dynamic=True)
    with torch.no_grad(), torch._dynamo.config.patch(error_on_recompile=True):
        for size in (4, 5, 9):
            given = arguments(size)
            found, expected = compiled(*given), model(*given)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
    (report,) = mlc.torch.report()
    assert report.pieces == 1
    assert not report.eager


def trained(model: Any, run: Callable[..., Any], batches: list[Any], loss: Any) -> list[Any]:
    """Losses of five steps, then the parameters and buffers."""
    torch.manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    losses = []
    for batch in batches:
        optimizer.zero_grad()
        found = loss(run, batch)
        found.backward()
        optimizer.step()
        losses.append(found.detach())
    return [dict(enumerate(losses)), model.state_dict()]


def check_training(model: Any, batches: list[Any], loss: Any) -> None:
    other = copy.deepcopy(model)
    compiled = torch.compile(other, backend=mlc.torch.backend)
    found = trained(other, compiled, batches, loss)
    expected = trained(model, model, batches, loss)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    assert [graph.name for graph in mlc.torch.report()] == ["forward", "backward"]
    assert all(graph.pieces == 1 for graph in mlc.torch.report())


def test_gpt2_trains_as_eager_does_with_dropout() -> None:
    def loss(run: Any, text: Any) -> Any:
        return F.cross_entropy(run(text[:, :-1])[0].reshape(-1, WORDS), text[:, 1:].reshape(-1))

    check_training(Gpt2(), [ids(2, 12) for _ in range(5)], loss)
    names = {op.name for graph in mlc.torch.report() for op in graph.eager}
    assert names == {"draw_mask"}


@pytest.mark.slow
def test_resnet_trains_as_eager_does() -> None:
    def loss(run: Any, batch: Any) -> Any:
        return F.cross_entropy(run(batch[0]), batch[1])

    batches = [(torch.randn(4, 3, 64, 64), torch.randint(0, 10, (4,))) for _ in range(5)]
    check_training(ResNet18(), batches, loss)
    assert not any(graph.eager for graph in mlc.torch.report())
