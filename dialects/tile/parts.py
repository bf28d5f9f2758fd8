"""
How blocks share items that do not suffice for all of them ("split-K" of the last wave): as many
items as there are blocks, again and again, are taken whole. Of each that is left one block has the
last steps, and blocks that would be idle have the first ones.

```
2 items, 6 blocks:  block 0  item 0, 0..S/3      block 1  item 1, 0..S/3
                    block 2  item 0, S/3..2S/3   block 3  item 1, S/3..2S/3
                    block 4  item 0, 2S/3..S     block 5  item 1, 2S/3..S
```

Parts begin at the same steps in all items, so that blocks which run at the same time read the same
steps of a factor. Equal shares of all steps ("stream-K", Osama et al., PPoPP 2023) leave no block
idle, but read memory again and again; and blocks that help with several items each gain nothing:
docs/measurements.md, "Products of bf16 on a GPU".
"""

from __future__ import annotations

from typing import Any, Protocol

from mlc.lazy_dataclass import dataclass

Number = Any
"""Not negative: an int, or a value of a program."""


class Arithmetic(Protocol):
    """On numbers; `compare("lt", x, y)` gives what `choose` takes."""

    def add(self, x: Number, y: Number, /) -> Number: ...
    def sub(self, x: Number, y: Number, /) -> Number: ...
    def mul(self, x: Number, y: Number, /) -> Number: ...
    def div(self, x: Number, y: Number, /) -> Number: ...
    def min(self, x: Number, y: Number, /) -> Number: ...
    def max(self, x: Number, y: Number, /) -> Number: ...
    def compare(self, predicate: str, x: Number, y: Number, /) -> Any: ...
    def choose(self, condition: Any, x: Number, y: Number, /) -> Number: ...


class Integers:
    """Python's."""

    add = staticmethod(int.__add__)
    sub = staticmethod(int.__sub__)
    mul = staticmethod(int.__mul__)
    div = staticmethod(int.__floordiv__)
    min = staticmethod(min)
    max = staticmethod(max)

    @staticmethod
    def compare(predicate: str, x: int, y: int) -> bool:
        """Whether one is less than another."""
        assert predicate == "lt"
        return x < y

    @staticmethod
    def choose(condition: bool, x: int, y: int) -> int:
        """One of two."""
        return x if condition else y


@dataclass(frozen=True)
class Part:
    """Of an item the steps from one on, up to another one."""

    item: Number
    first: Number
    end: Number


@dataclass(frozen=True)
class Parts:
    """Items of so many steps each, on so many blocks; an item comes in at most so many parts."""

    a: Arithmetic
    items: Number
    steps: Number
    blocks: Number
    most: Number

    @property
    def whole(self) -> Number:
        """Items that each block takes whole."""
        return self.a.div(self.items, self.blocks)

    @property
    def before(self) -> Number:
        """Items that all blocks take whole; the others are shared."""
        return self.a.mul(self.whole, self.blocks)

    @property
    def shared(self) -> Number:
        """Items that are."""
        return self.a.sub(self.items, self.before)

    @property
    def others(self) -> Number:
        """Parts of such an item but the last one: each is a block's that would be idle."""
        a = self.a
        helping = a.div(a.sub(self.blocks, self.shared), a.max(self.shared, 1))
        return a.min(a.min(helping, a.mul(self.shared, self.blocks)), self._most)

    @property
    def _most(self) -> Number:
        return self.a.sub(self.a.min(self.most, self.a.max(self.steps, 1)), 1)

    @property
    def cut(self) -> Number:
        """Steps of a part but the last one."""
        return self.a.div(self.steps, self.a.add(self.others, 1))

    def visits(self, block: Number) -> Number:
        """Items of which a block has steps."""
        a = self.a
        taking = a.mul(a.add(self.others, 1), self.shared)
        return a.add(self.whole, a.choose(a.compare("lt", block, taking), 1, 0))

    def part(self, visit: Number, block: Number) -> Part:
        """What a block has at a visit."""
        a, whole = self.a, self.a.compare("lt", visit, self.whole)
        number = a.div(block, a.max(self.shared, 1))
        item = a.add(self.before, a.sub(block, a.mul(number, self.shared)))
        first = a.mul(number, self.cut)
        helps = a.compare("lt", number, self.others)
        return Part(
            a.choose(whole, a.add(a.mul(visit, self.blocks), block), item),
            a.choose(whole, 0, first),
            a.choose(whole, self.steps, a.choose(helps, a.add(first, self.cut), self.steps)),
        )

    def owner(self, item: Number, number: Number) -> Number:
        """The block that has a part of an item that is shared."""
        return self.a.add(self.a.mul(number, self.shared), self.a.sub(item, self.before))
