"""
What a `mlc` command line names: FILE.py, FILE.py:function or FILE.mlir, with types or inputs, as a
program at any level.
"""

from __future__ import annotations

import argparse
import difflib
import importlib.util
import inspect
import re
import runpy
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from numpy.typing import NDArray
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from mlc import knobs
from mlc.dialects.dims import Shape, as_tensor, shape_of
from mlc.dialects.dtypes import DType, dtype_of, named_dtype
from mlc.dialects.errors import MlcError
from mlc.dialects.places import donations_of
from mlc.dialects.program import entry_function
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.dialects.target import CpuTarget, GpuTarget
from mlc.dialects.target.attribute import ATTRIBUTE
from mlc.executable import cpu_of
from mlc.frontend.compile import Compiled
from mlc.frontend.compile import compile as compile_function
from mlc.frontend.spec import TensorSpec
from mlc.levels import Levels
from mlc.opt import UsageError, named, read_text
from mlc.passes.explain.explanation import Explanation
from mlc.passes.plan.form_kernels import general_arguments, symbols_of
from mlc.pipeline import Level, Options, compile_module, level_of
from mlc.runtime.llvm import compile_object
from mlc.text import check_program, parse_text, verify_text

if TYPE_CHECKING:
    from mlc.passes.explain.edges import Line

Array = NDArray[Any]
AnyCompiled = Compiled[..., Any]
KINDS = {"ll": ".ll", "asm": ".s", "obj": ".o", "ptx": ".ptx"}
ASSUMED_SIZE = 8  # of a symbol that --random has no value for


@dataclass
class Opened:
    """A program named on the command line."""

    levels: Levels

    def text(self, name: str) -> str:
        """The program at a level, or as it was traced or read, without the figures of this host."""
        if name == "trace":
            return f"{self.levels.traced}\n"
        if name == "code":
            return self.levels.text("code")
        module = self.levels.at(cast("Level", name))
        if self.levels.options.target.name == "host":
            del module.attributes[ATTRIBUTE]
        return str(module) + "\n"

    def explain(self, sizes: Mapping[str, int]) -> Explanation:
        """Kernels, costs, buffers, memory, remarks."""
        return self.levels.explain(sizes)


def split(file: str) -> tuple[Path, str | None]:
    """``FILE.py:function`` in its parts; MlcError where there is no such file."""
    path, colon, function = file.rpartition(":")
    if not colon or not path.endswith(".py"):
        path, function = file, ""
    found = Path(path)
    if not found.is_file():
        raise MlcError(f"{path}: no such file; expected FILE.py, FILE.py:function or FILE.mlir")
    if found.suffix not in (".py", ".mlir"):
        raise MlcError(f"{path}: expected a file that ends in .py or .mlir")
    return found, function or None


def open_program(file: str, spec: str | None, target: str | None) -> Opened:
    """The program of a command line, for a target ("host" where none is given)."""
    path, function = split(file)
    settings = knobs.current()
    options = Options(
        target=named(target or settings.target or "host").data, fusion=settings.fusion
    )
    if path.suffix == ".mlir":
        module, signature = read_module(path)
        name = entry_function(module).sym_name.data
    else:
        compiled = load_function(path, function)
        arguments = _arguments(compiled, path, spec)
        try:
            lowered = compiled.lower(*arguments)
        except MlcError:
            raise
        except Exception as error:  # noqa: BLE001 - the user's function fails when traced: say where
            raise MlcError(_last_user_line(error, path)) from None
        module, signature, name = lowered.module, lowered.signature, lowered.name
    return Opened(Levels(str(module), name, signature, options, {}, fresh=module))


# MLIR files


def read_module(path: Path) -> tuple[ModuleOp, EntrySignature]:
    """A module at the tensor or plan level, verified, and the signature of its function."""
    text = read_text(str(path))
    module = parse_text(text, str(path))
    verify_text(module, text, str(path))
    if level_of(module) == "loops":
        raise MlcError(
            f"{path} is at the loops level, where arguments have no shapes any more;"
            " expected the tensor or the plan level (mlc opt reads all of them)"
        )
    check_program(module, text, str(path))
    try:
        return module, signature_of(entry_function(module))
    except ValueError as error:
        raise MlcError(f"{path}: {error}") from None


