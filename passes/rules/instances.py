"""
Rules at one size, one dtype and one number each: the left side as a program, and what the compiled
matcher makes of it. What is verified is thus the rewrite that is run.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any, cast

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import FunctionType, ModuleOp, UnitAttr
from xdsl.ir import Block, BlockArgument, Operation, Region, SSAValue
from xdsl.utils.exceptions import VerifyException

from mlc.dialects.dims import Dim, shape_of, tensor_type
from mlc.dialects.dtypes import BOOL, C64, F32, I32, U8, dtype_of
from mlc.dialects.errors import MlcError
from mlc.dialects.tensor.op import OpBuilder, Tensor
from mlc.lazy_dataclass import dataclass
from mlc.passes.rules.build import Built
from mlc.passes.rules.environment import Env, dims, evaluate, sizes_of_word, word_text
from mlc.passes.rules.match import Matcher, NotTypedError
from mlc.passes.rules.rule import (
    Letters,
    Node,
    Rule,
    Symbol,
    Variable,
    known_values,
    symbols,
    terms,
)
from mlc.passes.rules.vocabulary import FORMS, GUARDS
from mlc.passes.tensor.constants import splat_constant
from mlc.passes.tensor.rules import Rewrite

DTYPES = {"float": F32, "int": I32, "uint": U8, "bool": BOOL, "complex": C64}
"""What stands for a kind of dtype."""
NUMBERS: dict[str, tuple[float, ...]] = {
    "float": (2.0, 3.0, 0.5, -1.5, 1.0, 4.0, 0.0, -0.0, -1.0, 2.0**-120, 1e30, math.inf, math.nan),
    "int": (2, 3, 1, -1, 0, 2**30 + 1, -(2**31)),
    "uint": (2, 3, 1, 255, 0, 128),
    "bool": (True, False),
    "complex": (2.0, 3.0, 1.0, 0.0, -1.0),
}
"""What constants are tried as."""
REGIMES: dict[str, tuple[int, ...]] = {
    "distinct": (3, 4, 5, 6, 7, 8),
    "ones": (2, 1, 3, 4, 1, 5),
    "equal": (3, 3, 3, 3, 3, 3),
    "empty": (2, 3, 2, 1, 3, 2),
}
"""
Sizes that variables get, in some order; one of them is 1 among "ones", 0 if "empty". Two sides
that are sums over letters of products agree for all sizes if they do where each axis has as many
positions as there are letters over it; broadcasting is a matter of 1, and empty sums one of 0.
"""
LEAST = {"ones": 1, "empty": 0}
ORDINARY = ("distinct", "equal")
ANY = (7, 11)
"""The shape of what may have any: as many elements as two numbers have pairs of special values."""
STALE = 40  # tries without a new case, after which there are no others
WORDS = 16  # assignments of letters to words that are tried
UNTYPED = (MlcError, VerifyException, ArithmeticError, AssertionError, IndexError, ValueError)


@dataclass(frozen=True)
class Instance:
    """
    One case. `module`: a function of `arguments` whose results are the left sides, then the right
    ones; `exact`: what the constants are, before they were rounded to their dtype.
    """

    text: str
    module: ModuleOp
    arguments: tuple[BlockArgument, ...]
    values: tuple[SSAValue, ...]
    exact: dict[SSAValue, Fraction]

    def pairs(self) -> list[tuple[SSAValue, SSAValue]]:
        """Each left side with its right side."""
        half = len(self.values) // 2
        return list(zip(self.values[:half], self.values[half:], strict=True))

    def sizes(self) -> list[int]:
        """Those of the arguments."""
        return [n.evaluate({}) for x in self.arguments for n in shape_of(x.type)]

    def ops(self) -> list[Operation]:
        """What the function computes."""
        block = self.arguments[0].owner if self.arguments else self.values[0].owner
        body = block if isinstance(block, Block) else block.parent
        assert isinstance(body, Block)
        return [op for op in body.ops if not isinstance(op, func.ReturnOp)]


class NoInstanceError(MlcError):
    """Nothing was found that a rule can be tried at."""


def instances(rule: Rule, most: int = 5) -> list[Instance]:
    """
    Cases of a rule, up to `most` for each kind of dtype that it is for, the same ones in every run.
    Raises NoInstanceError where there is none for a kind, and NotTypedError where what the rule
    writes has no type or another one.
    """
    return [x for number in range(_kinds(rule)) for x in _of_kind(rule, number, most)]


def _kinds(rule: Rule) -> int:
    return max((len(given.kinds) for given in rule.given), default=1)


def _of_kind(rule: Rule, number: int, most: int) -> list[Instance]:
    rng = np.random.default_rng([number, *rule.name.encode()])
    matcher = Matcher(rule)
    words = list(itertools.islice(_words(rule, rng), WORDS)) or [{}]
    rng.shuffle(cast("Any", words))
    tries = 4000 if rule.vectors else 400
    found: list[Instance] = []
    tried = {""}
    stale, ordinary = 0, False
    for attempt in range(tries):
        regime = list(REGIMES)[attempt % len(REGIMES)]
        draw = _Draw(rule, rng, number, regime, words[attempt // len(REGIMES) % len(words)])
        stale += 1
        if (text := draw.text()) not in tried and (case := draw.instance(matcher)) is not None:
            found.append(case)
            stale = 0
            ordinary |= regime in ORDINARY or all(n >= 2 for n in case.sizes())
        tried.add(text)
        if len(found) == most or (found and stale > STALE):
            break
    if not ordinary:
        kinds = " and ".join(given.kinds[number % len(given.kinds)] for given in rule.given)
        raise NoInstanceError(
            f"rule {rule.name}: it matched none of {tries} programs of {kinds or 'constants'} with"
            " sizes of 2 and more; expected sizes, dtypes and guards that some program has"
        )
    return found


class _Draw:
    """Values for a rule's variables."""

    def __init__(
        self, rule: Rule, rng: np.random.Generator, kind: int, regime: str, words: dict[str, str]
    ) -> None:
        self.rule, self.rng, self.regime = rule, rng, regime
        self.kinds = [given.kinds[kind % len(given.kinds)] for given in rule.given]
        self.env: Env = {**words}
        self.letters = sorted(_letters(rule) | set("".join(words.values())))
        sizes: list[int] = rng.permutation(REGIMES[regime]).tolist() * 8
        if (least := LEAST.get(regime)) is not None:
            count = len({*rule.sizes, *self.letters})
            sizes[int(rng.integers(max(count, 1)))] = least
        self.sizes = iter(sizes)
        self._draw()

    def pick(self, items: Sequence[Any]) -> Any:
        """One of several."""
        return items[int(self.rng.integers(len(items)))]

    def _draw(self) -> None:
        rule, env = self.rule, self.env
        for name, known in rule.choices:
            env[name] = FORMS[self.pick(known)].op if known[0] in FORMS else self.pick(known)
        env |= {name: Dim.const(next(self.sizes)) for name in rule.sizes}
        env |= {name: Dim.const(int(self.rng.integers(1, 4))) for name in rule.integers}
        kind = self.kinds[-1] if self.kinds else "float"
        for name in rule.constants:
            env[name] = np.asarray(self.pick(NUMBERS[kind])).astype(DTYPES[kind].numpy)
        rank = int(self.rng.integers(1, 3))
        given = [e for g in rule.given for _, shape in g.names for e in shape or ()]
        shapes = {e.name for e in given if isinstance(e, Symbol)}
        wholes = [name for name in rule.vectors if name in shapes]
        for name in (*wholes, *(n for n in rule.vectors if n not in shapes)):
            sizes = self.rng.integers(*((4, 7) if name in shapes else (0, 3)), rank).tolist()
            if name not in shapes and wholes and self.rng.integers(2):
                sizes = self.regrouped(math.prod(n.evaluate({}) for n in env[wholes[0]]))
            env[name] = tuple(map(Dim.const, sizes))
        for letter in self.letters:
            env["#" + letter] = env.get(letter) or Dim.const(next(self.sizes))
            if letter in _letters(rule):
                env["'" + letter] = letter

    def regrouped(self, count: int) -> list[int]:
        """Sizes of so many elements."""
        sizes: list[int] = []
        while count > 1:
            sizes.append(self.pick([n for n in range(2, count + 1) if count % n == 0]))
            count //= sizes[-1]
        return sizes

    def shape(self, shape: tuple[Any, ...] | None) -> tuple[Dim, ...]:
        """The sizes of a variable's axes."""
        if shape is None:
            sizes = ANY if self.regime == "distinct" else REGIMES[self.regime][:2]
            return tuple(map(Dim.const, (LEAST.get(self.regime, sizes[0]), sizes[1])))
        found: list[Dim] = []
        for size in shape:
            if isinstance(size, Symbol) and size.name.isupper():
                found += [self.env["#" + c] for c in self.env[size.name]]
            elif isinstance(size, Symbol) and size.name in self.rule.vectors:
                found += self.env[size.name]
            else:
                found.append(dims(size, self.env))
        return tuple(found)

    def types(self) -> list[tuple[str, Tensor]]:
        """The values that the rule is given, and their types."""
        return [
            (name, tensor_type(DTYPES[kind].ir, self.shape(shape)))
            for given, kind in zip(self.rule.given, self.kinds, strict=True)
            for name, shape in given.names
        ]

    def instance(self, matcher: Matcher) -> Instance | None:
        """The case, if there is a program like this and the rule matches it."""
        try:
            return self._built(matcher)
        except NotTypedError as error:
            raise NotTypedError(f"{error} where {self.text()}") from None
        except UNTYPED:
            return None

    def _built(self, matcher: Matcher) -> Instance | None:
        rule, env = self.rule, self.env
        types = self.types()
        constants = known_values(rule, "splat")
        block = Block(arg_types=[kind for name, kind in types if name not in constants])
        b, arguments = OpBuilder(block.add_op), iter(block.args)
        exact: dict[SSAValue, Fraction] = {}
        for name, kind in types:
            if any(n.constant is not None and n.constant < 0 for n in shape_of(kind)):
                return None
            env[name] = self.splat(b, kind, exact) if name in constants else next(arguments)
        default = types[0][1] if types else tensor_type(F32.ir, ())
        text = self.text()
        left = Built(dict(env), b, exact)
        lefts = [left.value(root, default) for root in rule.left]
        if any(n.constant is None or n.constant < 0 for op in block.ops for n in _sizes(op)):
            return None
        end = func.ReturnOp(*lefts)
        block.add_op(end)
        root = lefts[0].owner
        assert isinstance(root, Operation)
        found = matcher.found(root)
        if found is None or found[1] != lefts:
            return None
        rewrite = Rewrite()
        rewrite.anchor = root
        rights = matcher.written(*found, rewrite, exact)
        block.erase_op(end)
        values = (*lefts, *rights)
        block.add_op(func.ReturnOp(*values))
        kinds = FunctionType.from_lists([x.type for x in block.args], [x.type for x in values])
        function = func.FuncOp("rule", kinds, Region(block))
        function.attributes["mlc.entry"] = UnitAttr()
        return Instance(text, ModuleOp([function]), tuple(block.args), values, exact)

    def splat(self, b: OpBuilder, kind: Tensor, exact: dict[SSAValue, Fraction]) -> SSAValue:
        """A constant."""
        dtype = dtype_of(kind.element_type)
        number = self.pick(NUMBERS[dtype.kind])
        value = splat_constant(b, number, dtype, shape_of(kind))
        if math.isfinite(number):
            exact[value] = Fraction(number)
        return value

    def text(self) -> str:
        """What the variables are; empty where sizes are no whole numbers."""
        try:
            said = [f"{name} is {_spelled_type(kind)}" for name, kind in self.types()]
        except ArithmeticError:
            return ""
        variables = {n: x for n, x in self.env.items() if n[0] not in "%#'~"}
        return ", ".join([*said, *(f"{n} = {_spelled(x)}" for n, x in variables.items())])


