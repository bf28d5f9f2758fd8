"""Equal programs as a rule: the text of both sides, for all sizes that both have a type at."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from mlc.passes.discovery.order import guarded
from mlc.passes.discovery.terms import (
    VALUES,
    Axis,
    NoTypeError,
    Pair,
    Parts,
    Size,
    Term,
    Typing,
    Windows,
    leaves,
    operands_of,
    subterms,
    variables,
)
from mlc.passes.discovery.words import ELEMENTWISE, Word
from mlc.passes.rules.check import faults
from mlc.passes.rules.rule import (
    Apply,
    Constant,
    Expr,
    Given,
    Guard,
    Letter,
    Letters,
    Listed,
    Node,
    Number,
    Rule,
    Symbol,
    Variable,
    symbols,
)
from mlc.passes.rules.rule import Term as RuleTerm
from mlc.passes.rules.rule import Word as AxisWord
from mlc.passes.tensor.rules import Equivalence

SIZES = "abcdefghmnpqrst"
FRESH = "zyxwvuklij"  # letters of axes that are no size of the rule


def name_of(pair: Pair) -> str:
    """A rule's name: the ops of its left side, and four digits for all of it."""
    ops = [t[0] for term in pair.left for t in subterms(term) if not isinstance(t, int)]
    text = f"{pair} {pair.ranks}"
    return f"{'_'.join(reversed(ops))}_{hashlib.blake2b(text.encode(), digest_size=4).hexdigest()}"


def stated(
    pair: Pair, words: dict[str, Word], equivalence: Equivalence, origin: str
) -> Rule | None:
    """The rule of a canonical pair; None where it has no type, or cannot be looked for."""
    try:
        writer = _Writer(pair, words)
        rule = writer.rule(equivalence, origin, is_two_way=False)
        if rule is None or any(faults(rule)):
            return None
        inputs = set(variables(*pair.left))
        inner = {t for root in pair.left for t in subterms(root)}
        if not {t for root in pair.right for t in subterms(root)}.isdisjoint(pair.left):
            return None  # it would be made of what it stands for
        if rule.where or inputs != set(variables(*pair.right)) or not inner.isdisjoint(pair.right):
            return rule
        both = writer.rule(equivalence, origin, is_two_way=True)
        back = _Writer(Pair(pair.right, pair.left, pair.ranks), words)
    except NoTypeError:
        return None
    can_turn = both is not None and back.said == writer.said and not any(faults(both))
    return both if can_turn else rule


