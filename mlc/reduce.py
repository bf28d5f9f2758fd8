"""
Smaller programs that show the same fault: delta debugging (Zeller and Hildebrandt, "Simplifying and
isolating failure-inducing input", 2002) on modules of the levels that the interpreter runs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from xdsl.context import Context
from xdsl.dialects.builtin import ArrayAttr, DictionaryAttr, FunctionType, ModuleOp
from xdsl.dialects.func import FuncOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.analysis.dominance import verify_dominance
from mlc.dialects.dims import shape_of
from mlc.dialects.errors import MlcError
from mlc.dialects.program import entry_function
from mlc.dialects.tensor.create import ConstantOp
from mlc.lazy_dataclass import dataclass
from mlc.passes.tensor.dce import DcePass
from mlc.runtime.interpret import interpret

Array = NDArray[Any]


@dataclass(frozen=True)
class Case:
    """A program of one function, what it is called with, and the sizes of its symbols."""

    module: ModuleOp
    arrays: Sequence[Array]
    sizes: Mapping[str, int]

    @property
    def body(self) -> Block:
        """The function's only block."""
        return entry_function(self.module).body.block

    def count(self) -> int:
        """How many ops there are, in regions too, without constants and the function's end."""
        return sum(not isinstance(op, ConstantOp) for op in self.body.walk()) - 1

    def ops(self) -> list[Operation]:
        """Those of the function's own block, without constants and its end."""
        return [op for op in self.body.ops if op.results and not isinstance(op, ConstantOp)]

    def results(self) -> list[Array]:
        """What the interpreter makes of it."""
        return interpret(self.module, self.arrays, self.sizes)


Shows = Callable[[Case], bool]
"""Whether a program shows the fault. Whatever it raises, the program does not."""


def reduced(case: Case, shows: Shows) -> Case:
    """
    A program that shows the fault and has as few results, ops and arguments as single steps reach.

    It ends with the first value that shows it; what values in front of it were is given as
    arguments; ops give way to one of their operands.
    """
    case = _first_value(_one_result(case, shows), shows)
    before = case.count() + 1
    while case.count() < before:
        before = case.count()
        case = _bypassed(_cut(case, shows), shows)
    return _kept(case, _without_arguments, shows) or case


Change = Callable[[Case], "Case | None"]
"""Another case; in place, of one that is nobody else's. None: it is none for this one."""


def _kept(case: Case, change: Change, shows: Shows) -> Case | None:
    """The case with a change, if that shows the fault too."""
    copy = Case(case.module.clone(), case.arrays, case.sizes)
    changed = change(copy)
    if changed is None:
        return None
    try:
        DcePass().apply(Context(), changed.module)
        changed.module.verify()
        verify_dominance(changed.module)
        return changed if shows(changed) else None
    except (MlcError, VerifyException, ArithmeticError, LookupError, TypeError, ValueError):
        return None  # no program, or none that can be run


def _one_result(case: Case, shows: Shows) -> Case:
    """With one of its results, where that is enough."""
    count = len(entry_function(case.module).function_type.outputs)
    for k in range(count) if count > 1 else ():
        found = _kept(case, lambda c, k=k: _returning(c, [_end(c).operands[k]]), shows)
        if found is not None:
            return found
    return case


def _first_value(case: Case, shows: Shows) -> Case:
    """Ending with the first value that shows the fault."""
    for number, op in enumerate(case.ops()):
        for k in range(len(op.results)):

            def end(c: Case, number: int = number, k: int = k) -> Case:
                return _returning(c, [c.ops()[number].results[k]])

            found = _kept(case, end, shows)
            if found is not None:
                return found
    return case


def _cut(case: Case, shows: Shows) -> Case:
    """With the values of as many ops as may be as arguments: of all, then of halves, and so on."""
    part = len(case.ops())
    while part:
        first = 0
        while first < len(case.ops()):
            numbers = range(first, min(first + part, len(case.ops())))
            found = _kept(case, lambda c, n=numbers: given(c, n), shows)
            case, first = (case, first + part) if found is None else (found, first)
        part //= 2
    return case


