"""
Rules compiled to matchers: functions that the driver calls like those that are written by hand.

What most ops fail is asked first, before anything is allocated: whether an operand comes from the
op that the rule names there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from xdsl.ir import Operation, SSAValue

from mlc.dialects.dims import Dim, DimsAttr, shape_of
from mlc.dialects.dtypes import dtype_of
from mlc.dialects.errors import DTypeError, MlcError, ShapeError
from mlc.dialects.tensor.op import OpBuilder, TensorOp, int_property, tensor_of, text_property
from mlc.dialects.tensor.window_letters import Axis, flat_word, split_windows
from mlc.passes.rules.build import Built, free
from mlc.passes.rules.environment import Env, dims, evaluate, unify_words
from mlc.passes.rules.rule import (
    Asked,
    Constant,
    Expr,
    Given,
    Guard,
    Letters,
    Listed,
    Node,
    Number,
    Rule,
    Symbol,
    Term,
    Variable,
    known_values,
    symbols,
    terms,
)
from mlc.passes.rules.vocabulary import FORMS, GUARDS, PROPERTY
from mlc.passes.tensor.constants import is_splat_of, splat
from mlc.passes.tensor.rules import Rewrite

if TYPE_CHECKING:
    from fractions import Fraction

Matches = Callable[[SSAValue, Env], bool]
Rewriter = Callable[[Any, Rewrite], SSAValue | None]


class Matcher:
    """A compiled rule."""

    def __init__(self, rule: Rule) -> None:
        self.rule = rule
        self.choices = dict(rule.choices)
        self.bound = frozenset(rule.sizes)
        self.later: list[tuple[str, Expr]] = []
        self.roots = [self._node(root) for root in rule.left if isinstance(root, Node)]
        self.guards = [_guard(guard) for guard in rule.where]
        self.free = free(rule)

    def classes(self, node: Node) -> tuple[type[TensorOp], ...]:
        """What the op of a node may be."""
        return tuple(FORMS[name].op for name in self.choices.get(node.op, (node.op,)))

    def asked(self) -> tuple[Asked, ...]:
        """What makes the operands of the op that is looked at."""
        root, splats = self.rule.left[0], known_values(self.rule, "splat")
        assert isinstance(root, Node)
        found: list[Asked] = []
        for k, operand in enumerate(root.operands):
            if isinstance(operand, Node):
                found.append((k, self.choices.get(operand.op, (operand.op,))))
            elif isinstance(operand, Constant) or operand.name in splats:
                found.append((k, ("const",)))
        return tuple(found)

    # Matching -----------------------------------------------------------------------------------

    def found(self, op: Operation) -> tuple[Env, list[SSAValue]] | None:
        """
        The variables of the rule and its roots, the first of which is the op's result; None where
        the rule does not match. Other roots follow the op in its block, and what is written is
        there before it.
        """
        env: Env = {}
        if not self.roots[0](op.results[0], env):
            return None
        others = self._others(op, env, 1)
        if others is None or not self.holds(env):
            return None
        if others and not all(_is_before(env[name], op) for name in self.free):
            return None
        return env, [op.results[0], *others]

    def holds(self, env: Env) -> bool:
        """Whether what is known besides the shape of the program holds, too."""
        if not all(_is_given(given, env, self.rule.vectors) for given in self.rule.given):
            return False
        try:
            for name, value in self.rule.lets:
                env[name] = evaluate(value, env, int)
            if any(env[key] != dims(expression, env) for key, expression in self.later):
                return False
            if not self.rule.constants:
                return all(guard(env) for guard in self.guards)
            with np.errstate(all="ignore"):
                return all(guard(env) for guard in self.guards)
        except (KeyError, ArithmeticError):
            return False

    def _node(self, node: Node) -> Matches:
        """Compiles an op."""
        classes = frozenset(self.classes(node))
        only = next(iter(classes)) if len(classes) == 1 else None
        form = FORMS[self.choices.get(node.op, (node.op,))[0]]
        inner = [*self.properties(node), *(self._operand(k, x) for k, x in ordered(node))]
        parts = None if form.parts is not None else len(node.operands)
        name, variable = node.name, node.op if node.op in self.choices else None

        def matches(value: SSAValue, env: Env) -> bool:
            op = value.owner
            if type(op) is not only and type(op) not in classes:
                return False
            assert isinstance(op, Operation)
            if parts is not None and len(op.operands) != parts:
                return False
            if variable is not None and env.setdefault(variable, type(op)) is not type(op):
                return False
            if name is not None and env.setdefault(name, value) is not value:
                return False
            return all(test(op, env) for test in inner)

        return matches

    def _operand(self, k: int, term: Term) -> Callable[[Operation, Env], bool]:
        matches = self.term(term)
        return lambda op, env: matches(op.operands[k], env)

    def term(self, term: Term) -> Matches:
        """Whether a value is what a term says."""
        match term:
            case Node():
                return self._node(term)
            case Variable(name):
                return lambda value, env: env.setdefault(name, value) is value
            case Constant(value, name):
                return _constant(value, name)

    def properties(self, node: Node) -> Iterator[Callable[[Operation, Env], bool]]:
        """Whether an op is what its node says, operands aside."""
        form = FORMS[self.choices.get(node.op, (node.op,))[0]]
        if form.string is not None:
            yield self._string(form.string[0], node)
        if node.letters is not None:
            yield self._letters(node, node.letters, 1 + (form.string is not None))
        for field, expression in node.fields:
            yield self._field(field, expression)

    def _string(self, property_: str, node: Node) -> Callable[[Operation, Env], bool]:
        name = node.names[0]
        if isinstance(name, str):
            return lambda op, env: text_property(op.properties, property_) == name
        assert isinstance(name, Symbol)
        key, known = name.name, self.choices[name.name]

        def bind(op: Operation, env: Env) -> bool:
            found = text_property(op.properties, property_)
            return found in known and env.setdefault(key, found) == found

        return bind

    def _letters(
        self, node: Node, letters: Letters, properties: int
    ) -> Callable[[Operation, Env], bool]:
        words, bound = letters.words(), self.bound
        keeps = node.name is not None and node.name == self.rule.letters_of
        structure = tuple(tuple(len(axis) for axis in word.axes) for word in words)
        scales = [letter.scale for word in words for letter in word.letters()]
        has_windows = any(len(axis) > 1 for word in words for axis in word.axes)

        def unify(op: Operation, env: Env) -> bool:
            if len(op.properties) != properties:  # one that no rule speaks of
                return False
            found = _axes(text_property(op.properties, "letters"))
            if tuple(tuple(map(len, word)) for word in found) != structure and has_windows:
                return False
            if not has_windows and any(len(axis) > 1 for word in found for axis in word):
                return False
            if has_windows:
                numbers = [n for word in found for axis in word for n, _ in axis]
                if not all(_bind(*pair, env) for pair in zip(scales, numbers, strict=True)):
                    return False
            sizes: dict[str, Dim] = {}
            for word, value in zip(found, (*op.operands, op.results[0]), strict=True):
                for axis, dim in zip(word, shape_of(value.type), strict=True):
                    if len(axis) == 1:
                        sizes[axis[0][1]] = dim
            actual = tuple(map(flat_word, found))
            return unify_words(words, actual, sizes, env, bound, keeps_names=keeps)

        return unify

    def _field(self, field: str, expression: Expr) -> Callable[[Operation, Env], bool]:
        """Binds what is a variable, compares what is a number, and the rest when all is known."""
        key = f"@{len(self.later)}"
        items = getattr(expression, "items", (expression,))
        is_pattern = isinstance(expression, Symbol) or all(
            isinstance(item, Symbol | Number) for item in items
        )
        if not is_pattern:
            self.later.append((key, expression))

        def compare(op: Operation, env: Env) -> bool:
            if field == "axis":
                return _bind(expression, int_property(op.properties, "axis"), env)
            if field == "size":
                found = shape_of(op.results[0].type)
            else:
                attribute = op.properties[PROPERTY[field]]
                assert isinstance(attribute, DimsAttr)
                found = attribute.data
            if not is_pattern:
                env[key] = found
                if not isinstance(expression, Listed):
                    return True
                pairs = zip(items, found, strict=False)
                plain = [pair for pair in pairs if isinstance(pair[0], Symbol | Number)]
                return len(items) == len(found) and all(_bind_dim(e, d, env) for e, d in plain)
            if isinstance(expression, Symbol):
                return env.setdefault(expression.name, found) == found
            pairs = zip(items, found, strict=False)
            return len(items) == len(found) and all(_bind_dim(e, d, env) for e, d in pairs)

        return compare

    # Rewriting ----------------------------------------------------------------------------------

    def guarded(self, write: Rewriter) -> Rewriter:
        """
        `write`, behind the question that most ops answer with no whose operands are made by the
        right ops.
        """
        root = self.rule.left[0]
        assert isinstance(root, Node)
        operands = list(enumerate(root.operands))
        for k in (k for k, makers in self.asked() if makers == ("const",)):
            return _if_constant(k, getattr(root.operands[k], "value", None), write)
        names = [x.name if isinstance(x, Variable) else k for k, x in operands]
        for i, j in ((i, names.index(n)) for i, n in enumerate(names) if names.index(n) < i):
            return lambda op, b: write(op, b) if op.operands[i] is op.operands[j] else None
        if root.letters is not None and root.letters.operands == (root.letters.result,):
            return lambda op, b: write(op, b) if _has_same_letters(op) else None
        return write

    def rewriter(self) -> Rewriter:
        """The rule as the driver calls it."""

        def write(op: Any, b: Rewrite) -> SSAValue | None:
            found = self.found(op)
            if found is None:
                return None
            env, roots = found
            value, *others = self.written(env, roots, b)
            for old, new in zip(roots[1:], others, strict=True):
                old.replace_all_uses_with(new)
            return value

        rewrite = self.guarded(write)
        rewrite.__name__ = self.rule.name
        rewrite.__doc__ = self.rule.says
        return rewrite

    def written(
        self,
        env: Env,
        roots: Sequence[SSAValue],
        b: OpBuilder,
        exact: dict[SSAValue, Fraction] | None = None,
    ) -> list[SSAValue]:
        """
        The values of the right side, of the types of the roots; NotTypedError where they are not.
        """
        built = Built(env, b, exact)
        found: list[SSAValue] = []
        for root, term in zip(roots, self.rule.right, strict=True):
            try:
                value = built.value(term, tensor_of(root))
            except (ShapeError, DTypeError, ArithmeticError) as error:
                raise NotTypedError(f"rule {self.rule.name}: the right side: {error}") from error
            if value.type != root.type:
                raise NotTypedError(
                    f"rule {self.rule.name}: the left side is {root.type}, the right {value.type}"
                )
            found.append(value)
        return found

    def _others(self, op: Operation, env: Env, k: int) -> list[SSAValue] | None:
        """The roots from the k-th on, which read something that is known by then."""
        if k == len(self.roots):
            return []
        node = self.rule.left[k]
        assert isinstance(node, Node)
        depth = sum(isinstance(t, Node) for t in terms(node))
        shared = {t.name for t in terms(node) if t.name is not None and t.name in env}
        readers = (user for name in sorted(shared) for user in _readers(env[name], depth))
        for user in readers:
            if type(user) not in self.classes(node) or not _follows(user, op):
                continue
            value, attempt = user.results[0], dict(env)
            if value.first_use is None or not self.roots[k](value, attempt):
                continue
            rest = self._others(op, attempt, k + 1)
            if rest is not None and value not in rest:
                env.update(attempt)
                return [value, *rest]
        return None


def root_names(rule: Rule) -> tuple[str, ...]:
    """What the op that is looked at may be, by names: known without compiling the rule."""
    root = rule.left[0]
    assert isinstance(root, Node)
    return dict(rule.choices).get(root.op, (root.op,))


def root_classes(rule: Rule) -> tuple[type[TensorOp], ...]:
    """What the op that is looked at may be."""
    return tuple(FORMS[name].op for name in root_names(rule))


def ordered(node: Node) -> list[tuple[int, Term]]:
    """The operands by number, those first that are likely to fail."""
    return sorted(enumerate(node.operands), key=lambda pair: not isinstance(pair[1], Node))


class NotTypedError(MlcError):
    """What a rule writes has no type, or another one than what it stands for."""


def _if_constant(k: int, value: Expr | None, write: Rewriter) -> Rewriter:
    if isinstance(value, Number):
        number = value.value
        return lambda op, b: write(op, b) if is_splat_of(op.operands[k], number) else None
    return lambda op, b: write(op, b) if splat(op.operands[k]) is not None else None


def _has_same_letters(op: Operation) -> bool:
    source, _, result = text_property(op.properties, "letters").partition("->")
    return source == result


def _readers(value: SSAValue, depth: int) -> Iterator[Operation]:
    """The ops that read a value, or read what reads it."""
    for use in value.uses:
        user = use.operation
        if isinstance(user, TensorOp):
            yield user
            if depth > 1:
                yield from _readers(user.results[0], depth - 1)


def _follows(op: Operation, first: Operation) -> bool:
    return op is not first and op.parent is first.parent and first.is_before_in_block(op)


def _is_before(value: SSAValue, op: Operation) -> bool:
    """Whether a value is there before an op is reached."""
    owner = value.owner
    return (
        not isinstance(owner, Operation)
        or owner.parent is not op.parent
        or (owner is not op and owner.is_before_in_block(op))
    )


def _axes(text: str) -> tuple[tuple[Axis, ...], ...]:
    """The axes of the operands and of the result."""
    if "(" in text:
        axes, result = split_windows(text)
        return (*axes, tuple(((1, c),) for c in result))
    left, _, right = text.partition("->")
    return tuple(tuple(((1, c),) for c in word) for word in (*left.split(","), right))


def _constant(value: Expr, name: str | None) -> Matches:
    if isinstance(value, Number):
        number = value.value

        def literal(found: SSAValue, env: Env) -> bool:
            if name is not None:
                env[name] = found
            return is_splat_of(found, number)

        return literal
    assert isinstance(value, Symbol)
    symbol = value.name

    def bind(found: SSAValue, env: Env) -> bool:
        scalar = splat(found)
        if scalar is None:
            return False
        if name is not None:
            env[name] = found
        return env.setdefault(symbol, scalar).tobytes() == scalar.tobytes()

    return bind


def _bind(expression: Expr, found: int, env: Env) -> bool:
    """Whether an integer is the one that a pattern says."""
    if isinstance(expression, Number):
        return expression.value == found
    assert isinstance(expression, Symbol)
    return env.setdefault(expression.name, found) == found


def _bind_dim(expression: Expr, found: Dim, env: Env) -> bool:
    if isinstance(expression, Number):
        return found.constant == expression.value
    assert isinstance(expression, Symbol)
    return env.setdefault(expression.name, found) == found


def _is_given(given: Given, env: Env, vectors: tuple[str, ...]) -> bool:
    """Whether the variables are of the kinds and shapes that the rule says."""
    for name, shape in given.names:
        if name not in env:
            continue
        kind = tensor_of(env[name])
        if dtype_of(kind.element_type).kind not in given.kinds:
            return False
        if shape is None or any(isinstance(e, Symbol) and e.name.isupper() for e in shape):
            continue
        found = shape_of(kind)
        if len(shape) == 1 and isinstance(shape[0], Symbol) and shape[0].name in vectors:
            if env.setdefault(shape[0].name, found) != found:
                return False
            continue
        if len(found) != len(shape):
            return False
        plain = [(e, d) for e, d in zip(shape, found, strict=True) if not isinstance(e, Symbol)]
        for expression, dim in zip(shape, found, strict=True):
            if isinstance(expression, Symbol) and not _bind_dim(expression, dim, env):
                return False
        if not all(_is_size(expression, dim, env) for expression, dim in plain):
            return False
    return True


def _is_size(expression: Expr, dim: Dim, env: Env) -> bool:
    """Whether a size is what an expression says; one variable in it that is new gets its value."""
    new = sorted({name for name in symbols(expression) if name not in env})
    if not new:
        return bool(dims(expression, env) == dim)
    try:
        at = [dims(expression, {**env, new[0]: Dim.const(n)}) for n in range(3)]
    except (KeyError, ArithmeticError):
        return False
    slope = at[1] - at[0]
    found = (dim - at[0]).exact_quotient(slope) if slope.terms else None
    if found is None or at[2] - at[1] != slope or any(c < 0 for _, c in found.terms):
        return False
    env[new[0]] = found
    return True


def _guard(guard: Guard) -> Callable[[Env], bool]:
    predicate = GUARDS[guard.predicate]

    def holds(env: Env) -> bool:
        found = [
            env[x.name] if isinstance(x, Variable) else evaluate(x, env, _same)
            for x in guard.arguments
        ]
        try:
            return bool(predicate(*found))
        except TypeError:  # sizes that have no order as long as nobody knows them
            return False

    return holds


def _same(number: float) -> float:
    return number
