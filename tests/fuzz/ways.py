"""What is done with a mutated text: the commands that read one, and what counts as a fault."""

from __future__ import annotations

import contextlib
import io
import random
import traceback
import warnings
from dataclasses import dataclass

from tests.fuzz.bases import Base

TARGETS = ("avx2", "avx512", "amx", "neon", "mmla", "sm_80", "cuda:sm_90a")
TO_PLAN = "form-kernels,schedule,plan-buffers"
PASSES = (
    *(
        "canonicalize,cse,dce",
        "fold-views,fold-affine,dce",
        "reorder-contractions,exchange-sums,divide-factors,merge-siblings",
    ),
    *(
        "hoist-invariants,sum-after-loops,multiply-before-loops,dce",
        "winograd,prepack-loop-factors,drop-barriers,sum-products",
    ),
    *("inline-rules", "expand-partition", "differentiate{mode=reverse}", "batch"),
    "roll-loops{least-trips=2 least-ops=4},dce",
    *("differentiate{mode=forward},canonicalize,cse,dce", "rematerialise", "form-tiles"),
    *("form-tiles,form-kernels,donate-arguments,schedule,plan-buffers", "expand-math"),
    *('form-kernels{fusion="none"}', 'form-kernels{fusion="greedy"},donate-arguments'),
    *(TO_PLAN, f"{TO_PLAN},plan-to-loops", f"{TO_PLAN},plan-to-loops,expand-math"),
    *("plan-buffers,plan-to-loops", "plan-to-loops", "schedule,plan-buffers", "plan-to-loops"),
)
BUGS = ("this is a bug in mlc", "this is a bug of the pass", "Traceback (most recent call last)")


@dataclass(frozen=True)
class Outcome:
    """What a command did: whether it took the text, and the fault if it has one."""

    accepted: bool
    fault: str = ""


def command(rng: random.Random, base: Base, file: str, output: str) -> list[str]:
    """One of the commands that read a text."""
    target = rng.choice(TARGETS)
    draw = rng.random()
    if draw < 0.25 and base.arguments:
        return ["opt", file, *base.arguments]
    if draw < 0.35:
        return ["opt", file, *rng.choice(((), ("--print-op-generic",), ("--split-input-file",)))]
    if draw < 0.6:
        return ["opt", file, "-p", rng.choice(PASSES), "--target", target]
    if draw < 0.9:
        level = rng.choice(("trace", "tensor", "plan", "tiles", "loops", "code", "code"))
        return ["show", file, "--at", level, "--target", target]
    if draw < 0.95:
        return ["explain", file, "--target", target, *rng.choice(((), ("--json",), ("--html",)))]
    kind = "ptx" if target[:2] in ("sm", "cu") else rng.choice(("asm", "obj"))
    return ["build", file, "--emit", kind, "--target", target, "-o", output]


def outcome(arguments: list[str]) -> Outcome:
    """Runs the driver in this process."""
    from mlc.driver import main

    said, printed = io.StringIO(), io.StringIO()
    try:
        with (
            contextlib.redirect_stderr(said),
            contextlib.redirect_stdout(printed),
            warnings.catch_warnings(),
        ):
            warnings.simplefilter("error")
            status = main(arguments)
    except SystemExit as stop:
        status = stop.code
    except BaseException:  # noqa: BLE001 - a traceback is what is looked for
        return Outcome(False, traceback.format_exc(limit=-6))
    text = said.getvalue()
    if any(bug in text for bug in BUGS):
        return Outcome(False, text[:2000])
    if status not in (0, 1, 2):
        return Outcome(False, f"status {status}: {text[:2000]}")
    if status and not text.strip():
        return Outcome(False, f"status {status} without a word")
    return Outcome(status == 0)
