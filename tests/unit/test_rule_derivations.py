"""Derivations are replayed, each axiom keeps what the reference computes, wrong rules have none."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import product
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from mlc.dialects.dims import Dim
from mlc.dialects.tensor.op import element_dtype, tensor_of
from mlc.passes.rules import axioms, derive
from mlc.passes.rules.derive import Derivation, Step, UnprovenError, derived, replay
from mlc.passes.rules.elements import Index, Regrouped, Term, bound_of, monoid_of, placed
from mlc.passes.rules.instances import Instance, instances
from mlc.passes.rules.load import FAMILIES, FOLDER, family, read_rules
from mlc.passes.rules.meaning import Meaning
from mlc.passes.rules.proofs import parse_proofs, read_proofs, spell_proofs
from mlc.passes.rules.rule import Rule, known_values
from mlc.passes.rules.text import parse
from mlc.passes.rules.tokens import RuleError
from mlc.runtime.interpret import interpret

DATA = Path(__file__).parent.parent / "data" / "rules"
WRITTEN = [rule for name in FAMILIES for rule in family(name)]
RULES = [*WRITTEN, *read_rules(DATA / "right.rules")]
FILES = [*(FOLDER / f"{name}.rules" for name in FAMILIES), DATA / "right.rules"]
PROOFS = {name: found for path in FILES for name, found in read_proofs(path).items()}
WRONG = read_rules(DATA / "wrong.rules")
OF_CLASS = ("under exact", "a class too strong")
"""Why rules are wrong that are true of real numbers."""


@pytest.mark.parametrize("rule", WRONG, ids=[rule.name for rule in WRONG])
def test_what_is_wrong_of_numbers_has_no_derivation(rule: Rule) -> None:
    try:
        derived(rule)
    except UnprovenError:
        return
    assert any(why in rule.says for why in OF_CLASS)


def test_a_derivation_is_of_its_rule() -> None:
    """Each holds for its own rule; one with a step less, or another rule's, does not."""
    for rule in RULES[::6]:
        found = PROOFS[rule.name]
        assert replay(rule, found)
        first = found[0]
        assert first.left
        shorter = Derivation(first.chosen, first.root, first.left[:-1], first.right)
        assert not replay(rule, (shorter, *found[1:])) or first.left[-1].axiom == "named"
        assert not replay(rule, found[1:])
        wrong = Step("no_axiom", ())
        assert not replay(rule, (Derivation(first.chosen, first.root, (wrong,), ()), *found[1:]))
    subtract = next(rule for rule in RULES if rule.name == "subtract_negated")
    assert not replay(subtract, PROOFS["add_negated"])


def test_a_square_is_not_scaled_by_nothing() -> None:
    (rule,) = parse("""
rule squared_maximum
  class approximate
  given %x, %y : float
  left
    yield pow (max %x, %y), const(2)
  right
    yield max %x, %y
""")
    with pytest.raises(UnprovenError, match="the sides end as"):
        derived(rule)


def test_a_law_holds_of_what_it_is_listed_for() -> None:
    """0 x = 0 would make 0 of max(0, x), and of one operand a law of sums has too few."""
    (rule,) = parse("""
rule no_relu
  class exact
  given %x : float
  left
    yield max %x, const(0)
  right
    yield const(0)
""")
    unfolded = tuple(Step("unfold", place) for place in ((), (0,), (0,)))
    for law in ("numbers_first", "inverse", "linear"):
        found = Derivation((), 0, (*unfolded, Step(law, ())), unfolded[:1])
        assert not replay(rule, (found,))


def test_derivations_are_read_as_they_are_printed() -> None:
    assert parse_proofs(spell_proofs(PROOFS)) == PROOFS
    for text, message in (
        ("proof a\n  result 0\n  left unfold\n", "<proofs>:2: expected lines `  left` and"),
        ("  result 0\n", "found '  result 0'; expected `proof`"),
        ("proof a\n  result 0\n  left un fold\n  right\n", "<proofs>:3: found 'un fold'"),
    ):
        with pytest.raises(RuleError, match=re.escape(message)):
            parse_proofs(text)


def test_every_axiom_is_used() -> None:
    """Laws that no rule of ours needs are there for those of users; each has its case."""
    used = {s.axiom for ds in PROOFS.values() for d in ds for s in (*d.left, *d.right)}
    assert set(axioms.NAMED) - used <= {"inverses", "collected", "exclusive"}


ONLY = """
rule inverses
  class approximate
  given %x, %y : float
  left
    yield div (mul %x, %y), %y
  right
    yield %x

rule collected
  class approximate
  given %x : float int
  left
    yield add (mul %x, const(2)), %x
  right
    yield mul %x, const(3)

rule exclusive
  class exact
  given %x, %y : int
  left
    yield xor (xor %x, %y), %y
  right
    yield %x
"""


