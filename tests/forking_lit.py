"""
lit in one process that has imported what its tests run. `python -m tests.forking_lit` runs the file
that a line of its input names, and answers with a line of JSON. A command that is a Python module
is a fork of this process with arguments, environment, folder and streams of its own: nothing that
it does reaches the next, and none waits for imports.
"""

from __future__ import annotations

import gc
import io
import json
import os
import runpy
import subprocess
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import lit.TestRunner
from filecheck.main import main as filecheck
from lit.main import main as run_lit  # pyright: ignore[reportUnknownVariableType]

from mlc.opt import main as opt

LIT = Path(__file__).parent / "lit"
OPTIONS = ("-v", "-j1", "--skip-test-time-recording")
FIRST = (
    ("lowering/plan-to-loops.mlir", "--target=avx2", "-p", "plan-to-loops"),
    ("lowering/gpu/contraction.mlir", "--target=cuda:sm_90a", "-p", "plan-to-loops"),
)
"""Run here beforehand: what mlc imports, and which definitions it parses, is what it has to use."""


def what_runs(command: Sequence[str]) -> Callable[[], object] | None:
    """What a command of Python does, once its arguments are in `sys.argv`."""
    if command[:2] == [sys.executable, "-m"]:
        return partial(runpy.run_module, command[2], run_name="__main__", alter_sys=True)
    return filecheck if Path(command[0]).name == "filecheck" else None


def become(run: Callable[[], object], argv: Sequence[str], environment: Mapping[str, str]) -> None:
    """In a process that has just been forked: does what a new one would, and ends it."""
    os.closerange(3, os.sysconf("SC_OPEN_MAX"))  # the pipe on which the parent waits for exec, too
    status = 1
    try:
        os.environ.clear()
        os.environ.update(environment)
        sys.stdin = open(0, closefd=False)  # noqa: SIM115 - they live as long as the process
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", 1, errors="backslashreplace", closefd=False)  # noqa: SIM115
        sys.argv = list(argv)
        run()
        status = 0
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:  # noqa: BLE001 - as at the end of a process
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class Forked(subprocess.Popen[Any]):
    """A process; where it would run Python, a fork of this one."""

    def __init__(self, args: Sequence[str], *, env: Mapping[str, str], **options: Any) -> None:
        if run := what_runs(args):
            argv = args[2:] if args[1] == "-m" else args
            options["preexec_fn"] = partial(become, run, argv, env)
        super().__init__(args, env=env, **options)


def prepare() -> None:
    """From now on lit's commands are forks that need to import little."""
    for file, *options in FIRST:
        with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
            opt([str(LIT / file), "--split-input-file", *options])
    gc.collect()
    gc.freeze()  # what is here is not looked at, so its pages stay shared
    lit.TestRunner.subprocess = SimpleNamespace(
        Popen=Forked, PIPE=subprocess.PIPE, STDOUT=subprocess.STDOUT
    )


def run_file(file: str) -> tuple[int, str]:
    """lit's exit status for a file of tests/lit, and what it prints."""
    said = io.StringIO()
    sys.argv = ["lit", *OPTIONS, str(LIT / file)]
    with redirect_stdout(said), redirect_stderr(said):
        try:
            run_lit()
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
    return status, said.getvalue()


if __name__ == "__main__":
    prepare()
    for line in sys.stdin:
        print(json.dumps(run_file(line.strip())), flush=True)
