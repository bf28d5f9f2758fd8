"""Nested regions that the host drives, updates in place and random bits, on the GPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlc
from mlc.runtime.interpret import interpret
from tests.every_op.native import signature_of, to_plan
from tests.gpu.native import compile_plan
from tests.unit.test_regions import program

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("first", range(0, 60, 20))
def test_code_means_what_the_program_means(first: int) -> None:
    for seed in range(first, first + 20):
        module = program(seed)
        arrays = [np.arange(6).reshape(2, 3), -np.arange(6).reshape(2, 3) * 7]
        arrays += [np.arange(6) - 3, np.asarray(2), np.zeros(seed % 3, np.int64)]
        expected = interpret(module, arrays)
        signature = signature_of(module)
        run = compile_plan(to_plan(module, fusion="exact"), signature)
        for again in range(2):
            for k, (x, y) in enumerate(zip(run(*arrays), expected, strict=True)):
                assert np.array_equal(x, y), f"program {seed}, call {again}, result {k}"


def test_scan_and_random_numbers() -> None:
    def walk(key: Any) -> Any:
        def step(carry: Any, _: None) -> Any:
            key, x = carry
            keys = mlc.random.split(key)
            return (keys[0], x + mlc.random.normal(keys[1], (7,))), x

        return mlc.scan(step, (key, np.zeros(7)), None, length=9)

    key: Any = mlc.random.key(3)
    (_, last), path = mlc.compile(target="cuda")(walk)(key)
    (_, wanted), wanted_path = walk(key)
    np.testing.assert_allclose(np.asarray(last), wanted, rtol=1e-12)
    np.testing.assert_allclose(np.asarray(path), wanted_path, rtol=1e-12, atol=1e-14)

    def bits(k: Any) -> Any:
        return mlc.random.bits(k, (1001,), np.uint64)

    np.testing.assert_array_equal(np.asarray(mlc.compile(target="cuda")(bits)(key)), bits(key))
