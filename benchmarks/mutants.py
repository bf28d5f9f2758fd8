"""
`python -m benchmarks.mutants --threads 1`: convolutions beside mutants of them with corrections, as
`mlc mutants` finds them: share of positions that are right, predicted and measured time.

Of each convolution the mutants that are predicted to be fastest, and dilation by phases along both
axes, the documents' example. Candidates of a convolution take turns; the ratio is the original's
median time by a mutant's: above 1, where the mutant wins. With one thread it is the processor's
time that counts, as other work may take turns away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ModuleOp

import benchmarks.harness as harness
from mlc.dialects.program import entry_function
from mlc.executable import compile_module
from mlc.frontend.call.compile import settings_of
from mlc.frontend.call.lowered import options_of
from mlc.frontend.importers.mlir import signature_of
from mlc.levels import Levels
from mlc.mutants import search
from mlc.options import Options
from mlc.programs import Opened
from mlc.text import parse_text

SHOWN = 3
BOTH = "axis 2 and 3 with stride 1, dilation 1, in 2 phases"


def text(image: str, padded: str, weights: str, result: str, letters: str, pad: str) -> str:
    """A convolution of an image with zeros around."""
    x, p, w, y = (f"tensor<{dims}xf32>" for dims in (image, padded, weights, result))
    return f"""func.func @layer(%x: {x}, %w: {w}) -> {y} {{
  %o = mlc.constant dense<0.0> : tensor<f32>
  %p = mlc.pad %x, %o [{pad}, {pad}] : {x}, tensor<f32> -> {p}
  %y = mlc.conv "{letters}" %p, %w : {p}, {w} -> {y}
  func.return %y : {y}
}}
"""


def square(channels: int, size: int, *, batch: int = 1, stride: int = 1, dilation: int = 1) -> str:
    """With windows of 3 x 3, so that a result of stride 1 has the image's size."""
    whole = size + 2 * dilation
    n = (whole - 2 * dilation - 1) // stride + 1
    letters = f"nc({stride}y+{dilation}i)({stride}x+{dilation}j),fcij->nfyx"
    return text(
        f"{batch}x{channels}x{size}x{size}", f"{batch}x{channels}x{whole}x{whole}",
        f"{channels}x{channels}x3x3", f"{batch}x{channels}x{n}x{n}", letters,
        f"<0, 0, {dilation}, {dilation}>",
    )  # fmt: skip


def grouped(groups: int, channels: int, size: int, dilation: int) -> str:
    """Each group of channels with filters of its own."""
    whole, each = size + 2 * dilation, f"{groups}x{channels}"
    return text(
        f"1x{each}x{size}x{size}", f"1x{each}x{whole}x{whole}", f"{each}x{channels}x3x3",
        f"1x{each}x{size}x{size}", f"ngc(y+{dilation}i)(x+{dilation}j),gfcij->ngfyx",
        f"<0, 0, 0, {dilation}, {dilation}>",
    )  # fmt: skip


CASES = {
    "dilation 2, 64 channels, 56 x 56": square(64, 56, dilation=2),
    "dilation 2, 64 channels, 57 x 57": square(64, 57, dilation=2),
    "dilation 4, 32 channels, 33 x 33": square(32, 33, dilation=4),
    "stride 2, 64 channels, 56 x 56": square(64, 56, stride=2),
    "8 groups of 8, dilation 2, 28 x 28": grouped(8, 8, 28, 2),
    "32 images of 7 x 7, 64 channels": square(64, 7, batch=32),
    "zeros around 112 x 112, 16 channels": square(16, 112),
}
QUICK = ("dilation 4, 32 channels, 33 x 33", "8 groups of 8, dilation 2, 28 x 28")


def main() -> int:
    """Print the table."""
    settings = harness.settings(__doc__ or "")
    table = harness.Table(
        "Mutants with corrections",
        ("convolution", "mutant", "right", "class", "predicted", "measured", "ratio", "bits"),
    )
    for name, program in CASES.items():
        if not settings.quick or name in QUICK:
            for row in rows(name, program, settings):
                table.add(*row)
    harness.report(settings, table)
    return 0


def rows(name: str, program: str, settings: harness.Settings) -> list[tuple[object, ...]]:
    """The original, and its mutants, as rows of the table."""
    module = parse_text(program, name)
    options = options_of(settings_of({"numerics": "fast", "threads": settings.threads}), runs=True)
    signature = signature_of(entry_function(module))
    found = search(Opened(Levels(None, "layer", signature, options, {}, fresh=module)))
    chosen = [f for k, f in enumerate(found.found) if k < SHOWN or f.mutant.says.endswith(BOTH)]
    modules = {"original": found.original, **{f.mutant.says: f.module for f in chosen}}
    rng = np.random.default_rng(0)
    shapes = [[n.evaluate({}) for n in x.shape] for x in signature.args]
    arrays = [rng.integers(-4, 5, shape).astype(np.float32) for shape in shapes]
    calls = {says: _call(m, options, arrays) for says, m in modules.items()}
    wanted = calls["original"]()
    clock = time.thread_time if settings.threads == 1 else time.perf_counter
    took = harness.medians(calls, settings.rounds, settings.settle_s, clock)
    first = took["original"]
    lines: list[tuple[object, ...]] = [(name, "original", "", "", found.predicted_s, first, "", "")]
    for f in chosen:
        says, known = f.mutant.says, f.comparison
        equal = "equal" if np.array_equal(calls[says](), wanted) else "differ"
        lines.append((
            "", says.partition(": ")[2], f"{known.share():.0%}", known.equivalence, f.predicted_s,
            took[says], f"{first / took[says]:.2f}", equal,
        ))  # fmt: skip
    return lines


def _call(module: ModuleOp, options: Options, arrays: list[Any]) -> Callable[[], Any]:
    call = compile_module(module.clone(), signature_of(entry_function(module)), options)
    return lambda: call(*arrays)


if __name__ == "__main__":
    raise SystemExit(main())
