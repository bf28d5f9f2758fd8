"""Fork while another thread compiles: the child compiles, calls and ends like any process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

from mlc.cached_property import cached_property

SCRIPT = """
import gc, os, signal, sys, threading, time, warnings
import numpy as np
import mlc

warnings.simplefilter("ignore", DeprecationWarning)  # of fork beside threads
shared = mlc.compile(lambda x: np.cos(x) * 2)
begun, over = threading.Event(), threading.Event()

def compile_on():
    k = 0
    while not over.is_set():
        k += 1
        mlc.compile(lambda x: np.sort(x @ x.T + k))(np.ones((9, 9)))
        begun.set()
        shared(np.ones(k))

def child(task):
    assert gc.isenabled()  # also where the other thread is amid a compilation
    if task == "call":
        assert np.allclose(mlc.compile(lambda x: np.sin(x).sum())(np.ones(4)), np.sin(1) * 4)
    if task == "shared":
        assert np.allclose(shared(np.ones((3, 3))), np.cos(1) * 2)

worker = threading.Thread(target=compile_on, daemon=True)
worker.start()
begun.wait()
for task in ("nothing", "call", "shared", "exit"):
    time.sleep(0.05)
    pid = os.fork()
    if pid == 0:
        signal.alarm(60)  # a child that hangs is killed
        child(task)
        if task == "exit":
            sys.exit(0)  # with everything that Python does at the end
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    assert status == 0, (task, status)
over.set()
worker.join()
"""


def test_fork_while_a_thread_compiles(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, "MLC_CACHE_DIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr


def test_a_property_waits_for_no_other_objects() -> None:
    begun, over = threading.Event(), threading.Event()

    class Box:
        def __init__(self, waits: bool) -> None:
            self._waits = waits

        @cached_property
        def value(self) -> bool:
            if self._waits:
                begun.set()
                assert over.wait(60)
            return self._waits

    first = Box(waits=True)
    worker = threading.Thread(target=lambda: first.value, daemon=True)
    worker.start()
    assert begun.wait(60)
    asked = threading.Thread(target=lambda: Box(waits=False).value, daemon=True)
    asked.start()
    asked.join(60)
    assert not asked.is_alive()
    over.set()
    worker.join(60)
    assert first.value is True
