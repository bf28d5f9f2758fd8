# pyright: basic, reportMissingImports=false
"""
`python -m benchmarks.models [--only NAME] [--times 8] [--cpu]`: eight models of PyTorch, first
call and steady time, through ONNX beside ONNX Runtime, and `torch.compile` beside inductor and
eager.

The models are those of tests/exported_models.py, so many times wider. A first call is that of a new
function, with what compiles it, from no cache of ours (inductor's and ONNX Runtime's are as found).
Candidates of a model take turns. `--cpu`, where other work takes turns away: seconds of the calling
thread (inductor compiles in other processes too). Needs torch, onnx, onnxscript and onnxruntime;
inductor a compiler of C++.
"""

from __future__ import annotations

import argparse
import logging
import math
import time
import warnings
from collections.abc import Callable, Mapping
from typing import Any

import benchmarks.harness as harness
import mlc
from mlc.knobs import scope

Call = Callable[[], object]
ONNX, COMPILE = ("mlc", "onnxruntime"), ("mlc", "inductor", "eager")


def main(arguments: list[str] | None = None) -> int:
    """Print both tables, with ratios and their geometric means."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--only", action="append", default=[])
    parser.add_argument("--times", type=int, default=8)
    parser.add_argument("--dynamic", action="store_true")
    parser.add_argument("--cpu", action="store_true", help="time of the processor, on one thread")
    given, rest = parser.parse_known_args(arguments)
    options = harness.settings(__doc__ or "", [*rest, *(["--threads", "1"] if given.cpu else [])])
    clock = time.thread_time if given.cpu else time.perf_counter
    import torch

    from tests.exported_models import models

    logging.getLogger("torch.onnx").setLevel(logging.ERROR)
    warnings.simplefilter("ignore")  # PyTorch's own
    torch.set_num_threads(options.threads)
    torch.set_grad_enabled(False)
    torch._dynamo.config.allow_rnn = True
    tables = [
        Rows(f"ONNX, {given.times} times as wide as in tests", ONNX),
        Rows(f"torch.compile, dynamic={given.dynamic or None}", COMPILE),
    ]
    made = models(given.times, 4)
    chosen = [name for name in made if not given.only or name in given.only]
    if not chosen:
        parser.error(f"--only {given.only[0]}: expected some of {', '.join(made)}")
    for name in chosen:
        torch.manual_seed(0)
        build, calls, axes = made[name]
        model, inputs = build().eval(), calls[0]
        exported = torch.onnx.export(model, inputs, dynamo=True, dynamic_shapes=axes, verbose=False)
        onnx = through_onnx(exported.model_proto, inputs, options.threads)
        compile_ = through_compile(model, inputs, given.dynamic)
        with scope(threads=options.threads):
            for rows, makers in zip(tables, (onnx, compile_), strict=True):
                rows.add(name, makers, options, clock)
    harness.report(options, *(rows.table() for rows in tables))
    return 0


def through_onnx(proto: Any, inputs: Any, threads: int) -> dict[str, Callable[[], Call]]:
    """What makes a call of the model, for each candidate."""
    import onnxruntime

    arrays = [x.numpy() for x in inputs]

    def ours() -> Call:
        loaded = mlc.onnx.load(proto)
        return lambda: loaded(*arrays)

    def theirs() -> Call:
        said = onnxruntime.SessionOptions()
        said.intra_op_num_threads = threads
        session = onnxruntime.InferenceSession(proto.SerializeToString(), said)
        given = dict(zip([x.name for x in session.get_inputs()], arrays, strict=True))
        return lambda: session.run(None, given)

    return dict(zip(ONNX, (ours, theirs), strict=True))


def through_compile(model: Any, inputs: Any, dynamic: bool) -> dict[str, Callable[[], Call]]:
    """The same for backends of PyTorch's."""
    import torch

    def made(backend: Any) -> Call:
        torch._dynamo.reset()
        compiled = torch.compile(model, backend=backend, dynamic=dynamic or None)
        return lambda: compiled(*inputs)

    makers = (
        lambda: made(mlc.torch.backend),
        lambda: made("inductor"),
        lambda: lambda: model(*inputs),
    )
    return dict(zip(COMPILE, makers, strict=True))


class Rows:
    """One way to run models: what each candidate takes, beside the best of its peers."""

    def __init__(self, title: str, names: tuple[str, ...]) -> None:
        self.names = names
        firsts = [f"{name}, first" for name in names if name != "eager"]
        self.found = harness.Table(title, ["model", *firsts, *names, "best / mlc"])
        self.ratios: list[float] = []

    def add(
        self,
        model: str,
        makers: Mapping[str, Callable[[], Call]],
        options: harness.Settings,
        clock: harness.Clock,
    ) -> None:
        """A model's row, printed as soon as it is there."""
        calls, firsts = dict[str, Call](), dict[str, float]()
        for name, make in makers.items():
            start = clock()
            calls[name] = make()
            calls[name]()
            firsts[name] = clock() - start
        steady = harness.medians(calls, options.rounds, options.settle_s, clock)
        ratio = min(steady[name] for name in self.names[1:]) / steady["mlc"]
        self.ratios.append(ratio)
        cells = [firsts[name] for name in self.names if name != "eager"]
        self.found.add(model, *cells, *(steady[name] for name in self.names), f"{ratio:.2f}")
        print(self.found.title, *self.found.rows[-1], sep="  ", flush=True)

    def table(self) -> harness.Table:
        """The rows, and the geometric mean of their ratios."""
        mean = math.exp(sum(map(math.log, self.ratios)) / len(self.ratios))
        blank = [""] * (len(self.found.columns) - 2)
        self.found.add("geometric mean", *blank, f"{mean:.2f}")
        return self.found


if __name__ == "__main__":
    raise SystemExit(main())
