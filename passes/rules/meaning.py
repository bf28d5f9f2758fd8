"""
The specifications: what one element of each op's result is, said of the terms of a rule.

`Meaning.of` unfolds one op at an index; what the ops' own `element` says of numbers the laws of
`axioms.py` say of terms, and a test holds both together.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from itertools import product

from mlc.dialects.dims import Dim
from mlc.passes.rules.elements import (
    ONE,
    Bound,
    Facts,
    Index,
    Regions,
    Regrouped,
    Shape,
    Term,
    letter,
    make,
    number,
)
from mlc.passes.rules.environment import dims, evaluate
from mlc.passes.rules.positions import ANY_SIGN, grouped, sign_of
from mlc.passes.rules.rule import (
    Apply,
    Constant,
    Expr,
    Letters,
    Listed,
    Node,
    Number,
    Rule,
    Symbol,
    Variable,
    Word,
    symbols,
    terms,
)
from mlc.passes.rules.rule import Term as RuleTerm

ANY: Shape = ("*",)  # of values whose rule gives them no shape: all have the same
LETTERED = ("transpose", "broadcast", "reduce", "contract", "conv")


class StuckError(Exception):
    """What the specifications do not say of a rule."""


class Meaning:
    """A rule for one choice of its variables for ops and names."""

    def __init__(self, rule: Rule, chosen: Mapping[str, str]) -> None:
        self.rule, self.chosen = rule, chosen
        self.numbers = dict(_equal_numbers(rule))
        signed = {*rule.integers, *rule.vectors} - {
            e.name for g in rule.given for _, shape in g.names for e in shape or ()
            if isinstance(e, Symbol)
        }  # fmt: skip
        self.env: dict[str, object] = {
            name: letter(ANY_SIGN + name) if name in signed else Dim.symbol(name)
            for name in (*rule.sizes, *rule.integers, *rule.vectors)
        }
        self.env |= dict(self._vectors())
        self.shapes: dict[str, Shape] = {}
        self.kinds: dict[str, frozenset[str]] = {}
        for given in rule.given:
            for name, shape in given.names:
                self.kinds[name] = frozenset(given.kinds)
                self.shapes[name] = ANY if shape is None else tuple(map(self.axis, shape))
        self.words = self._cells()
        self.fresh = 0

    def axis(self, expression: Expr) -> Dim | str:
        """A size, or the word of any number of axes."""
        if isinstance(expression, Symbol) and expression.name.isupper():
            return expression.name
        return self.size(expression)

    def size(self, expression: Expr) -> Dim:
        """A size, of symbols."""
        try:
            found = dims(expression, self.env)
        except (KeyError, ArithmeticError, TypeError, ValueError) as error:
            raise StuckError(f"a size that is no polynomial: {error}") from None
        if not isinstance(found, Dim):
            raise StuckError("sizes of several axes")
        return found

    def sizes(self, expression: Expr) -> tuple[Dim, ...]:
        """Those of all axes; a vector stands for all at once."""
        items = getattr(expression, "items", (expression,))
        return tuple(map(self.size, items))

    def facts(self, sizes: Mapping[str, Dim]) -> Facts:
        """What is known where the letters have these sizes."""
        positive = frozenset(
            g.arguments[0].name
            for g in self.rule.where
            if g.predicate in ("gt", "ge")
            and isinstance(g.arguments[0], Symbol)
            and isinstance(g.arguments[1], Number)
            and (g.arguments[1].value > 0 or (g.predicate == "gt" and g.arguments[1].value == 0))
        )
        return Facts(self.kinds, positive, self.numbers, self.words, sizes)

    def _vectors(self) -> list[tuple[str, Dim]]:
        """Vectors and sizes that a guard says to be 0, 1, a number or a multiple of one."""
        found: list[tuple[str, Dim]] = []
        for guard in self.rule.where:
            match (guard.predicate, *guard.arguments):
                case ("eq", Symbol(name), Apply("zeros" | "ones" as value, _)):
                    found.append((name, Dim.const(int(value == "ones"))))
                case ("eq", Symbol(name), Number(int() as value)) if name in self.env:
                    found.append((name, Dim.const(value)))
                case ("multiple", Symbol(name), Number(int() as value)) if name in self.env:
                    found.append((name, Dim.symbol(name) * value))
                case _:
                    pass
        return found

    # Words --------------------------------------------------------------------------------------

    def _cells(self) -> dict[str, Regions]:
        """
        The letters of each word: in which words a letter may be, as ops on the left have types and
        guards hold, is a cell of their Venn diagram.
        """
        every = [t for root in (*self.rule.left, *self.rule.right) for t in terms(root)]
        lettered = [t.letters for t in every if isinstance(t, Node) and t.letters is not None]
        letters = (x for found in lettered for w in found.words() for x in w.letters())
        shapes = (e for g in self.rule.given for _, shape in g.names for e in shape or ())
        names = sorted(
            {x.name for x in letters if x.is_word}
            | {x for e in shapes for x in symbols(e) if x.isupper()}
            | {name for name, _ in self.rule.lets}
        )
        every_cell = product((False, True), repeat=len(names))
        cells = [dict(zip(names, is_in, strict=True)) for is_in in every_cell if any(is_in)]
        left = [t for root in self.rule.left for t in terms(root) if isinstance(t, Node)]
        cells = [cell for cell in cells if all(self._has_type(t, cell) for t in left)]
        for name, value in self.rule.lets:
            cells = [cell for cell in cells if cell[name] == _is_in(value, cell)]
        for guard in self.rule.where:
            cells = [cell for cell in cells if _allows(guard.predicate, guard.arguments, cell)]
        return {name: frozenset(k for k, cell in enumerate(cells) if cell[name]) for name in names}

    def _has_type(self, node: Node, cell: Mapping[str, bool]) -> bool:
        """Whether a letter may be in just these words of an op."""
        if node.letters is None:
            return True
        *operands, result = (
            any(cell[x.name] for x in w.letters() if x.is_word) for w in node.letters.words()
        )
        match node.op:
            case "transpose":
                return operands[0] == result
            case "broadcast":
                return result or not operands[0]
            case _:
                return any(operands) or not result

    # Shapes -------------------------------------------------------------------------------------

    def shape(self, term: RuleTerm) -> Shape:
        """The axes of a term."""
        if isinstance(term, Variable):
            named = self.node(term.name)
            return self.shapes[term.name] if named is None else self.shape(named)
        if isinstance(term, Constant):
            raise StuckError("a constant whose shape nothing says")
        if term.letters is not None and (size := term.field("size")) is None:
            known = self.letter_sizes(term, term.letters)
            return tuple(self._axis_of(w, known) for w in term.letters.result.axes)
        if (size := term.field("size")) is not None:
            return self.sizes(size)
        if term.op == "concat":
            axis = self.constant(term.field("axis"))
            every = [self.shape(x) for x in term.operands]
            total = sum((dim_of(s[axis]) for s in every), Dim.const(0))
            return (*every[0][:axis], total, *every[0][axis + 1 :])
        if term.op == "pad":
            low, high = (self.sizes(x) for _, x in term.fields)
            inner = map(dim_of, self.shape(term.operands[0]))
            return tuple(a + n + b for a, n, b in zip(low, inner, high, strict=True))
        known = [x for x in term.operands if not isinstance(x, Constant)]
        if not known:
            raise StuckError("an op of constants alone")
        return self.shape(known[-1])

    def check(self, term: RuleTerm) -> None:
        """Raises StuckError where the ops of a term do not have a type for all sizes."""
        if not isinstance(term, Node):
            return
        for x in term.operands:
            self.check(self.node(x.name) or x if isinstance(x, Variable) else x)
        shapes = [None if self._is_constant(x) else self.shape(x) for x in term.operands]
        if term.letters is not None:
            self._check_letters(term, term.letters, shapes)
        elif term.op == "reshape":
            sizes = [prod_of(shape) for shape in (shapes[0] or (), self.shape(term))]
            self._ask(sizes[0] == sizes[1] or bool(self.rule.vectors), "reshape")
        elif term.op == "slice" and not self.rule.vectors:
            starts, steps, ends = (self.sizes(x) for _, x in term.fields)
            for at, step, n, size in zip(starts, steps, ends, shapes[0] or (), strict=True):
                last = at + step * (n - 1)
                is_inside = all(sign_of(x) == 1 for x in (at, dim_of(size) - 1 - last))
                self._ask(is_inside or step.constant != 1 or sign_of(n - 1) != 1, "slice")
        elif term.op not in ("slice", "concat", "pad"):
            self._ask(len({x for x in shapes if x is not None}) < 2, term.op)

    def _check_letters(self, node: Node, letters: Letters, shapes: list[Shape | None]) -> None:
        """Axes are as long as their letters; windows do not reach out of them."""
        known = self.letter_sizes(node, letters)
        for word, shape in zip(letters.operands, shapes, strict=True):
            for axis, size in zip(word.axes, shape or (), strict=True):
                if isinstance(size, str):
                    continue
                reach = ONE
                for x in axis:
                    reach = reach + self.size(x.scale) * (known.get(x.name, size) - 1)
                fits = reach == size if len(axis) == 1 else sign_of(size - reach) == 1
                self._ask(fits or bool(self.rule.integers), f"{node.op} of {size} and {reach}")

    def _is_constant(self, x: RuleTerm) -> bool:
        return isinstance(self.node(x.name) if isinstance(x, Variable) else x, Constant)

    @staticmethod
    def _ask(holds: bool, what: str) -> None:
        if not holds:
            raise StuckError(f"types of {what} on the right, which may be wrong")

    def node(self, name: str) -> RuleTerm | None:
        """What a name stands for that is no variable."""
        every = (t for root in (*self.rule.left, *self.rule.right) for t in terms(root))
        return next((t for t in every if not isinstance(t, Variable) and t.name == name), None)

    def letter_sizes(self, node: Node, letters: Letters) -> dict[str, Dim]:
        """The size of each letter of an op: what the rule calls so, or of an operand's axis."""
        found: dict[str, Dim] = {}
        for word, operand in zip(letters.operands, node.operands, strict=True):
            if all(x.name in self.env for x in word.letters()):
                continue
            for axis, size in zip(word.axes, self.shape(operand), strict=True):
                if len(axis) == 1 and isinstance(size, Dim):
                    found.setdefault(axis[0].name, size)
        if (said := node.field("size")) is not None:
            names = (axis[0].name for axis in letters.result.axes)
            found |= zip(names, self.sizes(said), strict=True)
        for word in letters.words():
            for x in word.letters():
                if isinstance(size := self.env.get(x.name), Dim) and x.name in self.rule.sizes:
                    found[x.name] = size
        return found

    @staticmethod
    def _axis_of(axis: tuple[object, ...], known: Mapping[str, Dim]) -> Dim | str:
        (x,) = axis
        name = str(getattr(x, "name", ""))
        if name.isupper():
            return name
        if name not in known:
            raise StuckError(f"the size of the letter {name}")
        return known[name]

    def constant(self, expression: Expr | None) -> int:
        """A number of axes."""
        found = None if expression is None else self.size(expression).constant
        if found is None:
            raise StuckError("an axis that is a variable")
        return found

    # Elements -----------------------------------------------------------------------------------

    def start(self, root: RuleTerm) -> tuple[Index, dict[str, Dim]]:
        """An element of a side: its index, and the sizes of letters there."""
        index: list[str | Dim] = []
        sizes: dict[str, Dim] = {}
        for k, axis in enumerate(self.shape(root)):
            if isinstance(axis, str):
                index.append(axis)
            else:
                sizes[f"i{k}'"] = axis
                index.append(letter(f"i{k}'"))
        return tuple(index), sizes

    def of(self, term: RuleTerm, index: Index) -> Term:
        """What the specification of the op of a term says; its operands are still `at` an index."""
        if isinstance(term, Variable):
            named = self.node(term.name)
            return Term("read", (term.name, index)) if named is None else at(named, index)
        if isinstance(term, Constant):
            return self.number(term.value)
        op = self.chosen.get(term.op, term.op)
        operands = term.operands
        if op in LETTERED:
            assert term.letters is not None
            return self.lettered(op, term, term.letters, index)
        if op == "slice":
            start, step = (self.sizes(x) for name, x in term.fields if name in ("from", "step"))
            moved = tuple(a + s * dim_of(i) for a, s, i in zip(start, step, index, strict=True))
            return at(operands[0], moved)
        if op == "reshape":
            to, shape = self.shape(operands[0]), self.shape(term)
            return at(operands[0], grouped(to, shape, index, {}) or (Regrouped(to, shape, index),))
        if op == "concat":
            return self.concat(term, index)
        if op == "pad":
            return self.pad(term, index)
        args = [at(x, index) for x in operands]
        match op:
            case "neg":
                return make("mul", number(-1), *args)
            case "sub":
                return make("add", args[0], make("mul", number(-1), args[1]))
            case "div":
                return make("mul", args[0], make("inv", args[1]))
            case "compare":
                return make(self.name(term), *args)
            case _:
                return make(op, *args)

    def name(self, node: Node) -> str:
        """A property that is a text."""
        said = node.names[0]
        return said if isinstance(said, str) else str(evaluate(said, dict(self.chosen), str))

    def number(self, expression: Expr) -> Term:
        """A constant."""
        match expression:
            case Number(value):
                if value != value or value in (float("inf"), float("-inf")):
                    raise StuckError("a number that is not finite")
                found = Fraction(str(value))
                if found.denominator != 1 and not self._is_inexact():
                    raise StuckError("a fraction among whole numbers")
                return number(found)
            case Symbol(name):
                return number(self.numbers[name]) if name in self.numbers else Term("const", name)
            case Apply("neg", (x,)):
                return make("mul", number(-1), self.number(x))
            case Apply("+" | "*" as sign, (x, y)):
                return make("add" if sign == "+" else "mul", self.number(x), self.number(y))
            case Apply("-", (x, y)):
                return make("add", self.number(x), make("mul", number(-1), self.number(y)))
            case Apply("/", (x, y)) if self._is_inexact():
                return make("mul", self.number(x), make("inv", self.number(y)))
            case _:
                raise StuckError("a constant that is another function of constants")

    def _is_inexact(self) -> bool:
        numbers = (kind - {"bool"} for kind in self.kinds.values())
        return all(kind <= {"float", "complex"} for kind in numbers)

    def lettered(self, op: str, node: Node, letters: Letters, index: Index) -> Term:
        """A sum over the letters that the result lacks, of operands at their letters."""
        known = self._bind(letters.result, index)
        sizes = self.letter_sizes(node, letters)
        bound: dict[str, Dim] = {}
        words: Regions = frozenset()
        for word in letters.operands:
            for x in word.letters():
                if x.is_word:
                    words |= self.words[x.name]
                elif x.name not in known:
                    self.fresh += 1
                    known[x.name] = letter(f"{x.name}'{self.fresh}")
                    bound[x.name] = sizes[x.name] if x.name in sizes else _unknown(x.name)
        for x in letters.result.letters():
            if x.is_word:
                words -= self.words[x.name]
        args = [
            at(operand, tuple(self._position(axis, known) for axis in word.axes))
            for word, operand in zip(letters.operands, node.operands, strict=True)
        ]
        over = Bound(tuple((str(known[name]), size) for name, size in bound.items()), words)
        if op in ("transpose", "broadcast"):
            return args[0]
        monoid = self.name(node) if op == "reduce" else "sum"
        if monoid == "sum":
            return make("sum", make("mul", *args), data=over)
        return make("fold", args[0], data=(monoid, over))

    @staticmethod
    def _bind(word: Word, index: Index) -> dict[str, Dim]:
        """The positions of a result's letters."""
        if len(word.axes) != len(index):
            raise StuckError("letters of another number of axes")
        known: dict[str, Dim] = {}
        for (x,), item in zip(word.axes, index, strict=True):
            if x.is_word and item != x.name:
                raise StuckError(f"the letters {x.name} at a place of others")
            if not x.is_word:
                known[x.name] = dim_of(item)
        return known

    def _position(self, axis: tuple[object, ...], known: Mapping[str, Dim]) -> str | Dim:
        found = Dim.const(0)
        for x in axis:
            name, scale = str(getattr(x, "name", "")), getattr(x, "scale", Number(1))
            if name.isupper():
                return name
            found = found + self.size(scale) * known[name]
        return found

    def concat(self, node: Node, index: Index) -> Term:
        """The first operand before its end, else the others."""
        axis = self.constant(node.field("axis"))
        place, found = dim_of(index[axis]), None
        ends = [Dim.const(0)]
        for x in node.operands:
            ends.append(ends[-1] + dim_of(self.shape(x)[axis]))
        for x, start, end in reversed(list(zip(node.operands, ends[:-1], ends[1:], strict=True))):
            part = at(x, (*index[:axis], place - start, *index[axis + 1 :]))
            found = part if found is None else make("select", below(place - end), part, found)
        assert found is not None
        return found

    def pad(self, node: Node, index: Index) -> Term:
        """The operand where it is, else the other value."""
        low = self.sizes(next(x for name, x in node.fields if name == "low"))
        moved = tuple(dim_of(i) - a for i, a in zip(index, low, strict=True))
        x, other = node.operands
        outside, found = at(other, ()), at(x, moved)
        is_one_axis = all(isinstance(e, Listed) for _, e in node.fields)  # and no vector of them
        heads = ("below", "below") if is_one_axis else ("any_below", "all_below")
        for place, size in zip(moved, self.shape(x), strict=True):
            found = make("select", Term(heads[1], place - dim_of(size)), found, outside)
            found = make("select", Term(heads[0], place), outside, found)
        return found


