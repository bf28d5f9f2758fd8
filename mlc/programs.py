"""
What a `mlc` command line names: FILE.py, FILE.py:function, FILE.mlir (text of our own dialects, or
of StableHLO) or FILE.onnx, as a program at any level.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

from xdsl.dialects.builtin import IntegerAttr, ModuleOp, StringAttr

from mlc.backends import Level
from mlc.command_line import UsageError, arguments_of
from mlc.dialects.errors import MlcError
from mlc.dialects.program import entry_function
from mlc.dialects.target.attribute import ATTRIBUTE, TargetAttr, target_of
from mlc.frontend.call.compile import Compiled, settings_of
from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.call.lowered import Lowered, options_of
from mlc.frontend.importers.mlir import read_module
from mlc.knobs import KnobError
from mlc.lazy_dataclass import dataclass
from mlc.levels import Levels
from mlc.options import Options
from mlc.parsers import FILES
from mlc.passes.plan.tiling.choose_tiles import LIMIT
from mlc.text import read_text

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from mlc.passes.report.explain.edges import Line

AnyCompiled = Compiled[..., Any]
Given = Mapping[str, object]
"""Options of `mlc.compile` that the command line says, in place of the program's own."""


def split(file: str) -> tuple[Path, str | None]:
    """``FILE.py:function`` in its parts; MlcError where there is no such file."""
    path, colon, function = file.rpartition(":")
    if not colon or not path.endswith(".py"):
        path, function = file, ""
    found = Path(path)
    if found.is_dir():
        raise MlcError(f"{path} is a folder; expected {FILES}")
    if not found.exists():
        raise MlcError(f"{path}: no such file; expected {FILES}")
    if found.suffix not in (".py", ".mlir", ".onnx"):
        reader = "; mlc build reads FILE.ll" if found.suffix == ".ll" else ""
        raise MlcError(f"{path}: expected a file that ends in .py, .mlir or .onnx{reader}")
    return found, function or None


@dataclass(frozen=True)
class Opened:
    """A program named on the command line, at every level."""

    levels: Levels
    lowered: Lowered | None = None  # of a Python function

    @property
    def captured(self) -> Sequence[NDArray[Any]]:
        """The arrays that it reads from outside, the last of its arguments."""
        return () if self.lowered is None else self.lowered.captured

    def check_contract(self) -> None:
        """ContractError where the program does not keep what its function promises."""
        if self.lowered is not None:
            self.lowered.check_contract()


def open_program(file: str, spec: str | None, given: Given, weights: str = "constants") -> Opened:
    """The program of a command line; `weights`: see `load_function`."""
    path, function = split(file)
    if not is_module(path):
        return _lowered(path, load_function(path, function, given, weights), spec)
    if spec is not None:
        raise UsageError(f"--spec: {spec!r}; {path} says the types of its arguments itself")
    module, signature = read_module(path)
    options = options_of_module(module, given)
    name = entry_function(module).sym_name.data
    return Opened(Levels(None, name, signature, options, {}, fresh=module))


_STABLEHLO = re.compile(rb"^[^/\n]*\b(?:stablehlo|chlo|vhlo)\.\w", re.MULTILINE)


def is_module(path: Path) -> bool:
    """Whether a file holds a module of our own dialects, and not of StableHLO."""
    return path.suffix == ".mlir" and not _STABLEHLO.search(path.read_bytes())


def shown(levels: Levels, level: str, unit: str | None) -> str:
    """
    The program at a level, or as it was traced or read, without the figures of this host. `unit`:
    one LLVM module alone.
    """
    if level == "trace":
        return f"{levels.traced}\n"
    if level == "code":
        return levels.llvm(unit)
    if level == "stablehlo":
        return levels.text(level)
    return portable_text(levels.at(cast("Level", level)))


def portable_text(module: ModuleOp) -> str:
    """The text of a module, which nobody else uses, without the figures of this host."""
    if target_of(module).name == "host":
        del module.attributes[ATTRIBUTE]
    return str(module) + "\n"


