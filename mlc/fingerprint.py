"""
A program as bytes: equal for modules whose ops, types and attributes are equal, wherever
they were written. Unlike printed text it is made op by op, each different attribute printed once.
"""

from __future__ import annotations

from collections.abc import Mapping

from xdsl.ir import Attribute, Block, Operation, SSAValue


def fingerprint(op: Operation, beside: str = "") -> bytes:
    """
    Of an op with all that stands in it; it uses no value from outside. `beside`: an attribute that
    only tells where the program comes from.
    """
    return _Fingerprint(beside).of(op)


class _Fingerprint:
    def __init__(self, beside: str) -> None:
        self.beside = beside
        self.lines: list[str] = []
        self.values: dict[SSAValue, int] = {}
        self.blocks: dict[Block, int] = {}
        self.texts: dict[int, str] = {}  # of attributes by their identity: the ops keep them alive
        self.numbers: dict[str, int] = {}  # of these texts, each of which stands there once

    def of(self, op: Operation) -> bytes:
        self._op(op)
        texts = (f"{len(text)}:{text}" for text in self.numbers)
        return "\n".join((*self.lines, *texts)).encode()

    def _op(self, op: Operation) -> None:
        values = self.values
        parts = [op.name, ",".join([str(values.setdefault(x, len(values))) for x in op.operands])]
        parts.append(",".join([self._text(x.type) for x in op.results]))
        parts += [self._named(op.properties), self._named(op.attributes)]
        parts.append(",".join([str(self._number(x)) for x in op.successors]))
        parts.append(",".join([str(values.setdefault(x, len(values))) for x in op.results]))
        self.lines.append(";".join(parts))
        for region in op.regions:
            self.lines.append("{")
            for block in region.blocks:
                self._block(block)
            self.lines.append("}")

    def _block(self, block: Block) -> None:
        kinds = ",".join([self._text(x.type) for x in block.args])
        numbers = ",".join([str(self.values.setdefault(x, len(self.values))) for x in block.args])
        self.lines.append(f"^{self._number(block)};{kinds};{numbers}")
        for op in block.ops:
            self._op(op)

    def _number(self, block: Block) -> int:
        return self.blocks.setdefault(block, len(self.blocks))

    def _named(self, attributes: Mapping[str, Attribute]) -> str:
        named = [(k, v) for k, v in sorted(attributes.items()) if k != self.beside]
        return ",".join([f"{k!r}={self._text(v)}" for k, v in named])

    def _text(self, attribute: Attribute) -> str:
        found = self.texts.get(id(attribute))
        if found is None:
            number = self.numbers.setdefault(str(attribute), len(self.numbers))
            found = self.texts[id(attribute)] = str(number)
        return found
