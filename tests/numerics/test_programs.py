"""Reference = after each pass = compiled, on 2,000 programs that hypothesis makes."""

import random
from collections.abc import Mapping
from typing import cast

import numpy as np
import pytest
from hypothesis import HealthCheck, given, seed, settings
from hypothesis import strategies as st
from xdsl.context import Context

from mlc import registry
from mlc.dialects.target.attribute import ATTRIBUTE, TargetAttr
from mlc.dialects.target.known import named_target
from mlc.passes.dominance import verify_dominance
from mlc.pipeline import STAGES, Options, compile_module
from mlc.programs import signature_of
from mlc.runtime.interpret import entry_function, interpret
from mlc.runtime.probe import host_target
from tests.programs import Array, random_program

BATCHES = 8
PROGRAMS_PER_BATCH = 250
PASSES = [step for stage in STAGES for step in stage.steps if stage.name in ("tensor", "plan")]

F32_TOLERANCE = 2e-4
"""
Values are below 1 in magnitude, sums have at most 1,000 terms and a chain has 14 steps whose
derivatives are at most 4: 14 * 4 * eps * sqrt(1000).
"""


def agree(
    found: list[Array], expected: list[Array], what: str, tolerance: Mapping[str, float]
) -> None:
    """Equal dtypes and shapes; integers and bools equal, floats up to the tolerance."""
    assert len(found) == len(expected), what
    for a, b in zip(found, expected, strict=True):
        assert (a.dtype, a.shape) == (b.dtype, b.shape), what
        if a.dtype.kind == "f":
            limit = tolerance[str(a.dtype)]
            np.testing.assert_allclose(a, b, rtol=limit, atol=limit, err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)


# f64 values may come from f32 ones
TOLERANCE = {"float32": F32_TOLERANCE, "float64": F32_TOLERANCE}


@pytest.mark.parametrize("batch", range(BATCHES))
def test_reference_passes_and_code_agree(batch: int) -> None:
    @seed(batch)
    @settings(
        max_examples=PROGRAMS_PER_BATCH,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(st.randoms(use_true_random=False), st.sampled_from(["simple", "none"]))
    def check(rng: random.Random, fusion: str) -> None:
        program = random_program(rng)
        module = program.module
        module.verify()
        verify_dominance(module)
        expected = interpret(module, program.inputs, program.sizes)
        native = module.clone()
        module.attributes[ATTRIBUTE] = TargetAttr(named_target("avx2"))
        for step in PASSES:
            options = {"fusion": fusion} if step.options else {}
            registry.load(step.name)(**options).apply(Context(), module)
            module.verify()
            verify_dominance(module)
            found = interpret(module, program.inputs, program.sizes)
            agree(found, expected, f"after {step.name}", TOLERANCE)
        options = Options(target=host_target(), fusion="none" if fusion == "none" else "simple")
        signature = signature_of(entry_function(native))
        compiled = compile_module(native, signature, options)
        outcome = compiled(*program.inputs)
        results = cast("tuple[Array, ...]", outcome if isinstance(outcome, tuple) else (outcome,))
        agree([np.asarray(r) for r in results], expected, "compiled", TOLERANCE)

    check()
