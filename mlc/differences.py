"""
What derivatives and batches of a function mean, without what is written out for them: quotients of
differences, and examples one by one. For `mlc blame`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from xdsl.dialects.builtin import (
    ArrayAttr,
    FunctionType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    f64,
)
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import Block, Region, SSAValue
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.dims import Dim, DimsAttr, as_tensor, shape_of, tensor_type
from mlc.dialects.dtypes import F64, dtype_of
from mlc.dialects.errors import CompilerBug, DTypeError, MlcError, ShapeError
from mlc.dialects.program import SYMBOLS, entry_function, symbols_of
from mlc.dialects.tensor.calls import (
    BatchOp,
    CallOp,
    FunctionUse,
    PullBackOp,
    PushForwardOp,
    function_named,
    numbers_attribute,
    sizes_of,
    used_by,
    uses_of_functions,
)
from mlc.dialects.tensor.create import ConstantOp, dense, dense_array
from mlc.dialects.tensor.markers import StopGradientOp
from mlc.dialects.tensor.op import tensor_fault
from mlc.dialects.tensor.rule import RuleOp
from mlc.passes.tensor.expand_transforms import one_function
from mlc.reduce import Array, Case, given
from mlc.runtime.interpret import interpret

STEP = 1e-5  # along a direction of length 1, in f64
TOLERANCE = 1e-4  # of a slope; what differences of fourth order leave is less
KINDS: tuple[type[FunctionUse], ...] = (PullBackOp, PushForwardOp, BatchOp)
EXAMPLES = 2  # of a batch


class Transformed:
    """One kind of use of a function as what may be at fault; a case is the function itself."""

    name = "mlc-expand-transforms"

    def __init__(self, kind: type[FunctionUse]) -> None:
        self.kind = kind

    def fault(self, case: Case, wanted: Sequence[Array] | None = None) -> str:
        """How what is written out differs; empty where it does not. The case stays as it is."""
        written = self.written(case)
        if written is None:
            return ""
        try:
            found = interpret(one_function(written.module), written.arrays, case.sizes)
        except MlcError as error:
            if isinstance(error, CompilerBug | ShapeError | DTypeError):
                return f"raises {type(error).__name__}: {error}"
            return ""  # it has no derivative, says the compiler
        except Exception as error:  # noqa: BLE001 - whatever it raises is its fault
            return f"raises {type(error).__name__}: {error}"
        if self.kind is BatchOp:
            return _of_examples(case, written.arrays, found)
        return _of_slopes(self.kind, case, written.arrays, found)

    def rule(self, case: Case) -> str | None:
        """None: it is no pass of rules."""

    def written(self, case: Case) -> Case | None:
        """The case as a program that uses its function so; None where nothing can be derived."""
        rng, module = np.random.default_rng(0), case.module.clone()
        function = entry_function(module)
        block = function.body.block
        ins, outs = ([k for k, x in enumerate(v) if _is_float(x)] for v in _ends(block))
        arrays = list(case.arrays)
        if self.kind is BatchOp:
            arrays = [np.stack([x, rng.permuted(x)]) for x in arrays]
            lists = [[0] * len(v) for v in _ends(block)]
            names = {"in": lists[0], "out": lists[1]}
        else:
            if not ins or not outs:
                return None
            of = block.args if self.kind is PushForwardOp else _ends(block)[1]
            more = ins if self.kind is PushForwardOp else outs
            sizes = [[d.evaluate(case.sizes) for d in shape_of(of[k].type)] for k in more]
            arrays += [rng.standard_normal(n) for n in sizes]
            names = {"wrt": ins, "of": outs}
        properties: dict[str, Any] = {"callee": SymbolRefAttr(f"{function.sym_name.data}_of")}
        properties |= {k: numbers_attribute(v) for k, v in names.items()}
        if self.kind is BatchOp:
            properties["size"] = DimsAttr((Dim.const(EXAMPLES),))
        if symbols := symbols_of(function):
            properties["sizes"] = DimsAttr(tuple(map(Dim.symbol, symbols)))
        return Case(_using(self.kind, module, function, properties), arrays, case.sizes)


def transforms_of(
    module: ModuleOp, arrays: Sequence[Array], sizes: Mapping[str, int]
) -> Iterator[tuple[Transformed, Case]]:
    """
    What a program says of derivatives and batches, and the functions that it says it of, with what
    they are called with; those that such functions use before them.
    """
    entry = entry_function(module)
    for number, use in enumerate(list(uses_of_functions(entry))):
        function = function_named(use)
        if function is None or use.parent is not entry.body.block:
            continue
        with_more = _operands(module, number, arrays, sizes)
        args = with_more[: len(function.body.block.args)]
        inner = {k: d.evaluate(sizes) for k, d in sizes_of(function, use.properties).items()}
        if isinstance(use, BatchOp):
            axes = use.numbers("in")
            args = [x if a < 0 else np.take(x, 0, a) for x, a in zip(args, axes, strict=True)]
        alone = _alone(module, function)
        yield from transforms_of(alone, args, inner)
        if not isinstance(use, CallOp):
            yield from _judged(type(use), Case(one_function(alone), args, inner))


def _judged(kind: type[FunctionUse], case: Case) -> Iterator[tuple[Transformed, Case]]:
    """In f64, with `stop_gradient` as arguments; none where a rule says what a derivative is."""
    if kind is not BatchOp:
        if any(isinstance(x, RuleOp) and x.kind.data != "checkpoint" for x in case.module.walk()):
            return
        frozen = [k for k, op in enumerate(case.ops()) if isinstance(op, StopGradientOp)]
        copy = Case(case.module.clone(), case.arrays, case.sizes)
        case = _wide((given(copy, frozen) if frozen else None) or copy)
        if any(isinstance(x, StopGradientOp) and x.result.uses for x in case.module.walk()):
            return  # inside a loop
        try:
            case.module.verify()
        except VerifyException:
            return
    yield Transformed(kind), case


def _of_examples(case: Case, arrays: Sequence[Array], found: Sequence[Array]) -> str:
    for k in range(EXAMPLES):
        wanted = interpret(case.module, [x[k] for x in arrays], case.sizes)
        for n, (x, y) in enumerate(zip(found, wanted, strict=True)):
            scale = max(1.0, _largest(y))
            if not np.allclose(x[k], y, rtol=0, atol=1e-3 * scale, equal_nan=True):
                return f"result {n} of example {k} is not what the function gives for it"
    return ""


def _of_slopes(
    kind: type[FunctionUse], case: Case, arrays: Sequence[Array], found: Sequence[Array]
) -> str:
    """Of each derivative, along one direction of its argument, or along all tangents."""
    rng, count = np.random.default_rng(1), len(case.arrays)
    at, more = arrays[:count], arrays[count:]
    ins, outs = ([k for k, x in enumerate(v) if _is_float(x)] for v in _ends(case.body))
    derived = found[len(found) - len(outs if kind is PushForwardOp else ins) :]
    if kind is PushForwardOp:
        norm = max(float(np.sqrt(sum(np.sum(x * x) for x in more))), 1e-30)
        slopes = _slopes(case, at, {k: x / norm for k, x in zip(ins, more, strict=True)})
        pairs = [
            (x / norm, slopes[k], _largest(x) / norm) for k, x in zip(outs, derived, strict=True)
        ]
        names = [f"the tangent of result {k}" for k in outs]
    else:
        pairs, names = (
            list[tuple[Array, Array, float]](),
            [f"the cotangent of argument {k}" for k in ins],
        )
        for k, x in zip(ins, derived, strict=True):
            u = rng.standard_normal(x.shape)
            u = u / max(float(np.linalg.norm(u)), 1e-30)
            slopes = _slopes(case, at, {k: u})
            wanted = sum(np.sum(slopes[j] * dy) for j, dy in zip(outs, more, strict=True))
            scale = float(np.linalg.norm(x)) / max(x.size, 1) ** 0.5
            pairs.append((np.asarray(np.sum(x * u)), np.asarray(wanted), scale))
    for name, (x, y, scale) in zip(names, pairs, strict=True):
        if np.isfinite(x).all() and np.isfinite(y).all():
            limit = TOLERANCE * (scale + _largest(y))
            worst = np.unravel_index(int(np.argmax(np.abs(x - y))), x.shape) if x.size else ()
            if x.size and abs(x[worst] - y[worst]) > limit:
                return f"{name}: expected {y[worst]:.6g} along a direction, found {x[worst]:.6g}"
    return ""


def _largest(x: Array) -> float:
    return float(np.max(np.abs(x), initial=0.0))


def _slopes(case: Case, at: Sequence[Array], along: Mapping[int, Array]) -> list[Any]:
    """Of each result, by differences of fourth order."""
    ends = [
        interpret(
            case.module,
            [x + step * STEP * along[k] if k in along else x for k, x in enumerate(at)],
            case.sizes,
        )
        for step in (1, -1, 2, -2)
    ]
    with np.errstate(all="ignore"):
        return [
            (8 * (a - b) - (c - d)) / (12 * STEP) if a.dtype.kind == "f" else None
            for a, b, c, d in zip(*ends, strict=True)
        ]


def _ends(block: Block) -> tuple[Sequence[SSAValue], Sequence[SSAValue]]:
    last = block.last_op
    assert last is not None
    return block.args, last.operands


def _is_float(value: SSAValue) -> bool:
    return dtype_of(as_tensor(value.type).element_type).kind == "float"


def _using(
    kind: type[FunctionUse], module: ModuleOp, function: FuncOp, properties: Mapping[str, Any]
) -> ModuleOp:
    """A module whose program uses its function; that becomes private."""
    name, symbols = function.sym_name.data, symbols_of(function)
    _made_private(function, f"{name}_of")
    inputs, outputs = kind.types(function, properties)
    block = Block(arg_types=inputs)
    use = kind.of(function, block.args, **properties)
    block.add_ops([use, ReturnOp(*use.results)])
    made = FuncOp(name, (inputs, outputs), Region(block))
    for each in (made, function) if symbols else ():
        each.attributes[SYMBOLS] = ArrayAttr([StringAttr(x) for x in symbols])
    module.body.block.insert_op_before(made, function)
    return module


def _made_private(function: FuncOp, name: str) -> None:
    function.properties["sym_visibility"] = StringAttr("private")
    function.properties["sym_name"] = StringAttr(name)
    for attributes in ("arg_attrs", "res_attrs"):
        function.properties.pop(attributes, None)


def _alone(module: ModuleOp, function: FuncOp) -> ModuleOp:
    """A module whose program is one of a module's functions."""
    functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
    made = ModuleOp([f.clone() for f in (function, *used_by(function, functions))])
    made.attributes.update(module.attributes)
    first = made.body.block.first_op
    assert isinstance(first, FuncOp)
    first.properties.pop("sym_visibility", None)
    return made