class _Writer:
    """Writes the rule of a pair."""

    def __init__(self, pair: Pair, words: dict[str, Word]) -> None:
        self.pair, self.words = pair, words
        typing = Typing(dict(pair.ranks), words)
        for left, right in zip(pair.left, pair.right, strict=True):
            typing.equal(typing.shape(left), typing.shape(right))
        every = [t for term in (*pair.left, *pair.right) for t in subterms(term)]
        self.shapes = {t: typing.shape(t) for t in every}
        self.has_shapes = any(not isinstance(t, int) and t[0] not in ELEMENTWISE for t in every)
        self.inputs = sorted(variables(*pair.left, *pair.right))
        self.sizes: dict[Size, str] = {}
        for k in self.inputs:
            for axis in self.shapes[k]:
                for size in leaves(axis):
                    self.sizes.setdefault(size, SIZES[len(self.sizes)])
        for term in every:
            for axis in self.shapes[term]:
                for size in leaves(axis):
                    self.sizes.setdefault(size, SIZES[len(self.sizes)])
        self.guarded = guarded(pair)
        self.letters: dict[tuple[Axis, int], str] = {}
        self.wholes: dict[Axis, str] = {}
        self.said: dict[Size, Expr] = {}
        self.is_said = self._say()

    # Sizes --------------------------------------------------------------------------------------

    def _say(self) -> bool:
        """Gives each size an expression that the left side knows; False where it cannot."""
        if not self.has_shapes:
            return True
        bound = self._bound()
        bound |= {axis for k in self.inputs for axis in self.shapes[k] if isinstance(axis, Size)}
        self.said = {size: Symbol(name) for size, name in self.sizes.items()}
        for k in self.inputs:
            for axis in self.shapes[k]:
                unknown = [size for size in leaves(axis) if size not in bound]
                if not unknown or axis in self.wholes:
                    continue
                if len(unknown) > 1 or isinstance(axis, Windows):
                    return False
                whole = SIZES[len(self.sizes) + len(self.wholes)]
                self.wholes[axis] = whole
                rest = [size for size in leaves(axis) if size not in unknown]
                found: Expr = Symbol(whole)
                for size in rest:
                    found = Apply("-", (found, self.said[size]))
                self.said[unknown[0]] = found
                bound |= set(unknown)
        needed = {s for term in self.shapes for axis in self.shapes[term] for s in leaves(axis)}
        return needed <= bound

    def _bound(self) -> set[Size]:
        """The sizes that a slice or a letter of the left side has."""
        found: set[Size] = set()
        for term in (t for root in self.pair.left for t in subterms(root)):
            if isinstance(term, int):
                continue
            shape = self.shapes[term]
            if term[0] in ("matmul", "transpose", "conv"):
                read = [a for t in (*term[1:], term) for a in self.shapes[t]]
                found |= {axis for axis in read if isinstance(axis, Size)}
            if term[0].startswith(("first", "second")):
                found |= {axis for axis in shape if isinstance(axis, Size)}
                offset = self._offset(term)
                found |= {offset} if isinstance(offset, Size) else set()
        return found

    def _offset(self, term: tuple[str, *tuple[Term, ...]]) -> Axis | None:
        """Where a second part begins."""
        axis = self.shapes[operands_of(term)[0]][self.words[term[0]].axis]
        assert isinstance(axis, Parts)
        return axis.first if term[0].startswith("second") else None

    def size(self, axis: Axis) -> Expr:
        """The expression of a size."""
        if axis in self.wholes:
            return Symbol(self.wholes[axis])
        match axis:
            case Size():
                return self.said[axis]
            case Parts(one, other):
                return Apply("+", (self.size(one), self.size(other)))
            case Windows(one, other):
                return Apply("-", (Apply("+", (self.size(one), self.size(other))), Number(1)))

    # Terms --------------------------------------------------------------------------------------

    def rule(self, equivalence: Equivalence, origin: str, *, is_two_way: bool) -> Rule | None:
        """The rule."""
        if not self.is_said:
            return None
        pair = self.pair
        every = [t for t in self.shapes if not isinstance(t, int)]
        kinds = ("float",) if any(t[0] == "tanh" for t in every) else ("float", "int")
        shared = self._names()
        guards = tuple(Guard("single_use", (Variable(shared[t]),)) for t in self.guarded)
        left, right = (self._side(side, shared) for side in (pair.left, pair.right))
        given = self._given(kinds)
        if given is None:
            return None
        names = {n for _, shape in given.names for e in shape or () for n in symbols(e)}
        names |= {s for side in (left, right) for root in side for s in _names(root)}
        declared = [n for n in (*self.sizes.values(), *self.wholes.values()) if n in names]
        return Rule(
            name=name_of(pair), says=str(pair), origin=origin, equivalence=equivalence,
            sizes=tuple(declared), given=(given,), where=guards, left=left, right=right,
            is_two_way=is_two_way,
        )  # fmt: skip

    def _given(self, kinds: tuple[str, ...]) -> Given | None:
        """The inputs, those first whose axes say the sizes of others; None if there is no order."""
        read = set(variables(*self.pair.left))
        rows = [
            (f"%{VALUES[k]}", tuple(map(self.size, self.shapes[k])) if self.has_shapes else None)
            for k in self.inputs
            if k in read
        ]
        rows.sort(key=lambda row: any(isinstance(e, Apply) for e in row[1] or ()))
        known = {self.sizes[size] for size in self._bound()} if self.has_shapes else set[str]()
        found: list[tuple[str, tuple[Expr, ...] | None]] = []
        while rows:
            for row in rows:
                own = {e.name for e in row[1] or () if isinstance(e, Symbol)}
                if {n for e in row[1] or () for n in symbols(e)} <= known | own:
                    break
            else:
                return None
            known |= own
            found.append(row)
            rows.remove(row)
        return Given(tuple(found), kinds)

    def _names(self) -> dict[Term, str]:
        """Names for the ops that are read more than once, or stand on both sides."""
        read: dict[Term, int] = {}
        for side in (self.pair.left, self.pair.right):
            met: dict[Term, None] = {}
            for root in side:
                read[root] = read.get(root, 0) + 1
                met |= dict.fromkeys(subterms(root))
            for term in met:
                read.setdefault(term, 0)
                for operand in () if isinstance(term, int) else term[1:]:
                    read[operand] = read.get(operand, 0) + 1
        several = [t for t, count in read.items() if count > 1 and not isinstance(t, int)]
        several += [t for t in self.guarded if t not in several]
        return {t: f"%p{k}" for k, t in enumerate(several)}

    def _side(self, roots: tuple[Term, ...], names: dict[Term, str]) -> tuple[RuleTerm, ...]:
        """A side."""
        made: dict[Term, RuleTerm] = {}
        return tuple(self._term(root, names, made) for root in roots)

    def _term(self, term: Term, names: dict[Term, str], made: dict[Term, RuleTerm]) -> RuleTerm:
        if isinstance(term, int):
            return Variable(f"%{VALUES[term]}")
        if term not in made:
            operands = tuple(self._term(x, names, made) for x in term[1:])
            made[term] = self._node(term, operands, names.get(term))
        return made[term]

    def _node(
        self, term: tuple[str, *tuple[Term, ...]], operands: tuple[RuleTerm, ...], name: str | None
    ) -> Node:
        word = self.words[term[0]]
        if word.name == "relu":
            return Node("max", (), None, (*operands, Constant(Number(0))), (), name)
        if word.name in ELEMENTWISE:
            return Node(word.name, (), None, operands, (), name)
        shape = self.shapes[term]
        size = ("size", Listed(tuple(map(self.size, shape))))
        if word.name in RULE_OPS:
            says_size = word.name == "conv" and not all(isinstance(x, Size) for x in shape)
            fields = (size,) if says_size else ()
            return Node(RULE_OPS[word.name], (), self._letters(term), operands, fields, name)
        if word.name.startswith("concat"):
            return Node("concat", (), None, operands, (("axis", Number(word.axis)),), name)
        offset, rank = self._offset(term), len(shape)
        start: list[Expr] = [Number(0)] * rank
        if offset is not None:
            start[word.axis] = self.size(offset)
        fields = (
            ("from", Listed(tuple(start))), ("step", Listed((Number(1),) * rank)), size,
        )  # fmt: skip
        return Node("slice", (), None, operands, fields, name)

    def _letters(self, term: tuple[str, *tuple[Term, ...]]) -> Letters:
        """Letters that are called as the sizes are, where these are sizes of the rule."""
        taken: dict[Axis, int] = {}

        def letter(axis: Axis) -> str:
            taken[axis] = taken.get(axis, -1) + 1
            if taken[axis] == 0 and isinstance(axis, Size):
                said = self.said[axis]
                if isinstance(said, Symbol):
                    return said.name
            key = (axis, taken[axis])
            return self.letters.setdefault(key, FRESH[len(self.letters)])

        operands = operands_of(term)
        x, y = self.shapes[operands[0]], self.shapes[operands[-1]]
        if term[0] == "transpose":
            a, b = letter(x[0]), letter(x[1])
            return Letters((_word(a, b),), _word(b, a))
        if term[0] == "matmul":
            m, k, n = letter(x[0]), letter(x[1]), letter(y[1])
            return Letters((_word(m, k), _word(k, n)), _word(m, n))
        places, windows = self.shapes[term][2:], y[2:]
        n, c, f = letter(x[0]), letter(x[1]), letter(y[0])
        p, q = map(letter, places)
        i, j = map(letter, windows)
        picture = (*_axes(n, c), (_one(p), _one(i)), (_one(q), _one(j)))
        return Letters((AxisWord(picture), _word(f, c, i, j)), _word(n, f, p, q))


RULE_OPS = {"matmul": "contract", "transpose": "transpose", "conv": "conv"}


def _one(name: str) -> Letter:
    return Letter(Number(1), name)


def _axes(*names: str) -> tuple[tuple[Letter, ...], ...]:
    return tuple((_one(name),) for name in names)


def _word(*names: str) -> AxisWord:
    return AxisWord(_axes(*names))


def _names(term: RuleTerm) -> Sequence[str]:
    """The sizes and letters that a side speaks of."""
    if not isinstance(term, Node):
        return ()
    found = [n for _, value in term.fields for n in symbols(value)]
    if term.letters is not None:
        found += [x.name for w in term.letters.words() for x in w.letters()]
    return [*found, *(n for operand in term.operands for n in _names(operand))]