def _spelled_type(kind: Tensor) -> str:
    return f"{dtype_of(kind.element_type).name}[{','.join(map(str, shape_of(kind)))}]"


def _spelled(value: Any) -> str:
    if isinstance(value, tuple):
        return f"[{', '.join(map(str, cast('tuple[Dim, ...]', value)))}]"
    return value.name.removeprefix("mlc.") if isinstance(value, type) else str(value)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]


def _sizes(op: Operation) -> tuple[Dim, ...]:
    return tuple(n for x in op.results for n in shape_of(x.type))


def _letters(rule: Rule) -> set[str]:
    """The letters of the left side that stand for one axis each."""
    words = [w for _, letters in _nodes(rule) for w in letters.words()]
    return {x.name for w in words for x in w.letters() if not x.is_word}


def _nodes(rule: Rule) -> list[tuple[Node, Letters]]:
    found = [t for root in rule.left for t in terms(root) if isinstance(t, Node)]
    return [(node, node.letters) for node in found if node.letters is not None]


def _words(rule: Rule, rng: np.random.Generator) -> Iterator[dict[str, str]]:
    """Letters for each word of the left side with which each of its ops has a type."""
    nodes = _nodes(rule)
    names = list(dict.fromkeys(
        x.name for _, letters in nodes for w in letters.words() for x in w.letters() if x.is_word
    ))  # fmt: skip
    single = _letters(rule)
    pool = [c for c in "uvwxyzabc" if c not in single][:3]
    candidates = ["".join(p) for n in range(4) for p in itertools.permutations(pool, n)]

    def extend(known: dict[str, str]) -> Iterator[dict[str, str]]:
        if len(known) == len(names):
            if _are_allowed(rule, known):
                yield dict(known)
            return
        name = names[len(known)]
        for k in rng.permutation(len(candidates)):
            attempt: dict[str, str] = {**known, name: candidates[int(k)]}
            if all(_has_type(node, letters, attempt, single) for node, letters in nodes):
                yield from extend(attempt)

    if names:
        yield from extend({})


