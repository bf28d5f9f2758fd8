"""Random programs, with loops that the host drives, on the GPU."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from mlc.frontend.importers.mlir import signature_of
from mlc.runtime.interpret import entry_function, interpret
from tests.every_op.native import to_plan
from tests.gpu.native import load
from tests.programs import TOLERANCE, agree, random_program

pytestmark = pytest.mark.gpu

PROGRAMS_PER_BATCH = 20


@pytest.mark.parametrize("batch", range(10))
def test_random_programs_give_the_reference(batch: int) -> None:
    for k in range(PROGRAMS_PER_BATCH):
        seed = batch * PROGRAMS_PER_BATCH + k
        program = random_program(random.Random(seed))
        wanted = interpret(program.module, program.inputs, program.sizes)
        signature = signature_of(entry_function(program.module))
        fusion = "exact" if k % 2 else "none"
        call: Any = load(to_plan(program.module, fusion=fusion), signature)
        outcome = call(*program.inputs)
        results = outcome if signature.as_tuple else (outcome,)
        found = [np.asarray(r) for r in results]
        agree(found, wanted, f"seed {seed}", TOLERANCE)
