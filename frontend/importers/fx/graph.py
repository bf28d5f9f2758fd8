# pyright: basic
"""A graph of PyTorch as a callable: compiled pieces, and what PyTorch runs between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from importlib import import_module
from operator import attrgetter, itemgetter
from typing import Any

from mlc.frontend.importers.fx.dropout import with_masks_first
from mlc.frontend.importers.fx.forms import hint_of
from mlc.frontend.importers.fx.piece import Piece, size_now, size_said
from mlc.frontend.importers.fx.reports import GraphReport, note
from mlc.frontend.importers.fx.run import Refused, is_size
from mlc.frontend.importers.fx.stages import Stage, is_store, is_worth, stages

Node = Any
Call = Callable[[list[Any]], Any]
Symbols = Mapping[str, int]
Traced = Callable[[tuple[Node, ...], tuple[Node, ...]], Piece]


def compiled(module: Any, name: str) -> Call:
    """A function of the list of a graph's arguments, which it empties."""
    refused: dict[Node, str] = {}
    pieces = cache(Piece)  # a node that is refused leaves other stages as they are
    with_masks_first(module)
    while True:
        parts = stages(module.graph, refused.keys())
        if not is_worth(parts):
            note(GraphReport.of(name, parts, refused, whole=True))
            return _eager(module)
        try:
            made = Graph(module, parts, pieces)
        except Refused as refusal:
            refused[refusal.node] = refusal.why
            continue
        note(GraphReport.of(name, parts, refused, whole=False))
        return made.compile()


def _eager(module: Any) -> Call:
    def run(arguments: list[Any]) -> Any:
        given = list(arguments)
        arguments.clear()
        return module.forward(*given)

    return run


class Graph:
    """The stages of a graph, traced by `pieces`; Refused where a node cannot be."""

    def __init__(self, module: Any, parts: Sequence[Stage], pieces: Traced) -> None:
        self._module = module
        self._nodes = list(module.graph.nodes)
        self._places = {n: k for k, n in enumerate(n for n in self._nodes if n.op == "placeholder")}
        (output,) = (n for n in self._nodes if n.op == "output")
        self._results = [_returned(x) for x in output.args[0]]
        self._symbols = _symbols(list(self._places))
        self._sizes = {n: size_said(n.meta["val"]) for n in self._nodes if is_size(n)}
        eager = [n for stage in parts for n in stage.eager]
        self._strides = {n: _strides_said(n.meta.get("val")) for n in eager}
        wanted = {n for n in self._results if hasattr(n, "meta")}
        self._steps: list[tuple[tuple[Node, ...], Piece | None]] = []
        for k, stage in enumerate(parts):
            later = [*(n for s in parts[k + 1 :] for n in (*s.eager, *s.compiled))]
            used = wanted | {i for n in later for i in n.all_input_nodes}
            inside = {n for n in stage.compiled if n in used and not is_store(n)}
            order = [*self._results, *stage.compiled]  # as the graph returns them
            outside = tuple(n for n in dict.fromkeys(order) if n in inside and not _is_several(n))
            piece = pieces(stage.compiled, outside) if stage.compiled else None
            self._steps.append((stage.eager, piece))

    def compile(self) -> Call:
        """The graph's function: the shortest way of those that serve it."""
        for _, piece in self._steps:
            if piece is not None:
                piece.compile()
        if len(self._steps) == 1 and not self._steps[0][0] and self._steps[0][1] is not None:
            direct = self._direct(self._steps[0][1])
            if direct is not None:
                return direct
        return partial(self._run)  # of which PyTorch sets attributes

    def _direct(self, piece: Piece) -> Call | None:
        """One piece: its results and arguments are those of the graph."""
        if self._symbols or not all(n in self._places for n in piece.inputs):
            return None
        known = {node: ("made", k) for k, node in enumerate(piece.outputs)}
        known |= {node: ("given", k) for node, k in self._places.items()}
        results: list[Any] = [
            known[n] if hasattr(n, "meta") else ("same", n) for n in self._results
        ]
        inputs = [self._places[n] for n in piece.inputs]
        run, pick = piece.direct(), _picker(inputs)
        if self._results == piece.outputs:
            whole = inputs == list(range(len(self._places)))
            return _of_all(run) if whole else _of_some(run, pick)

        def call(arguments: list[Any]) -> Any:
            found = run(pick(arguments))
            tables = {"made": found, "given": list(arguments)}
            arguments.clear()
            return [k if how == "same" else tables[how][k] for how, k in results]

        return call

    def _run(self, arguments: list[Any]) -> Any:
        values: dict[Node, Any] = {n: arguments[k] for n, k in self._places.items()}
        arguments.clear()
        symbols = {s: read(values) for s, read in self._symbols.items()}
        for eager, piece in self._steps:
            for node in eager:
                found = self._by_torch(node, values, symbols)
                values[node] = _as_said(found, self._strides[node], symbols)
            if piece is not None:
                tensors = [self._value(n, values, symbols) for n in piece.inputs]
                made = piece(tensors, symbols)
                values.update(zip(piece.outputs, made, strict=True))
        return [self._value(n, values, symbols) for n in self._results]

    def _by_torch(self, node: Node, values: dict[Node, Any], symbols: Symbols) -> Any:
        fx = import_module("torch").fx

        def value(n: Node) -> Any:
            return self._value(n, values, symbols)

        args = fx.node.map_arg(node.args, value)
        kwargs = fx.node.map_arg(node.kwargs, value)
        return node.target(*args, **kwargs)

    def _value(self, node: Any, values: dict[Node, Any], symbols: Symbols) -> Any:
        if not hasattr(node, "meta"):
            return node
        if node in self._sizes:
            return size_now(self._sizes[node], symbols)
        if node.op == "get_attr":
            return attrgetter(node.target)(self._module)
        return values[node]


