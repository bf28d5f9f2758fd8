# pyright: basic
"""
Which nodes of a graph are compiled together, and which PyTorch runs between them.

Each node has a stage: in each, PyTorch's nodes run first, and then one compiled piece.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from importlib import import_module
from operator import getitem
from typing import Any

from mlc.frontend.importers.fx.run import is_known, is_size, name_of
from mlc.lazy_dataclass import dataclass

Node = Any

VIEWS = frozenset(
    {"view", "_unsafe_view", "reshape", "permute", "transpose", "t", "unsqueeze", "squeeze",
     "expand", "alias", "detach", "clone", "getitem", "slice", "select", "full", "scalar_tensor",
     "_to_copy"}
)  # fmt: skip
"""Ops that alone are not worth a call."""

FEWEST = 3
"""Ops that a compiled piece has on average, or else PyTorch runs the graph."""


@dataclass(frozen=True)
class Stage:
    """Nodes that PyTorch runs, and then the nodes of a compiled piece."""

    eager: tuple[Node, ...]
    compiled: tuple[Node, ...]


def is_store(node: Node) -> bool:
    """Whether a node writes to an argument of the graph: `copy_`, which comes last."""
    target = str(node.target)
    return target == "aten.copy_.default" and node.args[0].op == "placeholder"


def stages(graph: Any, refused: AbstractSet[Node]) -> list[Stage]:
    """The stages of a graph. `refused`: nodes that tracing did not take."""
    nodes = [n for n in graph.nodes if n.op == "call_function" and not is_size(n)]
    taken = {n: (is_known(n) or is_store(n)) and n not in refused for n in nodes}
    for node in nodes:  # parts of a result go with it
        if node.target is getitem:
            taken[node] = taken[node.args[0]]
    at = _numbers([n for n in nodes if not (taken[n] and is_store(n))], taken)
    last = max(at.values(), default=0)
    at |= {n: last for n in nodes if n not in at}
    return [
        Stage(
            tuple(n for n in nodes if at[n] == k and not taken[n]),
            tuple(n for n in nodes if at[n] == k and taken[n]),
        )
        for k in range(last + 1)
    ]


def _numbers(nodes: Sequence[Node], taken: Mapping[Node, bool]) -> dict[Node, int]:
    at: dict[Node, int] = {}
    before = 0  # stage of the last node whose order is part of what it does
    for node in nodes:
        stage = 0
        for other in node.all_input_nodes:
            if other in at:
                waits = taken[other] and not taken[node]
                stage = max(stage, at[other] + waits)
        if not taken[node] and _is_ordered(node):
            stage = before = max(stage, before)
        at[node] = stage
    return at


def _is_ordered(node: Node) -> bool:
    """Whether a node must stay behind others: it draws random numbers, or changes something."""
    torch = import_module("torch")
    if not isinstance(node.target, torch._ops.OpOverload):
        return True
    return torch.Tag.nondeterministic_seeded in node.target.tags or node.is_impure()


def is_worth(parts: Sequence[Stage]) -> bool:
    """Whether compiled pieces are long enough for the calls between them."""
    lengths = [sum(name_of(n) not in VIEWS for n in stage.compiled) for stage in parts]
    pieces = [n for stage, n in zip(parts, lengths, strict=True) if stage.compiled]
    alone = not any(stage.eager for stage in parts)
    return bool(pieces) and (alone or sum(pieces) >= FEWEST * len(pieces))
