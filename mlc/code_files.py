"""Code of a program, or of LLVM IR that mlc wrote, in files."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mlc.backends import backend_of
from mlc.c_files import CProgram, Team, Weights
from mlc.command_line import UsageError, named
from mlc.dialects.errors import MlcError
from mlc.dialects.target import Target
from mlc.dialects.target.known import CPUS, GPUS
from mlc.levels import Levels
from mlc.runtime.llvm import LLVMTextError
from mlc.runtime.probe import host_target
from mlc.text import read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mlc.cuda_files import CudaProgram

KINDS = {
    "ll": ".ll", "asm": ".s", "obj": ".o", "ptx": ".ptx", "header": ".h", "a": ".a", "so": ".so",
    "c": ".c",
}  # fmt: skip


def kinds_of(text: str | None, target: Target) -> list[str]:
    """``ll,asm`` as kinds of code that a target has; UsageError or MlcError where it has not."""
    if text is None:
        return [next(iter(backend_of(target).files))]
    kinds = text.split(",")
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"--emit {kind}: expected some of {', '.join(KINDS)}")
        if kind not in (*backend_of(target).files, *backend_of(target).for_c):
            of_gpus = kind in ("ptx", "c")
            wanted = "a GPU, such as --target cuda:sm_90a" if of_gpus else "a CPU"
            raise MlcError(f"--emit {kind} needs {wanted}; found {target.name}")
    return kinds


def build_program(
    program: Levels,
    emit: str | None,
    output: str | None,
    *,
    team: Team = "1",
    captured: Sequence[NDArray[Any]] = (),
    weights: Weights = "arguments",
    lapack: str | None = None,
) -> list[Path]:
    """
    Writes a program as the kinds of code asked for, and says where: LLVM IR and assembly as Python
    would run them, all others as a program for C (see `CProgram`).
    """
    target = program.options.target
    kinds = kinds_of(emit, target)
    places = _places(kinds, program.name, output)
    known, for_c = backend_of(target).for_c, None
    if "c" in known and set(known) & set(kinds):
        for_c = _for_cuda(program, team, captured, weights)
    elif set(known) & set(kinds):
        for_c = CProgram(program, team, captured=captured, weights=weights, lapack=lapack)
        if for_c.in_file:
            places.append(("weights", places[0][1].with_name(f"{program.name}.weights")))
    for kind, path in places:
        if for_c is not None and kind in ("weights", *known):
            path.write_bytes(for_c.written(kind, path.name))
        else:
            _written(kind, path, program.llvm(), target)
    return [path for _, path in places]


def _for_cuda(
    program: Levels, team: Team, captured: Sequence[NDArray[Any]], weights: Weights
) -> CudaProgram:
    """The program for C of a GPU."""
    from mlc.cuda_files import CudaProgram

    if team != "1":
        raise UsageError(f"--threads {team}: a program for a GPU has one thread on the host")
    if captured and weights != "arguments":
        raise UsageError("the weights of a program for a GPU are arguments: --weights arguments")
    return CudaProgram(program)


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
