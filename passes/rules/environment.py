"""What the variables of a rule stand for, and the expressions over them."""

from __future__ import annotations

from typing import Any

from mlc.dialects.dims import Dim, Shape
from mlc.dialects.tensor.letters import ALPHABET, DIGITS
from mlc.passes.rules.rule import Apply, Expr, Letter, Listed, Number, Symbol, Word
from mlc.passes.rules.vocabulary import FUNCTIONS

Env = dict[str, Any]
"""
By name: `%x` a value, `f` a class of ops, `p` a text, `P` letters, `a` a 0-d array, `n` a size, `s`
an integer, `o` sizes. `'c` is the letter that c stands for, `#c` the size of such a letter, `@…` a
size that is compared once all variables are known, `~` the names that letters get.
"""


def evaluate(expression: Expr, env: Env, number: Any) -> Any:
    """Its value; `number` makes one of a number in it. KeyError: nothing is known of a variable."""
    match expression:
        case Number(value):
            return number(value)
        case Symbol(name):
            return env[name]
        case Listed(items):
            return tuple(evaluate(item, env, number) for item in items)
        case Apply(function, arguments):
            return FUNCTIONS[function](*(evaluate(x, env, number) for x in arguments))


def dims(expression: Expr, env: Env) -> Any:
    """A size, or one for each axis."""
    found = evaluate(expression, env, Dim.of)
    if isinstance(found, tuple):
        return tuple(map(Dim.of, found))  # pyright: ignore[reportUnknownArgumentType]
    return Dim.of(found)


def integer(expression: Expr, env: Env) -> int:
    """An integer: an axis, or the scale of a letter."""
    found = Dim.of(evaluate(expression, env, int)).constant
    assert found is not None
    return found


def fresh_letter(env: Env, wished: str) -> str:
    """A letter that stands for nothing yet: the wished one, if it may be."""
    if wished not in DIGITS and "#" + wished not in env:
        return wished
    return next(c for c in ALPHABET if "#" + c not in env)


# Letters: from those of an op to those of all of a rule


class Renaming:
    """For the letters of one op those that its rule has met before, one for one."""

    def __init__(self) -> None:
        self.known: dict[str, str] = {}
        self.taken: set[str] = set()

    def unify(self, mine: str, letter: str) -> bool:
        """Whether `mine` can stand for the letter."""
        known = self.known.get(mine)
        if known is not None:
            return known == letter
        if letter in self.taken:
            return False
        self.known[mine] = letter
        self.taken.add(letter)
        return True

    def translate(self, mine: str, size: Dim | None, env: Env) -> str:
        """The letter that `mine` stands for, a new one if need be."""
        known = self.known.get(mine)
        if known is None:
            known = fresh_letter(env, mine)
            self.known[mine] = known
            self.taken.add(known)
            env["#" + known] = size
        return known


def unify_words(
    words: tuple[Word, ...],
    actual: tuple[str, ...],
    sizes: dict[str, Dim],
    env: Env,
    bound: frozenset[str],
    *,
    keeps_names: bool = False,
) -> bool:
    """
    Matches the letters of one op with those of a pattern, and binds its variables. `sizes` are
    those of the op's letters; `bound` are the names of letters that are sizes of the rule as well;
    with `keeps_names` what is written has the names of this op.
    """
    renaming = Renaming()
    open_words: list[tuple[list[Letter], list[str]]] = []
    for word, letters in zip(words, actual, strict=True):
        pattern = list(word.letters())
        parts = _parts(pattern, letters)
        if parts is None:
            return False
        if all(_key(each) in env for each in pattern):
            known = "".join(env[_key(each)] for each in pattern)
            if len(known) != len(letters):
                return False
            if not all(map(renaming.unify, letters, known)):
                return False
        else:
            open_words.append((pattern, parts))
    for pattern, parts in open_words:
        for letter, part in zip(pattern, parts, strict=True):
            known = env.get(_key(letter))
            if known is not None:
                if len(known) != len(part) or not all(map(renaming.unify, part, known)):
                    return False
                continue
            found = "".join(renaming.translate(c, sizes.get(c), env) for c in part)
            if not letter.is_word and any(
                env.get("'" + name) == found for name in _letters_of(env)
            ):
                return False  # two letters of the pattern are two letters
            env[_key(letter)] = found
    for mine, letter in renaming.known.items():
        size = sizes.get(mine)
        if env.get("#" + letter) is None:
            env["#" + letter] = size
    if keeps_names:
        env["~"] = {letter: mine for mine, letter in renaming.known.items()}
    return all(_bind_size(each, env, bound) for word in words for each in word.letters())


def _bind_size(letter: Letter, env: Env, bound: frozenset[str]) -> bool:
    """A letter that is a size's name, too, is as long."""
    if letter.name not in bound:
        return True
    size = env.get("#" + env["'" + letter.name])
    if size is None:
        return True
    return env.setdefault(letter.name, size) == size


def _letters_of(env: Env) -> list[str]:
    return [name[1:] for name in env if name.startswith("'")]


def _key(letter: Letter) -> str:
    return letter.name if letter.is_word else "'" + letter.name


def _parts(pattern: list[Letter], letters: str) -> list[str] | None:
    """What each letter or word of a pattern is in a text; None where the lengths do not fit."""
    at = next((k for k, each in enumerate(pattern) if each.is_word), None)
    if at is None:
        return list(letters) if len(letters) == len(pattern) else None
    behind = len(pattern) - at - 1
    if len(letters) < at + behind:
        return None
    stop = len(letters) - behind
    return [*letters[:at], letters[at:stop], *letters[stop:]]


def meet(word: Word, shape: Shape, env: Env) -> None:
    """Letters that are new in an operand are as long as its axes."""
    for axis, size in zip(word.axes, shape, strict=len(word.axes) == len(shape)):
        if len(axis) == 1 and not axis[0].is_word and _key(axis[0]) not in env:
            _bind_new(axis[0], size, env)


def _bind_new(letter: Letter, size: Dim, env: Env) -> None:
    found = fresh_letter(env, letter.name)
    env[_key(letter)], env["#" + found] = found, size


def word_text(word: Word, env: Env) -> str:
    """A word as an op has it: the letters that its variables stand for."""
    found = ""
    for axis in word.axes:
        terms: list[str] = []
        for letter in axis:
            key = _key(letter)
            if key not in env:  # a new axis, which a size of the rule names
                _bind_new(letter, env[letter.name], env)
            scale = integer(letter.scale, env)
            terms.append(("" if scale == 1 else str(scale)) + _named(env[key], env))
        found += terms[0] if len(terms) == 1 else f"({'+'.join(terms)})"
    return found


def _named(letters: str, env: Env) -> str:
    """Letters by the names that the rule wants to see."""
    names: dict[str, str] | None = env.get("~")
    if names is None:
        return letters
    for c in letters:
        if c not in names:
            taken = names.values()
            names[c] = c if c not in taken else next(x for x in ALPHABET if x not in taken)
    return "".join(names[c] for c in letters)


def sizes_of_word(word: Word, env: Env) -> Shape:
    """The size of each letter."""
    return tuple(env["#" + c] for letter in word.letters() for c in env[_key(letter)])
