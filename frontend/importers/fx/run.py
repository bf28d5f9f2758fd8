# pyright: basic
"""Nodes of a graph, traced: a row for each op, whose result is what the graph's meta data says."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from operator import attrgetter, getitem
from typing import Any

import numpy as np

from mlc.dialects.dims import Dim
from mlc.dialects.dtypes import F8E4M3FN
from mlc.dialects.dtypes import numpy_dtype as row_of
from mlc.dialects.errors import CompilerBug, MlcError
from mlc.frontend.errors import SpecialiseSignal
from mlc.frontend.importers.fx.forms import (
    dim_of,
    dtype_name,
    form_of,
    hint_of,
    numpy_dtype,
)
from mlc.frontend.importers.saturated import saturated
from mlc.frontend.numpy.shaping import part
from mlc.frontend.numpy.values import constant as static
from mlc.frontend.numpy.values import result, strong
from mlc.frontend.trace.symbolic import as_size
from mlc.frontend.trace.trace import here
from mlc.frontend.trace.tracer import Tracer

Array = Any
Node = Any
Row = Callable[..., Any]

ROWS: dict[str, Row] = {}
"""Op, without its overload -> function of a node and its inputs."""

OURS = ("aten.", "prims.", "mkldnn.")
"""Where ops lie that may have a row."""

_DROPPED = {"device", "layout", "pin_memory", "memory_format", "non_blocking", "dtype", "generator"}
"""Options that results' meta data say, or that mean nothing here."""


class Refused(Exception):  # noqa: N818 - no error: another way is taken
    """A node that cannot be part of a compiled piece."""

    def __init__(self, node: Node, why: str) -> None:
        super().__init__(why)
        self.node, self.why = node, why


def row(*names: str) -> Callable[[Row], Row]:
    """A function that is the op of these names."""

    def register(function: Row) -> Row:
        for name in names:
            ROWS[name] = function
        return function

    return register


def op_name(target: Any) -> str:
    """``add`` of ``aten.add.Tensor``; nothing for what is called and is no op."""
    text = str(target)
    if text.startswith(OURS):
        name = text.split(".")[1]
        copies = import_module("torch").Tag.view_copy in getattr(target, "tags", ())
        return name.removesuffix("_copy") if copies and name not in ROWS else name
    if isinstance(target, import_module("torch")._ops.HigherOrderOperator):
        return f"higher_order.{text}"
    return getattr(target, "mlc_row", "")


def is_graph(node: Node) -> bool:
    """Whether a node is the graph of a branch or of a trip, for an op of control flow."""
    return isinstance(graph_of(node), import_module("torch").fx.GraphModule)


def graph_of(node: Node) -> Any:
    """What a node names in its graph's module; None for nodes of other kinds."""
    module = node.graph.owning_module if node.op == "get_attr" else None
    return None if module is None else attrgetter(node.target)(module)


def name_of(node: Node) -> str:
    """The name of the op that a node calls."""
    return op_name(node.target)


def values_of(node: Node) -> Sequence[Any]:
    """What the graph's meta data say of the results of a node."""
    value = node.meta.get("val")
    return value if isinstance(value, tuple | list) else (value,)


class At:
    """A node: what rows ask."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.name = name_of(node)
        self.overload: str = str(node.target).rpartition(".")[2]
        self.values = values_of(node)

    @property
    def shape(self) -> tuple[Any, ...]:
        """The sizes of the result."""
        return self.shape_of(self.values[0])

    def shape_of(self, tensor: Any) -> tuple[Any, ...]:
        """The sizes of a tensor of the meta data."""
        dims = [dim_of(size) for size in tensor.shape]
        return tuple(as_size(dim) for dim in dims if dim is not None)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The element type of the result."""
        return numpy_dtype(self.values[0].dtype)

    def operand(self, x: Array, dtype: np.dtype[Any] | None = None) -> Array:
        """
        An operand of what goes element by element, in the element type of the result, or another;
        Python numbers take it by themselves.
        """
        if not isinstance(x, Tracer):
            return x
        dtype = self.dtype if dtype is None else dtype
        x = agreed(x, [dim_of(size) for size in self.values[0].shape])
        return converted(x, dtype)

    def common(self) -> np.dtype[Any]:
        """The element type in which two operands meet."""
        torch = import_module("torch")
        pair = [x.meta["val"] if hasattr(x, "meta") else x for x in self.node.args[:2]]
        return numpy_dtype(torch.result_type(*pair))

    def uses(self, place: int) -> bool:
        """Whether a result of several is used."""
        return any(user.args[1] == place for user in self.node.users)

    def refuse(self, why: str) -> Refused:
        """That the node is not for us."""
        return Refused(self.node, why)


def is_size(node: Node) -> bool:
    """Whether a node is a number that sizes of arguments decide: computed of these alone."""
    torch = import_module("torch")
    value = node.meta.get("val")
    if isinstance(value, torch.SymInt):
        return hint_of(value) is not None
    return isinstance(value, int) and node.op != "get_attr"