OFTEN = [*parse(ONLY), *WRITTEN]  # in every run; of the others each fourth
CASES = [
    pytest.param(rule, id=rule.name, marks=[] if k < len(OFTEN) or k % 4 == 0 else pytest.mark.slow)
    for k, rule in enumerate([*OFTEN, *RULES[len(WRITTEN) :]])
]


@pytest.mark.parametrize("rule", CASES)
def test_each_step_keeps_what_the_reference_computes(rule: Rule) -> None:
    """Specifications and laws, at an element of an instance: all that a derivation rests on."""
    case = _plain(rule)
    rng = np.random.default_rng(5)
    arrays = [_numbers(x, rng) for x in case.arguments]
    with np.errstate(all="ignore"):
        wanted = interpret(case.module, arrays)
    parts = re.split(r", ?(?![^\[]*\])", case.text)
    pairs = [part.partition(" =") for part in parts if " =" in part]
    said = {name: text.strip() for name, _, text in pairs}
    chosen = {name: said[name] for name, _ in rule.choices}
    found = [d for d in PROOFS.get(rule.name) or derived(rule) if dict(d.chosen) == chosen]
    assert len(found) == len(rule.left)
    for d in found:
        sides = derive._Sides(rule, chosen, d.root)  # pyright: ignore[reportPrivateUsage]
        result = cast("Any", wanted[d.root])
        if 0 in result.shape:
            continue
        at = tuple(int(rng.integers(n)) for n in cast("tuple[int, ...]", result.shape))
        value = _Values(rule, sides.meaning, case, arrays, said)
        value.place(sides.index, at)
        for side, steps in ((0, d.left), (1, d.right)):
            for k, term in enumerate(sides.trail(side, steps)):
                np.testing.assert_allclose(
                    value.of(term), result[at], rtol=1e-3, atol=1e-3,
                    err_msg=f"{steps[k - 1] if k else 'start'} of side {side} gave {term}",
                )  # fmt: skip


def _plain(rule: Rule) -> Instance:
    """An instance of numbers that are no special ones, and no size of which is 0."""
    special = re.compile(r"inf|nan|\d{8}|e[+-]")
    every = [x for x in instances(rule) if not special.search(x.text)]
    return min(every, key=lambda x: 0 in x.sizes())


def _numbers(value: Any, rng: np.random.Generator) -> Any:
    shape, dtype = tensor_of(value).get_shape(), element_dtype(value)
    if dtype.kind == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.is_integer:
        return rng.integers(1, 5, shape).astype(dtype.numpy)
    return (rng.random(shape) + 0.5).astype(dtype.numpy)


def _all(op: np.ufunc) -> Callable[..., Any]:
    """The op of two, of any number."""

    def apply(*x: Any) -> Any:
        return op.reduce(np.array(x))

    return apply


def _one() -> bool:
    return True


def _nothing() -> bool:
    return False


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "inv": np.reciprocal, "pow": np.power, "exp": np.exp, "log": np.log, "sqrt": np.sqrt,
    "tanh": np.tanh, "abs": abs, "floor": np.floor, "ceil": np.ceil, "round": np.rint,
    "trunc": np.trunc, "max": max, "min": min, "lt": operator.lt, "le": operator.le,
    "gt": operator.gt, "ge": operator.ge, "eq": operator.eq, "ne": operator.ne, "not": np.invert,
    "xor": _all(np.bitwise_xor), "and": _all(np.bitwise_and), "or": _all(np.bitwise_or),
    "true": _one, "false": _nothing,
}  # fmt: skip
FOLDS: dict[str, Callable[..., Any]] = {
    "prod": math.prod, "max": max, "min": min,
    "argmax": np.argmax, "argmin": np.argmin,
}  # fmt: skip


