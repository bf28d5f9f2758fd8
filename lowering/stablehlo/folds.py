"""Ops that combine elements, in StableHLO: products, reductions, windows, scans and sorts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from mlc.dialects.dims import Dim, Shape, product
from mlc.dialects.dtypes import BOOL, I32, I64, DType
from mlc.dialects.tensor.monoid import MONOIDS, Monoid
from mlc.dialects.tensor.op import TensorOp, text_property
from mlc.dialects.tensor.partition import ArgpartitionOp, Partitioned, PartitionOp
from mlc.dialects.tensor.reduce import ContractOp, Product, ReduceOp
from mlc.dialects.tensor.scan import ScanOp
from mlc.dialects.tensor.sort import ArgsortOp, SearchsortedOp, SortOp
from mlc.dialects.tensor.window import ConvOp, WindowOp
from mlc.lowering.stablehlo.elements import Elements
from mlc.lowering.stablehlo.moves import ONE, ZERO, Row, beginning, sliced
from mlc.lowering.stablehlo.text import Unsaid, Value, Writer, integers, static

# products


def _factors(w: Writer, op: Product, xs: Sequence[Value]) -> tuple[list[Value], DType]:
    """What is multiplied, and the dtype in which products are added."""
    if op.dtype is BOOL:
        return [w.convert(x, I32) for x in xs], I32
    narrow = op.rounded()
    return ([w.convert(x, narrow) for x in xs] if narrow else list(xs)), op.summand()


def _finished(w: Writer, op: Product, x: Value) -> Value:
    if op.dtype is BOOL:
        return w.compare("NE", x, w.full(0, x.dtype, x.shape))
    return w.convert(x, op.dtype)


def _contract(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, ContractOp)
    (left, right), result, _ = op.words()
    (x, y), dtype = _factors(w, op, xs)
    x, left = _without(w, x, left, right + result)
    y, right = _without(w, y, right, left + result)
    batch = [c for c in result if c in left and c in right]
    summed = [c for c in left if c in right and c not in result]
    order = [
        *batch, *(c for c in left if c not in right), *(c for c in right if c not in left),
    ]  # fmt: skip
    sizes = {**dict(zip(left, x.shape, strict=True)), **dict(zip(right, y.shape, strict=True))}
    lists = {
        f"{side}_{kind}_dimensions": [word.index(c) for c in letters]
        for side, word in (("lhs", left), ("rhs", right))
        for kind, letters in (("batching", batch), ("contracting", summed))
    }
    said = ", ".join(f"{name} = {each}" for name, each in lists.items() if each)
    found = w.emit(
        "dot_general", [x, y], dtype, tuple(sizes[c] for c in order),
        f"dot_dimension_numbers = #stablehlo.dot<{said}>",
    )  # fmt: skip
    return _finished(w, op, w.transpose(found, [order.index(c) for c in result]))


def _without(w: Writer, x: Value, word: str, others: str) -> tuple[Value, str]:
    """A factor without the letters that nothing else has: they are summed first."""
    alone = [k for k, c in enumerate(word) if c not in others]
    if not alone:
        return x, word
    (found,) = _reduced(w, MONOIDS["sum"], x.dtype, [x], alone)
    return found, "".join(c for c in word if c in others)


def _conv(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    """Groups, batches and features as products of axes, windows as StableHLO's."""
    assert isinstance(op, ConvOp)
    (x, y), dtype = _factors(w, op, xs)
    (left, right), (_, result, _) = op.axes, op.words()
    word = "".join(axis[0][1] for axis in right)
    plain = {axis[0][1]: k for k, axis in enumerate(left) if len(axis) == 1}
    pairs = [(k, axis) for k, axis in enumerate(left) if len(axis) > 1]
    groups = [c for c in plain if c in word and c in result]
    summed = [c for c in plain if c in word and c not in result]
    batch = [c for c in plain if c not in word]
    moves = [next((s, c) for s, c in axis if c in result) for _, axis in pairs]
    taps = [next((s, c) for s, c in axis if c not in result) for _, axis in pairs]
    features = [c for c in word if c not in plain and c not in [t for _, t in taps]]
    sizes = {c: y.shape[k] for k, c in enumerate(word)} | {c: x.shape[k] for c, k in plain.items()}
    sizes |= dict(zip(result, op.shape, strict=True))

    def count(letters: Sequence[str]) -> Dim:
        return product(sizes[c] for c in letters)

    space = tuple(x.shape[k] for k, _ in pairs)
    x = w.transpose(x, [*(plain[c] for c in (*batch, *groups, *summed)), *(k for k, _ in pairs)])
    x = w.reshape(x, (count(batch), count([*groups, *summed]), *space))
    window = tuple(sizes[c] for _, c in taps)
    y = w.transpose(
        y, [word.index(c) for c in (*groups, *features, *summed, *(c for _, c in taps))]
    )
    y = w.reshape(y, (count([*groups, *features]), count(summed), *window))
    many = static((count(groups),))
    if many is None:
        raise Unsaid("a convolution in an open number of groups")
    counts = tuple(
        (n - ONE - (k - ONE) * d) // s + ONE
        for n, k, (s, _), (d, _) in zip(space, window, moves, taps, strict=True)
    )
    names = ", ".join(map(str, range(len(pairs))))
    said = (
        f"batch_group_count = 1 : i64, feature_group_count = {many[0]} : i64, dimension_numbers ="
        f" #stablehlo.conv<[b, f, {names}]x[o, i, {names}]->[b, f, {names}]>,"
        f" window_strides = {integers([s for s, _ in moves])},"
        f" rhs_dilation = {integers([d for d, _ in taps])}"
    )
    outer = (count(batch), count([*groups, *features]))
    found = w.emit("convolution", [x, y], dtype, (*outer, *counts), said)
    found = beginning(w, found, (*outer, *(sizes[c] for _, c in moves)))
    order = [*batch, *groups, *features, *(c for _, c in moves)]
    found = w.reshape(found, tuple(sizes[c] for c in order))
    return _finished(w, op, w.transpose(found, [order.index(c) for c in result]))


