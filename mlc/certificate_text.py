"""
Programs as lines of certificates: each op with what it does in the few words that `mlc.check` knows
(`is`), where it does anything that these can say.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np
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

from mlc.certificate_ops import Core, Json, core, cropped, windows
from mlc.check import Terms
from mlc.dialects.dims import Dim, DimsAttr, as_tensor, shape_of
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.program import entry_function, symbols_of
from mlc.dialects.tensor.create import dense_array

FEW = 64  # numbers of a constant that are written out


class Text:
    """A module's values as terms of the checker. What is not one yet gets a line, and a name."""

    def __init__(self, terms: Terms, sizes: Mapping[str, int], first: int = 0) -> None:
        self.terms, self.sizes, self._first = terms, dict(sizes), first
        self.heard: Callable[[int, Sequence[str]], None] | None = None
        self.names: dict[SSAValue, str] = {}
        self.lines: list[Any] = []  # new ones
        self.visits: list[tuple[str, ...]] = []  # the names of the results of each op, in order
        self.called: dict[int, str] = {}  # a name for each number that has one
        self._callees: dict[str, FuncOp] = {}
        self._scope: dict[str, Dim] = {}
        self._bound: dict[str, str] = {}  # symbols that are bound, and the ops that do it
        self._said: set[str] = set()  # symbols that the op at hand mentions

    def program(self, module: ModuleOp) -> Json:
        """What a module's program takes and gives."""
        function = entry_function(module)
        functions = [op for op in module.body.block.ops if isinstance(op, FuncOp)]
        self._callees = {op.sym_name.data: op for op in functions if op.body.blocks}
        self.names, self.visits = {}, []
        args, results = self.body(function.body.block, 0)
        said = [function.sym_name.data, *symbols_of(function)]
        return {"function": said, "args": args, "results": results}

    def body(self, block: Block, level: int) -> tuple[list[str], list[str]]:
        """Names of a block's arguments, and of what it ends with."""
        for k, x in enumerate(block.args):
            line: Any = ("arg", {"level": level, "number": k}, [], [self._type(x)], [])
            self.names[x] = self.named(line)[0]
            self._visited((self.names[x],))
        return [self.names[x] for x in block.args], self.ends(block, level)

    def ends(self, block: Block, level: int) -> list[str]:
        """Names of what a block ends with. What does not matter for that has no lines."""
        bound, alive, order = dict(self._bound), set[SSAValue](), list[Operation]()
        for op in reversed(list(block.ops)):
            if not op.results or any(x in alive for x in op.results):
                order.append(op)
                alive.update(x for inner in op.walk() for x in inner.operands)
        for op in reversed(order[1:]):
            self.op(op, level)
        self._bound = bound
        return [self.names[x] for x in order[0].operands]

    def op(self, op: Operation, level: int) -> tuple[str, ...]:
        """Names an op's results."""
        if op.name in ("mlc.call", "mlc.rule"):
            found = self._inside(op, level)
        elif op.name == "mlc.if":
            found = self._branches(op, level)
        elif op.name in ("mlc.pull_back", "mlc.push_forward"):
            found = (*self._inside(op, level), *self.named(self.line(op, level)))
        else:
            found = self.named(self.line(op, level))
        if op.name == "mlc.bind":
            self._bound[cast("StringAttr", op.properties["symbol"]).data] = found[0]
        self.names.update(zip(op.results, found, strict=False))  # ops without results have one
        self._visited(found)
        return found

    def _branches(self, op: Operation, level: int) -> tuple[str, ...]:
        """Both branches are written, and then what is selected."""
        ends = [self.ends(region.block, level) for region in op.regions]
        condition, found = self.names[op.operands[0]], list[str]()
        for x, *sides in zip(op.results, *ends, strict=True):
            found += self.named(("select", {}, [condition, *sides], [self._type(x)], []))
        return tuple(found)

    def named(self, line: Any) -> tuple[str, ...]:
        """The names of what a line defines; new ones where it is new."""
        op, props, operands, types, bodies = line
        head = json.dumps([op, props, types], sort_keys=True)
        numbers = self.terms.known.get(self.terms.key(head, operands, bodies))
        if numbers is not None:
            return tuple(self.called[self.terms.find(x)] for x in numbers)
        first, next_number = self._first + len(self.terms.names), len(self.terms.terms)
        names = [f"%{first + k}" for k in range(len(types))]
        self.lines.append([names, *line])
        self.terms.define(self.lines[-1])
        for number, name in enumerate(names, next_number):
            self.called[self.terms.find(number)] = name
        return tuple(names)

    def line(self, op: Operation, level: int) -> Any:
        """An op's line, but for the names of its results."""
        name = op.name.removeprefix("mlc.").removeprefix("func.")
        bodies: list[Any] = [[*self.body(x.block, level + 1)] for x in op.regions]
        results = list(op.results)
        if (function := self._callee(op)) is not None:
            kept, scope = self.names, self._enter(op, function)
            self.names = {}
            bodies.append([*self.body(function.body.block, level + 1)])
            self.names, self._scope = kept, scope
            if name != "batch":
                del results[: len(bodies[0][1])]
        self._said = set()
        types = [self._type(x) for x in results] or [["none", []]]
        props = Json()
        for k, value in sorted(op.properties.items()):
            props[k] = self._property(value)
            if isinstance(value, DimsAttr) and (said := self._dims(value.data)[1]):
                props[f"{k}, said"] = said
        props.pop("callee", None)
        operands = [self.names[x] for x in op.operands]
        if not bodies and isinstance(props.get("value"), dict):
            return "arg", {"constant": props["value"]}, [], types, []
        if not bodies and (does := self._does(name, op, props, operands)) != (name, {}):
            props["is"] = [*does]
        bodies += [[[], [self._bound[x]]] for x in sorted(self._said & self._bound.keys())]
        return name, props, operands, types, bodies

    def _does(self, name: str, op: Operation, props: Json, operands: list[str]) -> Core:
        """What an op without bodies is to the checker, and which operands it reads then."""
        *shapes, shape = (self._dims(shape_of(x.type))[0] for x in (*op.operands, *op.results))
        try:
            looks = [None] * len(operands)
            if name in ("conv", "window"):
                props, looks = windows(props, shapes, shape)
            elif name == "pad":
                props, looks = cropped(props, shapes[0])
            found = core(name, props, shapes, shape)
        except (LookupError, TypeError, ValueError):  # a size that is computed, or a variant
            return "unknown", {}
        for k, look in enumerate(looks):
            if look is not None:
                type_ = [self._type(op.operands[k])[0], look[1]]
                line: Any = ("look", {"is": ["look", look[0]]}, [operands[k]], [type_], [])
                operands[k] = self.named(line)[0]
        if name == "sort":
            type_ = ["i64", shape]
            operands += self.named(("argsort", {}, [operands[0]], [type_], []))
        return found

    def taken(self) -> list[Any]:
        """The new lines, which are somebody's now."""
        found, self.lines = self.lines, []
        return found

    def seen(self) -> set[int]:
        """The classes of values of the program that was looked at last."""
        return set(self.terms.of([x for names in self.visits for x in names]))

    def same(self, was: str, now: str) -> None:
        """Values are equal from now on, and called as the later one."""
        self.terms.equal((self.terms.names[was], self.terms.names[now]))
        roots = {self.terms.find(x): name for x, name in self.called.items()}
        self.called |= roots | dict.fromkeys(self.terms.of([now]), now)

    def visit(self, name: str) -> tuple[int, int]:
        """When the program's value was first named, and which result of its op it is."""
        wanted = self.terms.of([name])
        every = [(k, n, x) for k, names in enumerate(self.visits) for n, x in enumerate(names)]
        return next((k, n) for k, n, x in every if self.terms.of([x]) == wanted)

    def state(self) -> Any:
        """What `go_back` goes back to."""
        terms = self.terms
        return (
            [*terms.terms], {**terms.names}, [*terms.lines], {**terms.earlier}, {**terms.known},
            {**self.names}, [*self.lines], [*self.visits], {**self.called},
        )  # fmt: skip

    def go_back(self, state: Any) -> None:
        """Forgets what was said since."""
        terms = self.terms
        terms.terms, terms.names, terms.lines, terms.earlier, terms.known, *own = state
        self.names, self.lines, self.visits, self.called = own

    def _visited(self, names: tuple[str, ...]) -> None:
        self.visits.append(names)
        if self.heard is not None:
            self.heard(len(self.visits) - 1, names)

    def _callee(self, op: Operation) -> FuncOp | None:
        callee = op.properties.get("callee")
        return self._callees[callee.string_value()] if isinstance(callee, SymbolRefAttr) else None

    def _inside(self, op: Operation, level: int) -> tuple[str, ...]:
        """What a function or a region ends with: it is written where it is called."""
        kept, scope, function = self.names, self._scope, self._callee(op)
        block = op.regions[0].block if function is None else function.body.block
        operands = (self.names[x] for x in op.operands)
        given = dict(zip(block.args, operands, strict=False))  # derivatives are given more
        self.names = {**kept, **given}
        if function is not None:
            self._enter(op, function)
        found = self.ends(block, level)
        self.names, self._scope = kept, scope
        return tuple(found)

    def _enter(self, op: Operation, function: FuncOp) -> dict[str, Dim]:
        sizes, scope = op.properties.get("sizes"), self._scope
        dims = [x.substitute(scope) for x in sizes.data] if isinstance(sizes, DimsAttr) else []
        self._scope = dict(zip(symbols_of(function), dims, strict=True)) if dims else {}
        return scope

    def _dims(self, dims: Sequence[Dim]) -> tuple[list[Any], str]:
        """Sizes as numbers, and as they are said where symbols say them."""
        dims = [x.substitute(self._scope) for x in dims]
        symbols = {name for x in dims for name in x.symbols()}
        self._said |= symbols
        numbers = [
            x.evaluate(self.sizes) if x.symbols() <= self.sizes.keys() else str(x) for x in dims
        ]
        return numbers, ",".join(map(str, dims)) if symbols else ""

    def _type(self, value: SSAValue) -> list[Any]:
        shape, said = self._dims(shape_of(value.type))
        kind = [dtype_of(as_tensor(value.type).element_type).name, shape]
        return [*kind, said] if said else kind

    def _property(self, value: Attribute) -> Any:
        match value:
            case StringAttr():
                return value.data
            case IntegerAttr():
                return value.value.data
            case DimsAttr():
                return self._dims(value.data)[0]
            case DenseArrayBase():
                return list(cast("DenseArrayBase[IntegerType]", value).get_values())
            case UnitAttr():
                return True
            case DenseIntOrFPElementsAttr():
                return _numbers(dense_array(value))
            case _:
                return str(value)


def _numbers(array: Any) -> Any:
    """A constant: a number for all elements, some, or a digest."""
    flat = np.ascontiguousarray(array).reshape(-1)
    data, size = flat.tobytes(), flat.itemsize
    is_splat = data == data[:size] * flat.size
    if flat.dtype.kind == "c" or not flat.size or (flat.size > FEW and not is_splat):
        return {"sha256": hashlib.sha256(data).hexdigest()}
    is_float = flat.dtype.kind not in "biu"
    few = flat[: 1 if is_splat else FEW].astype(np.float64 if is_float else flat.dtype).tolist()
    return [x if not is_float or math.isfinite(x) else str(x) for x in few]
