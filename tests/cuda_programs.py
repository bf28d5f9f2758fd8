"""Programs for CUDA without Python, built for C and called through ctypes."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

import mlc
from mlc.cuda_files import CudaProgram
from tests.c_programs import GCC, WARNED

HEADERS = Path(__file__).parent / "data" / "cuda"


def cuda_program(
    f: Any, *specs: mlc.TensorSpec, target: str = "h200", **options: Any
) -> CudaProgram:
    """A function for CUDA."""
    return CudaProgram(mlc.compile(target=target, **options)(f).lower(*specs).levels)


def scaled(x: Any, w: Any, b: Any) -> Any:
    """A product, constants, and a function over them."""
    places = np.array([0.5, 3.0, -1.0, 2.0], np.float32)
    return np.tanh(x @ w + b) * np.tile(places, 16)


def halved(x: Any) -> Any:
    """The host decides by what a kernel has found."""
    k = 0
    while x.max() > 1.0:
        x = x * 0.5
        k += 1
    return x, k


def picked(x: Any, k: Any) -> Any:
    """An index may be outside."""
    return x[k] * 2


def product(a: Any, b: Any) -> Any:
    """By groups of warps, which boxes are copied for."""
    return a @ b


class Context(ctypes.Structure):
    """mlc_cuda_context"""

    _fields_ = (
        ("arena", ctypes.c_uint64),
        ("arena_bytes", ctypes.c_int64),
        ("stream", ctypes.c_void_p),
        ("error_site", ctypes.c_int64),
        ("error_value", ctypes.c_int64),
        ("error_extent", ctypes.c_int64),
        ("result", ctypes.c_int),
        ("reserved", ctypes.c_int64 * 8),
    )


class Loaded:
    """A program as a shared library; `driver`: a file with the driver, where none is loaded."""

    def __init__(self, found: CudaProgram, folder: Path, driver: Path | None) -> None:
        name = self.name = found.name
        (folder / f"{name}.c").write_bytes(found.written("c", f"{name}.c"))
        (folder / f"{name}.h").write_bytes(found.written("header", f"{name}.h"))
        sources = [str(folder / f"{name}.c"), *([str(driver)] if driver else [])]
        built = folder / f"lib{name}.so"
        command = [
            GCC,
            "-std=c99",
            *WARNED,
            "-O1",
            "-shared",
            "-fPIC",
            f"-I{HEADERS}",
            f"-I{folder}",
        ]
        subprocess.run([*command, *sources, "-o", str(built)], check=True)
        self.library = ctypes.CDLL(str(built))
        self.state_bytes = found.constants[-1]
        self.context = Context()
        self.program = (ctypes.c_uint64 * (2 * max(1, len(found.kernels)) + 1))()

    def _ask(self, function: str, *arguments: Any) -> int:
        status: int = getattr(self.library, f"{self.name}{function}")(
            self.program, ctypes.byref(self.context), *arguments
        )
        return status

    def load(self, state: int) -> int:
        """Loads the kernels; `state`: memory of the device."""
        return self._ask("_load", ctypes.c_uint64(state))

    def unload(self) -> int:
        """Ends that."""
        return self._ask("_unload")

    def start(self, args: Sequence[int], sizes: Sequence[int], outs: Sequence[int]) -> int:
        """A call."""
        words = (ctypes.c_uint64 * max(1, len(args)))(*args)
        numbers = (ctypes.c_int64 * max(1, len(sizes)))(*sizes)
        return self._ask("", words, numbers, (ctypes.c_uint64 * max(1, len(outs)))(*outs))

    def wait(self) -> int:
        """Waits for the calls."""
        return self._ask("_wait")
