"""
Certificates: what was rewritten from the traced program to the end of the tensor level, change by
change, with what each change rests on. `mlc.check` reads them, and shares no code with passes.
"""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import (
    DenseArrayBase,
    DenseIntOrFPElementsAttr,
    IntegerAttr,
    IntegerType,
    ModuleOp,
    StringAttr,
    SymbolRefAttr,
    UnitAttr,
)  # fmt: skip
from xdsl.dialects.func import FuncOp
from xdsl.ir import Attribute, Block, Operation, SSAValue

from mlc.check import DERIVATIVES, SIZE, Change, Worth, seal
from mlc.check_text import CertificateError, Json, Op, Program, after, renamed
from mlc.dialects.dims import DimsAttr, as_tensor, shape_of
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.program import entry_function, symbols_of
from mlc.dialects.tensor.create import dense_array
from mlc.levels import Levels
from mlc.passes.rules.load import FAMILIES, family
from mlc.passes.rules.rule import Constant, Node, Rule, Term, Variable
from mlc.passes.tensor.rules import Entry, limited
from mlc.pipeline import apply_step, prepare, steps_of
from mlc.version import __version__

FAR = (99, 99)
LOOKS = ((0, 0), (1, 0), (2, 0), (1, 1), (0, 1), (3, 0), (2, 2), (5, 0), (4, 4), (8, 8), FAR)
"""How many ops before a value a claim looks at, before and after: the first that are enough."""
NEAR = 3  # of these, which cost little
FEW = 64  # numbers of a constant that are written out
NOT_COVERED = ("plan", "tiles", "loops", "code", "rounding, NaN and errors of probabilistic steps")


class Text:
    """A module as lines that `mlc.check` reads. A value keeps its name for good."""

    def __init__(self) -> None:
        self._names: dict[SSAValue, str] = {}

    def name(self, value: SSAValue) -> str:
        """Of a value."""
        return self._names.setdefault(value, f"%{len(self._names)}")

    def module(self, module: ModuleOp) -> list[str]:
        """Its functions, the program first."""
        first = entry_function(module)
        functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
        others = [op for op in functions if op is not first and op.body.blocks]
        return [line for function in (first, *others) for line in self._function(function)]

    def _function(self, function: FuncOp) -> Iterator[str]:
        block, symbols = function.body.block, json.dumps(list(symbols_of(function)))
        yield f"func {json.dumps(function.sym_name.data)}({self._args(block)}) {symbols} {{"
        for op in block.ops:
            yield from self.op(op, "  ")
        yield "}"

    def op(self, op: Operation, indent: str) -> Iterator[str]:
        """An op, with its regions."""
        results = ", ".join(map(self.name, op.results))
        props = {k: _property(v) for k, v in sorted(op.properties.items())}
        text = f"{results} = " if results else ""
        text += op.name.removeprefix("mlc.").removeprefix("func.")
        text += f" {json.dumps(props)}" if props else ""
        text += "".join(f" {self.name(x)}" for x in op.operands)
        text += f" : {', '.join(_type(x) for x in op.results)}" if results else ""
        yield indent + text + " {" * bool(op.regions)
        for region in op.regions:
            yield f"{indent}^({self._args(region.block)})"
            for inner in region.block.ops:
                yield from self.op(inner, indent + "  ")
        if op.regions:
            yield indent + "}"

    def _args(self, block: Block) -> str:
        return ", ".join(f"{self.name(x)}: {_type(x)}" for x in block.args)


def _type(value: SSAValue) -> str:
    dims = ",".join(str(dim).replace(" ", "") for dim in shape_of(value.type))
    return f"{dtype_of(as_tensor(value.type).element_type).name}[{dims}]"


def _property(value: Attribute) -> Any:
    match value:
        case StringAttr():
            return value.data
        case IntegerAttr():
            return value.value.data
        case DimsAttr():
            return [d.constant if d.constant is not None else str(d) for d in value.data]
        case DenseArrayBase():
            return list(cast("DenseArrayBase[IntegerType]", value).get_values())
        case SymbolRefAttr():
            return value.string_value()
        case UnitAttr():
            return True
        case DenseIntOrFPElementsAttr():
            return _numbers(dense_array(value))
        case _:
            return str(value)


def _numbers(array: Any) -> Any:
    """A constant: one number, a few, or a digest."""
    flat = np.ascontiguousarray(array).reshape(-1)
    data, size = flat.tobytes(), flat.itemsize
    is_splat = data == data[:size] * flat.size
    if flat.dtype.kind == "c" or not flat.size or (flat.size > FEW and not is_splat):
        return {"sha256": hashlib.sha256(data).hexdigest(), "dtype": str(flat.dtype)}
    is_float = flat.dtype.kind not in "biu"
    few = flat[: 1 if is_splat else FEW].astype(np.float64 if is_float else flat.dtype).tolist()
    said = [x if not is_float or math.isfinite(x) else str(x) for x in few]
    return said[0] if is_splat else said