def _bypassed(case: Case, shows: Shows) -> Case:
    """With another value in place of each op that is not needed, the last ones first."""
    for number in reversed(range(len(_walked(case)))):
        for k in range(len(_instead(case, number))):
            found = _kept(case, lambda c, n=number, k=k: _replaced(c, n, k), shows)
            if found is not None:
                case = found
                break
    return case


def _instead(case: Case, number: int) -> list[SSAValue]:
    """Of an op that is still there, values of its type: operands, and what its block is given."""
    ops = _walked(case)
    if number >= len(ops):
        return []
    op = ops[number]
    given = op.parent.args if op.parent is not None and op.parent is not case.body else ()
    fit = (x for x in (*op.operands, *given) if len(op.results) == 1)
    return [x for x in dict.fromkeys(fit) if x.type == op.results[0].type]


def _walked(case: Case) -> list[Operation]:
    return list(case.body.walk())


def _end(case: Case) -> Operation:
    last = case.body.last_op
    assert last is not None
    return last


def _returning(case: Case, values: Sequence[SSAValue]) -> Case:
    """In place, with other results."""
    _end(case).operands = values
    function = entry_function(case.module)
    inputs = function.function_type.inputs.data
    function.function_type = FunctionType.from_lists(inputs, [x.type for x in values])
    function.res_attrs = None
    return case


def given(case: Case, numbers: Iterable[int]) -> Case | None:
    """In place, of a case that is nobody else's: arguments in place of the values of these ops."""
    chosen = {op: list[Array]() for op in (case.ops()[n] for n in numbers)}

    def observe(op: Operation, value: Array) -> None:
        if op in chosen:
            chosen[op].append(value)

    interpret(case.module, case.arrays, case.sizes, observe=observe)
    values: list[tuple[SSAValue, Array]] = []
    for op, seen in chosen.items():
        if len(seen) == len(op.results):
            values += [(r, a) for r, a in zip(op.results, seen, strict=True) if r.uses]
    if not values:
        return None
    body = case.body
    for old, _ in values:
        old.replace_all_uses_with(body.insert_arg(old.type, len(body.args)))
    arrays = [*case.arrays, *(array for _, array in values)]
    _retyped(entry_function(case.module), range(len(case.arrays)))
    return Case(case.module, arrays, case.sizes)


def _replaced(case: Case, number: int, k: int) -> Case:
    """In place, with another value in place of an op."""
    op = _walked(case)[number]
    op.results[0].replace_all_uses_with(_instead(case, number)[k])
    op.detach()
    op.erase()
    return case


def _without_arguments(case: Case) -> Case:
    """In place, without arguments that nobody reads, if the others say all sizes that they did."""
    body = case.body
    said = {s for x in body.args for d in shape_of(x.type) for s in d.symbols()}
    kept = [k for k, x in enumerate(body.args) if x.uses]
    still = {s for k in kept for d in shape_of(body.args[k].type) for s in d.symbols()}
    kept = kept if said == still else list(range(len(body.args)))
    for k in reversed(range(len(body.args))):
        if k not in kept:
            body.erase_arg(body.args[k])
    _retyped(entry_function(case.module), kept)
    return Case(case.module, [case.arrays[k] for k in kept], case.sizes)


def _retyped(function: FuncOp, kept: Sequence[int]) -> None:
    """The function's type as its block is now; `kept`: which arguments of before come first."""
    body, marks = function.body.block, function.arg_attrs
    outputs = function.function_type.outputs.data
    function.function_type = FunctionType.from_lists([x.type for x in body.args], outputs)
    if marks is not None:
        old = [marks.data[k] for k in kept]
        function.arg_attrs = ArrayAttr([*old, *[DictionaryAttr({})] * (len(body.args) - len(old))])