def _returned(result: Any) -> Any:
    """A result of a graph: for a store to an argument, that argument."""
    return result.args[0] if hasattr(result, "meta") and is_store(result) else result


def _strides_said(value: Any) -> Any:
    """
    The strides that the graph says of a tensor, as a tuple, or of each of several, as a list; None
    where it says none.
    """
    torch = import_module("torch")
    if isinstance(value, tuple | list):
        return [_strides_said(part) for part in value]
    if not isinstance(value, torch.Tensor) or value.layout is not torch.strided:
        return None
    if any(hint_of(step) is None for step in value.stride()):  # data decide it
        return None
    return tuple(map(size_said, value.stride()))


def _as_said(found: Any, said: Any, symbols: Symbols) -> Any:
    """
    What PyTorch has computed, with the strides that the graph says: compiled code relies on them,
    and some ops of PyTorch's, `_fft_r2c` for one, lay their result otherwise than they say.
    """
    torch = import_module("torch")
    if isinstance(said, list):
        return [_as_said(part, of, symbols) for part, of in zip(found, said, strict=True)]
    if said is None or found.layout is not torch.strided:
        return found
    strides = tuple(size_now(step, symbols) for step in said)
    pairs = zip(found.shape, found.stride(), strides, strict=True)
    if not found.numel() or all(n == 1 or step == wanted for n, step, wanted in pairs):
        return found
    made = torch.empty_strided(found.shape, strides, dtype=found.dtype, device=found.device)
    return made.copy_(found)


def _of_all(run: Call) -> Call:
    """A graph whose arguments and results are those of its piece, in their order."""

    def call(arguments: list[Any]) -> Any:
        found = run(arguments)
        arguments.clear()
        return found

    return call


def _of_some(run: Call, pick: Callable[[list[Any]], list[Any]]) -> Call:
    """The same, of some arguments or in another order."""

    def call(arguments: list[Any]) -> Any:
        found = run(pick(arguments))
        arguments.clear()
        return found

    return call


def _picker(places: Sequence[int]) -> Callable[[list[Any]], list[Any]]:
    if len(places) == 1:
        (place,) = places
        return lambda arguments: [arguments[place]]
    if not places:
        return lambda arguments: []
    take = itemgetter(*places)
    return lambda arguments: list(take(arguments))


def _is_several(node: Node) -> bool:
    return isinstance(node.meta.get("val"), tuple | list)


def _symbols(placeholders: Sequence[Node]) -> dict[str, Callable[[dict[Node, Any]], int]]:
    """How each symbol is read from the arguments."""
    found: dict[str, Callable[[dict[Node, Any]], int]] = {}
    torch = import_module("torch")
    for node in placeholders:
        value = node.meta.get("val")
        if isinstance(value, torch.SymInt) and value.node.expr.is_Symbol:
            found.setdefault(str(value.node.expr), lambda values, n=node: int(values[n]))
        if isinstance(value, torch.Tensor):
            for axis, size in enumerate(value.shape):
                if isinstance(size, torch.SymInt) and size.node.expr.is_Symbol:
                    found.setdefault(
                        str(size.node.expr), lambda values, n=node, a=axis: values[n].shape[a]
                    )
    return found