def is_known(node: Node) -> bool:
    """Whether there is a row for a node, and our forms for its tensors."""
    torch = import_module("torch")
    if node.op != "call_function":
        return False
    if node.target is getitem:
        return is_known(node.args[0])
    if name_of(node) not in ROWS:
        return False
    beside = [n for n in node.all_input_nodes if not is_size(n) and not is_graph(n)]
    inner = [graph_of(n) for n in node.all_input_nodes if is_graph(n)]
    return all(map(_is_known_graph, inner)) and all(
        t is None or (isinstance(t, torch.Tensor) and form_of(t) is not None)
        for n in (node, *beside)
        for t in values_of(n)
    )


def _is_known_graph(graph: Any) -> bool:
    """Whether all of a branch or a trip can be compiled: its arguments are its only tensors."""
    nodes = [n for n in graph.graph.nodes if n.op not in ("placeholder", "output")]
    return all(is_size(n) or is_graph(n) or is_known(n) for n in nodes)


_OF_ROWS = (ArithmeticError, AttributeError, LookupError, TypeError, ValueError)
"""What a row ends with that has not thought of some arguments: these are PyTorch's."""


class Run:
    """One walk over nodes. `values`: of the nodes around, which it fills."""

    def __init__(self, values: dict[Node, Any]) -> None:
        self.values = values

    def nodes(self, nodes: Sequence[Node]) -> None:
        """Nodes in order; Refused for what the rows do not take."""
        for node in nodes:
            try:
                self.values[node] = self._node(node)
            except (MlcError, SpecialiseSignal) as error:
                if isinstance(error, CompilerBug):
                    raise
                raise Refused(node, str(error).partition("\n")[0]) from error
            except Refused as error:  # of a node in a graph of control flow
                raise Refused(node, error.why) from error
            except _OF_ROWS as error:
                raise Refused(node, f"{type(error).__name__}: {error}") from error

    def _node(self, node: Node) -> Any:
        if node.target is getitem:
            return self.values[node.args[0]][node.args[1]]
        at = At(node)
        function = ROWS[at.name]
        arguments = [self.value(x, node) for x in node.args]
        options = {k: self.value(x, node) for k, x in node.kwargs.items() if k not in _DROPPED}
        try:
            bound = inspect.signature(function).bind(at, *arguments, **options)
        except TypeError as error:
            raise Refused(node, f"the overload {at.overload!r}: {error}") from None
        with np.errstate(all="ignore"):
            found = function(*bound.args, **bound.kwargs)
        if isinstance(found, tuple):
            return tuple(_checked(node, x, t) for x, t in zip(found, at.values, strict=True))
        return _checked(node, found, at.values[0])

    def value(self, x: Any, node: Node) -> Any:
        """An argument: traced arrays and sizes in the place of nodes."""
        if isinstance(x, list | tuple):
            return [self.value(part, node) for part in x]
        if not hasattr(x, "meta"):
            return numpy_dtype(x) if dtype_name(x) is not None and not isinstance(x, str) else x
        if is_graph(x):
            return graph_of(x)
        if not is_size(x):
            return self.values[x]
        dim = dim_of(x.meta["val"])
        if dim is None:
            raise Refused(node, f"the size {x.meta['val']} is no polynomial")
        return as_size(dim)


def agreed(x: Tracer, dims: Sequence[Dim | None]) -> Tracer:
    """
    An array whose sizes are said as PyTorch says them: its guards make them equal, in ways that
    polynomials do not show. Axes of one element, and the last axes of fewer, stay.
    """
    for axis in range(-min(x.ndim, len(dims)), 0):
        found, wanted = x.dims[axis], dims[axis]
        if wanted is None or found == wanted or found.constant == 1:
            continue
        if found.constant is not None and wanted.constant is not None:
            continue
        because = f"{found} is {wanted}"
        here().assume(found - wanted, because)
        here().assume(wanted - found, because)
        x = part(x, axis % x.ndim, Dim.const(0), wanted)
    return x


def _checked(node: Node, found: Any, wanted: Any) -> Any:
    """A result with the element type of the meta data; a bug where its sizes are others."""
    if found is None:
        return None
    dtype = numpy_dtype(wanted.dtype)
    dims = tuple(dim_of(size) for size in wanted.shape)
    found = agreed(strong(found), dims)
    if found.dims != dims:
        shown = [", ".join(map(str, x)) for x in (dims, found.dims)]
        raise CompilerBug(f"{node.target}: expected the shape ({shown[0]}), found ({shown[1]})")
    return converted(found, dtype)


def converted(x: Array, dtype: np.dtype[Any]) -> Array:
    """An array of another element type, as PyTorch converts."""
    if x.dtype == dtype:
        return x
    return saturated(x, dtype) if dtype == F8E4M3FN.numpy else x.astype(dtype)


def constant(array: Any) -> Array:
    """An array that is part of the program."""
    made = np.asarray(array)
    return result(static(made, row_of(made.dtype)))


def symbols_in(nodes: Sequence[Node]) -> Iterator[Dim]:
    """The sizes that nodes name in their arguments."""
    for node in nodes:
        for other in node.all_input_nodes:
            if is_size(other) and (dim := dim_of(other.meta["val"])) is not None:
                yield dim
