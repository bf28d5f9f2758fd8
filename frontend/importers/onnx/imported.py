# pyright: basic
"""A model as a function: which inputs are part of the program, which sizes vary, what compiles."""

from __future__ import annotations

import keyword
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from inspect import Parameter
from typing import Any, Literal

import numpy as np

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import is_known
from mlc.dialects.errors import DTypeError, MlcError, ShapeError
from mlc.frontend.call.compile import Compiled
from mlc.frontend.call.compile import compile as compile_function
from mlc.frontend.call.spec import TensorSpec
from mlc.frontend.errors import ConcretizationError, NotSupportedError
from mlc.frontend.importers.onnx.graph import Model, Node, Port
from mlc.frontend.importers.onnx.run import Run
from mlc.frontend.importers.onnx.values import PLACES, literals
from mlc.frontend.importers.signed import signed, spelled
from mlc.frontend.numpy.values import is_operand, lift
from mlc.frontend.trace.called import called
from mlc.frontend.trace.trace import current
from mlc.frontend.trace.tracer import Tracer

Weights = Literal["constants", "arguments"]
Names = tuple[str, ...]
_COMPUTED = object()  # an output that is not known while tracing


class Imported:
    """
    A model as a function of its inputs, in their order or by name. Inputs that decide on shapes
    are part of the program: another number is another program. Sizes that the model names vary:
    one program serves all of them, as far as none decides what the model computes.
    """

    def __init__(self, model: Model, weights: Weights = "constants") -> None:
        wanted = _wanted(model, model.graph.nodes, set())
        self._model = model
        self.__name__ = model.graph.name or "model"
        self.weights: dict[str, Any] = {}
        if weights == "arguments":
            self.weights = {
                name: w for name, w in model.graph.weights.items()
                if name not in wanted and w.dtype.kind in "fcV"
            }  # fmt: skip
        own = tuple(Port(name, w.dtype, w.shape) for name, w in self.weights.items())
        self.inputs: tuple[Port, ...] = (*model.graph.inputs, *own)
        self.outputs: tuple[Port, ...] = model.graph.outputs
        self._fixed = tuple(port.name for port in model.graph.inputs if port.name in wanted)
        self._symbols = _Symbols()  # of calls that succeeded
        self._compiled: dict[Any, Compiled[..., Any]] = {}

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        """
        The output, or a tuple of several. Weights that are arguments and are not given are the
        model's own.
        """
        given = {**self.weights, **self._given(arguments, named)}
        if current() is not None:
            return self._called(given)
        fixed = {k: np.asarray(given[k]) for k in self._fixed if k in given}
        values = {k: x for k, x in given.items() if k not in fixed}
        key = (
            tuple(values),
            *((name, str(x.dtype), x.shape, x.tobytes()) for name, x in fixed.items()),
        )
        if (known := self._compiled.get(key)) is not None:
            return known(*values.values())
        symbols = self._symbols
        while True:
            function = self._program(tuple(values), fixed, symbols)
            try:
                found = function(*values.values())
            except MlcError as error:
                fewer = symbols.without(error)
                if fewer is None:
                    raise
                symbols = fewer
                continue
            self._symbols, self._compiled[key] = symbols, function
            return found

    def programs(self) -> list[Any]:
        """The programs that calls have made, each with the reason for it."""
        return [a for function in self._compiled.values() for a in function.stats().artifacts]

    def compiled(self, **options: Any) -> Compiled[..., Any]:
        """
        The function with the options of `mlc.compile`. Its parameters are named like the inputs,
        as Python can spell them; what decides on shapes is static.
        """
        names = tuple(port.name for port in self.inputs)
        return self._program(names, {}, self._symbols, **options)

    def _program(
        self, names: Names, fixed: Mapping[str, Any], symbols: _Symbols, **options: Any
    ) -> Compiled[..., Any]:
        ports = {port.name: port for port in self.inputs}
        static = [name for name in names if name in self._fixed]

        def run(*arguments: Any) -> Any:
            return self._traced({**fixed, **dict(zip(names, arguments, strict=True))})

        texts = dict(zip(names, spelled(names), strict=True))
        some = {
            text: axes for name, text in texts.items()
            if name not in static and (axes := symbols.some(ports[name]))
        }  # fmt: skip
        kinds = [Parameter.empty if name in static else symbols.spec(ports[name]) for name in names]
        given = {
            "static": [texts[name] for name in static],
            "dynamic": some or False,
            "typical": True,
        }
        results = [port.name for port in self.outputs]
        function = signed(run, self.__name__, names, kinds, results)
        return compile_function(function, **{**given, **options})

    def _given(self, arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
        names = [port.name for port in self.inputs]
        if len(arguments) > len(names):
            raise TypeError(f"{self.__name__} takes {len(names)} inputs, found {len(arguments)}")
        given = {**dict(zip(names, arguments, strict=False)), **named}
        if unknown := sorted(set(given) - set(names)):
            raise TypeError(
                f"{self.__name__} has no input {unknown[0]!r}; expected {', '.join(names)}"
            )
        self._check({k: x for k, x in given.items() if isinstance(x, Tracer | np.ndarray)})
        return {k: x for k, x in given.items() if x is not None}

    def _check(self, given: Mapping[str, Any]) -> None:
        """TypeError, DTypeError or ShapeError where an array is not what its input is."""
        sizes: dict[str, tuple[int, str]] = {}  # by name: a number, and where it is from
        for port in self.inputs:
            if (x := given.get(port.name)) is None:
                continue
            what = f"{self.__name__}: input {port.name!r}"
            if port.dtype is not None and x.dtype.newbyteorder("=") != port.dtype:
                raise DTypeError(f"{what} is {x.dtype}; expected {port.dtype}")
            if not is_known(x.dtype.newbyteorder("=")) and port.name not in self._fixed:
                nodes = [n.said for n in self._model.graph.nodes if port.name in n.inputs]
                kind = "text" if x.dtype.kind in "OUS" else x.dtype
                raise NotSupportedError(
                    f"{what} is {kind}, which programs do not have; {', '.join(nodes)} reads it"
                )
            if port.shape is None:
                continue
            expected = ", ".join(str(n or "?") for n in port.shape)
            if x.ndim != len(port.shape):
                raise TypeError(
                    f"{what} has {x.ndim} axes; expected {len(port.shape)} ({expected})"
                )
            for axis, (said, size) in enumerate(zip(port.shape, x.shape, strict=True)):
                if said is None or not isinstance(size, int) or port.name in self._fixed:
                    continue
                if isinstance(said, int):
                    if said != size:
                        raise ShapeError(f"{what} has the shape {x.shape}; expected ({expected})")
                    continue
                place = f"axis {axis} of {port.name!r}"
                known, other = sizes.setdefault(said, (size, place))
                if known != size:
                    raise ShapeError(
                        f"{self.__name__}: {other} and {place} are both called {said}, but they"
                        f" have {known} and {size} elements"
                    )

    def _called(self, given: Mapping[str, Any]) -> Any:
        """
        The outputs, by a call of one of the program's functions: what decides on shapes is part of
        that, and what the model knows of its outputs stays known.
        """
        given = {k: _as_known(x) if k in self._fixed else x for k, x in given.items()}
        names = [
            name for name, x in given.items()
            if name not in self._fixed and not isinstance(x, list) and is_operand(x)
        ]  # fmt: skip
        known: list[Any] = []

        def run(*arrays: Any) -> Any:
            found = self._traced({**given, **dict(zip(names, arrays, strict=True))})
            found = found if isinstance(found, tuple) else (found,)
            known[:] = [_COMPUTED if isinstance(x, Tracer) else x for x in found]
            return [x for x in found if isinstance(x, Tracer)]

        made = iter(
            called(self.__name__, run, *(lift(given[name], self.__name__) for name in names))
        )
        found = tuple(next(made) if x is _COMPUTED else x for x in known)
        return found[0] if len(found) == 1 else found

    def _traced(self, given: Mapping[str, Any]) -> Any:
        def value(name: str) -> Any:
            x = given.get(name)
            if x is None or isinstance(x, Tracer | list):
                return x
            return np.asarray(x) if name in self._fixed else lift(x, self.__name__)

        graph = self._model.graph
        if self.weights:
            mine = {name: value(name) for name in self.weights}
            graph = replace(graph, weights={**graph.weights, **mine})
        given_values = [value(port.name) for port in graph.inputs]
        with literals({} if self.weights else graph.weights):
            found = Run(self._model).graph(graph, given_values, {})
        return found[0] if len(found) == 1 else found

    def __repr__(self) -> str:
        return f"<onnx model {self.__name__}>"


def _as_known(value: Any) -> Any:
    """What is computed from constants and arrays from outside, as the array that it is now."""
    known = value.from_constants() if isinstance(value, Tracer) else None
    return value if known is None else known


class _Symbols:
    """The sizes of a model's inputs that vary, under names that the compiler can spell."""

    def __init__(self, decide: frozenset[str] | None = frozenset()) -> None:
        self._decide = decide  # those that do not vary, as they decide what is computed; None: all

    def spec(self, port: Port) -> Any:
        """A port's type for the compiler; no annotation where sizes of it are left open."""
        sizes = self._sizes(port)
        known = [n for n in sizes if n is not None]
        if port.dtype is None or port.shape is None or len(known) < len(sizes):
            return Parameter.empty
        try:
            return TensorSpec(*known, dtype=port.dtype)
        except MlcError:
            return Parameter.empty  # a dtype that programs do not have: the call says so

    def some(self, port: Port) -> dict[int, str]:
        """The axes that vary of a port of which others decide."""
        sizes = self._sizes(port)
        if None not in sizes:
            return {}
        return {axis: n for axis, n in enumerate(sizes) if isinstance(n, str)}

    def _sizes(self, port: Port) -> list[int | str | None]:
        """A port's sizes; None for one that decides."""
        found: list[int | str | None] = []
        for axis, n in enumerate(port.shape or ()):
            size = n if isinstance(n, int) else self._size(n or f"{port.name}_{axis}")
            decides = isinstance(size, str) and (
                self._decide is None or Dim.of(size).symbols() & self._decide
            )
            found.append(None if decides else size)
        return found

    @staticmethod
    def _size(text: str) -> str:
        """`batch`, `past + 1`; another name is one symbol."""
        plain = re.fullmatch(r"[A-Za-z_]\w*(\s*[+*]\s*(\d+|[A-Za-z_]\w*))*", text)
        if plain and not any(map(keyword.iskeyword, re.findall(r"\w+", text))):
            return text
        return spelled([text])[0]

    def without(self, error: MlcError) -> _Symbols | None:
        """With fewer sizes that vary: those that decided do not, else none does; None: none did."""
        if self._decide is None:
            return None
        if isinstance(error, ConcretizationError) and error.symbols - self._decide:
            return _Symbols(self._decide | error.symbols)
        return _Symbols(None)


def _wanted(model: Model, nodes: Sequence[Node], wanted: set[str]) -> set[str]:
    """The values that must be known, where those in `wanted` must be."""
    wanted, made = set(wanted), {name for node in nodes for name in node.outputs}
    for node in reversed(nodes):
        if node.kind == "Loop" and len(node.inputs) > 1 and node.inputs[1] not in made:
            wanted.add(node.inputs[1])  # whether a loop begins, where nothing computes it
        ends = [k for k, name in enumerate(node.outputs) if name in wanted]
        wanted |= {node.inputs[k] for k in PLACES.get(node.kind, ()) if k < len(node.inputs)}
        for inner in node.graphs:
            first = max(0, len(node.inputs) - len(inner.inputs))
            last = {port.name for port in inner.outputs} if ends else set()
            wanted |= _known_of(
                node.inputs[first:],
                [port.name for port in inner.inputs],
                _wanted(model, inner.nodes, last),
            )
        body = model.body_of(node)
        if body is not None:
            last = {body.outputs[k] for k in ends}
            found = _wanted(model, body.nodes, last)
            wanted |= _known_of(node.inputs, body.inputs, found & set(body.inputs))
        elif ends and node.kind not in ("Shape", "Size", "SequenceLength"):
            wanted |= set(node.inputs)
    return wanted


def _known_of(given: Sequence[str], inner: Sequence[str], wanted: set[str]) -> set[str]:
    """What a graph or function wants known, by the names that hold around it."""
    names = dict(zip(inner, given, strict=False))
    return {names.get(name, name) for name in wanted if name not in inner or name in names}
