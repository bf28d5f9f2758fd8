"""A lit test for a rule: a program that it matches, and what becomes of it."""

from __future__ import annotations

import re

from xdsl.dialects.builtin import FunctionType, ModuleOp, StringAttr
from xdsl.dialects.func import FuncOp, ReturnOp
from xdsl.ir import SSAValue

from mlc.passes.rules.instances import Instance, NoInstanceError, instances
from mlc.passes.rules.rule import Rule

CONFIGURATION = '''"""lit's configuration: `lit` in this folder runs the tests of the rules."""

import lit.formats

config.name = "discovered rules"
config.suffixes = [".mlir"]
config.test_format = lit.formats.ShTest(execute_external=False)
'''


def lit_test(rule: Rule, file: str) -> str:
    """The text of a test; `file` holds the rule, as seen from the test's folder."""
    case = _case(rule)
    half = len(case.values) // 2
    before, after = (_program(case, part) for part in (slice(half), slice(half, None)))
    if rule.equivalence == "approximate":
        before.attributes["mlc.numerics"] = StringAttr("fast")
    lines = [x.strip() for x in str(after).splitlines() if re.match(r"\s+(%|func\.ret)", x)]
    checks = ["CHECK-LABEL: func.func @rule("]
    checks += [f"CHECK-NEXT: {line}" for line in _captured(lines, case)]
    return "\n".join([
        f"// {rule.says}",
        f"// RUN: mlc opt %s --rules %S/{file} --rule {rule.name} -p dce | filecheck %s",
        "",
        *(f"// {check}" for check in checks),
        str(before),
        "",
    ])  # fmt: skip


def _case(rule: Rule) -> Instance:
    """One with sizes of two and more, if there is one; most rules have it first."""
    try:
        return instances(rule, 1)[0]
    except NoInstanceError:
        cases = instances(rule)
        return next((x for x in cases if all(n >= 2 for n in x.sizes())), cases[0])


def _program(case: Instance, part: slice) -> ModuleOp:
    """The function that computes some of a case's values, and nothing else."""
    copies: dict[SSAValue, SSAValue] = {}
    module = case.module.clone(copies)
    values = [copies[value] for value in case.values[part]]
    (function,) = (op for op in module.body.block.ops if isinstance(op, FuncOp))
    block = function.body.block
    for k, argument in enumerate(block.args):
        argument.name_hint = f"arg{k}"
    end = block.last_op
    assert isinstance(end, ReturnOp)
    block.erase_op(end)
    block.add_op(ReturnOp(*values))
    function.function_type = FunctionType.from_lists(
        [x.type for x in block.args], [x.type for x in values]
    )
    for op in reversed(list(block.ops)):
        if op.results and all(x.first_use is None for x in op.results):
            block.erase_op(op)
    for op in block.ops:
        for result in op.results:
            result.name_hint = None
    return module


def _captured(lines: list[str], case: Instance) -> list[str]:
    """Lines as filecheck has them: a value is named where it is defined."""
    known = {f"arg{k}" for k in range(len(case.arguments))}

    def captured(found: re.Match[str]) -> str:
        name = found[1]
        if name.startswith("arg"):
            return f"%{name}"
        if name in known:
            return f"%[[V{name}]]"
        known.add(name)
        return f"%[[V{name}:.*]]"

    return [re.sub(r"%(\w+)", captured, line) for line in lines]
