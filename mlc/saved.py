"""
Compiled functions in files: ``exe.save(path)`` and, in a process that has no compiler,
``mlc.load(path)``.

A file holds the program's code and the support code it runs with, both as objects, the text of the
program before any pass, and what `explain` says. It is code: load what you trust, and nothing else.
Digests find files that are damaged, not files that somebody forged.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import stat
import struct
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, NoReturn, cast

from mlc.artifact import Artifact, packed, typed, unpacked
from mlc.dialects import abi
from mlc.dialects.errors import MlcError
from mlc.dialects.launch import LaunchPlan
from mlc.dialects.signature import EntrySignature, solve, wanted
from mlc.fields import made, shown
from mlc.lazy_dataclass import dataclass
from mlc.runtime.features import FLAGS, lacking
from mlc.runtime.jit import LoadError
from mlc.runtime.returned import Returned, check_apart
from mlc.runtime.support import offer, support_digest
from mlc.version import __version__

if TYPE_CHECKING:
    import numpy as np

MAGIC, FORMAT = b"mlc\0", 1
_HEAD = struct.Struct("<4sHHQ32s")  # magic, format, flags, bytes and digest of the header
_MOST_HEADER_BYTES = 16 << 20
_MOST_TEXT_BYTES = 256 << 20  # a zlib stream of 1 MiB may hold 1 GiB
_ALIGNED = 64
_CODE, _SUPPORT = "code", "support"
TEXTS = ("trace", "explain.txt", "explain.json")


@dataclass(frozen=True)
class Section:
    """Some bytes of a file."""

    name: str
    offset: int
    bytes: int
    sha256: str
    codec: Literal["", "zlib"] = ""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What a file says of itself."""

    compiler: str
    arch: str
    features: tuple[str, ...]
    support: str
    captured: tuple[tuple[str, tuple[int, ...]], ...]
    returned: Returned | None
    sections: tuple[Section, ...]


class Loaded:
    """A function from a file: called with arrays of the types that `signature` says."""

    def __init__(
        self,
        path: Path,
        artifact: Artifact,
        builtin: Callable[..., object],
        captured: Sequence[np.ndarray[Any, Any]],
        returned: Returned | None,
        texts: Mapping[str, bytes],
    ) -> None:
        self.path = path
        self.name = artifact.name
        self.signature: EntrySignature = artifact.signature
        self._builtin = builtin
        self._captured, self._returned = tuple(captured), returned
        self._texts = texts

    def __call__(self, *args: object, **kwargs: object) -> Any:
        """The function's result; TypeError for arguments of other types."""
        given = (*args, *self._captured)
        found: Any = self._builtin(*given, **kwargs)
        return found if self._returned is None else self._returned.of(found, given)

    def explain(self, format: Literal["text", "json"] = "text") -> str:  # noqa: A002 - as users call it
        """What the compiler decided, as it was when the function was saved."""
        if format not in ("text", "json"):
            raise ValueError(f"format {format!r}; expected 'text' or 'json'")
        return self._text("explain.txt" if format == "text" else "explain.json")

    def text(self) -> str:
        """The program before any pass, which `mlc opt` reads."""
        return self._text("trace")

    def _text(self, name: str) -> str:
        opened = zlib.decompressobj()
        try:
            text = opened.decompress(self._texts[name], _MOST_TEXT_BYTES)
            if not opened.eof:
                raise ValueError(f"it does not end within {_MOST_TEXT_BYTES:,} bytes")
            return text.decode()
        except (zlib.error, ValueError) as error:
            raise MlcError(f"{self.path}: damaged in {name}: {error}; save it again") from None

    def __repr__(self) -> str:
        return f"<mlc function {self.name} from {self.path}>"


# write


