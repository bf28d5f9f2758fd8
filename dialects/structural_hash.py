"""
What a tensor program computes, as a number that is the same on every machine: for memo tables,
e-graphs and certificates. Caches of code use `mlc.fingerprint`, where names and order count.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from hashlib import blake2b
from itertools import permutations
from typing import cast

from xdsl.dialects.builtin import (
    ArrayAttr,
    DenseIntOrFPElementsAttr,
    DictionaryAttr,
    ModuleOp,
    StringAttr,
    TensorType,
)
from xdsl.ir import Attribute, Block, Operation, ParametrizedAttribute, SSAValue
from xdsl.traits import is_side_effect_free

from mlc.dialects.dims import Dim, DimsAttr, shape_of
from mlc.dialects.tensor.op import Tensor, TensorOp

BYTES = 16  # of a hash
NAMES = ("mlc.name", "mlc.symbols")  # attributes that only say what something is called
MOST_ORDERS = 6  # symbols of which all orders are tried: 720


def structural_hash(op: Operation) -> str:
    """
    32 hexadecimal digits, equal for functions (or modules) that compute the same by the same ops.
    Names of values, of the function, of index letters and of symbolic sizes do not count, nor does
    the order of ops, or that of operands where these commute; whether a value is computed once or
    twice does, and so do ops whose results nobody reads. Equal hashes of different programs have
    probability 2^-128 a pair.
    """
    return _Hashes(op).of(op).hex()


def value_hashes(function: Operation) -> dict[SSAValue, bytes]:
    """
    Of the arguments and values of a function, 16 bytes each: equal where equal ops compute them of
    equal operands. Values of a region are told apart only from others of that region.
    """
    hashes = _Hashes(function)
    hashes.of(function)
    return hashes.values


class _Hashes:
    def __init__(self, root: Operation) -> None:
        self.root = root
        self.values: dict[SSAValue, bytes] = {}
        self.texts: dict[int, str] = {}  # of attributes by identity: the ops keep them alive
        self.symbols = _symbols(shape_of(kind) for kind in _argument_types(root))
        self.depth = 0

    def of(self, op: Operation) -> bytes:
        """Of an op with all that stands in it; its results are known from then on."""
        operands = [self.values[x] for x in op.operands]
        if isinstance(op, TensorOp) and op.commutes:
            operands.sort()
        parts = [op.name, *(x.hex() for x in operands)]
        parts += [f"{k}={v}" for k, v in sorted(self._named(op).items())]
        parts += [self._text(x.type) for x in op.results]
        for region in op.regions:
            blocks = list(region.blocks)
            parts += [self._block(block).hex() for block in blocks]
        found = _digest(parts)
        if len(op.results) == 1:
            self.values[op.results[0]] = found
        else:
            for k, result in enumerate(op.results):
                self.values[result] = _digest(("result", str(k), found.hex()))
        return found

    def _block(self, block: Block) -> bytes:
        """Of what has no effect only how often it stands there counts, not where."""
        for k, argument in enumerate(block.args):
            parts = ("argument", str(self.depth), str(k), self._text(argument.type))
            self.values[argument] = _digest(parts)
        self.depth += 1
        pure: list[str] = []
        ordered: list[str] = []
        for op in block.ops:
            (pure if _is_pure(op) else ordered).append(self.of(op).hex())
        self.depth -= 1
        arguments = [self.values[x].hex() for x in block.args]
        return _digest((*arguments, "", *sorted(pure), "", *ordered))

    def _named(self, op: Operation) -> dict[str, str]:
        """Properties and attributes, but those that are names."""
        found: dict[str, str] = {}
        for named in (op.properties, op.attributes):
            for key, value in named.items():
                if key in NAMES or (key == "sym_name" and op is self.root):
                    continue
                if key == "letters" and isinstance(value, StringAttr):
                    text = numbered(value.data)
                else:
                    text = self._text(value)
                if not (key.endswith("_attrs") and set(text) <= set("[{}, ]")):  # of nothing
                    found[key] = text
        return found

    def _text(self, attribute: Attribute) -> str:
        found = self.texts.get(id(attribute))
        if found is None:
            found = self.texts[id(attribute)] = self._spelled(attribute)
        return found

    def _spelled(self, attribute: Attribute) -> str:
        match attribute:
            case DimsAttr():
                return ",".join(str(dim.substitute(self.symbols)) for dim in attribute.data)
            case DenseIntOrFPElementsAttr():  # many numbers: their bytes
                data = blake2b(attribute.data.data, digest_size=BYTES).hexdigest()
                return f"{self._text(attribute.type)} {data}"
            case ArrayAttr():
                return f"[{', '.join(self._text(x) for x in attribute.data)}]"
            case DictionaryAttr():
                items = sorted(attribute.data.items())
                return repr({k: self._text(v) for k, v in items if k not in NAMES})
            case ParametrizedAttribute() if attribute.parameters:
                return f"{attribute.name}<{', '.join(map(self._text, attribute.parameters))}>"
            case _:
                return str(attribute)


def _digest(parts: Iterable[str]) -> bytes:
    """Of texts, none of which can run into the next."""
    text = "".join([f"{len(part)}:{part}" for part in parts])
    return blake2b(text.encode(), digest_size=BYTES).digest()


def _is_pure(op: Operation) -> bool:
    return isinstance(op, TensorOp) or (bool(op.results) and is_side_effect_free(op))


def numbered(letters: str) -> str:
    """Index letters by their first places: `mk,kn->mn` as `.0.1,.1.2->.0.2`."""
    numbers: dict[str, str] = {}
    has_factors = "(" in letters  # of windows: their digits are no letters
    return "".join(
        numbers.setdefault(c, f".{len(numbers)}")
        if c.isalpha() or (c.isdigit() and not has_factors)
        else c
        for c in letters
    )


def _argument_types(op: Operation) -> Iterator[Attribute]:
    """Of the functions that an op is, or holds."""
    for region in op.regions:
        for block in region.blocks:
            if isinstance(op, ModuleOp):
                for function in block.ops:
                    yield from _argument_types(function)
            for kind in (x.type for x in block.args):
                if isinstance(kind, TensorType):
                    yield cast("Tensor", kind)


def _symbols(shapes: Iterable[tuple[Dim, ...]]) -> Mapping[str, Dim]:
    """
    What sizes are called: first those that are an axis, by place; of others, which only occur in
    sums and products, the order with the least text. A symbol of no argument keeps its name.
    """
    dims = [dim for shape in shapes for dim in shape if dim.constant is None]
    found: dict[str, Dim] = {}
    for name in filter(None, (dim.single_symbol for dim in dims)):
        if name not in found:
            found[name] = _number(len(found))
    others = [dim for dim in dims if dim.single_symbol is None]
    rest = sorted({name for dim in others for name in dim.symbols()} - found.keys())
    orders = permutations(rest) if len(rest) <= MOST_ORDERS else iter([tuple(rest)])
    named = ({**found, **{x: _number(len(found) + k) for k, x in enumerate(o)}} for o in orders)
    return min(named, key=lambda names: [str(dim.substitute(names)) for dim in others])


def _number(k: int) -> Dim:
    """A symbol that nobody can write."""
    return Dim((((f"#{k}",), 1),))
