# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false, reportMissingTypeStubs=false
"""
LLVM IR text to object code or assembly: the only file that knows llvmlite's untyped interface.

Compilation is a pure function of (text, target, opt_level). llvmlite holds one lock around every
LLVM call; the two long ones, passes and code generation, go without it, each with a context and a
machine that no other thread has: threads compile in parallel.

What belongs to LLVM is closed where it was opened, after errors too. If it waited in a cycle (an
error and its frames), the collector would take llvmlite's lock in whatever thread it runs, with
whatever locks that thread holds: a fork, which holds llvmlite's and waits for those, never ended.
"""

from __future__ import annotations

import os
import re
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from ctypes import string_at
from functools import lru_cache
from typing import Any, Protocol, cast

from mlc.dialects import program
from mlc.dialects.target.cpu import CpuTarget
from mlc.runtime.arm_features import arm_features

OPT_LEVELS = (0, 1, 2, 3)

DEFAULT_OPT_LEVEL = 1
"""
0: no IR passes, fast instruction selection. 1: SROA, instruction combining, CFG simplification.
2: LLVM's O2 without its loop and SLP vectorisers. 3: LLVM's O3.

Kernels arrive vectorised and unrolled, so level 1 is the default. Measured on a 14x32 AVX-512 tile
with its macro loop (Zen 5, one core; compile ms -> GFLOP/s): 0: 5.9 -> 259, 1: 6.5 -> 247 to 254,
2: 11 to 13 -> 250 to 260, 3: 21 -> 257; the rates agree within noise.
"""

ALL_PASSES = 3
"""The level of a module with a function that asks for it, in place of level 1."""

_SCALAR_EXTREME = re.compile(
    r"^  (?P<name>%\S+) = (?:tail )?call (?P<type>i\d+) "
    r"@llvm\.(?P<sign>[su])(?P<which>min|max)\.i\d+"
    r"\((?P=type) (?:noundef )?(?P<x>[^ ,]+), (?P=type) (?:noundef )?(?P<y>[^ ,]+)\)$",
    re.MULTILINE,
)
"""A call of LLVM's minimum or maximum of two numbers in registers."""

_LEVEL_ONE_PASSES = ("sroa", "instruction_combine", "simplify_cfg")


class Module(Protocol):
    """A parsed LLVM module."""


class TargetMachine(Protocol):
    """LLVM's code generator for one machine and level."""

    def emit_assembly(self, module: Module) -> str: ...
    def set_asm_verbosity(self, verbose: bool) -> None: ...


class LLVMTextError(ValueError):
    """LLVM refuses the text: the emitter that wrote it is at fault, not the user's program."""


@lru_cache(maxsize=1)
def _initialise_native() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    llvm.initialize_native_asmparser()  # of inline assembly


@lru_cache(maxsize=1)
def _initialise_all() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()


@lru_cache(maxsize=1)
def host_triple() -> str:
    """The triple of this process, such as "x86_64-unknown-linux-gnu"."""
    import llvmlite.binding as llvm

    return str(llvm.get_process_triple())


def host_cpu() -> tuple[str, Mapping[str, bool]]:
    """LLVM's name of this CPU and its features (CPUID, or the kernel's word on Arm)."""
    import llvmlite.binding as llvm

    return str(llvm.get_host_cpu_name()), {**llvm.get_host_cpu_features(), **arm_features()}


def target_machine(triple: str, cpu_name: str, features: str, level: int) -> TargetMachine:
    """
    LLVM's code generator, position independent, for objects that any process may load.
    `level`: 0 to 3, as LLVM's -O of the code generator.
    """
    import llvmlite.binding as llvm

    if triple.partition("-")[0] == host_triple().partition("-")[0]:
        _initialise_native()
    else:
        _initialise_all()
    try:
        target = llvm.Target.from_triple(triple)
    except RuntimeError as error:
        raise ValueError(f"LLVM has no target for triple {triple!r}: {error}") from error
    machine = target.create_target_machine(
        cpu=cpu_name, features=features, opt=level, reloc="pic", codemodel="small"
    )
    machine.set_asm_verbosity(True)
    return cast(TargetMachine, machine)


