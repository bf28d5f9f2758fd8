"""
`mlc.mlir.load`: text of our own dialects as a function that compiles, differentiates and batches; a
file's module, verified, and its signature.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute

from mlc.dialects.analysis.aliases import donations_of
from mlc.dialects.dims import Dim, DimsAttr, Shape, as_tensor, shape_of
from mlc.dialects.dtypes import dtype_of, named_dtype
from mlc.dialects.errors import DTypeError, MlcError, ShapeError
from mlc.dialects.program import ASSUME, entry_function, symbols_of
from mlc.dialects.signature import (
    ArgSpec,
    BindSymbol,
    CheckAssumed,
    EntrySignature,
    ResultSpec,
    solve,
    wanted,
)
from mlc.dialects.tensor.calls import CallOp
from mlc.dialects.tensor.letters import spell
from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.call.lowered import Lowered
from mlc.frontend.call.spec import TensorSpec, open_sizes
from mlc.frontend.call.stats import Stats
from mlc.frontend.errors import located
from mlc.frontend.numpy.values import fitting, lift
from mlc.frontend.trace.private import PrivateFunction, imported
from mlc.frontend.trace.trace import current, here
from mlc.frontend.trace.tracer import Tracer
from mlc.passes.plan.fusion.form_kernels import general_arguments
from mlc.passes.tensor.prove_bounds import drop_unproven
from mlc.pipeline import level_of
from mlc.text import check_program, parse_text, read_text, verify_text


class Imported:
    """
    The function of a module: compiled where it is called, and called by its name in what is traced,
    whose options hold then.
    """

    def __init__(self, module: ModuleOp, signature: EntrySignature, name: str) -> None:
        self._entry = entry_function(module)
        self._others = [f for f in module.body.block.ops if isinstance(f, FuncOp)]
        self._signature, self._steps, self._file = signature, solve(signature), name
        self.__name__ = self._entry.sym_name.data
        dynamic = open_sizes("arguments", (x.shape for x in signature.args))
        self._compiled = compile_function(self._called, dynamic=dynamic)

    def __call__(self, *arguments: Any) -> Any:
        """The result, or a tuple of several."""
        if len(arguments) != len(self._signature.args):
            takes = f"{self.__name__} takes {wanted(self._signature)}"
            raise TypeError(f"{takes}; found {len(arguments)} arguments")
        if current() is not None:
            return self._called(*arguments)
        return self._compiled(*arguments)

    def lower(self, *arguments: Any) -> Lowered:
        """The program for these arguments; without any, for those that the text says."""
        specs = [TensorSpec(*x.shape, dtype=x.dtype) for x in self._signature.args]
        return self._compiled.lower(*(arguments or specs))

    def stats(self) -> Stats:
        """Calls outside of traced functions, and the compilations they made."""
        return self._compiled.stats()

    def __repr__(self) -> str:
        return f"<function {self.__name__} of {self._file}>"

    def _called(self, *arguments: Any) -> Any:
        given = self._given(arguments)
        sizes = self._sizes([x.dims for x in given])
        for assumed in self._signature.assumed:
            dim = assumed.substitute(sizes)
            if dim.constant is not None and dim.constant < 0:
                message = f"{self.__name__} is for sizes for which {assumed} is 0 or more; here it"
                raise located(ShapeError, f"{message} is {dim}.")
            here().assume(dim, f"{self.__name__}: {assumed} >= 0")
        function = imported(self._entry, self._others)
        dims = tuple(sizes[name] for name in symbols_of(function))
        values = tuple(x.value for x in given)
        results, _ = PrivateFunction(function, values, dims, {}).use(CallOp)
        found = tuple(Tracer(here(), value) for value in results)
        return found if self._signature.as_tuple else found[0]

    def _given(self, arguments: Sequence[Any]) -> list[Tracer]:
        """Arguments of the dtypes and ranks that the function takes; numbers in its dtype."""
        found: list[Tracer] = []
        for k, (argument, spec) in enumerate(zip(arguments, self._signature.args, strict=True)):
            x = lift(argument, self.__name__)
            row = named_dtype(spec.dtype)
            if x.weak:
                x = Tracer(here(), fitting(x, row))
            if x.row is not row or x.ndim != len(spec.shape):
                fits = ShapeError if x.row is row else DTypeError
                message = (
                    f"{self.__name__}: argument {k} is {x.row.name} {spell(x.dims)}; expected"
                    f" {spec.dtype} {spell(spec.shape)}."
                )
                raise located(fits, message)
            found.append(x)
        return found

    def _sizes(self, shapes: Sequence[Shape]) -> dict[str, Dim]:
        """What the function's symbols are for arguments of these shapes."""
        found: dict[str, Dim] = {}
        for step in self._steps:
            if isinstance(step, CheckAssumed):
                continue
            size = shapes[step.arg][step.axis]
            if isinstance(step, BindSymbol):
                rest = size - step.offset.substitute(found)
                value = rest.exact_quotient(Dim.const(step.scale))
                expected = f"{step.scale}*{step.symbol} + {step.offset}"
                if value is not None:
                    found[step.symbol] = value
                    continue
            else:
                expected = str(step.expected.substitute(found))
                if size == step.expected.substitute(found):
                    continue
            message = (
                f"{self.__name__}: axis {step.axis} of argument {step.arg} is {size}; expected"
                f" {expected}."
            )
            raise located(ShapeError, message)
        return found


def load(path: str | Path) -> Imported:
    """
    The function of a module of our own dialects, at the tensor level: the one that is not private.
    In a traced function it is called by its name, so `mlc.grad` and `mlc.vmap` go through it.
    MlcError for a file that cannot be read, with the line of what is wrong in it.
    """
    module, signature = read_module(Path(path))
    if level_of(module) != "tensor":
        raise MlcError(f"{path} is at the level {level_of(module)}; expected the tensor level")
    return Imported(module, signature, str(path))


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
