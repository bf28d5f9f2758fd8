"""Text of our own dialects as a program: a file's module, verified, and its signature."""

from __future__ import annotations

from pathlib import Path

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from mlc.dialects.analysis.aliases import donations_of
from mlc.dialects.dims import DimsAttr, Shape, as_tensor, shape_of
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.errors import MlcError
from mlc.dialects.program import ASSUME, entry_function, symbols_of
from mlc.dialects.signature import ArgSpec, EntrySignature, ResultSpec
from mlc.passes.plan.fusion.form_kernels import general_arguments
from mlc.passes.tensor.prove_bounds import drop_unproven
from mlc.pipeline import level_of
from mlc.text import check_program, parse_text, read_text, verify_text


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
    check_program(module, text, str(path), runs=True)
    drop_unproven(module)
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
        assumed=said.data if isinstance(said := function.attributes.get(ASSUME), DimsAttr) else (),
    )