def at(term: RuleTerm, index: Index) -> Term:
    """A term of a rule at an index, not unfolded yet."""
    return Term("at", (term, index))


def below(size: Dim) -> Term:
    """Whether a size is negative."""
    return Term("below", size)


def dim_of(item: object) -> Dim:
    """A position or a size of one axis."""
    if not isinstance(item, Dim):
        raise StuckError("a word where one axis is")
    return item


def prod_of(shape: Shape) -> tuple[Dim, list[str]]:
    """How many elements there are, and the words of others."""
    found = ONE
    for n in shape:
        found = found * n if isinstance(n, Dim) else found
    return found, sorted(n for n in shape if isinstance(n, str))


def _unknown(name: str) -> Dim:
    return Dim((((f"|{name}|",), 1),))


def _equal_numbers(rule: Rule) -> list[tuple[str, Fraction]]:
    """Constants that a guard says to be a number."""
    return [
        (g.arguments[0].name, Fraction(str(g.arguments[1].value)))
        for g in rule.where
        if g.predicate == "eq" and isinstance(g.arguments[0], Symbol)
        and g.arguments[0].name in rule.constants and isinstance(g.arguments[1], Number)
    ]  # fmt: skip


def _is_in(expression: Expr, cell: Mapping[str, bool]) -> bool:
    """Whether a letter is in a word that is made of others."""
    match expression:
        case Symbol(name):
            return cell[name]
        case Apply("within", (p, q)):
            return _is_in(p, cell) and _is_in(q, cell)
        case Apply("without", (p, q)):
            return _is_in(p, cell) and not _is_in(q, cell)
        case Apply("joined", (p, q)):
            return _is_in(p, cell) or _is_in(q, cell)
        case _:
            raise StuckError("a word that is another function of words")


def _allows(
    predicate: str, arguments: tuple[Expr | Variable, ...], cell: Mapping[str, bool]
) -> bool:
    """Whether a guard of words has nothing against a letter being in just these."""
    about = {name for x in arguments if not isinstance(x, Variable) for name in symbols(x)}
    if predicate not in ("inside", "disjoint", "eq") or not about or not about <= cell.keys():
        return True
    p, q = (_is_in(x, cell) for x in arguments if not isinstance(x, Variable))
    return {"inside": q or not p, "disjoint": not (p and q), "eq": p == q}[predicate]