# reductions


def _combining(w: Writer, monoid: Monoid, dtype: DType) -> str:
    """The region that combines two states."""
    kinds = [(each, ()) for each in monoid.state(dtype)]

    def body(*values: Value) -> list[Value]:
        b = Elements(w, ())
        tokens = [b.stands(x) for x in values]
        half = len(kinds)
        found = monoid.combine(b, dtype, tuple(tokens[:half]), tuple(tokens[half:]))
        return [b.of(token) for token in found]

    return w.region(kinds * 2, body)


def _identities(w: Writer, monoid: Monoid, dtype: DType) -> list[Value]:
    pairs = zip(monoid.identity(dtype), monoid.state(dtype), strict=True)
    return [w.full(value, kind, ()) for value, kind in pairs]


def _reduced(
    w: Writer, monoid: Monoid, dtype: DType, states: Sequence[Value], axes: Sequence[int]
) -> list[Value]:
    """States, combined along axes."""
    shape = tuple(d for k, d in enumerate(states[0].shape) if k not in axes)
    both = [*states, *_identities(w, monoid, dtype)]
    results = [(x.dtype, shape) for x in states]
    region = _combining(w, monoid, dtype)
    said = f"dimensions = {integers(sorted(axes))}"
    return w.emit_all("stablehlo.reduce", both, results, said, [region])


class _Folded:
    """A monoid's states of an array's elements, and what they give."""

    def __init__(self, w: Writer, name: str, x: Value, axes: Sequence[int]) -> None:
        self.w, self.monoid = w, MONOIDS[name]
        self.given = x.dtype
        self.dtype = self.monoid.accumulator(x.dtype)
        x = w.convert(x, self.dtype)
        b = Elements(w, x.shape)

        def place() -> Value:
            found = w.full(0, I64, x.shape)
            for axis in axes:
                size = w.broadcast(w.size(x.shape[axis]), (), x.shape)
                found = w.same("add", w.same("multiply", found, size), w.iota(axis, x.shape))
            return found

        lifted = self.monoid.lift(b, b.stands(x), lambda: b.stands(place()))
        self.states = [b.of(token) for token in lifted]

    def result(self, states: Sequence[Value]) -> Value:
        """What combined states give, in the dtype of the op's result."""
        b = Elements(self.w, states[0].shape)
        found = b.of(self.monoid.finalise(b, tuple(map(b.stands, states))))
        return self.w.convert(found, self.monoid.result(self.given))


