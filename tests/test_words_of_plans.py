"""Contraction kernels as plans have them, cut by words: what their tile programs compute."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import mlc
from mlc.dialects.analysis.matmul_axes import contraction_roles
from mlc.dialects.dtypes import named_dtype
from mlc.dialects.plan import KernelOp, Schedule, ScheduleAttr
from mlc.dialects.tensor.reduce import Product
from mlc.dialects.tensor.tiles import is_phase
from mlc.dialects.tile.compute import DotOp
from mlc.dialects.tile.words import Block, Edge, Grain, Pack, Register, Sums, Via, Words
from mlc.executable import compile_module
from mlc.frontend.trace.containers import flatten
from mlc.levels import Levels
from mlc.pipeline import run_pipeline
from mlc.runtime.interpret import interpret
from tests.plans import RUNNABLE, planned
from tests.sweeps import covering

Array = np.ndarray[Any, Any]
rng = np.random.default_rng(7)
WAYS = ("in place", "packed", "both packed", "sums in scratch")
ENDS: dict[str, Words] = {
    "i32": (Register(4, 16), Via("mul_add")),
    "c64": (Register(2, 4), Via("fma")),
}
END: Words = (Register(4, 16), Via("fma"))
LAST: Words = (Edge("m", "clamp"), Grain(64))


@dataclass(frozen=True)
class Program:
    """A function, the shapes of its arguments, and how many contractions it has."""

    function: Callable[..., Any]
    shapes: tuple[tuple[int | str, ...], ...]
    dtype: str = "f32"
    kernels: int = 1


def causal(q: Any, k: Any) -> Any:
    scores = np.einsum("hqd,hkd->hqk", q, k) * 0.125
    rows, columns = np.arange(23)[:, None], np.arange(37)[None, :]
    return np.where(columns <= rows + 5, scores, -1e9)


def convolution(x: Any, w: Any, b: Any) -> Any:
    y = mlc.nn.conv(x, w, stride=(2, 1), dilation=(1, 2), padding=1)
    return np.maximum(y + b[:, None, None], 0.0)


def gradient_of_weights(x: Any, w: Any) -> Any:
    def loss(w: Any) -> Any:
        y: Any = mlc.nn.conv(x, w, padding=1)
        return (y**2).sum()

    return mlc.grad(loss)(w)


def padded(x: Any, w: Any) -> Any:
    return np.pad(x, ((2, 1), (3, 0))) @ w


def product(x: Any, w: Any) -> Any:
    return x @ w


def tanh_of_product(x: Any, w: Any) -> Any:
    return np.tanh(x @ w)


def relu_of_product(x: Any, w: Any) -> Any:
    return np.maximum(x @ w, 0)


def two_results(x: Any, w: Any) -> Any:
    y = x @ w
    return np.tanh(y), y


def attention(q: Any, k: Any, v: Any) -> Any:
    scores = np.einsum("hqd,hkd->hqk", q, k) * 0.125
    weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return np.einsum("hqk,hkd->hqd", weights / weights.sum(axis=-1, keepdims=True), v)


def recurrent(h: Any, weights: Any) -> Any:
    def step(h: Any, w: Any) -> Any:
        return np.tanh(h @ w), h

    return mlc.scan(step, h, weights)


def einsum(letters: str) -> Callable[..., Any]:
    def found(a: Any, b: Any) -> Any:
        return np.einsum(letters, a, b)

    return found


PROGRAMS = {
    "rows of two letters": Program(tanh_of_product, ((3, 7, 24), (24, 40))),
    "rows by name": Program(product, (("B", 7, 24), (24, 40))),
    "rows that lie apart": Program(einsum("dab,bc->dac"), ((3, 7, 24), (24, 40))),
    "rows the other way round": Program(einsum("dab,bc->adc"), ((3, 7, 24), (24, 40))),
    "summed over two letters": Program(einsum("abd,abc->cd"), ((3, 13, 24), (3, 13, 37))),
    "summed letters apart": Program(einsum("adb,abc->cd"), ((3, 24, 13), (3, 13, 37))),
    "two batches": Program(einsum("abcd,abde->abce"), ((2, 3, 9, 24), (2, 3, 24, 37))),
    "columns of two letters": Program(einsum("ak,kxy->axy"), ((13, 24), (24, 3, 19))),
    "columns apart": Program(einsum("ak,kxy->xay"), ((13, 24), (24, 3, 19))),
    "causal mask": Program(causal, ((2, 23, 24), (2, 37, 24))),
    "padded factor": Program(padded, ((23, 21), (24, 40))),
    "convolution": Program(convolution, ((2, 4, 13, 12), (24, 4, 3, 3), (24,))),
    "gradient of weights": Program(gradient_of_weights, ((2, 4, 9, 8), (24, 4, 3, 3)), kernels=2),
    "whole numbers": Program(product, ((23, 24), (24, 40)), dtype="i32"),
    "complex numbers": Program(product, ((23, 24), (24, 40)), dtype="c64"),
    "halves": Program(relu_of_product, ((23, 24), (24, 40)), dtype="f16"),
    "loop": Program(recurrent, ((23, 40), (5, 40, 40))),
    "two results": Program(two_results, ((23, 24), (24, 40))),
}


def contractions(module: ModuleOp) -> Iterator[tuple[KernelOp, Product]]:
    for op in module.walk():
        if isinstance(op, KernelOp):
            yield from ((op, x) for x in op.block.ops if isinstance(x, Product))


def arguments_of(program: Program) -> list[Array]:
    """Small whole numbers, whose products and sums are exact in any order."""
    dtype = named_dtype(program.dtype).numpy
    sizes = [[5 if isinstance(d, str) else d for d in shape] for shape in program.shapes]
    return [rng.integers(-3, 4, shape).astype(dtype) for shape in sizes]


@cache
def levels_of(name: str) -> Levels:
    program = PROGRAMS[name]
    specs = [mlc.TensorSpec(*shape, dtype=program.dtype) for shape in program.shapes]
    return planned(program.function, *specs, target=RUNNABLE)


def words_of(way: str, dtype: str, *, batches: bool, alone: bool = False) -> Words:
    """One of each kind of word that a way needs."""
    end = ENDS.get(dtype, END)
    tile = next(word for word in end if isinstance(word, Register))
    rows = Block("m", 2 * tile.m, team=True)
    ways: dict[str, Words] = {
        "in place": (rows,),
        "packed": (Pack("b", tile.n, team=True), rows),
        "both packed": (Pack("b", tile.n, team=True), rows, Pack("a", tile.m)),
        "sums in scratch": (Sums("scratch"), Block("k", 8), Pack("b", tile.n, team=True), rows),
    }
    found = (*([Block("g", 1)] if batches else []), *ways[way], *end, *LAST)
    if not alone:
        return found
    return tuple(replace(x, team=False) if isinstance(x, Block | Pack) else x for x in found)


def with_words(name: str, way: str) -> ModuleOp:
    """The plan, each contraction with words."""
    module = levels_of(name).plan().clone()
    found = list(contractions(module))
    assert len(found) == PROGRAMS[name].kernels
    for kernel, op in found:
        roles = contraction_roles(op)
        assert roles is not None
        batches = bool(roles.batch) or name == "columns apart"
        words = words_of(way, PROGRAMS[name].dtype, batches=batches)
        kernel.properties["schedule"] = ScheduleAttr(Schedule(words))
    return module


@pytest.mark.parametrize(("name", "way"), covering([*PROGRAMS], WAYS, strength=1))
def test_tile_programs_mean_what_the_plan_means(name: str, way: str) -> None:
    """By the interpreter, with three workers in some order, and compiled, whatever the threads."""
    module, arguments = with_words(name, way), arguments_of(PROGRAMS[name])
    levels = levels_of(name)
    expected = interpret(levels.plan(), arguments)
    tiles = run_pipeline(module.clone(), levels.options, until="tiles")
    tiles.verify()
    assert sum(isinstance(op, DotOp) for op in tiles.walk()) > 0
    assert not any(contractions(tiles))
    found = [interpret(tiles, arguments, workers=3)]
    for threads in (1, 2):
        options = replace(levels.options, threads=threads)
        run = compile_module(module.clone(), levels.signature, options)
        found.append([np.asarray(x) for x in flatten(run(*arguments))[0]])
    for results in found:
        for result, wanted in zip(results, expected, strict=True):
            np.testing.assert_allclose(result, wanted, rtol=1e-3, atol=1e-3)
    for one, other in zip(*found[1:], strict=True):
        np.testing.assert_array_equal(one, other)


def test_results_lie_in_several_slots() -> None:
    """The result of a loop's contraction, as the tests above have it, lies where there is room."""
    ((kernel, _),) = contractions(levels_of("loop").plan())
    assert kernel.buffers is not None
    assert len(kernel.buffers.data[0].data[1]) > 1


