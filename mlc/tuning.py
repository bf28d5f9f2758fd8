"""
Schedules by the clock: `mlc.compile(tune=SECONDS)`.

A kernel that may have several schedules is compiled with the first few of them, by prediction, and
these run in turn on random numbers; the plan's kernels like it get the fastest one. What was
measured stays beside compiled code, so that a machine measures a kernel once. Only kernels whose
sizes are known are measured, and no phases of tile loops.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import islice
from typing import Any

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, ModuleOp
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Attribute, Block, Region

from mlc.backends import backend_of
from mlc.dialects.dims import product, shape_of
from mlc.dialects.dtypes import DType, dtype_of
from mlc.dialects.errors import MlcError
from mlc.dialects.plan import BufferAttr, KernelOp, Schedule, ScheduleAttr, slot_sizes
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.dialects.tensor.op import element_dtype, tensor_of
from mlc.dialects.tensor.tiles import is_phase
from mlc.dialects.tile.words import Words, spell, words_of
from mlc.fingerprint import fingerprint
from mlc.lazy_dataclass import dataclass
from mlc.options import Options
from mlc.passes.plan.tiling.schedule import schedules_of
from mlc.passes.remarks import remark
from mlc.runtime.cache import object_cache, object_key
from mlc.waiting import progress

MOST = 8  # schedules of a kernel that are measured
WORTH = 1.02
"""Times faster than the predicted schedule another one must be: less is the clock's noise."""

Compiled = Callable[[ModuleOp, EntrySignature, Options], Callable[..., object]]
"""What makes code of a module."""


@dataclass(frozen=True)
class Trial:
    """Kernels that are alike: the program of one of them alone, and where its figures are kept."""

    kernels: tuple[KernelOp, ...]
    alone: ModuleOp
    key: str

    def take(self, took: Sequence[tuple[Words, float]]) -> None:
        """Gives the kernels the fastest schedule; `took`: seconds of each, the predicted first."""
        (_, predicted_s), *_ = took
        best, best_s = min(took, key=lambda x: x[1])
        if predicted_s < WORTH * best_s:
            best, best_s = took[0]
        for kernel in self.kernels:
            kernel.properties["schedule"] = ScheduleAttr(Schedule(best))
            remark(
                kernel,
                f"tuned: {spell(best)} takes {1e6 * best_s:.1f} us, the predicted schedule"
                f" {1e6 * predicted_s:.1f} us, of {len(took)} that were measured",
            )


def take_known(plan: ModuleOp, options: Options) -> list[Trial]:
    """Gives kernels the schedules that were measured before; those that were not."""
    unknown: list[Trial] = []
    for trial in _trials(plan, options):
        found = object_cache().get(trial.key)
        if found is None:
            unknown.append(trial)
        else:
            trial.take([(words_of(words), seconds) for words, seconds in json.loads(found)])
    return unknown


def tune(plan: ModuleOp, options: Options, compiled: Compiled) -> None:
    """Measures what is not known, for `options.tune` seconds in all, and takes it."""
    assert options.tune is not None
    unknown = take_known(plan, options)
    end = time.perf_counter() + options.tune
    for number, trial in enumerate(unknown):
        now = time.perf_counter()
        share = max(0.0, end - now) / (len(unknown) - number)
        said = partial(progress, f"tuning {number + 1} of {len(unknown)}")
        took = _measured(trial, options, compiled, share, said)
        object_cache().put(trial.key, json.dumps([(spell(w), s) for w, s in took]).encode())
        trial.take(took)
    progress("", 0.0)


def _measured(
    trial: Trial,
    options: Options,
    compiled: Compiled,
    seconds: float,
    said: Callable[[float], None],
) -> list[tuple[Words, float]]:
    """Seconds of a call with each schedule: of the predicted one and another at least."""
    kernel = trial.kernels[0]
    assert kernel.schedule is not None
    offered = [kernel.schedule.data.words]
    offered += (x.words for x in _others(kernel, options))
    arguments, signature = _arguments(kernel), _signature(kernel)
    alone = _of_one_kernel(options)
    words: list[Words] = []
    functions: list[Callable[..., object]] = []
    end = time.perf_counter() + seconds / 2
    for k, each in enumerate(offered):
        said(k / len(offered) / 2)
        if len(words) > 1 and time.perf_counter() > end:
            break
        module = trial.alone.clone()
        for op in module.walk():
            if isinstance(op, KernelOp):
                op.properties["schedule"] = ScheduleAttr(Schedule(each))
        try:
            function = compiled(module, signature, alone)
            function(*arguments)
        except MlcError:
            if not words:
                raise
            continue  # offered, and refused by a pass: as good as not offered
        words.append(each)
        functions.append(function)

    def timed(part: float) -> None:
        said(0.5 + part / 2)

    share = seconds / 2 / len(functions)
    took = backend_of(options.target).measure(functions, arguments, timed, share)
    return list(zip(words, took, strict=True))


