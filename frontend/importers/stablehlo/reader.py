"""
Text to a module: the generic form of MLIR and the pretty forms of StableHLO, which files mix.

Pretty forms come in families. Most are operands, words and `key = value` separated by commas, then
a type; what is left has a method here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from mlc.frontend.importers.stablehlo.program import (
    Function,
    Kind,
    Module,
    Op,
    Region,
    TensorKind,
)
from mlc.frontend.importers.stablehlo.spelling import spelled
from mlc.frontend.importers.stablehlo.text import StableHloError, Text, without_aliases

_RESULTS = 1 << 16
"""Results of an op."""
_BOOLEAN = frozenset({"compare", "is_finite", "is_inf", "is_pos_inf", "is_neg_inf"})


def read(text: str, name: str = "<stablehlo>") -> Module:
    """The module; StableHloError names the line of what cannot be read."""
    reader = _Reader(Text(without_aliases(text), name))
    try:
        return reader.module()
    except StableHloError:
        raise
    except RecursionError:
        reader.t.fail("regions or lists this deep in each other", "fewer levels")
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        reader.t.fail(f"what means nothing here ({error})")


class _Reader:
    def __init__(self, text: Text) -> None:
        self.t = text
        self.fresh = 0
        self.kinds: list[dict[str, Kind]] = [{}]  # of values, by scope

    # modules and functions ------------------------------------------------------------------------

    def module(self) -> Module:
        """`module @name attributes {…} { functions }`, or functions alone."""
        t, functions, name = self.t, dict[str, Function](), ""
        said: dict[str, Any] = {}
        if t.token == '"builtin.module"':
            return self._generic_module()
        braces = t.takes("module") or t.takes("builtin.module")
        if braces:
            if t.kind == "symbol":
                name = t.next()[1:].strip('"')
            if t.takes("attributes"):
                said = t.dictionary()
            t.wants("{")
        while t.kind != "end" and not t.sees("}"):
            if t.takes("sdy.mesh"):  # @mesh = <["x"=1]> {…}: where values are to be
                t.wants_kind("symbol", "the mesh's name")
                t.wants("=")
                t.skip_brackets()
                if t.sees("{"):
                    t.skip_brackets()
                continue
            function = self._function()
            functions[function.name] = function
        if braces:
            t.wants("}")
            if t.kind != "end":
                t.fail(t.found, "the end")
        if not functions:
            t.fail("no function", "func.func")
        return Module(functions, name, _processes(said))

    def _generic_module(self) -> Module:
        """`"builtin.module"() ({ functions }) : () -> ()`."""
        op = self._op()
        (region,) = op.regions or (Region((), ()),)
        functions: dict[str, Function] = {}
        for each in region.ops:
            if each.name == "sdy.mesh":
                continue
            if each.name != "func" or len(each.regions) != 1:
                self.t.fail(f"{each.name} on line {each.line}", "func.func")
            name = str(each.get("sym_name"))
            kinds: list[Kind] | None = (each.get("function_type") or [None])[0]
            if kinds is None:
                self.t.fail("a function without a type", "function_type", each.line)
            public = each.get("sym_visibility") != "private"
            functions[name] = Function(name, each.regions[0], tuple(kinds), public)
        if not functions:
            self.t.fail("no function", "func.func")
        return Module(functions, str(op.get("sym_name", "")), _processes(op.attributes))

    def _function(self) -> Function:
        t = self.t
        if not (t.takes("func.func") or t.takes("func")):
            t.fail(t.found, "func.func")
        public = not t.takes("private")
        t.takes("public")
        name = t.wants_kind("symbol", "the function's name")[1:].strip('"')
        self.kinds.append({})
        arguments = t.listed("(", ")", self._argument)
        if t.takes("->"):
            if t.sees("("):
                t.listed("(", ")", self._result)
            else:
                t.a_type()
        if t.takes("attributes"):
            t.dictionary()
        region = self._region([value for value, _ in arguments])
        self.kinds.pop()
        return Function(name, region, tuple(kind for _, kind in arguments), public)

    def _argument(self) -> tuple[str, Kind]:
        found = self._block_argument()
        if self.t.sees("{"):
            self.t.dictionary()
        return found

    def _result(self) -> Kind:
        kind = self.t.a_type()
        if self.t.sees("{"):
            self.t.dictionary()
        return kind

    # values ---------------------------------------------------------------------------------------

    def _is(self, value: str, kind: Kind) -> None:
        if any(value in scope for scope in self.kinds):
            self.t.fail(f"{value}, which is defined before", "another name")
        self.kinds[-1][value] = kind

    def _kind(self, value: str, line: int | None = None) -> Kind:
        for scope in reversed(self.kinds):
            if value in scope:
                return scope[value]
        return self.t.fail(f"{value}, which nothing defines", "a value", line)

    def _operand(self) -> str:
        return self.t.wants_kind("value", "a value")

    # regions --------------------------------------------------------------------------------------

    def _region(self, arguments: Sequence[str] = ()) -> Region:
        """`{ ops }`, perhaps with `^bb0(%a: type):` in front."""
        t = self.t
        t.wants("{")
        self.kinds.append({})
        names = list(arguments)
        if t.kind == "block":
            t.next()
            if t.sees("("):
                names += [value for value, _ in t.listed("(", ")", self._block_argument)]
            t.wants(":")
        ops: list[Op] = []
        while not t.takes("}"):
            ops.append(self._op())
        self.kinds.pop()
        return Region(tuple(names), tuple(ops))

    def _block_argument(self) -> tuple[str, Kind]:
        value = self.t.wants_kind("value", "an argument")
        self.t.wants(":")
        kind = self.t.a_type()
        self._is(value, kind)
        return value, kind

    # ops ------------------------------------------------------------------------------------------

    def _op(self) -> Op:
        t, line = self.t, self.t.line
        results: list[str] = []
        if t.kind == "value":
            results = self._results()
        if t.kind == "string":
            op = self._generic(line)
        else:
            op = self._pretty(line)
        takes = tuple(self._kind(value, line) for value in op.operands)
        names = self._named(results, len(op.kinds))
        for name, kind in zip(names, op.kinds, strict=True):
            self._is(name, kind)
        return replace(op, results=names, takes=takes)

    def _results(self) -> list[str]:
        """`%0:2, %1 =`: names, those of several as `%0#0`."""
        t, found = self.t, list[str]()
        while True:
            name = t.wants_kind("value", "a result")
            if t.takes(":"):
                count = int(t.wants_kind("number", "a number of results"))
                if count > _RESULTS:
                    t.fail(f"{count} results", f"{_RESULTS} at most")
                found += [f"{name}#{k}" for k in range(count)]
            else:
                found.append(name)
            if not t.takes(","):
                break
        t.wants("=")
        return found

    def _named(self, names: Sequence[str], count: int) -> tuple[str, ...]:
        if len(names) == count:
            return tuple(names)
        if names:
            self.t.fail(f"{len(names)} names for {count} results", f"{count}")
        self.fresh += 1
        return tuple(f"%!{self.fresh}#{k}" for k in range(count))

    def _generic(self, line: int) -> Op:
        """`"op"(%a) <{…}> ({…}) {…} : (types) -> types`."""
        t = self.t
        name = _short(t.next().strip('"'))
        operands = t.listed("(", ")", self._operand)
        if t.sees("["):
            t.fail("successors", "an op of StableHLO")
        attributes: dict[str, Any] = {}
        if t.takes("<"):
            attributes |= t.dictionary()
            t.wants(">")
        regions: list[Region] = []
        if t.sees("("):
            regions = t.listed("(", ")", self._region)
        if t.sees("{"):
            attributes |= t.dictionary()
        kinds = self._function_type(operands, line)
        return Op(name, tuple(operands), (), tuple(kinds), line, attributes, tuple(regions))

    def _function_type(self, operands: Sequence[str], line: int) -> list[Kind]:
        t = self.t
        t.wants(":")
        self._check(operands, t.types(), line)
        t.wants("->")
        return t.types()

    def _check(self, operands: Sequence[str], said: Sequence[Kind], line: int) -> None:
        """Fails where the text says other types of operands than where they are defined."""
        if len(said) != len(operands):
            self.t.fail(f"{len(said)} types of operands", f"{len(operands)}", line)
        for value, kind in zip(operands, said, strict=True):
            known = self._kind(value, line)
            if isinstance(known, TensorKind) and known != kind:
                self.t.fail(f"{value} as {kind}", str(known), line)

    def _pretty(self, line: int) -> Op:
        t = self.t
        name = _short(t.wants_kind("word", "an op"))
        form = _FORMS.get(name)
        if form is not None:
            return form(self, name, line)
        return self._listed(name, line)

    def _listed(self, name: str, line: int) -> Op:
        """Operands, words, ranges and keys, in any order, up to the type."""
        t = self.t
        operands: list[str] = []
        attributes: dict[str, Any] = {}
        words: list[str] = []
        ranges: list[tuple[int, int, int]] | None = None
        brackets = t.takes("(")  # chlo.top_k(%x, k = 3)
        while not (t.sees(":") or t.sees("}") or t.kind == "end"):
            if t.takes(",") or (brackets and t.takes(")")):
                continue
            if t.kind == "value":
                operands.append(self._operand())
            elif t.sees("[") and name == "get_tuple_element":
                (attributes["index"],) = t.attribute()
            elif t.sees("["):
                ranges = self._ranges()
            elif t.sees("{"):
                attributes |= t.dictionary()
            elif t.sees("<") and name.startswith("sdy."):
                attributes["sharding"] = t.skip_brackets()[1:-1]
            elif t.sees("<"):
                t.next()
                attributes |= t.dictionary()
                t.wants(">")
            elif t.kind in ("word", "symbol", "string"):
                word = t.next()
                if t.takes("="):
                    attributes[word] = self._paired()
                else:
                    words.append(word)
            else:
                break
        attributes = spelled(name, attributes, words, ranges)
        kinds = self._kinds_of(name, operands)
        return Op(name, tuple(operands), (), tuple(kinds), line, attributes)

    def _paired(self) -> Any:
        """A value, or `[1] x [0]`; the type behind a number is the op's."""
        number = self.t.kind == "number" or self.t.sees("-")
        first = self.t.number(typed=False) if number else self.t.attribute()
        if self.t.sees("x"):
            self.t.next()
            return first, self.t.attribute()
        return first

    def _ranges(self) -> list[tuple[int, int, int]]:
        """`[1:3, 0:5:2]`."""
        inside = self.t.skip_brackets()[1:-1]
        found: list[tuple[int, int, int]] = []
        for part in inside.split(",") if inside.strip() else ():
            numbers = [int(x) for x in re.findall(r"\d+", part)]
            if len(numbers) not in (2, 3):
                self.t.fail(f"the range {part!r}", "start:limit or start:limit:stride")
            found.append((numbers[0], numbers[1], numbers[2] if len(numbers) == 3 else 1))
        return found

    def _kinds_of(self, name: str, operands: Sequence[str]) -> list[Kind]:
        """The results' types, from what stands behind the colon."""
        t = self.t
        if not t.takes(":"):
            return [] if name in ("return",) else [self._kind(operands[0])]
        first = t.types()
        while t.takes(","):
            first += [t.a_type()]
        if t.takes("->"):
            self._check(operands, first, t.line)
            return t.types()
        if name == "return":
            self._check(operands, first, t.line)
            return []
        if name == "optimization_barrier":
            return first
        kind = first[-1]  # select: the predicate's type stands first
        if name in _BOOLEAN and isinstance(kind, TensorKind):
            return [TensorKind(kind.shape, "i1")]
        return [kind]

    # forms of their own ---------------------------------------------------------------------------

    def constant(self, name: str, line: int) -> Op:
        """`constant dense<…> : type`; quantised: `constant() {value = …} : () -> type`."""
        t = self.t
        if t.takes("("):
            t.wants(")")
            attributes = t.dictionary()
            return Op(name, (), (), tuple(self._function_type((), line)), line, attributes)
        attributes = t.dictionary() if t.sees("{") else {}
        attributes["value"], kind = t.typed_dense()
        return Op(name, (), (), (kind,), line, attributes)

    def call(self, name: str, line: int) -> Op:
        """`call @f(%a) {…} : type`, and `custom_call`."""
        t = self.t
        target = t.wants_kind("symbol", "a function's name")[1:].strip('"')
        operands = t.listed("(", ")", self._operand)
        attributes = t.dictionary() if t.sees("{") else {}
        kinds = self._function_type(operands, line)
        key = "callee" if name == "call" else "call_target_name"
        return Op(name, tuple(operands), (), tuple(kinds), line, {**attributes, key: target})

    def convolution(self, name: str, line: int) -> Op:
        """`convolution(%a, %b) dim_numbers = […], window = {…} {…} : type`."""
        t = self.t
        operands = t.listed("(", ")", self._operand)
        t.wants("dim_numbers")
        t.wants("=")
        begin = t.start
        while not t.sees(","):
            t.skip_brackets() if t.sees("[") else t.next()
        attributes: dict[str, Any] = {"dimension_numbers": t.text[begin : t.start].strip()}
        t.next()
        t.wants("window")
        t.wants("=")
        attributes |= {_WINDOW.get(k, k): v for k, v in t.dictionary().items()}
        if "padding" in attributes:
            attributes["padding"] = np.array(attributes["padding"], np.int64).reshape(-1, 2)
        if t.sees("{"):
            attributes |= t.dictionary()
        kinds = self._function_type(operands, line)
        return Op(name, tuple(operands), (), tuple(kinds), line, attributes)

    def reduce(self, name: str, line: int) -> Op:
        """`reduce(%x init: %c), (%y init: %d) applies stablehlo.add across dimensions = [0] …`."""
        t = self.t
        pairs: list[tuple[str, str]] = []
        while t.takes("("):
            operand = self._operand()
            t.wants("init")
            t.wants(":")
            pairs.append((operand, self._operand()))
            t.wants(")")
            t.takes(",")
        applied = _short(t.next()) if t.takes("applies") else None
        t.wants("across")
        t.wants("dimensions")
        t.wants("=")
        attributes: dict[str, Any] = {"dimensions": t.attribute()}
        if t.sees("{"):
            attributes |= t.dictionary()
        operands = [a for a, _ in pairs] + [b for _, b in pairs]
        kinds = self._function_type(operands, line)
        if applied is not None:
            region = _applying(applied, kinds[0])
        else:
            t.wants("reducer")
            names: list[str] = []
            second: list[str] = []
            while t.sees("("):
                (a, _), (b, _) = t.listed("(", ")", self._block_argument)
                names.append(a)
                second.append(b)
                t.takes(",")
            region = self._region([*names, *second])
        return Op(name, tuple(operands), (), tuple(kinds), line, attributes, (region,))

    def loop(self, name: str, line: int) -> Op:
        """`while(%i = %a, …) : types cond { … } do { … }`."""
        t = self.t

        def one() -> tuple[str, str]:
            inside = t.wants_kind("value", "a value")
            t.wants("=")
            return inside, self._operand()

        pairs = t.listed("(", ")", one)
        t.wants(":")
        kinds = [t.a_type()]
        while t.takes(","):
            kinds.append(t.a_type())
        self.kinds.append({})  # another loop may call its values the same
        for (inside, _), kind in zip(pairs, kinds, strict=True):
            self._is(inside, kind)
        if t.takes("attributes"):
            t.dictionary()
        names = [inside for inside, _ in pairs]
        t.wants("cond")
        condition = self._region(names)
        t.wants("do")
        body = self._region(names)
        self.kinds.pop()
        operands = tuple(operand for _, operand in pairs)
        return Op(name, operands, (), tuple(kinds), line, {}, (condition, body))

    def scan(self, name: str, line: int) -> Op:
        """`chlo.scan(%x) inits (%c) dimension=0 attributes {…} {^bb0(%a: …, %b: …): …} : type`."""
        t = self.t
        xs = t.listed("(", ")", self._operand)
        t.wants("inits")
        starts = t.listed("(", ")", self._operand)
        t.wants("dimension")
        t.wants("=")
        attributes: dict[str, Any] = {"dimension": t.number(typed=False)}
        if t.takes("attributes"):
            attributes |= t.dictionary()
        region = self._region()
        kinds = self._function_type((*xs, *starts), line)
        attributes["operandSegmentSizes"] = [len(xs), len(starts)]
        attributes["resultSegmentSizes"] = [len(kinds) - len(starts), len(starts)]
        return Op(name, (*xs, *starts), (), tuple(kinds), line, attributes, (region,))


