"""Whether a rule makes sense before anybody asks whether it is true."""

from __future__ import annotations

from collections.abc import Iterator

from mlc.passes.rules.rule import (
    Apply,
    Constant,
    Expr,
    Node,
    Rule,
    Symbol,
    Term,
    Variable,
    symbols,
    terms,
)


def faults(rule: Rule) -> Iterator[str]:
    """What is wrong with a rule; nothing where it can be compiled, both ways if it has two."""
    if rule.is_two_way:
        yield from (f"from right to left: {fault}" for fault in faults(rule.reversed()))
    if len(rule.left) != len(rule.right):
        yield f"`left` yields {len(rule.left)} values, `right` {len(rule.right)}"
    for root in rule.left:
        if not isinstance(root, Node):
            yield "`left` yields what is no op; expected ops that can be looked for"
    known = {name for given in rule.given for name, _ in given.names}
    declared = {
        *(name for name, _ in rule.choices), *rule.sizes, *rule.integers, *rule.constants,
        *rule.vectors,
    }  # fmt: skip
    left = [t for root in rule.left for t in terms(root)]
    right = [t for root in rule.right for t in terms(root)]
    met = {t.name for t in left if t.name}
    for term in left:
        if isinstance(term, Variable) and term.name not in known:
            yield f"{term.name} has no `given`"
        if isinstance(term, Constant) and isinstance(term.value, Apply):
            yield "`left` has const(…) of an expression; expected a number or a variable"
        if isinstance(term, Node) and any(isinstance(name, Apply) for name in term.names):
            yield f"`left` has an expression as a property of {term.op}; expected a text or a name"
    if rule.letters_of is not None and rule.letters_of not in met:
        yield f"`letters of {rule.letters_of}`, which `left` does not have"
    own = {t.name for t in right if not isinstance(t, Variable) and t.name}
    replaced = {root.name for root in rule.left if root.name}
    for term in right:
        if isinstance(term, Variable) and term.name in replaced - own:
            yield (
                f"`right` reads {term.name}, which `left` yields, so that it is replaced itself;"
                " expected what it is computed from"
            )
        if isinstance(term, Variable) and term.name not in met | own:
            yield f"`right` reads {term.name}, which `left` does not have"
    words = {name for term in left for name in _words(term)} | {name for name, _ in rule.lets}
    letters = {name for term in left for name in _letters(term)} | set(rule.sizes)
    for term in right:
        for name in (*_words(term), *_new_letters(term)):
            if name not in words | letters:
                yield f"`right` has the letter {name}, whose size nothing says"
    for name in _symbols(rule):
        if name not in declared | words:
            yield f"{name} is not declared; expected a line such as `dims {name}`"
    shapes = [e for given in rule.given for _, shape in given.names for e in shape or ()]
    found = {name for term in left for name in (*_of_term(term), *_letters(term))}
    found |= {name for expression in shapes for name in symbols(expression)}
    needed = {name for term in right for name in _of_term(term)}
    for name in sorted((needed - found) & declared):
        yield f"`right` has {name}, which nothing in `left` says"


def _symbols(rule: Rule) -> Iterator[str]:
    for root in (*rule.left, *rule.right):
        for term in terms(root):
            yield from _of_term(term)
    for guard in rule.where:
        for argument in guard.arguments:
            if not isinstance(argument, Variable):
                yield from symbols(argument)
    for given in rule.given:
        for _, shape in given.names:
            for expression in shape or ():
                if not (isinstance(expression, Symbol) and expression.name.isupper()):
                    yield from symbols(expression)


def _of_term(term: Term) -> Iterator[str]:
    """The variables of a term that are no values and no letters."""
    match term:
        case Constant(value):
            yield from symbols(value)
        case Node(_, names, letters, _, fields):
            expressions: list[Expr] = [n for n in names if not isinstance(n, str)]
            expressions += [value for _, value in fields]
            if letters is not None:
                expressions += [x.scale for w in letters.words() for x in w.letters()]
            for expression in expressions:
                yield from symbols(expression)
        case Variable():
            pass


def _words(term: Term) -> list[str]:
    return [name for name in _all_letters(term) if name.isupper()]


def _letters(term: Term) -> list[str]:
    return [name for name in _all_letters(term) if not name.isupper()]


def _new_letters(term: Term) -> list[str]:
    """The letters of a term's result, but those of its operands' axes, which have sizes."""
    if not isinstance(term, Node) or term.letters is None or term.field("size") is not None:
        return []
    axes = [axis for word in term.letters.operands for axis in word.axes if len(axis) == 1]
    known = {letter.name for axis in axes for letter in axis}
    result = {letter.name for letter in term.letters.result.letters() if not letter.is_word}
    return sorted(result - known)


def _all_letters(term: Term) -> list[str]:
    if not isinstance(term, Node) or term.letters is None:
        return []
    return [letter.name for word in term.letters.words() for letter in word.letters()]