_Machine = tuple[str, str, str, int]  # what `target_machine` takes
_idle: defaultdict[_Machine, list[TargetMachine]] = defaultdict(list)


@contextmanager
def _machine_for(*which: *_Machine) -> Generator[TargetMachine, None, None]:
    """A code generator that no other thread has meanwhile."""
    try:
        machine = _idle[which].pop()
    except IndexError:
        machine = target_machine(*which)
    try:
        yield machine
    finally:
        _idle[which].append(machine)


@contextmanager
def _parsed(text: str) -> Generator[Module, None, None]:
    """The module, in a context of its own."""
    import llvmlite.binding as llvm

    with ExitStack() as opened:
        try:
            context = opened.enter_context(llvm.create_context())
            module = opened.enter_context(llvm.parse_assembly(text, context))
            module.verify()
        except RuntimeError as error:
            raise LLVMTextError(f"mlc emitted LLVM IR that LLVM refuses: {error}") from error
        yield cast(Module, module)


def _run_passes(module: Module, machine: TargetMachine, opt_level: int) -> None:
    import llvmlite.binding as llvm

    if opt_level == 0:
        return
    with ExitStack() as opened:
        tuning = opened.enter_context(llvm.create_pipeline_tuning_options(speed_level=opt_level))
        if opt_level == 2:
            tuning.loop_vectorization = False
            tuning.slp_vectorization = False
        builder = opened.enter_context(llvm.create_pass_builder(machine, tuning))
        if opt_level == 1:
            passes = opened.enter_context(llvm.create_new_module_pass_manager())
            passes.add_always_inliner_pass()
            for name in _LEVEL_ONE_PASSES:
                add = cast(Callable[[], None], getattr(passes, f"add_{name}_pass"))
                add()
        else:
            passes = opened.enter_context(builder.getModulePassManager())
        with _unlocked("LLVMPY_RunNewModulePassManager") as run:
            run(passes, module, builder)


def _extremes_by_select(text: str) -> str:
    """
    The text with minima and maxima of integers as selects that nobody can predict. x86 has no
    instruction for them outside vectors; where one is on a loop's critical path (an edit distance)
    LLVM would guess its outcome by a branch instead, which for numbers that data decide costs more
    than it saves. A function's own branches, and selects made of them, stay LLVM's to weigh.
    """
    count = 0

    def select(call: re.Match[str]) -> str:
        nonlocal count
        count += 1
        sign, x, y = call["sign"], call["x"], call["y"]
        order = f"{sign}{'lt' if call['which'] == 'min' else 'gt'}"
        return (
            f"  %mlc.first.{count} = icmp {order} {call['type']} {x}, {y}\n"
            f"  {call['name']} = select i1 %mlc.first.{count}, {call['type']} {x}, "
            f"{call['type']} {y}, !unpredictable !{{}}"
        )

    return _SCALAR_EXTREME.sub(select, text)


def _asking(passes: str, text: str, module: Module) -> Iterator[bool]:
    """Of each function that the module defines, whether it has an attribute."""
    if passes not in text:  # sooner than looking at functions
        return
    asks = f'"{passes}"'.encode()
    functions = cast("Iterable[Any]", getattr(module, "functions"))  # noqa: B009
    for f in functions:
        if not f.is_declaration:
            yield any(asks in attribute for attribute in f.attributes)


def _level_of(text: str, module: Module) -> int:
    """What its functions ask for."""
    if any(_asking(program.ALL_PASSES, text, module)):
        return ALL_PASSES
    found = [*_asking(program.NO_PASSES, text, module)]  # of C beside the entry's there are kernels
    return 0 if found and all(found) else DEFAULT_OPT_LEVEL


