"""The target as an attribute of the module, so that each pass is a function of the IR alone."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, replace

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Data
from xdsl.irdl import irdl_attr_definition
from xdsl.parser import AttrParser
from xdsl.printer import Printer

from mlc.dialects.errors import MlcError
from mlc.dialects.target import Target
from mlc.dialects.target.cpu import CpuTarget
from mlc.dialects.target.gpu import GpuTarget
from mlc.dialects.target.known import named_target
from mlc.dialects.target.loop_costs import LOOP_COSTS, LoopCosts

_KINDS: dict[str, type[Target]] = {"cpu": CpuTarget, "gpu": GpuTarget}
ATTRIBUTE = "mlc.target"


@irdl_attr_definition
class TargetAttr(Data[Target]):
    """
    A machine by name, or by all its figures where it is not in the table of known ones; what its
    loops take by the name of a row, and the figures in which it differs.

    ```mlir
    module attributes {mlc.target = #mlc.target<"avx512">} {}
    module attributes {mlc.target = #mlc.target<cpu, …, loops = "zen3" {fold_cycles = 4.0}>} {}
    ```
    """

    name = "mlc.target"

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Target:
        with parser.in_angle_brackets():
            name = parser.parse_optional_str_literal()
            if name is not None:
                try:
                    return named_target(name)
                except ValueError as error:
                    parser.raise_error(str(error))
            kind = parser.parse_identifier()
            if kind not in _KINDS:
                parser.raise_error(f"target kind {kind!r}; expected cpu or gpu")
            found: dict[str, str | float | bool | LoopCosts] = {}
            while parser.parse_optional_punctuation(",") is not None:
                field, value = _parsed_figure(parser)
                found[field] = _parsed_row(parser, str(value)) if field == "loops" else value
            types = {field.name: field.type for field in fields(_KINDS[kind])}
            for field, value in found.items():
                if types.get(field) == "bool":
                    found[field] = bool(value)
            try:
                return _KINDS[kind](**found)  # pyright: ignore[reportArgumentType]
            except TypeError as error:
                parser.raise_error(str(error))

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            if _is_known(self.data):
                printer.print_string_literal(_known_name(self.data))
                return
            printer.print_string("gpu" if isinstance(self.data, GpuTarget) else "cpu")
            for field in fields(self.data):
                value = getattr(self.data, field.name)
                if field.default is not MISSING and value == field.default:
                    continue
                printer.print_string(f", {field.name} = ")
                if isinstance(value, LoopCosts):
                    _print_row(printer, value)
                else:
                    _print_figure(printer, value)


def _parsed_figure(parser: AttrParser) -> tuple[str, str | float]:
    field = parser.parse_identifier()
    parser.parse_punctuation("=")
    text = parser.parse_optional_str_literal()
    return field, parser.parse_number() if text is None else text


def _print_figure(printer: Printer, value: object) -> None:
    if isinstance(value, str):
        printer.print_string_literal(value)
    else:
        printer.print_string(str(int(value)) if isinstance(value, bool) else repr(value))


def _parsed_row(parser: AttrParser, name: str) -> LoopCosts:
    """A row by its name, and the figures in which it differs."""
    if name not in LOOP_COSTS:
        known = ", ".join(LOOP_COSTS)
        parser.raise_error(f"no row of what loops take is called {name!r}; expected one of {known}")

    def figures() -> Iterator[tuple[str, str | float]]:
        if parser.parse_optional_punctuation("{") is not None:
            yield from parser.parse_comma_separated_list(
                parser.Delimiter.NONE, lambda: _parsed_figure(parser)
            )
            parser.parse_punctuation("}")

    row, found = LOOP_COSTS[name], dict(figures())
    kinds = {x.name: x.type for x in fields(LoopCosts) if x.name != "name"}
    for field, value in found.items():
        if field not in kinds or isinstance(value, str) != (kinds[field] == "str"):
            known = ", ".join(f"{name} = {kind}" for name, kind in kinds.items())
            parser.raise_error(
                f"what loops take: found {field} = {value!r}; expected some of {known}"
            )
    return replace(row, **found)


def _print_row(printer: Printer, row: LoopCosts) -> None:
    printer.print_string_literal(row.name)
    if differences := dict(row.differences()):
        printer.print_string(" {")
        for number, (field, value) in enumerate(differences.items()):
            printer.print_string(f"{', ' if number else ''}{field} = ")
            _print_figure(printer, value)
        printer.print_string("}")


def _known_name(target: Target) -> str:
    return f"cuda:{target.name}" if isinstance(target, GpuTarget) else target.name


def _is_known(target: Target) -> bool:
    try:
        return named_target(_known_name(target)) == target
    except ValueError:
        return False


def cpu_of(module: ModuleOp, asking: str) -> CpuTarget:
    """The module's target, which must be a CPU; MlcError says who is asking for one."""
    return as_cpu(target_of(module), asking)


def as_cpu(target: Target, asking: str) -> CpuTarget:
    """A module's target as `cpu_of` gives it."""
    if isinstance(target, CpuTarget):
        return target
    raise MlcError(f"{asking} is for CPUs: found a module for the GPU {target.name}; see --target")


def gpu_of(module: ModuleOp, asking: str) -> GpuTarget:
    """The module's target, which must be a GPU; MlcError says who is asking for one."""
    return as_gpu(target_of(module), asking)


def as_gpu(target: Target, asking: str) -> GpuTarget:
    """A module's target as `gpu_of` gives it."""
    if isinstance(target, GpuTarget):
        return target
    raise MlcError(f"{asking} is for GPUs: found a module for the CPU {target.name}; see --target")


def target_of(module: ModuleOp) -> Target:
    """The module's target; the portable AVX2 machine where none is stated."""
    attribute = module.attributes.get(ATTRIBUTE)
    if isinstance(attribute, TargetAttr):
        return attribute.data
    return named_target("avx2")
