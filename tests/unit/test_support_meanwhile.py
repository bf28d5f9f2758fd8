"""The support code of a process: loaded by another thread while the first program is compiled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from mlc.runtime.support import is_loaded, loaded_meanwhile, reserved_names, support

FIRST_CALL = """
import os, sys, threading
if sys.argv[1] == "1":
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
import numpy as np
import mlc
from mlc.runtime import support
before = threading.active_count()
assert mlc.compile(lambda x: x + 1)(np.ones(3)).tolist() == [2.0] * 3
assert support.is_loaded() and threading.active_count() == before
pid = os.fork()
if not pid:  # nothing of the thread is left to wait for
    os._exit(0 if mlc.compile(lambda x: x * 3)(np.ones(3)).tolist() == [3.0] * 3 else 1)
assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
"""


@pytest.mark.parametrize("processors", ["1", "all"])
def test_first_call(processors: str, tmp_path: Path) -> None:
    environment = {**os.environ, "MLC_CACHE_DIR": str(tmp_path)}
    subprocess.run([sys.executable, "-c", FIRST_CALL, processors], check=True, env=environment)


def test_reserved_names_are_the_symbols() -> None:
    assert set(support().symbols) <= reserved_names()


def test_errors_of_the_caller_pass() -> None:
    with pytest.raises(ZeroDivisionError), loaded_meanwhile():
        _ = 1 / 0
    support()
    assert is_loaded()