@contextmanager
def _optimised(
    text: str, target: CpuTarget, opt_level: int
) -> Generator[tuple[Module, TargetMachine], None, None]:
    """The module after its passes, and the machine that it is for."""
    if opt_level not in OPT_LEVELS:
        raise ValueError(f"opt_level is {opt_level}; expected one of {OPT_LEVELS}")
    with ExitStack() as opened:
        module = opened.enter_context(_parsed(text))
        if opt_level == DEFAULT_OPT_LEVEL:
            opt_level = _level_of(text, module)
        codegen_level = (0, 2, 2, 3)[opt_level]
        which = target.triple, target.cpu_name, target.features, codegen_level
        machine = opened.enter_context(_machine_for(*which))
        module.triple = target.triple  # pyright: ignore[reportAttributeAccessIssue]
        _run_passes(module, machine, opt_level)
        if opt_level == ALL_PASSES and target.arch == "x86_64":
            text = str(module)
            if (rewritten := _extremes_by_select(text)) != text:
                module = opened.enter_context(_parsed(rewritten))
        yield module, machine


_gate = threading.Condition()
_inside = 0  # threads in LLVM without llvmlite's lock


@contextmanager
def _unlocked(name: str) -> Generator[Callable[..., Any], None, None]:
    """llvmlite's function of this name, without its lock."""
    global _inside
    import llvmlite.binding as llvm

    with _gate:
        _inside += 1
    try:
        yield getattr(llvm.ffi.lib, name)._cfn
    finally:
        with _gate:
            _inside -= 1
            _gate.notify_all()


def _emit_object(module: Module, machine: TargetMachine) -> bytes:
    """llvmlite's `emit_object` without its lock."""
    import llvmlite.binding as llvm

    library = llvm.ffi.lib
    with llvm.ffi.OutputString() as error:
        with _unlocked("LLVMPY_TargetMachineEmitToMemory") as emit:
            buffer = emit(machine, module, 1, error)
        if not buffer:
            raise RuntimeError(str(error))
    try:
        return string_at(
            library.LLVMPY_GetBufferStart(buffer), library.LLVMPY_GetBufferSize(buffer)
        )
    finally:
        library.LLVMPY_DisposeMemoryBuffer(buffer)


def _lock() -> Any:
    """llvmlite's lock; None before anybody has imported it."""
    ffi = sys.modules.get("llvmlite.binding.ffi")
    return None if ffi is None else ffi.lib._lock


def _hold() -> None:
    """Before a fork: no thread is inside LLVM, and the child finds the locks free."""
    _gate.acquire()
    _gate.wait_for(lambda: not _inside)
    if (lock := _lock()) is not None:
        lock.__enter__()
        _held.append(lock)


def _release() -> None:
    """After a fork, in parent and child."""
    if _held:
        _held.pop().__exit__(None, None, None)
    _gate.release()


_held: list[Any] = []
os.register_at_fork(before=_hold, after_in_parent=_release, after_in_child=_release)


def compile_object(text: str, target: CpuTarget, *, opt_level: int = DEFAULT_OPT_LEVEL) -> bytes:
    """An ELF object with the functions of `text`, for `target`, whatever machine this runs on."""
    with _optimised(text, target, opt_level) as (module, machine):
        return _emit_object(module, machine)


def emit_assembly(text: str, target: CpuTarget, *, opt_level: int = DEFAULT_OPT_LEVEL) -> str:
    """The assembly that `compile_object` would encode."""
    with _optimised(text, target, opt_level) as (module, machine):
        return machine.emit_assembly(module)


def optimised_text(text: str, target: CpuTarget, *, opt_level: int = DEFAULT_OPT_LEVEL) -> str:
    """The LLVM IR after the passes of `opt_level`."""
    with _optimised(text, target, opt_level) as (module, _):
        return str(module)


def emit_nvptx(text: str, sm: str, ptx_version: str, opt_level: int) -> str:
    """PTX of `text` for an architecture such as "sm_90a", in a PTX ISA version such as "8.0"."""
    features = f"+ptx{ptx_version.replace('.', '')}"
    which = "nvptx64-nvidia-cuda", sm, features, opt_level
    with _machine_for(*which) as machine, _parsed(text) as module:
        _run_passes(module, machine, opt_level)
        return machine.emit_assembly(module)
