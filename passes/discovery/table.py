"""
All programs up to a size, as arrays: a row is an op on two rows before it.

Operands are *representatives*, the first programs of their class: what is equal modulo p. So a
program stands here once, whatever it is a part of, and a larger one is made of the smallest parts
that there are. SOURCE: Xu et al., Quartz, PLDI 2022, section 4.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np

from mlc.dialects.tensor.op import Array
from mlc.lazy_dataclass import dataclass
from mlc.passes.discovery.residues import SAMPLES, Keys, Shape, drawn
from mlc.passes.discovery.words import Space, Word

CHUNK = 8192  # programs whose values are computed at once
INPUT = -1  # the op of an input


@dataclass(frozen=True)
class Task:
    """Programs of one op on operands of two shapes; `b` is `a` where there is one operand."""

    word: int
    shapes: tuple[int, ...]
    a: Array
    b: Array


class Table:
    """
    The programs of a space. Rows are numbered by size, then by op, then by operands; the order is
    the same however many processes have a part in it.

    `op`, `a`, `b`: the row's op and operands; `size`: how many ops it is made of, each counted
    once; `cone`: their rows, in order, behind -1 where there are fewer; `shape`, `key`; `rep`: the
    first row with this key; `inputs`: a bit for each input that is read.
    """

    def __init__(self, space: Space, depth: int) -> None:
        self.space, self.depth = space, depth
        count = len(space.inputs)
        self.shapes: list[Shape] = []
        self.number: dict[Shape, int] = {}
        shapes = [self.shape_number(s) for s in space.inputs]
        self.keys = Keys()
        values = [drawn(k, s) for k, s in enumerate(space.inputs)]
        self.op = np.full(count, INPUT, np.int16)
        self.a = np.full(count, -1, np.int32)
        self.b = np.full(count, -1, np.int32)
        self.size = np.zeros(count, np.int8)
        self.shape = np.array(shapes, np.int16)
        self.inputs = (1 << np.arange(count)).astype(np.uint16)
        self.cone = np.full((count, depth), -1, np.int32)
        self.key = np.array(
            [self.keys.of(v, s)[0] for v, s in zip(values, space.inputs, strict=True)], np.uint64
        )
        self.rep = np.arange(count, dtype=np.int32)
        self.starts = [0, count]
        self.slot = np.zeros(count, np.int32)
        self.values: dict[int, Array] = {}
        for number in sorted(set(shapes)):
            rows = [k for k, each in enumerate(shapes) if each == number]
            self.slot[rows] = np.arange(len(rows))
            self.values[number] = np.concatenate([values[k] for k in rows])

    def __len__(self) -> int:
        return len(self.op)

    @property
    def level(self) -> int:
        """The size up to which all programs are here."""
        return len(self.starts) - 2

    def rows(self, size: int) -> Array:
        """The programs of so many ops."""
        return np.arange(self.starts[size], self.starts[size + 1], dtype=np.int32)

    def classes(self, size: int) -> Array:
        """The representatives of so many ops."""
        rows = self.rows(size)
        return rows[self.rep[rows] == rows]

    def shape_number(self, shape: Shape) -> int:
        """The number of a shape, a new one if need be."""
        if shape not in self.number:
            self.number[shape] = len(self.shapes)
            self.shapes.append(shape)
        return self.number[shape]

    # Programs of one more op --------------------------------------------------------------------

    def tasks(self) -> Iterator[list[Task]]:
        """For each op the programs of one more op than there are."""
        size = self.level + 1
        for number, word in enumerate(self.space.words):
            found = list(self._unary(size, word) if word.parts == 1 else self._binary(size, word))
            yield [Task(number, shapes, a, b) for shapes, a, b in found]

    def _unary(self, size: int, word: Word) -> Iterator[tuple[tuple[int, ...], Array, Array]]:
        rows = self.classes(size - 1)
        for number in np.unique(self.shape[rows]).tolist():
            if word.shape(self.shapes[number]) is not None:
                found = rows[self.shape[rows] == number]
                yield (number,), found, found

    def _binary(self, size: int, word: Word) -> Iterator[tuple[tuple[int, ...], Array, Array]]:
        """Pairs of classes whose ops are together one fewer."""
        met: dict[tuple[int, ...], list[tuple[Array, Array]]] = {}
        for i in range(size):
            for j in range(i if word.commutes else 0, size):
                if i + j < size - 1:
                    continue
                for shapes, a, b in self._pairs(i, j, size - 1, word):
                    here = a <= b if word.commutes and i == j else slice(None)
                    if len(a[here]):
                        met.setdefault(shapes, []).append((a[here], b[here]))
        for shapes in sorted(met):
            a, b = (np.concatenate(each) for each in zip(*met[shapes], strict=True))
            yield shapes, a, b

    def _pairs(
        self, i: int, j: int, total: int, word: Word
    ) -> Iterator[tuple[tuple[int, int], Array, Array]]:
        left, right = self.classes(i), self.classes(j)
        shared = i + j - total
        if shared == 0:
            for shapes, a, b in self._by_shapes(left, right, word):
                x, y = np.repeat(a, len(b)), np.tile(b, len(a))
                if i and j:
                    apart = self._shared(x, y) == 0
                    x, y = x[apart], y[apart]
                yield shapes, x, y
            return
        if shared == i == j:
            x, y = left, left
        elif shared == j:
            x, y = self._parts(left, j)
        elif shared == i:
            y, x = self._parts(right, i)
        else:
            x, y = self._sharing(left, right, shared)
        numbers = self.shape[x].astype(np.int64) * len(self.shapes) + self.shape[y]
        for number in np.unique(numbers).tolist():
            pair = divmod(number, len(self.shapes))
            if word.shape(*(self.shapes[n] for n in pair)) is not None:
                here = numbers == number
                yield pair, x[here], y[here]

    def _by_shapes(
        self, left: Array, right: Array, word: Word
    ) -> Iterator[tuple[tuple[int, int], Array, Array]]:
        for s in np.unique(self.shape[left]).tolist():
            for t in np.unique(self.shape[right]).tolist():
                if word.shape(self.shapes[s], self.shapes[t]) is not None:
                    yield (s, t), left[self.shape[left] == s], right[self.shape[right] == t]

    def _shared(self, x: Array, y: Array) -> Array:
        """How many ops two rows have both."""
        p, q = self.cone[x], self.cone[y]
        found = np.zeros(len(x), np.int8)
        last = range(self.depth - self.level, self.depth)
        for k in last:
            for m in last:
                found += (p[:, k] == q[:, m]) & (p[:, k] >= 0)
        return found

    def _parts(self, rows: Array, size: int) -> tuple[Array, Array]:
        """Each row with those of its own ops that are programs of this size."""
        whole, parts = np.repeat(rows, self.depth), self.cone[rows].ravel()
        inside = (parts >= 0) & (self.size[parts] == size)
        return whole[inside], parts[inside]

    def _sharing(self, left: Array, right: Array, count: int) -> tuple[Array, Array]:
        """Pairs that have so many ops both."""
        p, pa = self._spread(left)
        q, qa = self._spread(right)
        start, stop = np.searchsorted(q, p), np.searchsorted(q, p, side="right")
        x = np.repeat(pa, stop - start)
        y = qa[ranges(start, stop)]
        _, first = np.unique(x.astype(np.int64) << 32 | y, return_index=True)
        x, y = x[first], y[first]
        here = self._shared(x, y) == count
        return x[here], y[here]

    def _spread(self, rows: Array) -> tuple[Array, Array]:
        """Each op of each row, with the row, by op."""
        parts = self.cone[rows].ravel()
        whole = np.repeat(rows, self.depth)[parts >= 0]
        parts = parts[parts >= 0]
        order = np.argsort(parts, kind="stable")
        return parts[order], whole[order]

    # Values -------------------------------------------------------------------------------------

    def evaluated(self, word: Word, a: Array, b: Array) -> Array:
        """The values of an op on rows that have some."""
        operands = [a] if word.parts == 1 else [a, b]
        return word.value(*(self.values[int(self.shape[x[0]])][self.slot[x]] for x in operands))

    def keys_of(self, task: Task) -> Array:
        """The keys of a task's programs."""
        word = self.space.words[task.word]
        shape = self.result(task)
        found = np.empty(len(task.a), np.uint64)
        for start in range(0, len(task.a), CHUNK):
            part = slice(start, start + CHUNK)
            found[part] = self.keys.of(self.evaluated(word, task.a[part], task.b[part]), shape)
        return found

    def result(self, task: Task) -> Shape:
        """The shape of a task's programs."""
        found = self.space.words[task.word].shape(*(self.shapes[n] for n in task.shapes))
        assert found is not None
        return found

    # Growing ------------------------------------------------------------------------------------

    def extend(self, tasks: Sequence[Task], keys: Sequence[Array]) -> None:
        """Takes the programs of one more op, with their keys."""
        op, a, b, key, shape = self._ordered(tasks, keys)
        start = len(self)
        rows = np.arange(start, start + len(op), dtype=np.int32)
        cone = self._cones(rows, a, b)
        words = self.space.words
        binary = np.array([w.parts == 2 for w in words])[op]
        inputs = self.inputs[a] | np.where(binary, self.inputs[b], 0).astype(np.uint16)
        self.op, self.shape = np.append(self.op, op), np.append(self.shape, shape)
        self.a, self.b = np.append(self.a, a), np.append(self.b, np.where(binary, b, -1))
        self.size = np.append(self.size, np.full(len(op), self.level + 1, np.int8))
        self.inputs = np.append(self.inputs, inputs)
        self.cone = np.concatenate([self.cone, cone])
        self.key = np.append(self.key, key)
        known = self.key[:start]
        reps = np.flatnonzero(self.rep == np.arange(start))
        order = np.argsort(known[reps], kind="stable")
        self.rep = np.append(self.rep, _first_of(known[reps][order], reps[order], key, rows))
        self.starts.append(len(self))
        self.slot = np.append(self.slot, np.full(len(op), -1, np.int32))

    def _ordered(
        self, tasks: Sequence[Task], keys: Sequence[Array]
    ) -> tuple[Array, Array, Array, Array, Array]:
        """The programs in the order that does not depend on tasks."""
        if not tasks:
            empty = np.zeros(0, np.int32)
            return empty.astype(np.int16), empty, empty, empty.astype(np.uint64), empty
        shapes = [self.shape_number(self.result(task)) for task in tasks]
        lengths = [len(task.a) for task in tasks]
        op = np.repeat([task.word for task in tasks], lengths).astype(np.int16)
        shape = np.repeat(shapes, lengths).astype(np.int16)
        a = np.concatenate([task.a for task in tasks])
        b = np.concatenate([task.b for task in tasks])
        order = np.lexsort((b, a, op))
        return op[order], a[order], b[order], np.concatenate(keys)[order], shape[order]

    def _cones(self, rows: Array, a: Array, b: Array) -> Array:
        """The ops that rows are made of: those of their operands, and they themselves."""
        both = np.concatenate([self.cone[a], self.cone[b]], 1)
        both.sort(1)
        both[:, 1:][both[:, 1:] == both[:, :-1]] = -1
        both.sort(1)
        found = np.full((len(rows), self.depth), -1, np.int32)
        keep = min(self.depth - 1, both.shape[1])
        found[:, self.depth - 1 - keep : self.depth - 1] = both[:, both.shape[1] - keep :]
        found[:, -1] = rows
        return found

    def keep_values(self) -> None:
        """Computes the values of the classes of the largest size, which more are made of."""
        rows = self.classes(self.level)
        keys = self.shape[rows].astype(np.int64)
        for number in np.unique(keys).tolist():
            here = rows[keys == number]
            known = self.values.get(number)
            shape: Shape = self.shapes[int(number)]
            count = 0 if known is None else len(known)
            fresh = np.empty((len(here), SAMPLES, *shape), np.uint64)
            for part in self._alike(here):
                word = self.space.words[self.op[here[part[0]]]]
                for start in range(0, len(part), CHUNK):
                    some = part[start : start + CHUNK]
                    fresh[some] = self.evaluated(word, self.a[here[some]], self.b[here[some]])
            self.values[number] = fresh if known is None else np.concatenate([known, fresh])
            self.slot[here] = np.arange(count, count + len(here))

    def _alike(self, rows: Array) -> list[Array]:
        """Positions of rows of one op and operands of the same shapes."""
        numbers = self.op[rows].astype(np.int64) << 32 | self.shape[self.a[rows]] << 16
        numbers |= self.shape[self.b[rows]]
        order = np.argsort(numbers, kind="stable")
        cuts = np.flatnonzero(np.diff(numbers[order])) + 1
        return [part for part in np.split(order, cuts) if len(part)]


def ranges(start: Array, stop: Array) -> Array:
    """`start[0], …, stop[0] - 1, start[1], …`"""
    lengths = stop - start
    ends = np.cumsum(lengths)
    found = np.arange(int(ends[-1]) if len(ends) else 0)
    return found - np.repeat(ends - lengths - start, lengths)


def _first_of(known: Array, of: Array, key: Array, rows: Array) -> Array:
    """For each key the row that has it first: a known one (sorted), or one of `rows`."""
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    found = rows[first][inverse.ravel()]
    at = np.minimum(np.searchsorted(known, key), max(len(known) - 1, 0))
    return np.where(known[at] == key, of[at], found).astype(np.int32)


Map = Callable[[Callable[[Task], Array], Sequence[Task]], Sequence[Array]]
"""How the keys of tasks are computed: one after another, or by several processes."""