class _Values:
    """Terms as numbers, at an instance."""

    def __init__(
        self,
        rule: Rule,
        meaning: Meaning,
        case: Instance,
        arrays: Sequence[Any],
        said: Mapping[str, str],
    ) -> None:
        self.meaning = meaning
        names = [name for given in rule.given for name, _ in given.names]
        splats = known_values(rule, "splat")
        self.splats = dict.fromkeys(splats, float(next(iter(case.exact.values()), 0)))
        plain = [x for x in names if x not in splats]
        self.arrays = dict(zip(plain, arrays, strict=True))
        self.is_bool = all(x.dtype == bool for x in arrays)
        self.sizes: dict[str, Any] = {}
        for name, text in said.items():
            numbers = [int(x) for x in re.findall(r"-?\d+", text)]
            if name in rule.vectors:
                self.sizes[name] = self.sizes["±" + name] = np.array(numbers, int)
            elif name in (*rule.sizes, *rule.integers):
                divisor = meaning.env[name]
                factor = divisor.terms[0][1] if isinstance(divisor, Dim) else 1
                self.sizes[name] = self.sizes["±" + name] = numbers[0] // max(factor, 1)
        self.constants = {name: float(said[name]) for name in rule.constants}
        self.words = {name: said[name] for name in meaning.words if name in said}
        for name, cells in meaning.words.items():
            self.words.setdefault(name, "".join(x for x in self._letters() if cells & self._in(x)))
        self.long: dict[str, int] = {}
        for given in rule.given:
            for name, shape in given.names:
                if shape is not None and len(shape) == 1 and name in self.arrays:
                    word = self.words.get(getattr(shape[0], "name", ""), "")
                    self.long |= zip(word, self.arrays[name].shape, strict=False)
        self.at: dict[str, int] = {}
        self.any_at: tuple[int, ...] = ()

    def _letters(self) -> list[str]:
        return sorted({c for word in self.words.values() for c in word})

    def _in(self, c: str) -> frozenset[int]:
        """The cell of a letter."""
        every = frozenset[int]().union(*self.meaning.words.values())
        for name, cells in self.meaning.words.items():
            if name in self.words:
                every = every & cells if c in self.words[name] else every - cells
        return every

    def place(self, index: Index, at: tuple[int, ...]) -> None:
        """The element that free letters stand for."""
        rest = list(at)
        for item in index:
            if item == "*":
                self.at["*"] = 0
                self.any_at, rest = tuple(rest), []
            elif isinstance(item, str):
                for c in self.words[item]:
                    self.at[c] = rest.pop(0)
            elif isinstance(item, Dim):
                (name,) = item.symbols()
                size = self.meaning.shape(self.meaning.rule.left[0])
                is_vector = any(
                    isinstance(n, Dim) and any(x in self.meaning.rule.vectors for x in
                    (s.lstrip("±") for s in n.symbols())) for n in size
                )  # fmt: skip
                self.sizes[name] = np.array(rest) if is_vector else rest.pop(0)

    def dim(self, dim: Dim) -> Any:
        """A size or a position; of vectors one for each axis."""
        return dim.evaluate(self.sizes)

    def index(self, index: Index) -> tuple[int, ...]:
        """Where something is read."""
        found: list[int] = []
        for item in index:
            if item == "*":
                found += self.any_at
            elif isinstance(item, str):
                found += [self.at[c] for c in self.words[item]]
            elif isinstance(item, Regrouped):
                to, shape = ([int(x) for n in s for x in np.atleast_1d(self.dim(cast("Dim", n)))]
                             for s in (item.to, item.shape))  # fmt: skip
                flat = np.ravel_multi_index(self.index(item.place), shape)
                found += [int(x) for x in np.unravel_index(int(flat), to)]
            else:
                found += [int(x) for x in np.atleast_1d(self.dim(item))]
        return tuple(found)

    def of(self, term: Term) -> Any:
        """The number."""
        match term.head:
            case "at":
                return self.of(self.meaning.of(*placed(term)))
            case "read":
                name, index = placed(term)
                if name in self.splats:
                    return self.splats[name]
                return self.arrays[name][self.index(index)].item()
            case "number":
                return float(cast("Any", term.data))
            case "const":
                return self.constants[str(term.data)]
            case "size":
                return self.dim(cast("Dim", term.data))
            case "below" | "any_below" | "all_below":
                negative = np.atleast_1d(self.dim(cast("Dim", term.data)) < 0)
                return negative.any() if term.head == "any_below" else negative.all()
            case "select":
                condition, x, y = term.args
                return self.of(x if self.of(condition) else y)
            case "sum":
                return sum(self._each(term), 0.0)
            case "fold":
                return FOLDS[monoid_of(term)](list(self._each(term)))
            case "add" | "mul":
                found = [self.of(x) for x in term.args]
                if self.is_bool:
                    return any(found) if term.head == "add" else all(found)
                return sum(found) if term.head == "add" else math.prod(found)
            case head:
                return FUNCTIONS[head](*(self._whole(head, self.of(x)) for x in term.args))

    @staticmethod
    def _whole(head: str, value: Any) -> Any:
        is_bits = head in ("and", "or", "xor", "not") and np.asarray(value).dtype != bool
        return int(value) if is_bits else value

    def _each(self, term: Term) -> Iterator[Any]:
        """The body at all letters that a sum is over."""
        letters, words = bound_of(term)
        free = [c for c in self._letters() if self._in(c) & words]
        extents = [*(self.dim(size) for _, size in letters), *(self.long[c] for c in free)]
        before, places = dict(self.sizes), dict(self.at)
        for at in product(*map(range, extents)):
            self.sizes |= zip((name for name, _ in letters), at, strict=False)
            self.at |= zip(free, at[len(letters) :], strict=True)
            yield self.of(term.args[0])
        self.sizes, self.at = before, places
