"""
Programs for C: one object without a runtime, an archive or a shared library of it, and a header
that says what to call.

The object has one worker, allocates nothing and asks for no symbol; with `team`, its workers are
threads of its own, or those of OpenMP. SOURCE of the archive: System V ABI, edition 4.1, chapter 7.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from xdsl.dialects.builtin import DictionaryAttr, StringAttr
from xdsl.dialects.func import FuncOp

from mlc.c_header import Header, in_c, is_taken
from mlc.c_machine import CPUID, PLAIN, check_text
from mlc.cached_property import cached_property
from mlc.dialects import abi, par
from mlc.dialects.errors import MlcError
from mlc.dialects.lapack import LapackOp, is_instead
from mlc.dialects.program import UNIT, entry_function, result_names
from mlc.dialects.signature import EntrySignature
from mlc.dialects.target.attribute import as_cpu
from mlc.dialects.target.intrinsics import extensions_in
from mlc.error_sites import sites_of
from mlc.levels import Levels
from mlc.lowering.emit import joined
from mlc.lowering.emit.memref import bytes_text
from mlc.memory import memory_plan_of
from mlc.runtime.features import of_vectors
from mlc.runtime.linker import ObjectFile
from mlc.runtime.llvm import compile_object
from mlc.runtime.shared_object import shared_object
from mlc.runtime.support import spelled_for

Team = Literal["1", "pthread", "openmp"]
Weights = Literal["arguments", "freeze", "file"]
MOST_FROZEN_BYTES = 16 << 20
"""Of weights in the object; more are in a file beside it."""

_FOLDER = Path(__file__).parent
_ALIGNED = 64
_PTHREAD = ("create", "getspecific", "join", "key_create", "key_delete", "setspecific")
_ASKED: dict[Team, tuple[str, ...]] = {
    "1": (),
    "pthread": ("memset", "syscall", *(f"pthread_{name}" for name in _PTHREAD)),
    "openmp": (
        *("memset", "syscall"),
        *("GOMP_parallel", "omp_get_num_threads", "omp_get_thread_num"),
    ),
}
"""The symbols that an object may ask for."""
_NEEDED: dict[Team, tuple[str, ...]] = {"1": (), "pthread": (), "openmp": ("libgomp.so.1",)}
"""The libraries that a shared one asks for, beside those that every process has."""


class CProgram:
    """
    A program for a processor, as C sees it; `captured`: arrays that it read from outside, the last
    of its arguments, which become part of it unless `weights` are "arguments". `lapack`: how the
    library that it will be linked with spells dgesv, as "{}_", or what it puts behind it. MlcError
    where C cannot have it.
    """

    def __init__(
        self,
        program: Levels,
        team: Team = "1",
        *,
        captured: Sequence[np.ndarray[Any, Any]] = (),
        weights: Weights = "arguments",
        lapack: str | None = None,
    ) -> None:
        self.target = target = as_cpu(program.options.target, "a program for C")
        self.program = program
        self.team: Team = team
        self.name = checked_name(program.name)
        self.signature: EntrySignature = program.signature
        self.loops = program.loops()
        self.units = program.units()
        texts = [unit.text for unit in self.units]
        self.routines = self._routines(lapack)
        self.needs = (*of_vectors(target.arch, target.vector_bits), *extensions_in(texts, target))
        if target.name == "host":  # whatever this machine has
            known = (x[1:] for x in target.features.split(",") if x.startswith("+"))
            self.needs = tuple(dict.fromkeys([*self.needs, *(x for x in known if x in CPUID)]))
        frozen = () if weights == "arguments" else captured
        self.frozen = [np.ascontiguousarray(x) for x in frozen]
        size = sum(x.nbytes for x in self.frozen)
        self.in_file = bool(self.frozen) and (weights == "file" or size > MOST_FROZEN_BYTES)

    def _routines(self, lapack: str | None) -> dict[str, str]:
        """What it calls of LAPACK -> as that is spelled."""
        called, python = set[str](), False
        for op in self.loops.walk():
            if isinstance(op, LapackOp):
                called.add(op.routine.data)
            python = python or (isinstance(op, par.LibraryOp) and not is_instead(op))
        if python:
            raise MlcError(
                f"{self.name} tells Python something while it runs, which an object for C cannot"
            )
        if not called:
            return {}
        if lapack is None:
            raise MlcError(
                f"{self.name} calls np.linalg; say how the LAPACK that it will be linked with"
                " spells dgesv: --lapack _ for dgesv_, --lapack 'scipy_{}_64_' …"
            )
        spelled = lapack if "{}" in lapack else f"{{}}{lapack}"
        return {x: spelled.format(x) for x in abi.LAPACK if x in called}

    # files ----------------------------------------------------------------------------------------

    def written(self, kind: str, file: str) -> bytes:
        """One kind of file, whose name is `file`."""
        if kind == "header":
            return self.header().encode()
        if kind == "weights":
            return b"".join(x.tobytes() + bytes(_room(x) - x.nbytes) for x in self.frozen)
        if kind == "obj":
            return self.object
        if kind == "a":
            return archive({f"{self.name}.o": self.object})
        image = ObjectFile.read(self.object)
        exports = sorted(x.name for x in image.defined())
        return shared_object([image], exports, file, _NEEDED[self.team])

    @cached_property
    def object(self) -> bytes:
        """The object. MlcError where it asks for a symbol that it may not."""
        image = compile_object(self.llvm(), self.target)
        known = (*_ASKED[self.team], *self.routines.values())
        asked = set(ObjectFile.read(image).undefined()) - set(known)
        if asked:
            expected = ", ".join(known) or "nothing"
            raise MlcError(
                f"{self.name}: the object asks for {', '.join(sorted(asked))}; expected {expected}"
            )
        return image

    # code -----------------------------------------------------------------------------------------

    def llvm(self) -> str:
        """The program as one module, whose symbols are the entry, the check and those of a pool."""
        *kernels, (_, entry) = [(unit.name, unit.text) for unit in self.units]
        kernels = [
            (name, text.replace("\ndefine ", "\ndefine internal ")) for name, text in kernels
        ]
        first = f"define i32 @{self.name}("
        assert first in entry
        entry = entry.replace(first, f"define internal i32 @{self.name}.entry(")
        check = check_text(f"{self.name}_check", self.target.arch, self.needs)
        return joined(
            [
                *kernels,
                (f"{self.name}.entry", entry),
                *self._frozen(),
                *self._workers(),
                *self._lapack(),
                ("for C", self._text("lowering/c_entry.ll")),
                ("check", check),
            ]
        )

    def _workers(self) -> Iterator[tuple[str, str]]:
        """Who does the work."""
        yield "stops", self._text("runtime/stops.ll")
        if self.team == "1":
            yield "workers", self._text("lowering/c_serial.ll")
            return
        yield "team", self._text("lowering/c_team.ll")
        yield "barrier", _internal(self._text("runtime/barrier.ll"))
        if self.team == "pthread":
            yield "workers", self._text("lowering/c_pthread.ll")

    def _lapack(self) -> Iterator[tuple[str, str]]:
        """Calls of LAPACK."""
        if not self.routines:
            return
        names = [self.routines.get(x) for x in abi.LAPACK]
        table = ", ".join(f"ptr @{x}" if x else "ptr null" for x in names)
        lines = [f"@mlc_lapack = internal constant [{len(names)} x ptr] [{table}]"]
        for routine, name in self.routines.items():
            takes = abi.LAPACK[routine]
            passed = ", ".join(["ptr"] * (len(takes) + 1) + ["i64"] * takes.count("c"))
            lines.append(f"declare void @{name}({passed})")
        yield "lapack", "\n".join([*lines, self._text("lowering/c_lapack.ll")])

    def _text(self, file: str) -> str:
        """LLVM IR of ours, for this program."""
        size = abi.CTX_TEAM if self.team == "1" else abi.CTX_BYTES
        text = (_FOLDER / file).read_text()
        for word, meant in (
            ("CALLED", f"@{self.name}.{'whole' if self.frozen else 'entry'}"),
            ("@ENTRY", f"@{self.name}"),
            ("PLAIN", PLAIN[self.target.arch]),
            ("BYTES", str(size)),
        ):
            text = text.replace(word, meant)
        return spelled_for(self.target.arch, text)

    def _frozen(self) -> Iterator[tuple[str, str]]:
        """The entry of all arguments from the one of those that the caller gives."""
        if not self.frozen:
            return
        given = len(self.signature.args) - len(self.frozen)
        taken = "ptr %ctx, ptr %args, ptr %sizes, ptr %outs"
        lines = [
            f"define internal i32 @{self.name}.whole({taken}) {{",
            f"  %all = alloca [{len(self.signature.args)} x ptr], align 8",
        ]
        constants = list[str]()
        for k in range(given + self.in_file):
            lines += [
                f"  %from{k} = getelementptr ptr, ptr %args, i64 {k}",
                f"  %arg{k} = load ptr, ptr %from{k}, align 8",
            ]
        values = [f"%arg{k}" for k in range(given)]
        at = 0
        for k, x in enumerate(self.frozen):
            if self.in_file:
                lines.append(f"  %weight{k} = getelementptr i8, ptr %arg{given}, i64 {at}")
                values.append(f"%weight{k}")
                at += _room(x)
            else:
                constants.append(_constant(f"@{self.name}.weight{k}", x))
                values.append(f"@{self.name}.weight{k}")
        for k, value in enumerate(values):
            lines += [
                f"  %to{k} = getelementptr ptr, ptr %all, i64 {k}",
                f"  store ptr {value}, ptr %to{k}, align 8",
            ]
        passed = "ptr %ctx, ptr %all, ptr %sizes, ptr %outs"
        lines += [f"  %status = call i32 @{self.name}.entry({passed})", "  ret i32 %status", "}"]
        yield "weights", "\n".join([*constants, *lines, ""])

    # header ---------------------------------------------------------------------------------------

    def header(self) -> str:
        """The header for C99 and C++."""
        function = entry_function(self.program.at_trace())
        names, units = c_arguments(function, self.signature)
        workers = {"1": "one thread", "pthread": "threads of its own", "openmp": "OpenMP's threads"}
        needs = f", which needs {', '.join(self.needs)}" if self.needs else ""
        asks = f"; calls {', '.join(self.routines.values())}" if self.routines else ""
        about = f"{self.target.name} on {self.target.arch}{needs}; {workers[self.team]}{asks}"
        return Header(
            name=self.name,
            about=about,
            signature=self.signature,
            names=names,
            results=tuple(map(in_c, result_names(function))),
            units=units,
            frozen=len(self.frozen),
            weights=sum(map(_room, self.frozen)) if self.in_file else 0,
            memory=memory_plan_of(self.loops),
            sites=sites_of(self.loops),
            team=self.team,
        ).text()


def checked_name(name: str) -> str:
    """The name of a program. MlcError where it is none in C."""
    named = re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and name != "main"
    if not named or is_taken(name):
        raise MlcError(f"{name!r} is no name in C; give the function another one")
    return name


def c_arguments(
    function: FuncOp, signature: EntrySignature
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the arguments for C, and what they count."""
    attributes = function.arg_attrs.data if function.arg_attrs else ()
    names, units = list[str](), list[str]()
    for k in range(len(signature.args)):
        said = attributes[k] if k < len(attributes) else DictionaryAttr({})
        name = in_c(_said(said, "mlc.name")) or f"x{k}"
        while name in names or name in signature.symbols:
            name += "_"
        names.append(name)
        units.append(_said(said, UNIT))
    return tuple(names), tuple(units)


