"""`mlc run`: a script, or one function with inputs from files or at random."""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from mlc.command_line import UsageError, arguments_of, sizes_of
from mlc.dialects.dtypes import DType, named_dtype
from mlc.dialects.errors import MlcError
from mlc.dialects.signature import EntrySignature
from mlc.executable import compile_module
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.importers.mlir import read_module
from mlc.frontend.trace.containers import flatten, unflatten
from mlc.knobs import KnobError
from mlc.levels import Levels
from mlc.programs import Given, is_module, load_function, options_of_module, print_traceback

Array = NDArray[Any]
ASSUMED_SIZE = 8  # of a symbol that --random has no value for


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
        print_traceback(error, path)
        return 1
    finally:
        sys.argv, sys.path[0] = argv, first
    return 0


def call_function(path: Path, name: str | None, args: argparse.Namespace, given: Given) -> int:
    """Calls one function with inputs from files or at random, and prints its results."""
    sizes = sizes_of(args.sizes)
    if args.random and args.inputs:
        raise UsageError(f"--random: found the input {args.inputs[0]} too; expected one of both")
    for flag in ("spec", "sizes"):
        if getattr(args, flag) and not args.random:
            raise UsageError(f"--{flag} is for --random: arrays from files have their own types")
    function: Callable[..., object]
    positional: list[object]
    named: dict[str, object] = {}
    if is_module(path):
        function, positional = _module_function(path, args, given)
    else:
        function = load_function(path, name, given)
        positional = []
        if args.random:
            positional, named = arguments_of(path, function.__mlc_function__(), args.spec)
    if args.random:
        positional, named = random_arrays((positional, named), sizes, args.seed)
    else:
        positional = [*load_arrays(args.inputs)]
    try:
        results = _flat(function(*positional, **named))
    except (MlcError, KnobError):
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


def _module_function(
    path: Path, args: argparse.Namespace, given: Given
) -> tuple[Callable[..., object], list[object]]:
    """The function of FILE.mlir, and what it takes."""
    if args.spec is not None:
        raise UsageError(f"--spec: {args.spec!r}; {path} says the types of its arguments itself")
    module, signature = read_module(path)
    options = options_of_module(module, given, runs=True)
    if options.target.launches_grids:
        raise MlcError(f"{path} is for {options.target.name}: FILE.mlir runs on CPUs only")
    specs = [TensorSpec(*a.shape, dtype=named_dtype(a.dtype)) for a in signature.args]
    return compile_module(module, signature, options), [*specs]


def inputs_of(levels: Levels) -> list[Array]:
    """Random inputs for a program on this machine's CPU; MlcError for another target."""
    name = levels.options.target.name
    if name != "host":
        raise MlcError(f"--measure runs on this machine's CPU; found the target {name}")
    return random_inputs(levels.signature, levels.known_sizes({}), 0)


def random_inputs(signature: EntrySignature, sizes: Mapping[str, int], seed: int) -> list[Array]:
    """Arrays of a signature's types: numbers as `random_arrays` takes them."""
    generator = np.random.default_rng(seed)
    return [
        _random(named_dtype(a.dtype), [d.evaluate(sizes) for d in a.shape], generator)
        for a in signature.args
    ]


def random_arrays(
    given: tuple[list[object], dict[str, object]], sizes: Mapping[str, int], seed: int
) -> tuple[list[object], dict[str, object]]:
    """
    The arguments with random arrays for types, those in containers too: normal floats, integers
    from 0 to 3, fair bools; symbols that have no size have 8.
    """
    generator = np.random.default_rng(seed)

    leaves, structure = flatten(given)
    for k, spec in enumerate(leaves):
        if isinstance(spec, TensorSpec):
            open_sizes = {s for d in spec.dims for s in d.symbols()}
            known = {**dict.fromkeys(open_sizes, ASSUMED_SIZE), **sizes}
            leaves[k] = _random(spec.dtype, [d.evaluate(known) for d in spec.dims], generator)
    return unflatten(structure, leaves)


def _random(dtype: DType, shape: Sequence[int], generator: np.random.Generator) -> Array:
    try:
        return _numbers(dtype, shape, generator)
    except (ValueError, MemoryError) as error:
        raise MlcError(
            f"random numbers for an argument {dtype.name}{list(shape)}: {error}; call it with"
            " smaller sizes, which --sizes NAME=N says of open ones"
        ) from None


def _numbers(dtype: DType, shape: Sequence[int], generator: np.random.Generator) -> Array:
    if dtype.kind == "float":
        values: Array = generator.standard_normal(shape)
    else:
        values = generator.integers(0, 2 if dtype.kind == "bool" else 4, shape)
    return np.asarray(values).astype(dtype.numpy)


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