def certificate(levels: Levels) -> str:
    """
    The certificate of a program: what the passes of the tensor level do, for the target and the
    options of `levels`. It is the same text each time. What no claim can be made for says "none".
    """
    options, module = levels.options, levels.at_trace()
    prepare(module, options)
    writer = _Writer(module, dict.fromkeys(levels.signature.symbols, SIZE))
    for step in steps_of("tensor", options):
        with limited(heard=writer.rule):
            writer.step_name = step.name
            module = apply_step(step, module, options, Context())
        writer.rest(writer.text.module(module))
    header = {
        "certificate": 1,
        "compiler": f"mlc {__version__}",
        "function": levels.name,
        "target": options.target.name,
        "numerics": options.numerics,
        "sizes": writer.sizes,
        "not_covered": NOT_COVERED,
    }
    return writer.written(header)


def lines_of(levels: Levels) -> list[str]:
    """A program as it was traced, as certificates have it."""
    module = levels.at_trace()
    prepare(module, levels.options)
    return Text().module(module)


class _Writer:
    """Steps, as they are found."""

    def __init__(self, module: ModuleOp, sizes: Mapping[str, int]) -> None:
        self.text, self.sizes, self.step_name = Text(), dict(sizes), ""
        self.first = self.lines = self.text.module(module)
        self.program = Program(self.lines)
        self.steps: list[tuple[Json, list[str]]] = []
        self.rules: dict[str, Entry] = {}
        self.roots: dict[str, set[str]] = {}

    def rule(
        self, entry: Entry, op: Operation, value: SSAValue, built: Sequence[Operation]
    ) -> None:
        """A rule was applied."""
        was, now = self.text.name(op.results[0]), self.text.name(value)
        at = next(k for k, x in enumerate(self.lines) if x.lstrip().startswith(f"{was} = "))
        indent = self.lines[at][: -len(self.lines[at].lstrip())]
        old = list(self.text.op(op, indent))
        new = [line for x in built if x.parent is not None for line in self.text.op(x, indent)]
        self.rules[entry.name] = entry
        self.roots.setdefault(entry.name, set()).add(op.name.removeprefix("mlc."))
        change = [at, *(f"-{x}" for x in old), *(f"+{x}" for x in new)]
        self.step([(was, now)], change, {}, rule=entry.name)

    def rest(self, lines: list[str]) -> None:
        """What else a pass has done: the program has these lines now."""
        if lines == self.lines:
            return
        search = _Search(self.program, Program(lines), self.sizes)
        claims = search.found()
        names = {was: now for was, now in claims if was != now}
        old = renamed(self.lines, names)
        change: list[str | int] = []
        blocks = difflib.SequenceMatcher(None, old, lines, autojunk=False).get_opcodes()
        for kind, a, b, c, d in blocks:
            if kind == "equal":
                change.append(b - a)
            else:
                change += [f"-{x}" for x in old[a:b]] + [f"+{x}" for x in lines[c:d]]
        if blocks and blocks[-1][0] == "equal":
            change.pop()
        self.step(claims, change, search.hints, **search.said)

    def step(
        self,
        pairs: Sequence[tuple[str, str]],
        change: Sequence[str | int],
        hints: Mapping[tuple[str, str], Any],
        **more: Any,
    ) -> None:
        """One more step."""
        claims: list[Json] = [{"was": was, "is": now} for was, now in pairs]
        said = {"step": len(self.steps) + 1, "pass": self.step_name, **more}
        record = {**said, "claims": claims, "change": list(change)}
        self.lines = after(self.lines, record)
        program = Program(self.lines)
        found = Change(self.program, record, program, self.sizes)
        for claim in claims:
            pair = claim["was"], claim["is"]
            claim.update(_graded(found, *pair, hints.get(pair, LOOKS[0])))
        self.program = program
        self.steps.append((record, self.lines))

    def written(self, header: Json) -> str:
        """The certificate."""
        known = {rule.name: rule for name in FAMILIES for rule in family(name)}
        rules = [
            _rule(entry, known.get(name), self.roots[name])
            for name, entry in sorted(self.rules.items())
        ]
        records = [json.dumps(x) for x in (header, *rules, *self.first)]
        sealed = hashlib.sha256("\n".join(records).encode()).hexdigest()
        worth = Worth()
        for record, lines in self.steps:
            record["seal"] = sealed = seal(sealed, record, lines)
            records.append(json.dumps(record))
            worth.add(record["claims"])
        end = {"end": len(self.steps), **worth.said(), "seal": sealed}
        return "\n".join([*records, json.dumps(end)]) + "\n"