def _internal(text: str) -> str:
    """LLVM IR whose functions nobody else sees."""
    return re.sub(r"^define (?!internal)", "define internal ", text, flags=re.M)


def _said(attributes: DictionaryAttr, key: str) -> str:
    found = attributes.data.get(key)
    return found.data if isinstance(found, StringAttr) else ""


def _room(x: np.ndarray[Any, Any]) -> int:
    """Bytes of an array in the file of weights, where the next one is aligned too."""
    return -(-x.nbytes // _ALIGNED) * _ALIGNED


def _constant(name: str, x: np.ndarray[Any, Any]) -> str:
    """LLVM IR of an array."""
    return f"{name} = internal constant {bytes_text(x.tobytes())}, align {_ALIGNED}"


# the archive


def archive(members: Mapping[str, bytes]) -> bytes:
    """Objects as a library that linkers read, with the table of what they define."""
    body, places = b"", dict[str, int]()
    symbols: list[tuple[str, str]] = []
    for name, image in members.items():
        places[name] = len(body)
        body += _member(f"{name[:15]}/", image)
        symbols += [(x.name, name) for x in ObjectFile.read(image).defined()]
    names = b"".join(symbol.encode() + b"\0" for symbol, _ in symbols)
    size = 4 + 4 * len(symbols) + len(names)
    start = 8 + 60 + size + size % 2
    table = struct.pack(">I", len(symbols))
    table += b"".join(struct.pack(">I", start + places[name]) for _, name in symbols)
    return b"!<arch>\n" + _member("/", table + names) + body


def _member(name: str, content: bytes) -> bytes:
    head = f"{name:<16}{0:<12}{0:<6}{0:<6}{644:<8}{len(content):<10}`\n".encode()
    return head + content + b"\n" * (len(content) % 2)