def _operands(
    module: ModuleOp, number: int, arrays: Sequence[Array], sizes: Mapping[str, int]
) -> list[Array]:
    """What one of the program's uses of functions is given."""
    copy = module.clone()
    entry = entry_function(copy)
    use, end = list(uses_of_functions(entry))[number], entry.body.block.last_op
    assert end is not None
    end.operands = use.operands
    inputs = entry.function_type.inputs.data
    entry.function_type = FunctionType.from_lists(inputs, [x.type for x in use.operands])
    entry.properties.pop("res_attrs", None)
    while (last := end.prev_op) is not None and last is not use:
        entry.body.block.erase_op(last)
    entry.body.block.erase_op(use)
    return interpret(one_function(copy), arrays, sizes)


def _wide(case: Case) -> Case:
    """With f64 in place of all other floats."""
    module = case.module.clone()
    for op in module.walk():
        if isinstance(op, ConstantOp) and _is_float(op.result):
            op.properties["value"] = dense(dense_array(op.value), F64)
        args = [x for region in op.regions for block in region.blocks for x in block.args]
        for value in (*op.results, *args):
            if tensor_fault(value.type) is None and _is_float(value):
                wide = tensor_type(f64, shape_of(as_tensor(value.type)))
                Rewriter.replace_value_with_new_type(value, wide)
    function = entry_function(module)
    args, ends = _ends(function.body.block)
    function.function_type = FunctionType.from_lists([x.type for x in args], [x.type for x in ends])
    arrays = [x.astype(np.float64) if x.dtype.kind == "f" else x for x in case.arrays]
    return Case(module, arrays, case.sizes)