class _Search:
    """Which values must be claimed to be equal, so that two programs are: as few as are enough."""

    def __init__(self, before: Program, after: Program, sizes: Mapping[str, int]) -> None:
        self.before, self.after, self.sizes = before, after, sizes
        self.said: Json = {}
        if before.calls() > after.calls():
            self.said["inlines"] = True
        self.claims: list[tuple[str, str]] = []
        self.hints: dict[tuple[str, str], Any] = {}
        self.failed: set[tuple[str, str]] = set()
        self.change = self._change(())

    def found(self) -> list[tuple[str, str]]:
        """Pairs of values, before and after."""
        ends = [next(iter(p.functions.values()))[0].ops[-1] for p in (self.before, self.after)]
        for pair in zip(ends[0].operands, ends[1].operands, strict=True):
            if not self.proven(*pair):
                self._add(pair)
        return self.claims

    def proven(self, was: str, now: str) -> bool:
        """Whether values are equal, for which operands are looked at first."""
        if self._equal(was, now):
            return True
        if (was, now) in self.failed:
            return False
        a, b = self.before.makers.get(was), self.after.makers.get(now)
        if a is not None and b is not None and _alike(a, b, was, now):
            pairs = [*zip(a.operands, b.operands, strict=True), *self._inner(a, b)]
            tried = [self.proven(*pair) for pair in pairs]  # each of them, for each is a claim
            if all(tried) and self._equal(was, now):
                return True
        change = self._change([(was, now)])
        found = {} if change is None else _graded(change, was, now)
        if found.get("grade", "none") != "none":
            self.hints[was, now] = tuple(found["looks"])
            self._add((was, now))
            return True
        self.failed.add((was, now))
        return False

    def _inner(self, a: Op, b: Op) -> list[tuple[str, str]]:
        """The ends of regions, and of functions that are called."""
        blocks = [list(op.regions) for op in (a, b)]
        if "callee" in a.props:
            for k, (op, p) in enumerate(((a, self.before), (b, self.after))):
                blocks[k].append(p.functions[op.props["callee"]][0])
        ends = [(x.ops[-1].operands, y.ops[-1].operands) for x, y in zip(*blocks, strict=True)]
        return [pair for x, y in ends if len(x) == len(y) for pair in zip(x, y, strict=True)]

    def _equal(self, was: str, now: str) -> bool:
        assert self.change is not None
        return self.change.old.numbers[was] == self.change.new.numbers[now]

    def _add(self, pair: tuple[str, str]) -> None:
        self.claims.append(pair)
        self.change = self._change(())

    def _change(self, more: Sequence[tuple[str, str]]) -> Change | None:
        claims = [{"was": was, "is": now} for was, now in (*self.claims, *more)]
        try:
            return Change(self.before, {**self.said, "claims": claims}, self.after, self.sizes)
        except CertificateError:
            return None


def _alike(a: Op, b: Op, was: str, now: str) -> bool:
    """Whether two ops are of one kind, and these are results of one number."""
    return (a.name, a.props, len(a.operands), len(a.regions)) == (
        b.name,
        b.props,
        len(b.operands),
        len(b.regions),
    ) and a.results.index(was) == b.results.index(now)


def _graded(change: Change, was: str, now: str, hint: tuple[int, int] = LOOKS[0]) -> Json:
    """Grade and bound of a claim, with the nearest look that gives the best grade."""
    maker = change.before.makers.get(was)
    if maker is not None and maker.name in DERIVATIVES:
        return _tried(change, was, now, LOOKS[0])
    found = _tried(change, was, now, hint)
    if found["grade"] not in ("none", "tested"):
        return found
    for number, looks in enumerate(LOOKS):
        if number == NEAR and _tried(change, was, now, FAR)["grade"] == "none":
            return found  # what is wrong in the whole program is wrong from each place on
        better = _tried(change, was, now, looks)
        if better["grade"] not in ("none", "tested"):
            return better
        found = better if found["grade"] == "none" else found
    return found


def _tried(change: Change, was: str, now: str, looks: tuple[int, int]) -> Json:
    try:
        grade, bound = change.graded(was, now, looks)
    except CertificateError as error:
        return {"looks": [0, 0], "grade": "none", "bound": None, "why": str(error)}
    return {"looks": list(looks), "grade": grade, "bound": bound}


def _rule(entry: Entry, rule: Rule | None, roots: set[str]) -> Json:
    """What a certificate says of a rule; of one that is a function, the ops that it rewrote."""
    grade, left, right = "function", ["|".join(sorted(roots)), "*"], ""
    if rule is not None:
        grade = "none" if rule.grade is None else f"{rule.grade.name}, {rule.grade.shapes}"
        choices = dict(rule.choices)
        left, right = (_side(side[0], choices) for side in (rule.left, rule.right))
    said = {"rule": entry.name, "class": entry.equivalence, "grade": grade}
    return {**said, "left": left, "right": right}


def _side(term: Term, choices: Mapping[str, Sequence[str]]) -> Any:
    """A side of a rule: an op with its operands, a variable, or "" for a constant."""
    match term:
        case Node():
            return [
                "|".join(choices.get(term.op, (term.op,))),
                *(_side(x, choices) for x in term.operands),
            ]
        case Variable():
            return term.name
        case Constant():
            return ""
