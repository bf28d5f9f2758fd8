"""`mlc.torch.wrap`: values and gradients against PyTorch's own."""

# pyright: reportUnknownLambdaType=false, reportUnknownArgumentType=false
# pyright: reportUnknownVariableType=false, reportUnknownMemberType=false
# pyright: reportMissingImports=false, reportUnknownParameterType=false

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc

torch: Any = pytest.importorskip("torch", reason="needs PyTorch: pip install torch")

RTOL = {"float32": 1e-5, "float64": 1e-12}


def random(*shape: int, dtype: str = "float64", grad: bool = True, seed: int = 0) -> Any:
    values = np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return torch.tensor(values, requires_grad=grad)


def close(found: Any, expected: Any, rtol: float = 1e-12) -> None:
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=rtol, atol=rtol)


def layer(x: Any, w: Any, b: Any) -> Any:
    return np.tanh(x @ w + b)


def torch_layer(x: Any, w: Any, b: Any) -> Any:
    return torch.tanh(x @ w + b)


@pytest.mark.parametrize("dtype", RTOL)
def test_values_and_gradients(dtype: str) -> None:
    given = [random(4, 3, dtype=dtype), random(3, 2, dtype=dtype), random(2, dtype=dtype)]
    found = mlc.torch.wrap(layer)(*given)
    expected = torch_layer(*given)
    close(found, expected, RTOL[dtype])
    cotangent = random(4, 2, dtype=dtype, grad=False, seed=1)
    pairs = zip(
        torch.autograd.grad(found, given, cotangent),
        torch.autograd.grad(expected, given, cotangent),
        strict=True,
    )
    for ours, theirs in pairs:
        close(ours, theirs, RTOL[dtype])


def test_a_number() -> None:
    x = random()
    y = mlc.torch.wrap(lambda x: x * x + 1)(x)
    assert y.shape == ()
    y.backward()
    close(x.grad, 2 * x.detach())


def test_containers_and_several_results() -> None:
    def f(p: Any, scale: float) -> Any:
        return {"y": p["w"] @ p["v"], "rest": [(p["w"] ** 2).sum() * scale, p["none"]]}

    w, v = random(3, 2), random(2, seed=1)
    found = mlc.torch.wrap(f)({"w": w, "v": v, "none": None}, 2.0)
    assert found["rest"][1] is None
    close(found["y"], w @ v)
    (found["y"].sum() + found["rest"][0]).backward()
    close(w.grad, v.detach().expand(3, 2) + 4 * w.detach())
    close(v.grad, w.detach().sum(0))


def test_one_of_several_results_is_used() -> None:
    x = random(3)
    used, _ = mlc.torch.wrap(lambda x: (np.sin(x), np.exp(x)))(x)
    used.sum().backward()
    close(x.grad, torch.cos(x.detach()))


def test_integers_have_no_gradient() -> None:
    def f(x: Any, i: Any) -> Any:
        return x[i], np.argmax(x), x > 0

    x, i = random(4), torch.tensor([2, 2, 0])
    rows, largest, positive = mlc.torch.wrap(f)(x, i)
    assert (largest.dtype, positive.dtype) == (torch.int64, torch.bool)
    assert not largest.requires_grad
    assert not positive.requires_grad
    assert int(largest) == int(x.argmax())
    rows.sum().backward()
    close(x.grad, torch.tensor([1.0, 0.0, 2.0, 0.0], dtype=torch.float64))
    assert i.grad is None


def test_arguments_that_need_no_gradient() -> None:
    x, w = random(3), random(3, grad=False)
    wrapped = mlc.torch.wrap(lambda x, w: x * w)
    wrapped(x, w).sum().backward()
    close(x.grad, w)
    assert w.grad is None
    assert not wrapped(w, w).requires_grad


def test_without_gradients() -> None:
    x = random(3)
    with torch.no_grad():
        y = mlc.torch.wrap(np.sin)(x)
    assert not y.requires_grad
    close(y, torch.sin(x.detach()))


