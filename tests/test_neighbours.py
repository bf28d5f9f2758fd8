"""Importing and calling mlc changes nothing of the process outside it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

SCRIPT = '''
import contextlib, ctypes, gc, io, json, locale, logging, os, platform, random, signal, sys
import threading, warnings
import numpy as np

X86 = {"invalid": 1, "division": 4, "overflow": 8, "underflow": 16, "inexact": 32}
ARM = {"invalid": 1, "division": 2, "overflow": 4, "underflow": 8, "inexact": 16}
FLAGS = X86 if platform.machine() == "x86_64" else ARM


def environ():
    """The environment that C code sees."""
    found = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
    entries = []
    while found[len(entries)] is not None:
        entries.append(found[len(entries)].decode())
    return entries


def native_handlers():
    libc, found = ctypes.CDLL(None), {}
    for number in range(1, 65):
        action = ctypes.create_string_buffer(256)
        if libc.sigaction(number, None, action) == 0:
            found[number] = action.raw[:8].hex()
    return found


def float_environment():
    """The C standard's exceptions that have occurred, rounding and flushing."""
    libm, found = ctypes.CDLL("libm.so.6"), ctypes.create_string_buffer(256)
    libm.fegetenv(found)
    control = int.from_bytes(found.raw[28:32], "little") & 0xFFC0  # of MXCSR; elsewhere 0
    return [name for name, bit in FLAGS.items() if libm.fetestexcept(bit)], control


def state():
    return {
        "os.environ": dict(os.environ),
        "environ": environ(),
        "handlers": [str(signal.getsignal(s)) for s in signal.valid_signals()],
        "native handlers": native_handlers(),
        "blocked signals": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
        "wakeup": signal.set_wakeup_fd(-1),
        "alarm": signal.getitimer(signal.ITIMER_REAL),
        "warnings": list(warnings.filters),
        "showwarning": warnings.showwarning,
        "floats": float_environment(),
        "errstate": np.geterr(),
        "allocator": np._core.multiarray.get_handler_name(),
        "printing": np.get_printoptions(),
        "sys.path": list(sys.path),
        "argv": list(sys.argv),
        "recursion": sys.getrecursionlimit(),
        "digits": sys.get_int_max_str_digits(),
        "switching": sys.getswitchinterval(),
        "hooks": [sys.excepthook, sys.unraisablehook, sys.displayhook, threading.excepthook],
        "tracing": [sys.gettrace(), sys.getprofile(), threading.gettrace()],
        "locale": locale.setlocale(locale.LC_ALL),
        "logging": [logging.root.level, logging.root.handlers],
        "affinity": sorted(os.sched_getaffinity(0)),
        "random": random.getstate(),
        "numpy's random": str(np.random.get_state()),
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count(), gc.callbacks],
        "folder": os.getcwd(),
        "umask": os.umask(0o22),
        "streams": [sys.stdin, sys.stdout, sys.stderr],
    }


def same(what, function):
    before = state()
    with contextlib.suppress(MemoryError, TypeError, ValueError, IndexError, Exception):
        function()
    after = state()
    changed[what] = [
        f"{key}: {before[key]} -> {after[key]}" for key in before if before[key] != after[key]
    ]


def run(*arguments):
    from mlc.driver import main

    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        main(arguments)


def everything():
    import mlc.frontend.call.compile, mlc.frontend.transforms.derivatives
    import mlc.nn, mlc.numpy, mlc.optim, mlc.random


changed = {}
os.umask(0o22)
x = np.linspace(0, 1, 600 * 600, dtype=np.float32).reshape(600, 600)
big, small = np.ones(3_000_000), np.ones(5)
file = sys.argv[1]
same("import", lambda: __import__("mlc"))
import mlc

norm = mlc.compile(lambda x: np.tanh(x @ x.T).sum())
divide = mlc.compile(lambda x: np.exp(1000 * x) + 1 / (x - x) + np.float64(1e-300) * x * 1e-20)
taken = mlc.compile(lambda x, i: x[i])
doubled = mlc.compile(lambda x: x * 2)
same("modules", everything)
same("compile", lambda: norm(x))
same("call in parallel", lambda: norm(x))
same("floating-point exceptions", lambda: divide(small))
same("again", lambda: divide(small))
same("a large result", lambda: doubled(big))
same("grad", lambda: mlc.grad(lambda x: (np.sin(x) * x).sum())(small))
same("wrong arguments", lambda: norm(small, 1, 2))
same("an untraceable function", lambda: mlc.compile(lambda x: open(x))(small))
same("a run-time error", lambda: taken(small, 9))
same("fork", lambda: os.waitpid(os.fork() or os._exit(0), 0))
same("show", lambda: run("show", file + ":f", "--at", "code"))
same("run", lambda: run("run", file + ":f", "--random"))
same("a script", lambda: run("run", file))
same("explain", lambda: run("explain", file + ":f"))
same("a wrong command", lambda: run("show", "nowhere.mlir"))
same("machine", lambda: run("machine"))
print(json.dumps({k: v for k, v in changed.items() if v}, indent=1))
'''
FILE = """
import numpy as np, mlc
@mlc.compile
def f(x: mlc.TensorSpec(4, 5)): return np.exp(x)
f(np.ones((4, 5)))
"""


def test_nothing_outside_changes(tmp_path: Path) -> None:
    script, file = tmp_path / "script.py", tmp_path / "given.py"
    script.write_text(SCRIPT)
    file.write_text(FILE)
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("GOMP_", "KMP_", "OMP_"))}
    result = subprocess.run(
        [sys.executable, str(script), str(file)],
        env={**clean, "MLC_THREADS": "2", "PYTHONPATH": str(Path(__file__).parent.parent)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout) == {}, result.stdout