_WINDOW = {
    "stride": "window_strides", "pad": "padding", "lhs_dilate": "lhs_dilation",
    "rhs_dilate": "rhs_dilation", "reverse": "window_reversal",
}  # fmt: skip

_FORMS: dict[str, Callable[[_Reader, str, int], Op]] = {
    "constant": _Reader.constant,
    "chlo.constant": _Reader.constant,
    "call": _Reader.call,
    "custom_call": _Reader.call,
    "convolution": _Reader.convolution,
    "reduce": _Reader.reduce,
    "while": _Reader.loop,
    "chlo.scan": _Reader.scan,
}


def _short(name: str) -> str:
    """`stablehlo.add`, `func.call`: without what says no more."""
    for start in ("stablehlo.", "mhlo.", "func."):
        name = name.removeprefix(start)
    return name


def _processes(said: Mapping[str, Any]) -> int:
    """How many run a module, by its attributes."""
    return int(said.get("mhlo.num_partitions", 1)) * int(said.get("mhlo.num_replicas", 1))


def _applying(name: str, kind: Kind) -> Region:
    """A region that is one op of two elements."""
    element = replace(kind, shape=()) if isinstance(kind, TensorKind) else kind
    result = Op(name, ("%a", "%b"), ("%c",), (element,), 0)
    return Region(("%a", "%b"), (result, Op("return", ("%c",), (), (), 0)))
