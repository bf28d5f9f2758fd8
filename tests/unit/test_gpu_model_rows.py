"""Rows that a cluster of blocks has together, in the model: numbers, and faults between blocks."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp

from mlc.dialects.gpu_clusters import SendOp
from mlc.pipeline import run_pipeline
from mlc.text import parse_text
from tests.gpu_model.faults import NUMBERS, Fault, verdict
from tests.gpu_model.machine import Model
from tests.plans import planned, spec
from tests.row_programs import Rows, layer_norm, softmax, softmax_backward, statistics
from tests.sweeps import covering

Array = NDArray[Any]
PROGRAMS = [
    Rows(softmax, ((3, 500),)),
    Rows(layer_norm, ((2, 500), (500,), (500,))),
    Rows(statistics, ((3, 300),)),
    Rows(softmax_backward, ((2, 260), (2, 260))),
    Rows(softmax, ((2, 500),), "bf16"),
]
HOW = [
    "threads 64, lanes 4, cluster 2",
    "threads 32, lanes 2, cluster 8",
    "threads 64, lanes 4, cluster 2, walkers 1",
    "threads 32, lanes 2, cluster 8, walkers 2",
]


def loops(program: Rows, how: str) -> ModuleOp:
    """The program by blocks that have a row together, which longer rows would be given."""
    found = planned(
        program.f, *(spec(*x, dtype=program.dtype) for x in program.shapes), target="cuda:h200"
    )
    plan, held = re.subn(r"hold\([^)]*\)", f"hold(rows 1, {how})", found.text("plan"))
    assert held == 1
    return run_pipeline(parse_text(plan, "plan"), found.options, until="loops", done="plan")


def judge(program: Rows) -> Callable[[Model], bool]:
    """In f64, as close as a kernel of one block must be: `Rows.expected`."""
    arrays = program.arrays(np.random.default_rng(3))
    wanted = program.expected(arrays)
    kind = arrays[0].dtype

    def agrees(model: Model) -> bool:
        found = model.call(arrays, [(x.shape, kind) for x, _ in wanted])
        return all(
            np.allclose(mine.astype(np.float64), x, rtol=close, atol=close)
            for mine, (x, close) in zip(found, wanted, strict=True)
        )

    return agrees


@pytest.mark.parametrize(("program", "how"), covering(PROGRAMS, HOW))
def test_rows_of_clusters_agree_with_numpy(program: Rows, how: str) -> None:
    module = loops(program, how)
    assert any(isinstance(op, SendOp) for op in module.walk())
    for seed in range(2):
        assert judge(program)(Model(module, seed))


# Faults -------------------------------------------------------------------------------------------

MEET, SEND = r"mlc_gpu\.cluster_barrier", r"(mlc_gpu\.send %\d+ to %\d+)"
FAULTS = {
    "blocks send to those that do not run yet": Fault(MEET, "", "may have not begun"),
    "numbers are read before they are sent": Fault(MEET, "", "not brought yet|overwritten", 1),
    "blocks end while others send": Fault(MEET, "", "ended|not brought yet|overwritten", 2),
    "blocks wait for their own threads alone": Fault(
        MEET, "mlc_gpu.barrier", "ended|not brought yet|overwritten", 1
    ),
    "all is sent to the own block": Fault(
        rf"{SEND}\[(%\d+)\] of %\d+", r"\1[\2] of \2", NUMBERS
    ),
    "the last is sent to the own block": Fault(
        rf"{SEND}\[(%\d+)\] of %\d+", r"\1[\2] of \2", NUMBERS, 1
    ),
    "numbers are sent to where others' are": Fault(
        rf"{SEND}\[%\d+\] of (%\d+)", r"\1[\2] of \2", f"overwritten|{NUMBERS}"
    ),
    "numbers are sent to no block": Fault(
        r"arith\.cmpi slt, (%\d+), (%\d+) : index(\n\s*scf\.if %\d+ \{\n\s*mlc_gpu\.send)",
        r"arith.cmpi sle, \1, \2 : index\3", "block 2 of a cluster of 2",
    ),
    "numbers of both sums have one place": Fault(
        r"(?s)( to (%\d+)\[%\d+\] of .*?= )mlc_gpu\.shared : (\S+ 3 : i64>)(\n\s*scf\.if %\d+ "
        r"\{\n\s*mlc_gpu\.send)",
        r'\1"memref.cast"(\2) : (\3) -> \3\4', "overwritten|not brought yet",
    ),
    "threads read what others have not stored": Fault(
        r"mlc_gpu\.barrier\n", "\n", "not brought yet|overwritten"
    ),
    "a block takes another's part of the row": Fault(
        r"arith\.remui (%\d+), (%\d+) : index(\n\s*%\d+ = arith\.divui \1)",
        r"arith.divui \1, \2 : index\3", NUMBERS,
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def rows() -> str:
    return str(loops(PROGRAMS[0], HOW[0]))


def test_whoever_walks_waits_before_it_sends_what_belongs_to_its_next_row() -> None:
    """One sum a row: without a barrier at its end a block's number would be overwritten."""
    program = PROGRAMS[3]
    text = str(loops(program, HOW[2]))
    assert text.count("mlc_gpu.cluster_barrier") == 3  # all run, all have sent, all have read
    found = verdict(text, Fault(MEET, "", "", 2), judge(program))
    assert re.search("not brought yet|overwritten", found), found


@pytest.mark.parametrize("name", FAULTS)
def test_faults_of_clusters_of_rows_are_found(name: str, rows: str) -> None:
    found = verdict(rows, FAULTS[name], judge(PROGRAMS[0]))
    assert re.search(FAULTS[name].message, found), found