def options_of_module(module: ModuleOp, given: Given, *, runs: bool = False) -> Options:
    """What the command line says, else what the module says, else the environment."""
    target, numerics, limit = (module.attributes.get(a) for a in (ATTRIBUTE, "mlc.numerics", LIMIT))
    own: dict[str, object] = {}
    if isinstance(target, TargetAttr):
        own["target"] = "host"  # replaced below: the module may say figures of its own
    if isinstance(numerics, StringAttr):
        own["numerics"] = numerics.data
    if isinstance(limit, IntegerAttr):
        own["peak_bytes"] = limit.value.data
    options = options_of(settings_of({**own, **given}), runs=runs)
    if isinstance(target, TargetAttr) and "target" not in given:
        return replace(options, target=target.data)
    return options


# Python files


def load_function(
    path: Path, name: str | None, given: Given, weights: str = "constants"
) -> AnyCompiled:
    """
    The compiled function called `name` of a file, or the only one there is, with its options but
    for those given; the model of FILE.onnx, whose `weights` are what `mlc.onnx.load` says, or of
    StableHLO in FILE.mlir.
    """
    if path.suffix == ".onnx":
        from mlc.frontend.importers import onnx

        if find_spec("onnx") is None:
            raise MlcError(f"{path}: models need the extra onnx: pip install 'mlc-compiler[onnx]'")
        return onnx.load(path, weights=cast("onnx.Weights", weights)).compiled(**given)
    if path.suffix == ".mlir":
        from mlc.frontend.importers import stablehlo

        text = read_text(str(path), "StableHLO")
        return stablehlo.load(text, name=str(path)).compiled(**given)
    if name is None:
        found = _compiled_functions(path)
        if len(found) != 1:
            listed = ", ".join(found) or "none"
            raise MlcError(
                f"{path} has {len(found)} compiled functions ({listed});"
                f" expected {path}:function to name one"
            )
        return next(iter(found.values())).with_options(**given)
    module = _imported(path)
    value = getattr(module, name, None)
    if isinstance(value, Compiled):
        return cast("AnyCompiled", value).with_options(**given)
    if not callable(value):
        known = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise MlcError(f"{path} has no function {name!r}{hint}")
    return cast("AnyCompiled", compile_function(value)).with_options(**given)


def _lowered(path: Path, function: AnyCompiled, spec: str | None) -> Opened:
    """The function, traced for the types of a command line; MlcError where it cannot be."""
    given, named = arguments_of(path, function.__mlc_function__(), spec)
    try:
        found = function.lower(*given, **named)
        return Opened(found.levels, found)
    except (MlcError, KnobError):
        raise
    except Exception as error:  # noqa: BLE001 - the user's function fails when traced: say where
        raise MlcError(_last_user_line(error, path)) from None


def _last_user_line(error: Exception, path: Path) -> str:
    """The error, with the line of the user's file at which it arose."""
    shown = traceback.TracebackException.from_exception(error)
    message = f"{type(error).__name__}: {error}"
    lines = [f for f in shown.stack if Path(f.filename).resolve() == path.resolve()]
    if not lines:
        return f"{path}: {message}"
    return f"{path}:{lines[-1].lineno}: {message}\n  {lines[-1].line}"


def program_at(line: Line) -> str:
    """
    The program that a line belongs to, as `open_program` takes it: the compiled function around
    it, or the only one of its file.
    """
    path, _ = split(line.file)
    if path.suffix != ".py":
        return line.file
    found = _compiled_functions(path)
    if len(found) == 1:
        return f"{path}:{next(iter(found))}"
    for name, value in found.items():
        lines, first = inspect.getsourcelines(value.__mlc_function__())
        if first <= line.line < first + len(lines):
            return f"{path}:{name}"
    listed = ", ".join(found) or "none"
    raise MlcError(
        f"{line}: this line is in none of the compiled functions of the file ({listed});"
        f" say --of {path}:function"
    )


def _compiled_functions(path: Path) -> dict[str, AnyCompiled]:
    """The compiled functions of a file, by name."""
    values = vars(_imported(path)).items()
    return {k: cast("AnyCompiled", v) for k, v in values if isinstance(v, Compiled)}


def _imported(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    sys.path.insert(0, str(path.resolve().parent))
    try:
        spec.loader.exec_module(module)
    except MlcError:
        raise
    except Exception as error:  # noqa: BLE001 - the user's file cannot be imported: say how
        print_traceback(error, path)
        raise MlcError(f"{path} cannot be imported: {type(error).__name__}: {error}") from None
    finally:
        sys.path.pop(0)
    return module


def print_traceback(error: Exception, path: Path) -> None:
    """The traceback from the user's first frame on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)
