"""
Rules as text. `parse` reads what `spell` prints; `check.py` says whether a rule makes sense.

```
rule contract_of_transpose
  class reassociating
  given %x [S], %y [Q] : float int
  left
    yield contract "P,Q->R" (transpose "S->P" %x), %y
  right
    yield contract "S,Q->R" %x, %y
```
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import cast

from mlc.passes.rules.rule import (
    GRADES,
    SHAPES,
    Apply,
    Asked,
    Constant,
    Expr,
    Given,
    Grade,
    GradeName,
    Guard,
    Letter,
    Letters,
    Node,
    Number,
    Rule,
    Shapes,
    Symbol,
    Term,
    Variable,
    Word,
)
from mlc.passes.rules.tokens import TOKEN, RuleError, Tokens
from mlc.passes.rules.vocabulary import FORMS, FUNCTIONS, GUARDS, INFIX
from mlc.passes.tensor.rules import EQUIVALENCE

KINDS = ("float", "int", "uint", "bool", "complex")


def parse(text: str, file: str = "<rules>") -> list[Rule]:
    """The rules of a file, in its order. Raises RuleError."""
    rules: dict[str, Rule] = {}
    for line, chunk in chunks(text, file):
        rule = parse_rule(line, chunk, file)
        if rule.name in rules:
            raise RuleError(
                f"{file}:{line}: rule {rule.name} stands in line {rules[rule.name].line} already;"
                " expected each name once"
            )
        rules[rule.name] = rule
    return list(rules.values())


def parse_rule(line: int, lines: Sequence[str], file: str) -> Rule:
    """One of the `chunks` as a rule. Raises RuleError."""
    return _Reader(lines, file, line).rule()


def roots(lines: Sequence[str]) -> tuple[str, ...]:
    """The ops that a rule's text looks for, found without reading it."""
    left = lines.index("  left") if "  left" in lines else len(lines)
    yields = (line for line in lines[left:] if line.startswith("    yield "))
    words = next(yields, "").replace(",", " ").split()
    head = words[1] if len(words) > 1 else ""
    for line in lines:
        if line.startswith("  op ") and line.split()[1] == head:
            return tuple(line.partition(":")[2].split())
    return (head,)


def asked(lines: Sequence[str]) -> tuple[Asked, ...]:
    """
    Operands of the first op that a rule's text looks for, and what makes them: one of these ops, or
    a `const`; found without reading it.
    """
    made: dict[str, str] = {}
    choices: dict[str, tuple[str, ...]] = {}
    tokens: list[str] = []
    for line in lines:
        if line.startswith("  where "):
            parts = line.split("splat(")[1:]
            made |= {part.partition(")")[0].strip(): "const" for part in parts if part[0] == "%"}
        elif line.startswith("  op "):
            name, _, ops = line[5:].partition(" : ")
            choices[name] = tuple(ops.split())
        elif line == "  right":
            break
        elif line.startswith("    %"):
            name, _, term = line.strip().partition(" = ")
            made[name] = term.split()[0].partition("(")[0]
        elif line.startswith("    yield "):
            tokens = TOKEN.findall(line[10:])
    found: list[Asked] = []
    k, depth, is_next = 0, 0, True
    for at, token in enumerate(tokens):
        if depth == 0 and token == ",":
            k, is_next = k + 1, True
        elif depth == 0 and is_next:
            if token[0] in "(%" or token == "const":
                maker = tokens[at + 1] if token == "(" else made.get(token, token)
                if maker[0] != "%":
                    found.append((k, choices.get(maker, (maker,))))
                is_next = False
            elif k > 0:
                break  # the next op that is looked for
        depth += (token in "([") - (token in ")]")
    return tuple(found)


def chunks(text: str, file: str) -> Iterator[tuple[int, list[str]]]:
    """The lines of each rule, with the number of the first; comments and blank lines are empty."""
    lines = [_plain(line) if "#" in line else line.rstrip() for line in text.splitlines()]
    starts = [k for k, line in enumerate(lines) if line.startswith("rule ")]
    for k, line in enumerate(lines[: starts[0] if starts else len(lines)]):
        if line:
            raise RuleError(f"{file}:{k + 1}: found {line.strip()!r}; expected `rule NAME`")
    for start, end in zip(starts, [*starts, len(lines)][1:], strict=True):
        yield start + 1, lines[start:end]


def _plain(line: str) -> str:
    """A line without its comment, which begins it or stands behind a blank."""
    at = next(
        (k for k, c in enumerate(line) if c == "#" and (k == 0 or line[k - 1].isspace())), None
    )
    return line[:at].rstrip()


