"""Code of a program, or of LLVM IR that mlc wrote, in files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from mlc.backends import backend_of
from mlc.c_files import CProgram, archive
from mlc.command_line import UsageError, named
from mlc.dialects.errors import MlcError
from mlc.dialects.target import Target
from mlc.dialects.target.known import CPUS, GPUS
from mlc.levels import Levels
from mlc.runtime.llvm import LLVMTextError
from mlc.runtime.probe import host_target
from mlc.text import read_text

KINDS = {"ll": ".ll", "asm": ".s", "obj": ".o", "ptx": ".ptx", "header": ".h", "a": ".a"}
FOR_C = ("header", "a")


def kinds_of(text: str | None, target: Target) -> list[str]:
    """``ll,asm`` as kinds of code that a target has; UsageError or MlcError where it has not."""
    if text is None:
        return [next(iter(backend_of(target).files))]
    kinds = text.split(",")
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"--emit {kind}: expected some of {', '.join(KINDS)}")
        if kind not in (*backend_of(target).files, *FOR_C):
            wanted = "a GPU, such as --target cuda:sm_90a" if kind == "ptx" else "a CPU"
            raise MlcError(f"--emit {kind} needs {wanted}; found {target.name}")
    return kinds


def build_program(program: Levels, emit: str | None, output: str | None) -> list[Path]:
    """
    Writes a program as the kinds of code asked for, and says where: one file of each, of objects
    one for each kernel too. With a header or an archive, or for one thread, it is a program for C
    (c_files.py), in one object.
    """
    target, paths = program.options.target, list[Path]()
    kinds = kinds_of(emit, target)
    alone = "obj" in kinds and program.options.threads == 1
    for_c = CProgram(program) if alone or any(kind in FOR_C for kind in kinds) else None
    image = for_c.object() if for_c is not None and {"obj", "a"} & set(kinds) else b""
    for kind, path in _places(kinds, program.name, output):
        if for_c is not None and kind in ("obj", *FOR_C):
            made = {
                "obj": lambda: image,
                "header": lambda: for_c.header().encode(),
                "a": lambda: archive({f"{program.name}.o": image}),
            }
            path.write_bytes(made[kind]())
            paths.append(path)
        elif kind == "obj":
            *kernels, entry = program.units()
            for unit in kernels:
                name = f"{path.stem}.{unit.name}{path.suffix}"
                paths.append(_written(kind, path.with_name(name), unit.text, target))
            paths.append(_written(kind, path, entry.text, target))
        else:
            paths.append(_written(kind, path, program.llvm(), target))
    return paths


def build_llvm(file: str, emit: str | None, output: str | None, target: str | None) -> list[Path]:
    """As `build_program` of FILE.ll, for the machine that it names or the one given."""
    text = read_text(file, "text of LLVM IR")
    machine = named(target).data if target is not None else _machine_of(text, file)
    try:
        return [
            _written(kind, path, text, machine)
            for kind, path in _places(kinds_of(emit, machine), Path(file).stem, output)
        ]
    except LLVMTextError as error:
        said = str(error.__cause__).partition("<string>:")
        raise MlcError(f"{file}:{said[2].strip()}" if said[1] else f"{file}: {said[0]}") from None


def _places(kinds: Sequence[str], name: str, output: str | None) -> list[tuple[str, Path]]:
    """Where each kind goes: `output` is a file, or the stem of several."""
    if len(kinds) == 1 and output is not None:
        return [(kinds[0], Path(output))]
    return [(kind, Path(output or name).with_suffix(KINDS[kind])) for kind in kinds]


def _written(kind: str, path: Path, llvm: str, target: Target) -> Path:
    path.write_bytes(backend_of(target).files[kind](llvm, target))
    return path


def _machine_of(text: str, file: str) -> Target:
    """The machine that LLVM IR names, as mlc writes it."""
    triple = re.search(r'^target triple = "([^"]*)"', text, re.MULTILINE)
    cpu = re.search(r'"target-cpu"="([^"]*)"', text)
    if triple is not None and cpu is not None:
        for target in (host_target(), *CPUS):
            if (target.triple, target.cpu_name) == (triple[1], cpu[1]):
                return target
        for target in GPUS:
            if triple[1].startswith("nvptx") and target.sm == cpu[1]:
                return target
    found = "no machine" if triple is None else " ".join([triple[1], cpu[1] if cpu else ""]).strip()
    raise MlcError(f"{file} is for {found}; say --target NAME")
