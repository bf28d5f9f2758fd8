"""What one call costs, beside np.add in the same run."""

from __future__ import annotations

import timeit
from collections.abc import Callable
from typing import ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray

from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.runtime.probe import host_target
from tests.unit.native_kernels import load


def add_all(count: int) -> str:
    """out[i] = sum of `count` arguments, 8 float32 each."""
    lines = ["define i32 @add_all(ptr %ctx, ptr %args, ptr %sizes, ptr %outs) {"]
    total = ""
    for i in range(count):
        lines += [
            f"  %at{i} = getelementptr ptr, ptr %args, i64 {i}",
            f"  %x{i} = load ptr, ptr %at{i}",
            f"  %v{i} = load <8 x float>, ptr %x{i}, align 4",
        ]
        if total:
            lines.append(f"  %s{i} = fadd <8 x float> {total}, %v{i}")
        total = f"%s{i}" if total else "%v0"
    lines += ["  %out = load ptr, ptr %outs", f"  store <8 x float> {total}, ptr %out, align 4"]
    return "\n".join([*lines, "  ret i32 0", "}"])


@pytest.mark.parametrize("count", [1, 4, 10])
def test_a_call_is_cheaper_than_np_add(count: int) -> None:
    spec = ArgSpec("array", "f32", ("B",))
    signature = EntrySignature((spec,) * count, (ResultSpec("f32", ("B",)),), ("B",))
    loaded = load(add_all(count), "add_all", signature)

    class Compiled:
        __call__: ClassVar[Callable[..., NDArray[np.float32]]] = loaded.builtin  # pyright: ignore[reportAssignmentType]

    compiled = Compiled()
    arrays = [np.arange(8, dtype=np.float32) + i for i in range(count)]
    names = {"f": compiled, "add": np.add, **{f"x{i}": x for i, x in enumerate(arrays)}}
    np.testing.assert_array_equal(compiled(*arrays), np.sum(arrays, axis=0))
    best: dict[str, float] = {}
    for statement in (f"f({', '.join(f'x{i}' for i in range(count))})", "add(x0, x0)"):
        times = timeit.repeat(statement, globals=names, number=20_000, repeat=7)
        best[statement[0]] = min(times) / 20_000 * 1e9
    machine = host_target().cpu_name
    print(f"{count} arguments: {best['f']:.0f} ns; np.add {best['a']:.0f} ns ({machine})")
    assert best["f"] < best["a"]
