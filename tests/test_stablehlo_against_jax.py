# pyright: basic, reportMissingImports=false
"""Functions of JAX through StableHLO: read as its own parser reads them, and equal to it."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.frontend.importers.stablehlo.program import Module, Op, Region
from mlc.frontend.importers.stablehlo.reader import read

if importlib.util.find_spec("jax") is None:
    pytest.skip("JAX is not installed", allow_module_level=True)

import jax
import jax.numpy as jnp
from jax import export, lax
from jax._src.interpreters import mlir
from jaxlib.mlir import ir

rng = np.random.default_rng(1)


def f32(*shape: int) -> Any:
    return rng.standard_normal(shape).astype(np.float32)


def scanned(x: Any) -> Any:
    return lax.scan(lambda c, r: (c * 0.5 + r.sum(), c), jnp.float32(0), x)


def newton(x: Any) -> Any:
    return lax.while_loop(lambda s: abs(s * s - x) > 1e-4, lambda s: (s + x / s) / 2, x)


def switched(x: Any) -> Any:
    return lax.switch(jnp.int32(x.sum()) % 3, [jnp.sin, jnp.cos, lambda v: v * 2], x)


def drawn(x: Any) -> Any:
    key = jax.random.key(0)
    return jax.random.normal(key, (3,)) + x[0, :3], jax.random.permutation(key, 5)


def attention(x: Any) -> Any:
    return jax.nn.softmax(x @ x.T / 2, axis=-1) @ x


def images(x: Any, w: Any) -> Any:
    y = lax.conv_general_dilated(x, w, (2, 1), "SAME", rhs_dilation=(1, 2))
    return lax.reduce_window(y, -jnp.inf, lax.max, (1, 1, 2, 2), (1, 1, 2, 2), "VALID")


def narrow(x: Any) -> Any:
    return (x.astype(jnp.bfloat16) @ x.T.astype(jnp.bfloat16)).astype(jnp.float32)


MESH = jax.make_mesh((1,), ("i",), axis_types=(jax.sharding.AxisType.Auto,))
ROWS_OF_MESH = jax.sharding.PartitionSpec("i")


def alone(x: Any) -> Any:
    """What devices do together, of one."""
    found = lax.psum(x, "i") + lax.all_gather(x, "i")[0] + lax.ppermute(x, "i", [(0, 0)])
    return found * lax.axis_index("i") + lax.psum_scatter(x, "i", tiled=True)


X, S, V = f32(4, 6), f32(4, 4), f32(6)
P = S @ S.T + 4 * np.eye(4, dtype=np.float32)
N = np.array([[3, -1, 2], [0, 7, -5]], np.int32)
FUNCTIONS: dict[str, tuple[Callable[..., Any], list[Any]]] = {
    "scan": (scanned, [X]),
    "while": (newton, [np.float32(2)]),
    "cond": (lambda x: lax.cond(x.sum() > 0, jnp.sin, jnp.exp, x), [X]),
    "switch": (switched, [X]),
    "fori": (lambda x: lax.fori_loop(0, 5, lambda i, c: c * x[i] + 1, jnp.float32(1)), [V]),
    "grad": (jax.grad(lambda x: (jnp.tanh(x) * attention(x)).sum()), [X]),
    "hessian": (jax.hessian(lambda v: (jnp.sin(v) * v).sum()), [V]),
    "vmap": (jax.vmap(lambda r: jnp.outer(r, r).sum(0)), [X]),
    "attention": (attention, [X]),
    "images": (images, [f32(1, 2, 8, 8), f32(3, 2, 3, 3)]),
    "grad of images": (
        jax.grad(lambda w, x: images(x, w).sum()), [f32(3, 2, 3, 3), f32(1, 2, 8, 8)],
    ),
    "gather": (lambda x: x[jnp.array([0, -1, 9])], [X]),
    "gather fill": (lambda x: x.at[jnp.array([0, 9])].get(mode="fill", fill_value=7), [X]),
    "scatter": (lambda x: x.at[jnp.array([1, 1, 9])].add(2.0), [X]),
    "scatter max": (lambda x: x.at[:, jnp.array([0, 2])].max(0.5), [X]),
    "scatter apply": (lambda x: x.at[jnp.array([0, 2])].apply(jnp.exp), [X]),
    "sort": (lambda x: (jnp.sort(x, 0), jnp.argsort(x, 1), jnp.argsort(-x, 0)), [X]),
    "lexsort": (lambda n: jnp.lexsort((n[0], n[1] % 3)), [N]),
    "top k": (lambda x: lax.top_k(x, 3), [X]),
    "running": (lambda x: (jnp.cumsum(x, 0), lax.cummax(x, 1), lax.cumlogsumexp(x, 0)), [X]),
    "argmax": (lambda x: (jnp.argmax(x, 1), jnp.argmin(x)), [X]),
    "quantiles": (lambda x: jnp.quantile(x, 0.3, axis=1), [X]),
    "random": (drawn, [X]),
    "bits": (lambda n: (n << 3, n >> 1, lax.population_count(n), lax.clz(n), n & 6), [N]),
    "divisions": (lambda n: (n // 3, n % 3, lax.div(n, 2), lax.rem(n, -2)), [N]),
    "special": (
        lambda x: (jax.scipy.special.erf(x), jax.scipy.special.gammaln(abs(x)), lax.lgamma(x)), [X],
    ),
    "fft": (lambda x: (jnp.fft.rfft(x), jnp.fft.ifft(x)), [X]),
    "cholesky": (jnp.linalg.cholesky, [P]),
    "solve": (jnp.linalg.solve, [P, S]),
    "determinant": (jnp.linalg.slogdet, [P]),
    "least squares": (lambda x, v: jnp.linalg.qr(x)[1] ** 2, [X, V]),
    "einsum": (lambda x: jnp.einsum("ij,kj,j->ik", x, x, x[0]), [X]),
    "narrow": (narrow, [X]),
    "constants": (
        lambda x: jnp.where(x > 0, jnp.array([np.inf, -np.inf, np.nan, 0, -0.0, 1e-40]), x), [X],
    ),
    "unsigned": (lambda n: n.astype(jnp.uint32) + jnp.uint32(0xFFFFFFFF), [N]),
    "bits as others": (
        lambda n: (lax.bitcast_convert_type(n, jnp.uint8), lax.mulhi(n * 10**6, n * -(10**7))), [N],
    ),
    "bits of philox": (lambda n: jax.random.bits(jax.random.key(n, impl="rbg"), (5,)), [N[0, 0]]),
    "one of a mesh": (jax.pmap(alone, axis_name="i"), [X[None]]),
    "shards": (
        jax.shard_map(alone, mesh=MESH, in_specs=ROWS_OF_MESH, out_specs=ROWS_OF_MESH), [X],
    ),
    "constrained": (
        lambda x: lax.with_sharding_constraint(
            x + 1, jax.sharding.NamedSharding(MESH, ROWS_OF_MESH)
        ), [X],
    ),
    "precision": (lambda x: lax.dot(x, x.T, precision="highest"), [X]),
}  # fmt: skip


def canonical(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    if isinstance(value, list | tuple):
        return tuple(map(canonical, value))
    if isinstance(value, dict):
        return tuple(sorted((k, canonical(x)) for k, x in value.items()))
    return "".join(value.split()) if isinstance(value, str) else value


def structure(module: Module) -> dict[str, Any]:
    """What a module says, but for the names of its values."""
    count = iter(range(1 << 30))

    def region(each: Region, around: dict[str, int]) -> Any:
        names = {**around, **{name: next(count) for name in each.arguments}}
        return len(each.arguments), [op(x, names) for x in each.ops]

    def op(each: Op, names: dict[str, int]) -> Any:
        operands = [names[x] for x in each.operands]
        regions = [region(x, names) for x in each.regions]
        names |= {x: next(count) for x in each.results}
        return each.name, operands, each.kinds, canonical(dict(each.attributes)), regions

    return {
        name: (f.inputs, f.public, region(f.region, {})) for name, f in module.functions.items()
    }


def as_jax_reads_it(text: str) -> str:
    """The generic form, printed by JAX's parser of StableHLO."""
    with mlir.make_ir_context():
        return ir.Module.parse(text).operation.get_asm(print_generic_op_form=True)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_reads_what_the_parser_of_jax_reads(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    text = jax.jit(function).lower(*arguments).as_text()
    assert structure(read(text)) == structure(read(as_jax_reads_it(text)))


@pytest.mark.parametrize("name", FUNCTIONS)
def test_equals_jax(name: str) -> None:
    function, arguments = FUNCTIONS[name]
    found = jax.tree.leaves(mlc.jax(function)(*arguments))
    for a, b in zip(found, jax.tree.leaves(jax.jit(function)(*arguments)), strict=True):
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        near = 2e-2 if name == "narrow" else 2e-4
        np.testing.assert_allclose(a, b, rtol=near, atol=near)


SOLVED = jnp.asarray(f32(3, 3)) + 3 * jnp.eye(3)
ON_GPUS: dict[str, Any] = {
    "running": lambda x: jnp.cumsum(x, 0),
    "cholesky": lambda x: jnp.linalg.cholesky(x @ x.T),
    "solve": lambda x: jnp.linalg.solve(x, x[:2].T),
    "determinant": jnp.linalg.slogdet,
    "qr": lambda x: jnp.abs(jnp.linalg.qr(x)[1]),
    "symmetric": lambda x: jnp.linalg.eigh(x + x.T)[0],
    "singular values": lambda x: (lambda u, s, v: (u * s) @ v)(*jnp.linalg.svd(x[:2], False)),
}


@pytest.mark.parametrize("name", ON_GPUS)
def test_reads_what_jax_prints_for_gpus(name: str) -> None:
    """Other calls, the same results."""
    traced = jax.jit(ON_GPUS[name]).trace(SOLVED)
    text = traced.lower(lowering_platforms=("cuda",)).as_text()
    assert structure(read(text)) == structure(read(as_jax_reads_it(text)))
    found = jax.tree.leaves(mlc.stablehlo.load(text)(np.asarray(SOLVED)))
    with jax.default_device(jax.devices("cpu")[0]):
        wanted = jax.tree.leaves(ON_GPUS[name](SOLVED))
    for a, b in zip(found, wanted, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-4, atol=2e-4)


def mixed(x: Any, y: Any, z: Any) -> Any:
    both = jnp.concatenate([x, y * 2])
    return (
        both.reshape(-1) + jnp.arange(x.shape[0] * 8), (x @ y.T)[1:], jax.nn.softmax(x, 0),
        z.reshape(2, -1).sum(0) + x[:, 0], jnp.pad(x, ((0, x.shape[0]), (1, 1))), x[::-1],
        jnp.cumsum(x, 0), jnp.sort(x, 0), x[jnp.arange(x.shape[0]) % 2], jnp.mean(y),
        lax.fori_loop(0, x.shape[0], lambda i, c: c + x[i], jnp.zeros(4)),
    )  # fmt: skip


def test_one_program_for_all_sizes() -> None:
    (b,) = export.symbolic_shape("b", constraints=["b >= 2"])
    kinds = [jax.ShapeDtypeStruct(shape, jnp.float32) for shape in ((b, 4), (b, 4), (2 * b,))]
    read_ = mlc.stablehlo.load(export.export(jax.jit(mixed))(*kinds).mlir_module())
    for size in (2, 3, 7):
        arguments = [f32(size, 4), f32(size, 4), f32(2 * size)]
        wanted = mixed(*map(jnp.asarray, arguments))
        for a, b_ in zip(read_(*arguments), wanted, strict=True):
            assert (a.shape, a.dtype) == (b_.shape, b_.dtype)
            np.testing.assert_allclose(a, b_, rtol=2e-5, atol=2e-5)
    assert len(read_.stats().artifacts) == 1
    with pytest.raises(mlc.ShapeError, match="symbolic shape constraint b"):
        read_(f32(1, 4), f32(1, 4), f32(2))


def test_open_sizes_of_traced_functions_are_open_in_jax() -> None:
    normed = mlc.jax(lambda x: (x - x.mean(0)) / (x.std(0) + 1))

    @mlc.compile(dynamic={"x": {0: "B"}})
    def outer(x: Any) -> Any:
        return normed(x * 2) + 1

    for size in (2, 5):
        x = f32(size, 3)
        wanted = (2 * x - (2 * x).mean(0)) / ((2 * x).std(0) + 1) + 1
        np.testing.assert_allclose(outer(x), wanted, rtol=1e-4, atol=1e-5)
    assert len(outer.stats().artifacts) == 1


def test_derivatives_of_what_jax_wrote() -> None:
    network = mlc.jax(lambda w, x: (jax.nn.softmax(jnp.tanh(x @ w)) ** 2).sum())
    w = f32(6, 3)
    mlc.check_grads(lambda w: network(w, X), (w,), order=1, rtol=1e-2, atol=1e-2)
    wanted = jax.grad(lambda w: (jax.nn.softmax(jnp.tanh(X @ w)) ** 2).sum())(w)
    np.testing.assert_allclose(mlc.grad(lambda w: network(w, X))(w), wanted, rtol=1e-4, atol=1e-5)
    many = np.stack([w, 2 * w, -w])
    rows = mlc.vmap(network, in_axes=(0, None))(many, X)
    np.testing.assert_allclose(rows, [network(each, X) for each in many], rtol=1e-5)


def test_integers_of_four_bits() -> None:
    x = jnp.array([1, 2, -3, 7], jnp.int4)
    for function in (lambda x: x + x, lambda x: x.astype(jnp.float32) * 2):
        found, expected = mlc.jax(function)(x), function(x)
        assert found.dtype == expected.dtype
        np.testing.assert_array_equal(np.asarray(found), np.asarray(expected))