def _are_allowed(rule: Rule, words: dict[str, str]) -> bool:
    """Whether the guards hold that are about words alone."""
    env: Env = dict(words)
    for name, value in rule.lets:
        env[name] = evaluate(value, env, int)
    for guard in rule.where:
        found = [x for x in guard.arguments if not isinstance(x, Variable)]
        about = {name for x in found for name in symbols(x)}
        if len(found) == len(guard.arguments) and about <= env.keys():
            values = [evaluate(x, env, int) for x in found]
            if not GUARDS[guard.predicate](*values):
                return False
    return True


def _has_type(node: Node, letters: Letters, words: dict[str, str], single: set[str]) -> bool:
    """Whether an op with these letters has a type, as far as its words are known."""
    if any(x.is_word and x.name not in words for w in letters.words() for x in w.letters()):
        return True
    env: Env = {**words, **{"'" + c: c for c in single}}
    every = sorted({*single, *"".join(words.values())})
    env |= {"#" + c: Dim.const(2 + k) for k, c in enumerate(every)}
    form = FORMS[node.op]
    *operands, result = (tensor_type(F32.ir, sizes_of_word(w, env)) for w in letters.words())
    texts = [word_text(w, env) for w in letters.words()]
    properties: dict[str, object] = {"letters": f"{','.join(texts[:-1])}->{texts[-1]}"}
    if form.string is not None:
        properties[form.string[0]] = "sum"
    block = Block(arg_types=operands)
    try:
        made = form.op.make(*block.args, declared=result, **properties)
    except UNTYPED:
        return False
    return made.results[0].type == result
