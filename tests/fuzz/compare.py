"""A text that was accepted at the tensor or plan level: its code's results are the reference's."""

from __future__ import annotations

import signal
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
MOST_ELEMENTS = 1 << 20  # of all arguments and values of a program that is run
REFERENCE_S = 1.0
SIZES = (3, 5, 2, 7)  # of symbols, in order
LIMITS = {
    "f8e4m3fn": 0.1,
    "f8e5m2": 0.2,
    "f16": 5e-2,
    "bf16": 2e-1,
    "f32": 2e-3,
    "c64": 2e-3,
    "f64": 1e-6,
    "c128": 1e-6,
}


class _TooLongError(Exception):
    """The reference does not end soon."""


def difference(path: Path, begin: Callable[[str], None]) -> str:
    """How the compiled program differs from the reference; empty where it does not, or is not run.

    `begin` is told what comes next: "run" may take as long as the program says.
    """
    from mlc.dialects.dims import shape_of
    from mlc.dialects.errors import MlcError
    from mlc.dialects.tensor.op import tensor_of
    from mlc.dialects.tensor.tiles import TilesOp
    from mlc.executable import compile_module
    from mlc.frontend.importers.mlir import read_module
    from mlc.options import Options
    from mlc.passes.tensor.expand_transforms import one_function
    from mlc.pipeline import level_of
    from mlc.runtime.interpret import interpret
    from mlc.runtime.probe import host_target

    try:
        module, signature = read_module(path)
    except MlcError:
        return ""
    if level_of(module) not in ("tensor", "plan"):
        return ""
    sizes = {s: SIZES[k % len(SIZES)] for k, s in enumerate(signature.symbols)}
    inner = {s: n for op in module.walk() if isinstance(op, TilesOp) for s, n in op.sizes.items()}
    most = {**inner, **sizes}
    try:
        count = sum(
            max(1, int(np.prod([d.evaluate(most) for d in shape_of(tensor_of(v))], dtype=object)))
            for op in module.walk()
            for v in (*op.results, *(a for r in op.regions for b in r.blocks for a in b.args))
        )
        shapes = [[d.evaluate(sizes) for d in a.shape] for a in signature.args]
    except KeyError:  # a symbol that nobody gives a value
        return ""
    if count > MOST_ELEMENTS or any(n < 0 for shape in shapes for n in shape):
        return ""
    inputs = [
        _random(a.dtype, shape, k)
        for k, (a, shape) in enumerate(zip(signature.args, shapes, strict=True))
    ]
    expected = _attempt(
        lambda: _limited(lambda: interpret(one_function(module).clone(), inputs, sizes))
    )
    if isinstance(expected, _TooLongError | MemoryError):
        return ""
    begin("compile")
    options = Options(target=host_target(), threads=1)
    try:
        function = compile_module(module, signature, options)
    except MlcError as error:
        if "this is a bug" in str(error) or type(error).__name__ == "CompilerBug":
            return f"{type(error).__name__}: {error}"
        return ""
    begin("run")
    found = _attempt(lambda: function(*[x.copy() for x in inputs]))
    return _compared(found, expected)


def _limited(compute: Callable[[], object]) -> object:
    def late(number: int, frame: FrameType | None) -> None:
        raise _TooLongError

    previous = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, REFERENCE_S)
    try:
        return compute()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


def _attempt(compute: Callable[[], object]) -> object:
    """What comes back, or is raised."""
    try:
        return compute()
    except Exception as error:  # noqa: BLE001 - compared with the other's
        return error


def _random(dtype: str, shape: list[int], seed: int) -> Array:
    from mlc.dialects.dtypes import named_dtype

    generator = np.random.default_rng(seed)
    row = named_dtype(dtype)
    if row.kind in ("float", "complex", "storage"):
        values: Any = generator.standard_normal(shape)
    else:
        values = generator.integers(0, 2 if row.kind == "bool" else 4, shape)
    return np.asarray(values).astype(row.numpy)


def _compared(found: object, expected: object) -> str:
    if isinstance(expected, Exception) or isinstance(found, Exception):
        if type(found) is type(expected):
            return ""
        return f"found {found!r:.300}, expected {expected!r:.300}"
    results = cast("list[object]", [*found] if isinstance(found, tuple | list) else [found])
    wanted = cast("list[object]", expected)
    if len(results) != len(wanted):
        return f"{len(results)} results, expected {len(wanted)}"
    for k, (ours, theirs) in enumerate(zip(results, wanted, strict=True)):
        if said := _array_difference(np.asarray(ours), np.asarray(theirs)):
            return f"result {k}: {said}"
    return ""


def _array_difference(ours: Array, theirs: Array) -> str:
    from mlc.dialects.dtypes import numpy_dtype

    if ours.dtype != theirs.dtype or ours.shape != theirs.shape:
        return f"{ours.dtype}{ours.shape}, expected {theirs.dtype}{theirs.shape}"
    row = numpy_dtype(theirs.dtype)
    if row.name not in LIMITS:
        same = (
            ours.view(f"V{row.bytes}") == theirs.view(f"V{row.bytes}")
            if theirs.ndim
            else ours == theirs
        )
        return "" if np.all(same) else f"{ours!r:.200}, expected {theirs!r:.200}"
    wide = np.complex128 if row.kind == "complex" else np.float64
    a, b = ours.astype(wide), theirs.astype(wide)
    finite = np.isfinite(b)
    if not np.array_equal(np.isfinite(a), finite):
        return f"{ours!r:.200}, expected {theirs!r:.200}"
    scale = float(np.abs(b[finite]).max(initial=1.0))
    if np.all(np.abs(a - b)[finite] <= LIMITS[row.name] * scale):
        return ""
    return f"{ours!r:.200}, expected {theirs!r:.200}"
