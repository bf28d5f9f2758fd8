"""Tile loops: the reference, plans of them and compiled code agree; what they hold and report."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, ModuleOp

from mlc.runtime.interpret import entry_function, interpret
from mlc.text import parse_text
from tests.every_op.native import Array, compile_plan, signature_of, to_plan
from tests.tile_programs import PROGRAMS, Program


@pytest.fixture(params=PROGRAMS, ids=str)
def program(request: pytest.FixtureRequest) -> Program:
    return PROGRAMS[request.param]


def parsed(text: str) -> ModuleOp:
    """The module, with attributes for every argument."""
    module = parse_text(text, "test")
    module.verify()
    function = entry_function(module)
    if function.arg_attrs is None:
        nothing = DictionaryAttr({})
        function.properties["arg_attrs"] = ArrayAttr([nothing] * len(function.args))
    return module


def compiled(
    text: str, threads: int | None = None, fusion: str = "exact"
) -> Callable[..., tuple[Array, ...]]:
    """The program as a function, by way of every level."""
    module = parsed(text)
    signature = signature_of(module)
    to_plan(module, fusion=fusion).verify()
    return compile_plan(module, signature, thread_count=threads)


def close(found: list[Array] | tuple[Array, ...], expected: list[Array]) -> None:
    for x, y in zip(found, expected, strict=True):
        np.testing.assert_allclose(x, y, rtol=2e-4, atol=2e-5)


def test_reference(program: Program) -> None:
    arrays = program.draw()
    close(interpret(parsed(program.text), arrays), program.meaning(*arrays))


@pytest.mark.parametrize("fusion", ["exact", "none"])
def test_plan_means_the_same(program: Program, fusion: str) -> None:
    arrays = program.draw()
    module = to_plan(parsed(program.text), fusion=fusion)
    module.verify()
    close(interpret(module, arrays), program.meaning(*arrays))


@pytest.mark.parametrize("fusion", ["exact", "none"])
def test_code_means_the_same(program: Program, fusion: str) -> None:
    arrays = program.draw()
    run = compiled(program.text, fusion=fusion)
    for _ in range(2):
        close(run(*arrays), program.meaning(*arrays))


def test_bits_do_not_depend_on_threads(program: Program) -> None:
    arrays = program.draw()
    one, two, three = (compiled(program.text, threads)(*arrays) for threads in (1, 2, 3))
    for x, y, z in zip(one, two, three, strict=True):
        assert x.tobytes() == y.tobytes() == z.tobytes()