def save(
    path: str | os.PathLike[str],
    artifact: Artifact,
    *,
    features: Sequence[str],
    support: bytes,
    captured: Sequence[np.ndarray[Any, Any]],
    returned: Returned | None,
    texts: Mapping[str, str],
) -> None:
    """
    Writes a file, all of it or nothing. `features`: LLVM's names of extensions that code may use;
    `support`: the object of support code; `captured`: arrays that calls get behind their arguments;
    `returned`: what is made of the entry's results, if they are not returned themselves.
    """
    said, images = packed(artifact)
    parts = [(f"{_CODE}/{k}", image, "") for k, image in enumerate(images)]
    parts.append((_SUPPORT, support, ""))
    parts += [(f"captured/{k}", x.tobytes(), "") for k, x in enumerate(captured)]
    parts += [(name, zlib.compress(text.encode()), "zlib") for name, text in texts.items()]
    sections, at = list[dict[str, object]](), 0
    for name, content, codec in parts:
        digest = hashlib.sha256(content).hexdigest()
        sections.append(
            {"name": name, "offset": at, "bytes": len(content), "sha256": digest, "codec": codec}
        )
        at += -(-len(content) // _ALIGNED) * _ALIGNED
    header = json.dumps(
        {
            "compiler": __version__,
            "arch": platform.machine() if not isinstance(artifact.host, LaunchPlan) else "cuda",
            "features": [name for name in features if name in FLAGS],
            "support": support_digest(),
            "artifact": said,
            "captured": [
                [x.dtype.name if x.dtype.kind == "V" else x.dtype.str, list(x.shape)]
                for x in captured
            ],
            "returned": None if returned is None else asdict(returned),
            "sections": sections,
        },
        separators=(",", ":"),
    ).encode()
    start = _HEAD.pack(MAGIC, FORMAT, 0, len(header), hashlib.sha256(header).digest()) + header
    _write(Path(path), [_padded(start), *(_padded(content) for _, content, _ in parts)])


def _padded(content: bytes) -> bytes:
    return content + bytes(-len(content) % _ALIGNED)


def _write(path: Path, parts: Sequence[bytes]) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with temporary.open("wb") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


# read


def load(path: str | os.PathLike[str]) -> Loaded:
    """
    The function that ``exe.save(path)`` wrote. MlcError, with what to do, for what is no such file,
    is damaged, was made by another version, or is for another machine.
    """
    where = Path(path)
    if not stat.S_ISREG(where.stat().st_mode):
        raise MlcError(f"{where}: a folder or device; expected a file of exe.save(path)")
    try:
        with where.open("rb") as file:
            return _load(where, file)
    except (LoadError, ValueError, LookupError, TypeError, RecursionError) as error:
        raise MlcError(f"{where}: damaged, or no file of mlc: {error}; save it again") from None


def _load(path: Path, file: BinaryIO) -> Loaded:
    said = _header(path, file)
    artifact_said, sections_said = said.pop("artifact", None), said.pop("sections", ())
    returned = said.pop("returned", None)
    plain = _fields(said)
    plain["sections"] = tuple(made(Section, each) for each in sections_said)
    plain["returned"] = None if returned is None else made(Returned, _fields(returned))
    header = made(Header, plain)
    sections = _sections(path, header, file)
    _check_machine(path, header)
    for name in (*(() if header.arch == "cuda" else (_SUPPORT,)), *TEXTS):
        if name not in sections:
            raise ValueError(f"it has no section {name}")
    images = [data for name, data in sections.items() if name.startswith(f"{_CODE}/")]
    artifact = unpacked(artifact_said, images)
    solve(artifact.signature)
    if isinstance(artifact.host, LaunchPlan) != (header.arch == "cuda"):
        raise ValueError(f"its code is not for {header.arch}")
    if header.arch != "cuda":
        offer(sections[_SUPPORT])
    captured = _captured(header, sections, artifact.signature)
    if header.returned is not None:
        header.returned.check(artifact.signature)
        first = len(artifact.signature.args) - len(captured)
        for k in (x - first for _, x in header.returned.written if x >= first):
            captured[k] = captured[k].copy()  # each call takes it as the last one has left it
    entry = _entry(artifact, len(captured))
    texts = {name: sections[name] for name in TEXTS}
    return Loaded(path, artifact, entry.builtin, captured, header.returned, texts)


def _fields(fields: object) -> dict[str, object]:
    """Fields as JSON has them, of tuples."""
    if not isinstance(fields, dict):
        raise TypeError(f"there is {shown(fields)}, expected fields")
    return {name: typed(value, ()) for name, value in cast("dict[str, object]", fields).items()}


def _header(path: Path, file: BinaryIO) -> dict[str, Any]:
    """What the file says of itself; `file` is then where its sections begin."""
    head = file.read(_HEAD.size)
    if head[:4] != MAGIC or len(head) < _HEAD.size:
        raise MlcError(f"{path}: no file that mlc has saved; expected one of exe.save(path)")
    _, version, _, size, digest = _HEAD.unpack(head)
    if version != FORMAT:
        raise MlcError(
            f"{path}: its format is {version}, this mlc {__version__} reads {FORMAT};"
            " save it again, or load it with the mlc that saved it"
        )
    text = file.read(min(size, _MOST_HEADER_BYTES))
    if len(text) != size or hashlib.sha256(text).digest() != digest:
        raise MlcError(f"{path}: damaged: its header is not what was written; save it again")
    file.seek(-(_HEAD.size + size) % _ALIGNED, os.SEEK_CUR)
    found = json.loads(text)
    if not isinstance(found, dict):
        raise TypeError("its header is no table")
    return cast("dict[str, Any]", found)


def _sections(path: Path, header: Header, file: BinaryIO) -> dict[str, bytes]:
    """Each section's bytes; MlcError where one is cut off or changed."""
    found: dict[str, bytes] = {}
    start = file.tell()
    left, end = os.fstat(file.fileno()).st_size - start, 0
    for section in header.sections:
        if section.offset < end or section.bytes < 0 or section.name in found:
            raise ValueError(f"section {shown(section.name)} overlaps another")
        end = section.offset + section.bytes
        if end > left:
            raise MlcError(f"{path}: cut off in section {section.name}; copy or save it again")
        file.seek(start + section.offset)
        data = file.read(section.bytes)
        if hashlib.sha256(data).hexdigest() != section.sha256:
            raise MlcError(f"{path}: section {section.name} was changed; copy or save it again")
        found[section.name] = data
    return found


def _check_machine(path: Path, header: Header) -> None:
    if header.arch == "cuda":
        return
    of = f"{path}: made by mlc {shown(header.compiler)[1:-1]} for {shown(header.arch)[1:-1]}"
    if header.arch != platform.machine():
        raise MlcError(f"{of}; this machine is {platform.machine()}: compile it for this one")
    if missing := lacking(header.features):
        raise MlcError(
            f"{of} with {', '.join(missing)}, which this machine lacks; compile it with"
            ' target="avx2" or another that both machines have'
        )
    if header.support != support_digest():
        raise MlcError(f"{of}, whose runtime is not that of mlc {__version__}; save it again")


def _captured(
    header: Header, sections: Mapping[str, bytes], signature: EntrySignature
) -> list[np.ndarray[Any, Any]]:
    """The arrays that calls get behind their arguments, which the signature takes last."""
    if len(header.captured) > len(signature.args):
        raise ValueError(f"{len(header.captured)} arrays for {len(signature.args)} arguments")
    found: list[np.ndarray[Any, Any]] = []
    args = signature.args[len(signature.args) - len(header.captured) :]
    for k, ((dtype, shape), arg) in enumerate(zip(header.captured, args, strict=True)):
        if tuple(dim.constant for dim in arg.shape) != shape:
            raise ValueError(f"array {k} is {shown(shape)}, expected {shown(arg.dims)}")
        found.append(_array(sections[f"captured/{k}"], dtype, shape))
    return found


def _array(data: bytes, dtype: str, shape: Sequence[int]) -> np.ndarray[Any, Any]:
    import numpy as np

    from mlc.runtime.entry import dtype_of_ml_dtypes

    late = dtype in abi.ML_DTYPES.values()
    kind = dtype_of_ml_dtypes(dtype) if late else np.dtype(dtype)
    found = np.frombuffer(data, kind).reshape(shape)
    return found.copy() if found.ctypes.data % _ALIGNED else found


def _entry(artifact: Artifact, captured: int) -> Any:
    """What Python calls."""
    from mlc.runtime.sites import raiser

    slow, on_error = _refuse(artifact, captured), raiser(artifact.sites)
    if isinstance(artifact.host, LaunchPlan):
        from mlc.runtime.cuda import gpu_target, load_program

        target = gpu_target()
        if target.isa() != artifact.isa:
            raise MlcError(f"{artifact.name} is for {artifact.isa}, this GPU is {target.isa()}")
        texts = {code.name: code.image.decode() for code in artifact.kernels}
        return load_program(
            artifact.host, texts, artifact.signature, target, slow=slow, on_error=on_error
        )
    from mlc.runtime.entry import load_entry
    from mlc.runtime.lapack import lapack_addresses

    images = [code.image for code in (*artifact.kernels, *artifact.host)]
    asks = any(abi.LIBRARY_SYMBOL.encode() in image for image in images)
    if asks and find_spec("xdsl") is None and lapack_addresses() is None:
        raise MlcError(
            f"{artifact.name} calls np.linalg, and no library of this process has LAPACK; NumPy is"
            " asked by the compiler's packages: pip install mlc-compiler"
        )
    return load_entry(images, artifact.name, artifact.signature, slow=slow, on_error=on_error)


def _refuse(artifact: Artifact, captured: int) -> Callable[..., NoReturn]:
    args = artifact.signature.args
    takes = wanted(artifact.signature, len(args) - captured)
    donated = [k for k, arg in enumerate(args) if arg.donated]

    def refuse(*given: object, **kwargs: object) -> NoReturn:
        for k in donated:
            check_apart(k, given)
        found = [_described(x) for x in given[: len(given) - captured]]
        found += [f"{name}=…" for name in kwargs]
        raise TypeError(f"{artifact.name} takes {takes}, found ({', '.join(found)})")

    return refuse


def _described(given: Any) -> str:
    """An argument's type, with what keeps an array of the right one from being taken."""
    import numpy as np

    name = type(given).__name__
    if not hasattr(given, "dtype") or isinstance(given, np.generic):
        return name
    found = f"{given.dtype}{list(given.shape)}"
    if type(given) is np.ndarray:
        found += "" if given.flags.c_contiguous else " strided"
        found += "" if given.flags.writeable else " read-only"
    return found