def signature_of(function: FuncOp) -> EntrySignature:
    """The entry's signature, from the types of a tensor-level function."""
    inputs, outputs = function.function_type.inputs, function.function_type.outputs

    def parts(kind: Attribute) -> tuple[str, Shape]:
        tensor = as_tensor(kind)
        return dtype_of(tensor.element_type).name, shape_of(tensor)

    general, donated = general_arguments(function), donations_of(function)
    replaced = {result: argument for argument, result in donated.items()}
    return EntrySignature(
        args=tuple(
            ArgSpec("array", *parts(t), "general" if k in general else "c", k in donated)
            for k, t in enumerate(inputs)
        ),
        results=tuple(ResultSpec(*parts(t), replaced.get(k)) for k, t in enumerate(outputs)),
        symbols=symbols_of(function),
    )


# Python files


def run_script(path: Path, arguments: Sequence[str]) -> int:
    """Runs the file as Python does, as `__main__`; the exit status."""
    argv, first = sys.argv, sys.path[0]
    sys.argv, sys.path[0] = [str(path), *arguments], str(path.resolve().parent)
    try:
        runpy.run_path(str(path), run_name="__main__")
    except SystemExit as stop:
        if stop.code is None or isinstance(stop.code, int):
            return stop.code or 0
        print(stop.code, file=sys.stderr)
        return 1
    except MlcError as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 1
    except Exception as error:  # noqa: BLE001 - the user's program failed: say how, as Python does
        _print_traceback(error, path)
        return 1
    finally:
        sys.argv, sys.path[0] = argv, first
    return 0


def _print_traceback(error: Exception, path: Path) -> None:
    """The traceback from the user's first frame on."""
    frames = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename != str(path):
        frames = frames.tb_next
    traceback.print_exception(type(error), error, frames)


def _last_user_line(error: Exception, path: Path) -> str:
    """The error, with the line of the user's file at which it arose."""
    shown = traceback.TracebackException.from_exception(error)
    message = "".join(shown.format_exception_only()).strip()
    lines = [f for f in shown.stack if Path(f.filename).resolve() == path.resolve()]
    if not lines:
        return f"{path}: {message}"
    return f"{path}:{lines[-1].lineno}: {message}\n  {lines[-1].line}"


def load_function(path: Path, name: str | None) -> AnyCompiled:
    """The compiled function called `name` of a file, or the only one there is."""
    if name is None:
        found = _compiled_functions(path)
        if len(found) != 1:
            listed = ", ".join(found) or "none"
            raise MlcError(
                f"{path} has {len(found)} compiled functions ({listed});"
                f" expected {path}:function to name one"
            )
        return next(iter(found.values()))
    module = _imported(path)
    value = getattr(module, name, None)
    if isinstance(value, Compiled):
        return cast("AnyCompiled", value)
    if not callable(value):
        known = [k for k, v in vars(module).items() if callable(v) and not k.startswith("_")]
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"; did you mean {near[0]}?" if near else ""
        raise MlcError(f"{path} has no function {name!r}{hint}")
    return cast("AnyCompiled", compile_function(value))


def program_at(line: Line) -> str:
    """
    The program that a line belongs to, as `open_program` takes it: the compiled function around
    it, or the only one of its file.
    """
    path, _ = split(line.file)
    if path.suffix == ".mlir":
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


def inputs_of(levels: Levels, sizes: Mapping[str, int]) -> list[Array]:
    """Random inputs for a program on this machine's CPU; MlcError for another target."""
    name = levels.options.target.name
    if name != "host":
        raise MlcError(f"--measure runs on this machine's CPU; found --target {name}")
    types = [(named_dtype(a.dtype), a.shape) for a in levels.signature.args]
    return _random(types, levels.known_sizes(sizes), seed=0)


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
        _print_traceback(error, path)
        raise MlcError(f"{path} cannot be imported: {type(error).__name__}: {error}") from None
    finally:
        sys.path.pop(0)
    return module