def _trials(plan: ModuleOp, options: Options) -> list[Trial]:
    """The kernels that may have several schedules, those that are alike together."""
    alike: dict[str, tuple[ModuleOp, list[KernelOp]]] = {}
    settings = _of_one_kernel(options).key().encode()
    for kernel in plan.walk():
        if isinstance(kernel, KernelOp) and _is_measured(kernel, options):
            alone = _alone(kernel, plan)
            key = object_key(b"tuned", settings, fingerprint(alone))
            alike.setdefault(key, (alone, []))[1].append(kernel)
    return [Trial(tuple(kernels), alone, key) for key, (alone, kernels) in alike.items()]


def _is_measured(kernel: KernelOp, options: Options) -> bool:
    """Whether there is a choice, and it can be judged without the rest of the program."""
    values = (*kernel.inputs, *kernel.outs)
    sizes = [product(shape_of(x.type)).constant for x in values]
    if kernel.schedule is None or is_phase(kernel) or None in sizes or 0 in sizes:
        return False
    return any(_others(kernel, options))


def _others(kernel: KernelOp, options: Options) -> Iterator[Schedule]:
    """What it may have beside its schedule, the best by prediction first."""
    assert kernel.schedule is not None
    predicted = kernel.schedule.data
    offered = schedules_of(kernel, options.target)
    return islice((x for x in offered if x != predicted), MOST - 1)


def _of_one_kernel(options: Options) -> Options:
    """Without what is said of the program."""
    return replace(options, tune=None, peak_bytes=None, schedule=None, discover=None)


def _alone(kernel: KernelOp, plan: ModuleOp) -> ModuleOp:
    """A program of nothing but a kernel, its results in memory of their own."""
    kinds = [x.type for x in kernel.inputs], [x.type for x in kernel.outs]
    block = Block(arg_types=kinds[0])
    places = ArrayAttr([BufferAttr(("out", (k,))) for k in range(len(kernel.outs))])
    properties: dict[str, Attribute] = {**kernel.properties, "buffers": places}
    for name in ("over", "cost", "unwritten"):
        properties.pop(name, None)
    body = kernel.body.clone()
    copy = KernelOp(kernel.template.data, block.args, kinds[1], body, properties)  # pyright: ignore[reportArgumentType]
    block.add_ops([copy, ReturnOp(*copy.outs)])
    function = FuncOp("tuned", kinds, Region(block))
    function.attributes["mlc.arena"] = slot_sizes([])
    module = ModuleOp([function])
    module.attributes.update(plan.attributes)
    return module


def _signature(kernel: KernelOp) -> EntrySignature:
    def parts(value: Any) -> tuple[str, Any]:
        kind = tensor_of(value)
        return dtype_of(kind.element_type).name, shape_of(kind)

    return EntrySignature(
        args=tuple(ArgSpec("array", *parts(x)) for x in kernel.inputs),
        results=tuple(ResultSpec(*parts(x)) for x in kernel.outs),
        returns_tuple=True,
    )


def _arguments(kernel: KernelOp) -> list[np.ndarray[Any, Any]]:
    """Numbers of no meaning; integers that may be places are in every array that has two."""
    rng = np.random.default_rng(0)

    def values(shape: tuple[int, ...], dtype: DType) -> np.ndarray[Any, Any]:
        if dtype.is_integer or dtype.kind == "bool":
            return rng.integers(0, 2, shape).astype(dtype.numpy)
        return rng.standard_normal(shape).astype(dtype.numpy)

    found: list[np.ndarray[Any, Any]] = []
    for x in kernel.inputs:
        shape = tuple(size.constant or 0 for size in shape_of(x.type))
        found.append(values(shape, element_dtype(x)))
    return found