class _Reader(Tokens):
    """Reads one rule."""

    def __init__(self, lines: Sequence[str], file: str, line: int) -> None:
        super().__init__(file, line)
        self.lines, self.first = lines, line
        self.sides: dict[str, tuple[Term, ...]] = {}
        self.found: dict[str, object] = {}
        self.named: dict[str, Term] = {}
        self.side = ""

    # Lines --------------------------------------------------------------------------------------

    def rule(self) -> Rule:
        """The rule."""
        for number, line in enumerate(self.lines):
            self.line = self.first + number
            if not line:
                continue
            head, _, rest = line.strip().partition(" ")
            if head in ("says", "origin"):
                self.once(head, rest.strip())
                continue
            self.begin(line)
            read = getattr(self, f"read_{head}", None)
            if self.side and (head == "yield" or head.startswith("%")):
                self.statement()
            elif read is None:
                self.fail(f"one of {', '.join(FIELDS)}")
            else:
                self.at = 1
                read()
                self.end()
        for name in ("class", "left", "right"):
            if name not in self.found and name not in self.sides:
                raise RuleError(f"{self.file}:{self.first}: rule {self.name} has no `{name}`")
        return self.made()

    def made(self) -> Rule:
        """The rule that was read."""
        get = self.found.get
        return Rule(
            name=self.name,
            says=cast("str", get("says", "")),
            origin=cast("str", get("origin", "")),
            equivalence=get("class"),  # pyright: ignore[reportArgumentType]
            choices=get("choices", ()),  # pyright: ignore[reportArgumentType]
            sizes=get("dims", ()),  # pyright: ignore[reportArgumentType]
            integers=get("int", ()),  # pyright: ignore[reportArgumentType]
            constants=get("const", ()),  # pyright: ignore[reportArgumentType]
            vectors=get("vec", ()),  # pyright: ignore[reportArgumentType]
            given=get("given", ()),  # pyright: ignore[reportArgumentType]
            lets=get("let", ()),  # pyright: ignore[reportArgumentType]
            where=get("where", ()),  # pyright: ignore[reportArgumentType]
            left=self.sides["left"],
            right=self.sides["right"],
            letters_of=get("letters"),  # pyright: ignore[reportArgumentType]
            is_two_way=get("ways") == "both",
            grade=get("grade"),  # pyright: ignore[reportArgumentType]
            line=self.first,
        )

    @property
    def name(self) -> str:
        """The rule's name."""
        return cast("str", self.found.get("rule", "?"))

    def once(self, name: str, value: object) -> None:
        """Keeps what a line says, which no other may say again."""
        if name in self.found:
            raise RuleError(f"{self.file}:{self.line}: `{name}` stands twice in rule {self.name}")
        self.found[name] = value

    def more(self, name: str, values: tuple[object, ...]) -> None:
        """Keeps what a line says, beside what others of this name say."""
        self.found[name] = (*cast("tuple[object, ...]", self.found.get(name, ())), *values)

    def read_rule(self) -> None:
        self.once("rule", self.word("the rule's name"))

    def read_class(self) -> None:
        self.once("class", self.take(*EQUIVALENCE))

    def read_letters(self) -> None:
        self.take("of")
        self.once("letters", self.value())

    def read_ways(self) -> None:
        self.once("ways", self.take("both", "forward"))

    def read_op(self) -> None:
        self.choices(tuple(FORMS))

    def read_name(self) -> None:
        self.choices(())

    def choices(self, known: tuple[str, ...]) -> None:
        """`op f : add mul`"""
        name = self.word("a variable's name")
        self.take(":")
        found: list[str] = []
        while self.next:
            if known and self.next not in known:
                self.fail(f"one of {', '.join(known)}")
            found.append(self.take())
        self.more("choices", ((name, tuple(found)),))

    def read_names(self, name: str) -> None:
        """`dims m, n`"""
        self.more(name, self.several(lambda: self.word("a variable's name")))

    def read_dims(self) -> None:
        self.read_names("dims")

    def read_int(self) -> None:
        self.read_names("int")

    def read_const(self) -> None:
        self.read_names("const")

    def read_vec(self) -> None:
        self.read_names("vec")

    def read_given(self) -> None:
        def one() -> tuple[str, tuple[Expr, ...] | None]:
            name = self.value()
            if not self.taken("["):
                return name, None
            shape = () if self.next == "]" else self.several(self.expression)
            self.take("]")
            return name, shape

        names = self.several(one)
        self.take(":")
        kinds: list[str] = []
        while self.next:
            kinds.append(self.take(*KINDS))
        if not kinds:
            self.fail(f"one or more of {', '.join(KINDS)}")
        self.more("given", (Given(names, tuple(kinds)),))

    def read_let(self) -> None:
        name = self.word("a word in capitals")
        self.take("=")
        self.more("let", ((name, self.expression()),))

    def read_where(self) -> None:
        self.more("where", self.several(self.guard))

    def guard(self) -> Guard:
        """`single_use(%p)` or `a < b`"""
        following = self.tokens[self.at + 1 : self.at + 2]
        if self.next in GUARDS and following == ["("] and self.next not in INFIX.values():
            name = self.take()
            self.take("(")
            arguments = self.several(self.argument)
            self.take(")")
            return Guard(name, arguments)
        if following == ["("] and self.next.isidentifier() and self.next not in FUNCTIONS:
            known = sorted(set(GUARDS) - set(INFIX.values()))
            self.fail(f"a comparison, or a predicate: {', '.join(known)}")
        left = self.expression()
        return Guard(INFIX[self.take(*INFIX)], (left, self.expression()))

    def argument(self) -> Expr | Variable:
        return Variable(self.take()) if self.next.startswith("%") else self.expression()

    def read_grade(self) -> None:
        name = cast("GradeName", self.take(*GRADES))
        numbers = {"instances": 0, "degree": 0, "tests": 0}
        shapes = "instances"
        while self.next:
            field = self.take(*numbers, "shapes")
            if field == "shapes":
                shapes = self.take(*SHAPES)
                continue
            if not self.next.isdigit():
                self.fail("a number")
            numbers[field] = int(self.take())
        self.once("grade", Grade(name, **numbers, shapes=cast("Shapes", shapes)))

    def read_left(self) -> None:
        self.side = "left"
        self.named = {}

    def read_right(self) -> None:
        self.side = "right"
        self.named = {}

    # Programs -----------------------------------------------------------------------------------

    def statement(self) -> None:
        """`%p = neg %x`, or `yield %p`"""
        if self.taken("yield"):
            if self.side in self.sides:
                self.at -= 1
                self.fail(f"one `yield` in `{self.side}`")
            self.sides[self.side] = self.several(self.term)
            self.end()
            return
        name = self.value()
        self.take("=")
        term = self.term()
        if isinstance(term, Variable):
            self.at -= 1
            self.fail("an op or const(…)")
        self.named[name] = replace(term, name=name)
        self.end()

    def value(self) -> str:
        if not self.next.startswith("%"):
            self.fail("a value such as %x")
        return self.take()

    def term(self) -> Term:
        """A value: `%x`, `const(2)`, `neg %x`, or one in parentheses."""
        if self.next.startswith("%"):
            name = self.take()
            return self.named.get(name, Variable(name))
        if self.taken("("):
            found = self.term()
            self.take(")")
            return found
        if self.taken("const"):
            self.take("(")
            value = self.expression()
            self.take(")")
            return Constant(value)
        return self.node()

    def node(self) -> Node:
        """An op with its properties and operands."""
        choices = dict(
            cast("tuple[tuple[str, tuple[str, ...]], ...]", self.found.get("choices", ()))
        )
        if self.next not in FORMS and self.next not in choices:
            self.fail(f"an op: one of {', '.join((*FORMS, *choices))}")
        head = self.take()
        form = FORMS[choices[head][0] if head in choices else head]
        names: tuple[str | Symbol | Apply, ...] = ()
        if form.string is not None:
            names = (self.string(form.string[1]),)
        letters = self.index_letters() if form.has_letters else None
        fields: list[tuple[str, Expr]] = []
        if form.before is not None:
            fields.append((form.before, self.sum()))
        operands = self.operands(form.parts)
        if form.parts is not None and len(operands) != form.parts:
            self.fail(f"{form.parts} operands of {head}, of which there are {len(operands)}")
        fields += [(name, self.field(name)) for name in form.after]
        fields += [(name, self.field(name)) for name in form.may_have if self.next == name]
        return Node(head, names, letters, operands, tuple(fields))

    def operands(self, most: int | None) -> tuple[Term, ...]:
        """As many as the op takes: what follows belongs to somebody else."""
        found = [self.term()]
        while (most is None or len(found) < most) and self.taken(","):
            found.append(self.term())
        return tuple(found)

    def field(self, name: str) -> Expr:
        self.take(name)
        return self.expression()

    def string(self, known: tuple[str, ...]) -> str | Symbol | Apply:
        if self.next.startswith('"'):
            if self.next[1:-1] not in known:
                self.fail(f"one of {', '.join(known)}")
            return self.take()[1:-1]
        found = self.expression()
        return found if isinstance(found, Symbol | Apply) else self.fail("a text or a name")

    def index_letters(self) -> Letters:
        text = self.next[1:-1]
        left, arrow, right = text.partition("->")
        if not self.next.startswith('"') or not arrow:
            self.fail('letters such as "mk,kn->mn"')
        words = [self.letters_of(word) for word in (*left.split(","), right)]
        self.take()
        return Letters(tuple(words[:-1]), words[-1])

    def letters_of(self, text: str) -> Word:
        axes: list[tuple[Letter, ...]] = []
        while text:
            if text[0] == "(" and "+" in text.partition(")")[0]:
                inside, _, text = text[1:].partition(")")
                sums = inside.replace(" ", "").split("+")
                axes.append(tuple(Letter(_scale(term[:-1]), term[-1:]) for term in sums))
                continue
            if not (text[0].isascii() and text[0].isalpha()):
                self.fail(f"letters, of which {text[0]!r} is none")
            axes.append((Letter(ONE, text[0]),))
            text = text[1:]
        return Word(tuple(axes))


ONE = Number(1)
FIELDS = (
    "says", "origin", "class", "op", "name", "dims", "int", "const", "vec", "given", "let", "where",
    "letters", "left", "right", "ways", "grade",
)  # fmt: skip


def _scale(text: str) -> Expr:
    if not text:
        return ONE
    return Symbol(text[1:-1]) if text.startswith("{") else Number(int(text))
