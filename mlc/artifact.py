"""
What a compilation makes, as bytes: the one thing that caches hold, for every kind of machine.

Text of JSON says how the parts hang together, and names code and constants, which follow it as they
are. Nothing is executed to read it.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass
from typing import TYPE_CHECKING, Any, cast

from mlc.dialects import launch
from mlc.dialects.launch import LaunchPlan
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.dialects.sizes import Dim
from mlc.fields import made, shown
from mlc.lazy_dataclass import dataclass
from mlc.runtime.jit import LoadError
from mlc.runtime.sites import Site

if TYPE_CHECKING:
    from xdsl.dialects.builtin import ModuleOp

FORMAT = b"mlc-artifact-1\n"
"""Changes with what the fields below mean."""

SIZE, THREADS, CONSTANT = "size", "threads", "constant"


@dataclass(frozen=True)
class CodeUnit:
    """One LLVM module (D14)."""

    name: str
    text: str


@dataclass(frozen=True)
class Code:
    """One module's code, as its machine takes it: an object file, or PTX."""

    name: str
    image: bytes


@dataclass(frozen=True)
class MemoryPlan:
    """
    The bytes that a call reserves for intermediate values, as a program: (what, numbers) of each
    step, whose numbers are those of earlier steps but for ("size", which of the signature's
    symbols), ("constant", its value) and ("threads",). The last is the result; none: no bytes.
    """

    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()

    def arena_bytes(self, sizes: Sequence[int], threads: int) -> int:
        """The bytes, for these values of the symbols."""
        found: list[int] = []
        for what, numbers in self.steps:
            if what == SIZE:
                found.append(sizes[numbers[0]])
            elif what == THREADS:
                found.append(threads)
            elif what == CONSTANT:
                found.append(numbers[0])
            else:
                found.append(computed(what, [found[k] for k in numbers]))
        return found[-1] if found else 0


def computed(what: str, operands: Sequence[int]) -> int:
    """The number that a step of arithmetic has."""
    return _ARITHMETIC[what](*operands)


def _quotient(a: int, b: int) -> int:
    return a // b


_ARITHMETIC: dict[str, Callable[..., int]] = {
    "arith.addi": operator.add,
    "arith.subi": operator.sub,
    "arith.muli": operator.mul,
    "arith.divui": _quotient,
    "arith.floordivsi": _quotient,
    "arith.minsi": min,
    "arith.maxsi": max,
}


@dataclass(frozen=True, kw_only=True)
class Request:
    """What code is made of, beside the program's loops."""

    name: str
    signature: EntrySignature
    planned: ModuleOp  # for estimates; of a program written as loops these
    fresh: bool  # not even objects from the cache


@dataclass(frozen=True, kw_only=True)
class Built:
    """Code, and what making it took."""

    units: tuple[CodeUnit, ...]  # of which the code was made
    kernels: tuple[Code, ...]
    host: tuple[Code, ...] | LaunchPlan
    emit_s: float  # until the last unit was written
    llvm_s: float  # from then on
    compile_s: tuple[float, ...]  # of each unit, then of what belongs to none
    needs: tuple[str, ...] = ()  # see Artifact


@dataclass(frozen=True, kw_only=True)
class Artifact:
    """A compiled function that is not loaded."""

    name: str  # the entry's
    isa: str  # what the code is for, as `Target.isa` says it
    signature: EntrySignature
    sites: tuple[Site, ...]  # that may fail at run time, in the order of their numbers from 1
    kernels: tuple[Code, ...]
    host: tuple[Code, ...] | LaunchPlan  # the entry and its shim, or what the host interprets
    memory: MemoryPlan
    needs: tuple[str, ...] = ()  # extensions, by LLVM's names, of instructions that multiply in it

    def pack(self) -> bytes:
        """The artifact as bytes."""
        plain, images = packed(self)
        said = json.dumps(plain, separators=(",", ":"))
        head = json.dumps([len(said.encode()), *map(len, images)])
        return b"".join([FORMAT, head.encode(), b"\n", said.encode(), *images])

    @staticmethod
    def unpack(data: bytes) -> Artifact:
        """What was packed; LoadError for bytes of another format."""
        try:
            if not data.startswith(FORMAT):
                raise ValueError("it does not begin with the format's name")
            head, _, rest = data[len(FORMAT) :].partition(b"\n")
            parts: list[bytes] = []
            start = 0
            for size in json.loads(head):
                parts.append(rest[start : start + size])
                start += size
            if start != len(rest):
                raise ValueError("its parts do not have the sizes that it names")
            return unpacked(json.loads(parts[0]), parts[1:])
        except (ValueError, LookupError, TypeError, RecursionError) as error:
            raise LoadError(f"no artifact of mlc: {error}") from None


def packed(artifact: Artifact) -> tuple[object, list[bytes]]:
    """An artifact as JSON has it, and the bytes that it names by their numbers."""
    images: list[bytes] = []
    return _plain(artifact, images), images


def unpacked(plain: object, images: Sequence[bytes]) -> Artifact:
    """The opposite; ValueError or TypeError where it is none, RecursionError of what is deep."""
    found = typed(plain, images)
    if not isinstance(found, Artifact):
        raise TypeError(f"it holds {type(found).__name__}")
    return found


_TYPES: dict[str, type[object]] = {
    kind.__name__: kind
    for kind in (
        *(Artifact, Code, MemoryPlan, Site, EntrySignature, ArgSpec, ResultSpec, LaunchPlan),
        *(launch.Compute, launch.Reserve, launch.Launch, launch.ReadNumber, launch.WriteNumber),
        *(launch.Fail, launch.Library, launch.Branch, launch.Loop, launch.While, launch.TensorMap),
    )
}
_KIND, _IMAGE, _DIM = "$kind", "$image", "$dim"  # no field has such a name


def _plain(value: object, images: list[bytes]) -> object:
    """A value as JSON has it; bytes go to `images`."""
    if isinstance(value, tuple):
        return [_plain(x, images) for x in cast("tuple[object, ...]", value)]
    if isinstance(value, bytes):
        images.append(value)
        return {_IMAGE: len(images) - 1}
    if isinstance(value, Dim):
        return {_DIM: str(value)}
    if is_dataclass(value):
        name = type(value).__name__
        assert _TYPES[name] is type(value)
        return {_KIND: name} | {
            field.name: _plain(getattr(value, field.name), images) for field in fields(value)
        }
    assert value is None or isinstance(value, str | int)
    return value


def typed(value: object, images: Sequence[bytes]) -> object:
    """The opposite of `_plain`: TypeError for objects with fields of other kinds."""
    if isinstance(value, list):
        return tuple(typed(x, images) for x in cast("list[object]", value))
    if isinstance(value, dict):
        given = cast("dict[str, Any]", value)
        if _IMAGE in given:
            return _image(given[_IMAGE], images)
        if _DIM in given:
            if not isinstance(given[_DIM], str):
                raise TypeError(f"a size is {shown(given[_DIM])}, expected its text")
            return Dim.of(given[_DIM])
        kind = given.get(_KIND)
        if not isinstance(kind, str) or kind not in _TYPES:
            raise TypeError(f"a part is of the kind {shown(kind)}, which is not known")
        return made(_TYPES[kind], {k: typed(x, images) for k, x in given.items() if k != _KIND})
    return value


def _image(number: object, images: Sequence[bytes]) -> bytes:
    """The bytes of a number."""
    if type(number) is not int or not 0 <= number < len(images):
        raise ValueError(f"part {shown(number)} of {len(images)} is named")
    return images[number]