def _reduce(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, ReduceOp)
    ((word,), result, _), (x,) = op.words(), xs
    axes = [k for k, c in enumerate(word) if c not in result]
    folded = _Folded(w, op.monoid.data, x, axes)
    found = folded.result(_reduced(w, folded.monoid, folded.dtype, folded.states, axes))
    kept = [c for c in word if c in result]
    return w.transpose(found, [kept.index(c) for c in result])


def _windowed(
    w: Writer, folded: _Folded, window: Sequence[int], strides: Sequence[int],
    apart: Sequence[int], around: Sequence[tuple[int, int]], shape: Shape,
) -> Value:  # fmt: skip
    both = [*folded.states, *_identities(w, folded.monoid, folded.dtype)]
    padding = ", ".join(f"[{a}, {b}]" for a, b in around)
    said = (
        f"window_dimensions = {integers(window)}, window_strides = {integers(strides)},"
        f" window_dilations = {integers(apart)},"
        f" padding = dense<[{padding}]> : tensor<{len(around)}x2xi64>"
    )
    region = _combining(w, folded.monoid, folded.dtype)
    kinds = [(x.dtype, shape) for x in folded.states]
    found = w.emit_all("stablehlo.reduce_window", both, kinds, said, [region])
    return folded.result(found)


def _window(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, WindowOp)
    ((axes,), (_, result, _)), (x,) = (op.axes, op.words()), xs
    sizes = op.sizes()
    window, strides, apart, order = list[int](), list[int](), list[int](), list[str]()
    counts: list[Dim] = []
    for axis, size in zip(axes, x.shape, strict=True):
        mine, taps = ([t for t in axis if (t[1] in result) == inside] for inside in (True, False))
        (step, moved), (spread, tap) = (mine or taps)[0], taps[0] if len(axis) > 1 else (1, "")
        span = sizes[tap] if tap else ONE
        if not tap and moved not in result:  # folded whole
            step, span = 1, size
        if span.constant is None:
            raise Unsaid(f"a window of {span} elements")
        window.append(span.constant)
        strides.append(step)
        apart.append(spread)
        order.append(moved)
        counts.append((size - ONE - (span - ONE) * spread) // step + ONE)
    folded = _Folded(w, op.monoid.data, x, [])
    around = [(0, 0)] * len(axes)
    found = _windowed(w, folded, window, strides, apart, around, tuple(counts))
    found = beginning(w, found, tuple(sizes[c] if c in result else ONE for c in order))
    kept = [c for c in order if c in result]
    found = w.reshape(found, tuple(sizes[c] for c in kept))
    return w.transpose(found, [kept.index(c) for c in result])


def _scan(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    assert isinstance(op, ScanOp)
    (x,), axis = xs, op.axis.value.data
    size = x.shape[axis].constant
    if size is None:
        raise Unsaid(f"a scan along an axis of {x.shape[axis]} elements")
    folded = _Folded(w, op.monoid.data, x, [axis])
    if not size:
        return folded.result(folded.states)
    rank, more = len(x.shape), size - 1
    forward, shift = op.direction.data == "forward", int(op.kind.data == "exclusive")
    sides = (more + shift, -shift) if forward else (-shift, more + shift)
    around = [sides if k == axis else (0, 0) for k in range(rank)]
    window = [size if k == axis else 1 for k in range(rank)]
    return _windowed(w, folded, window, [1] * rank, [1] * rank, around, x.shape)


# sorts


def _key(w: Writer, x: Value, *, zeros: bool) -> Value:
    """What is compared: floats with one NaN, the largest, and where `zeros` with one zero."""
    if x.dtype.kind != "float":
        return x
    if zeros:
        none = w.full(0.0, x.dtype, x.shape)
        x = w.same("select", w.compare("EQ", x, none), none, x)
    nan = w.full(float("nan"), x.dtype, x.shape)
    return w.same("select", w.compare("NE", x, x), nan, x)


def _before(w: Writer, order: str, x: Value, y: Value, *, zeros: bool) -> Value:
    direction = "LT" if order == "ascending" else "GT"
    keys = [_key(w, each, zeros=zeros) for each in (x, y)]
    return w.compare(direction, *keys, total=x.dtype.kind == "float")


def _sorted(w: Writer, order: str, xs: Sequence[Value], *, zeros: bool) -> list[Value]:
    """Arrays in the order of the first one, along the last axis."""
    kinds = [(x.dtype, ()) for x in xs for _ in range(2)]

    def body(*values: Value) -> list[Value]:
        return [_before(w, order, values[0], values[1], zeros=zeros)]

    region = w.region(kinds, body)
    said = f"dimension = {len(xs[0].shape) - 1} : i64, is_stable = true"
    results = [(x.dtype, x.shape) for x in xs]
    return w.emit_all("stablehlo.sort", xs, results, said, [region])


def _sort(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    order = text_property(op.properties, "order")
    return _sorted(w, order, xs, zeros=False)[0]


def _argsort(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    (x,), order = xs, text_property(op.properties, "order")
    return _sorted(w, order, [x, w.iota(len(x.shape) - 1, x.shape)], zeros=True)[1]


def _partition(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    """Stably by group: what comes before the element of that rank, what is equal, the others."""
    assert isinstance(op, Partitioned)
    (x,), order = xs, text_property(op.properties, "order")
    axis, size = len(x.shape) - 1, x.shape[-1].constant
    if size is None:
        raise Unsaid(f"a partition of {x.shape[-1]} elements")
    at, rank = min(op.rank, size - 1), len(x.shape)
    (ranked,) = _sorted(w, order, [x], zeros=True)
    first = [ZERO] * axis + [Dim.const(at)]
    last = [*x.shape[:-1], Dim.const(at + 1)]
    pivot = sliced(w, ranked, first, last, [1] * rank, (*x.shape[:-1], ONE))
    pivot = w.broadcast(w.reshape(pivot, x.shape[:-1]), list(range(axis)), x.shape)
    less = _before(w, order, x, pivot, zeros=True)
    more = _before(w, order, pivot, x, zeros=True)
    middle, ends = w.full(1, I64, x.shape), [w.full(n, I64, x.shape) for n in (0, 2)]
    group = w.same("select", less, ends[0], w.same("select", more, ends[1], middle))
    moved = w.iota(axis, x.shape) if isinstance(op, ArgpartitionOp) else x
    return beginning(w, _sorted(w, "ascending", [group, moved], zeros=True)[1], op.shape)


def _searchsorted(w: Writer, op: TensorOp, xs: Sequence[Value]) -> Value:
    """How many elements come before, counted."""
    assert isinstance(op, SearchsortedOp)
    table, x = xs
    if len(table.shape) != 1:
        raise Unsaid("a search in a table of several axes")
    whole, rank = (*x.shape, table.shape[0]), len(x.shape)
    both = [w.broadcast(table, [rank], whole), w.broadcast(x, list(range(rank)), whole)]
    if text_property(op.properties, "side") == "left":
        counted = _before(w, "ascending", *both, zeros=True)
    else:
        after = _before(w, "ascending", *reversed(both), zeros=True)
        counted = w.same("not", after)
    return _reduced(w, MONOIDS["sum"], I64, [w.convert(counted, I64)], [rank])[0]


ROWS: Mapping[type[TensorOp], Row] = {
    ContractOp: _contract, ConvOp: _conv, ReduceOp: _reduce, WindowOp: _window, ScanOp: _scan,
    SortOp: _sort, ArgsortOp: _argsort, PartitionOp: _partition, ArgpartitionOp: _partition,
    SearchsortedOp: _searchsorted,
}  # fmt: skip
"""By class: an op, and its operands."""