@pytest.mark.parametrize("way", ["in place", "both packed"])
def test_phases_of_tile_loops_have_words(way: str) -> None:
    """Compiled for one thread and two; by the interpreter as they are before any word."""
    arguments = [rng.integers(-3, 4, (2, 300, 32)).astype(np.float32) for _ in range(3)]
    levels = planned(attention, *arguments, target=RUNNABLE)
    expected = interpret(levels.plan(), arguments)
    found: list[list[Array]] = []
    for wholly in (False, True):
        module = levels.plan().clone()
        for kernel, _ in contractions(module):
            assert is_phase(kernel)
            cuts = words_of(way, "f32", batches=False, alone=True)
            words = (Block("n", 64), *cuts) if wholly else (Grain(64),)
            kernel.properties["schedule"] = ScheduleAttr(Schedule(words))
        if not wholly:
            found.append(interpret(run_pipeline(module, levels.options, until="tiles"), arguments))
            continue
        for threads in (1, 2):
            options = replace(levels.options, threads=threads)
            run = compile_module(module.clone(), levels.signature, options)
            found.append([np.asarray(run(*arguments))])
    for results in found:
        np.testing.assert_allclose(results[0], expected[0], rtol=1e-3, atol=1e-3)
    np.testing.assert_array_equal(found[1][0], found[2][0])


def test_strict_sums_are_the_same_however_they_are_cut() -> None:
    """Sums of a block begin with those of the block before: one sum, in order."""
    a, b = (rng.standard_normal(shape).astype(np.float32) for shape in ((23, 70), (70, 40)))
    levels = planned(product, a, b, target=RUNNABLE, numerics="strict")
    (expected,) = interpret(levels.plan(), [a, b])
    for place in ((), (Sums("scratch"),)):
        module = levels.plan().clone()
        ((kernel, _),) = contractions(module)
        words = (*place, Block("k", 16), *words_of("packed", "i32", batches=False))
        kernel.properties["schedule"] = ScheduleAttr(Schedule(words))
        tiles = run_pipeline(module.clone(), levels.options, until="tiles")
        np.testing.assert_array_equal(interpret(tiles, [a, b], workers=3)[0], expected)
        run = compile_module(module, levels.signature, levels.options)
        np.testing.assert_array_equal(run(a, b), expected)