def _arguments(compiled: AnyCompiled, path: Path, spec: str | None) -> list[object]:
    """Types of the arguments: from --spec, else from the annotations."""
    if spec is not None:
        return [*parse_specs(spec)]
    function = compiled.__mlc_function__()
    found = [p.annotation for p in inspect.signature(function, eval_str=True).parameters.values()]
    if not all(isinstance(x, TensorSpec) for x in found):
        raise MlcError(
            f"{path}:{function.__name__}: the types of its arguments are not known; pass"
            " --spec 'f32[64,32],f32[B,16]', or annotate each: x: mlc.TensorSpec(64, 32)"
        )
    return [*found]


def parse_specs(text: str) -> list[TensorSpec]:
    """``f32[64,32],f32[B,16],i64[]`` as specs."""
    specs: list[TensorSpec] = []
    rest = text.strip()
    while rest:
        match = re.match(r"(\w+)\s*\[([^\]]*)\]\s*,?\s*", rest)
        if match is None:
            raise UsageError(
                f"--spec: {rest!r}; expected types such as 'f32[64,32],f32[B,16],i64[]'"
            )
        sizes = [s.strip() for s in match[2].split(",") if s.strip()]
        try:
            specs.append(TensorSpec(*(int(s) if s.isdigit() else s for s in sizes), dtype=match[1]))
        except MlcError as error:
            raise UsageError(f"--spec: {match[0]!r}: {error}") from None
        rest = rest[match.end() :]
    return specs


def sizes_of(text: str) -> dict[str, int]:
    """``B=64,N=10`` as values of symbols."""
    sizes: dict[str, int] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not value.strip().isdigit():
            raise UsageError(f"--sizes: {part!r}; expected symbols and sizes such as B=64,N=10")
        sizes[name.strip()] = int(value)
    return sizes


# Calls


def call_function(path: Path, name: str | None, rest: Sequence[str]) -> int:
    """Calls one function with inputs from files or at random, and prints its results."""
    args = _call_parser().parse_args(rest)
    settings = knobs.current()
    options = Options(
        target=named(args.target or settings.target or "host").data,
        fusion=args.fusion or settings.fusion,
    )
    if not isinstance(options.target, CpuTarget) and path.suffix == ".mlir":
        raise MlcError(f"--target {args.target}: FILE.mlir runs on CPUs only")
    function: Callable[..., object]
    if path.suffix == ".mlir":
        module, signature = read_module(path)
        types = [(named_dtype(a.dtype), a.shape) for a in signature.args]
        function = compile_module(module, signature, options)
    else:
        function = load_function(path, name)
        types = []
        if args.random:
            specs = _arguments(function, path, args.spec)
            types = [(x.dtype, x.dims) for x in specs if isinstance(x, TensorSpec)]
    inputs = random_arrays(types, args) if args.random else load_arrays(args.inputs)
    try:
        with knobs.scope(fusion=options.fusion):
            results = _flat(function(*inputs))
    except MlcError:
        raise
    except Exception as error:  # noqa: BLE001 - the inputs do not fit, or the function failed
        raise MlcError(f"{type(error).__name__}: {error}") from None
    for k, result in enumerate(results):
        array = np.asarray(result)
        print(f"result {k}: {array.dtype}{list(array.shape)}")
        print(array)
    if args.output:
        named_results: dict[str, Any] = {f"result_{k}": r for k, r in enumerate(results)}
        np.savez(args.output, **named_results)
    return 0