def test_called_twice_and_in_a_chain() -> None:
    x, y = random(3), random(3)
    wrapped = mlc.torch.wrap(lambda x: np.sin(x) * x)
    again = wrapped(wrapped(x) * 2)
    (again + wrapped(x)).sum().backward()

    def own(x: Any) -> Any:
        return torch.sin(x) * x

    (own(own(y) * 2) + own(y)).sum().backward()
    close(x.grad, y.grad)


def test_backward_twice() -> None:
    x = random(3)
    y = mlc.torch.wrap(np.sin)(x).sum()
    y.backward(retain_graph=True)
    y.backward()
    close(x.grad, 2 * torch.cos(x.detach()))


def test_tensors_of_any_layout() -> None:
    x = random(4, 6)
    part = x.t()[1::2, ::3]
    assert (part.shape, part.is_contiguous()) == ((3, 2), False)
    found = mlc.torch.wrap(lambda x: np.sin(x) * x)(part)
    close(found, torch.sin(part) * part)
    found.backward(torch.ones(2, 3, dtype=torch.float64).t())
    expected = torch.autograd.grad((torch.sin(x) * x)[::3].t()[1::2].sum(), x)[0]
    close(x.grad, expected)


def test_changed_between_forward_and_backward() -> None:
    """As PyTorch says it of its own functions."""
    x = random(3)
    z = x * 1
    y = mlc.torch.wrap(np.sin)(z)
    with torch.no_grad():
        z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_gradcheck() -> None:
    given = (random(2, 3), random(3, 2, seed=1), random(2, seed=2))
    assert torch.autograd.gradcheck(mlc.torch.wrap(layer), given)


def test_second_derivatives() -> None:
    x = random(3)
    (gradient,) = torch.autograd.grad(mlc.torch.wrap(np.sin)(x).sum(), x, create_graph=True)
    gradient.sum().backward()
    close(x.grad, -torch.sin(x.detach()))
    given = (random(2, 2), random(2, 2, seed=1), random(2, seed=2))
    assert torch.autograd.gradgradcheck(mlc.torch.wrap(layer), given)


def test_complex_gradients_are_those_of_torch() -> None:
    z = torch.tensor([1.0 + 2.0j, -0.5 + 1.0j], dtype=torch.complex128, requires_grad=True)
    mlc.torch.wrap(lambda z: (z * z).real + abs(z))(z).sum().backward()
    w = z.detach().clone().requires_grad_()
    ((w * w).real + abs(w)).sum().backward()
    close(z.grad, w.grad)
    close(mlc.torch.wrap(np.conj)(z.detach().conj()), z.detach())


def test_bfloat16() -> None:
    x = torch.tensor([1.5, -2.0], dtype=torch.bfloat16, requires_grad=True)
    y = mlc.torch.wrap(lambda x: x * x)(x)
    assert y.dtype == torch.bfloat16
    y.sum().backward()
    close(x.grad, 2 * x.detach())


def test_a_module_learns() -> None:
    x, target = random(16, 3, grad=False), random(16, 2, grad=False, seed=3)
    w, b = random(3, 2, seed=1), torch.zeros(2, dtype=torch.float64, requires_grad=True)
    optimiser = torch.optim.SGD([w, b], lr=0.1)
    wrapped = mlc.torch.wrap(lambda x, w, b, t: ((layer(x, w, b) - t) ** 2).mean())
    losses: list[float] = []
    for _ in range(20):
        optimiser.zero_grad()
        loss = wrapped(x, w, b, target)
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses == sorted(losses, reverse=True)


def test_tensors_elsewhere_are_refused() -> None:
    with pytest.raises(mlc.MlcError, match="is on meta; expected a tensor on the CPU"):
        mlc.torch.wrap(np.sin)(torch.zeros(3, device="meta"))
    with pytest.raises(mlc.MlcError, match="sparse"):
        mlc.torch.wrap(np.sin)(torch.zeros(3).to_sparse())


def test_functions_only() -> None:
    with pytest.raises(TypeError, match="expected a function"):
        mlc.torch.wrap(torch.zeros(3))