def _call_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="mlc run FILE")
    parser.add_argument(
        "inputs", nargs="*", metavar="INPUT", help=".npy files, or one .npz, in argument order"
    )
    parser.add_argument("--random", action="store_true", help="random inputs of the argument types")
    parser.add_argument("--seed", type=int, default=0, help="of --random (default: 0)")
    parser.add_argument("--spec", help="types for --random: 'f32[64,32]'")
    parser.add_argument("--sizes", default="", help="values of symbols for --random: B=64")
    parser.add_argument("--target", metavar="NAME")
    parser.add_argument("--fusion", choices=knobs.FUSIONS, help="how kernels are formed")
    parser.add_argument("-o", "--output", metavar="OUT.npz", help="write the results too")
    return parser


def random_arrays(types: Sequence[tuple[DType, Shape]], args: argparse.Namespace) -> list[Array]:
    """Normal floats, integers from 0 to 3, fair bools; symbols have --sizes or 8."""
    symbols = {s for _, dims in types for d in dims for s in d.symbols()}
    sizes = {**dict.fromkeys(symbols, ASSUMED_SIZE), **sizes_of(args.sizes)}
    return _random(types, sizes, args.seed)


def _random(
    types: Sequence[tuple[DType, Shape]], sizes: Mapping[str, int], seed: int
) -> list[Array]:
    generator = np.random.default_rng(seed)
    arrays: list[Array] = []
    for dtype, dims in types:
        shape = [d.evaluate(sizes) for d in dims]
        if dtype.kind == "float":
            values: Array = generator.standard_normal(shape)
        else:
            values = generator.integers(0, 2 if dtype.kind == "bool" else 4, shape)
        arrays.append(np.asarray(values).astype(dtype.numpy))
    return arrays


def load_arrays(paths: Sequence[str]) -> list[Array]:
    """The arrays of .npy and .npz files, in order."""
    arrays: list[Array] = []
    for path in paths:
        try:
            loaded = np.load(path, allow_pickle=False)
        except OSError as error:
            raise MlcError(f"{path}: {error.strerror or error}; expected .npy or .npz") from None
        except (ValueError, EOFError):
            raise MlcError(
                f"{path} is no array file; expected .npy or .npz as np.save writes it"
            ) from None
        if isinstance(loaded, np.ndarray):
            arrays.append(cast("Array", loaded))
        else:
            arrays += [loaded[key] for key in loaded.files]
    return arrays


def _flat(value: object) -> list[object]:
    if isinstance(value, tuple | list):
        return [leaf for x in cast("Sequence[object]", value) for leaf in _flat(x)]
    if isinstance(value, dict):
        return [leaf for x in cast("dict[object, object]", value).values() for leaf in _flat(x)]
    return [value]


def build_files(program: Opened, kinds: Sequence[str], output: str | None) -> list[Path]:
    """Writes the kinds of code asked for; several modules of text go into one file."""
    stem = Path(output or program.levels.name)
    paths: list[Path] = []
    for kind in kinds:
        if kind not in KINDS:
            raise UsageError(f"--emit {kind}: expected some of {', '.join(KINDS)}")
        single = len(kinds) == 1 and output is not None
        path = stem if single else stem.with_suffix(KINDS[kind])
        paths += _write(program.levels, kind, path)
    return paths


def _write(levels: Levels, kind: str, path: Path) -> list[Path]:
    units = levels.units()
    if kind == "ll":
        path.write_text("\n".join(f"; module {u.name}\n{u.text}" for u in units))
        return [path]
    on_gpu = isinstance(levels.options.target, GpuTarget)
    if kind not in (("ll", "ptx") if on_gpu else ("ll", "asm", "obj")):
        wanted = "a GPU, such as --target cuda:sm_90a" if kind == "ptx" else "a CPU"
        raise MlcError(f"--emit {kind} needs {wanted}; found {levels.options.target.name}")
    if kind in ("asm", "ptx"):
        path.write_text(levels.asm())
        return [path]
    paths: list[Path] = []
    for unit in units:
        each = (
            path if unit is units[-1] else path.with_name(f"{path.stem}.{unit.name}{path.suffix}")
        )
        each.write_bytes(compile_object(unit.text, cpu_of(levels.options)))
        paths.append(each)
    return paths
