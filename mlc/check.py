"""
Checks the certificate of a compilation (docs/certificates.md). It shares no code with the compiler:
it reads programs (`check_text`), and knows what ops mean (`check_values`), by itself.

A certificate is lines of JSON: a header, the rules, the program as traced, and steps. A step says
which values it claims to be equal, and which lines go and come. It is accepted where the program is
the same formula after it, if what is claimed equal is equal; and a claim, where it has the grade
that is stated: both sides are one formula; or equal modulo a prime at random numbers, wrong with a
probability of at most `bound`; or equal in floats up to `bound`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from mlc.check_ops import PRIME, UnknownError
from mlc.check_text import (
    CertificateError,
    Json,
    Numbering,
    Op,
    Program,
    after,
    cone,
    near,
)
from mlc.check_values import Floats, Residues, Side

TESTS = 2  # modulo the prime
WORST = 1e-6  # probability of a wrong claim that is still called probabilistic
ERRORS = {"f64": 1e-9, "c128": 1e-9, "bf16": 1e-2, "f16": 1e-2}  # of the largest element; else 1e-5
DIFFERENCES = 1e-5  # of derivatives
STEP = 1e-5  # of theirs, along a direction of length 1
DERIVATIVES = ("pull_back", "push_forward")
CLASSES = ("exact", "reassociating", "approximate")
NUMERICS = {"strict": CLASSES[:1], "standard": CLASSES[:2], "fast": CLASSES}
SIZE = 8  # of a symbol: what is claimed of none or one element may be wrong of more
MALFORMED = (
    UnknownError, LookupError, TypeError, ValueError, AttributeError, ArithmeticError,
    RecursionError, MemoryError,
)  # fmt: skip


def seal(previous: str, record: Json, lines: Sequence[str]) -> str:
    """A digest of all that was said so far, and of the program after it."""
    said = json.dumps({k: v for k, v in record.items() if k != "seal"}, sort_keys=True)
    return hashlib.sha256("\n".join([previous, said, *lines]).encode()).hexdigest()[:32]


def matches(pattern: Any, value: str, program: Program, bound: dict[str, str]) -> bool:
    """Whether ops are as a side of a rule says: names of ops, and which values are one."""
    if isinstance(pattern, str):
        return not pattern or bound.setdefault(pattern, value) == value
    op = program.makers.get(value)
    name, operands = pattern[0], pattern[1:]
    if op is None or op.name not in name.split("|"):
        return False
    if operands == ["*"]:
        return True
    if len(op.operands) != len(operands):
        return False
    pairs = zip(operands, op.operands, strict=True)
    return all(matches(p, x, program, bound) for p, x in pairs)


class Change:
    """A program before and after a step, and which values of theirs are the same."""

    def __init__(self, before: Program, step: Json, after: Program, sizes: Any) -> None:
        self.before, self.after, self.sizes = before, after, sizes
        old, new = dict[str, str](), dict[str, str]()
        pairs: list[tuple[str, str]] = [(c["was"], c["is"]) for c in step["claims"]]
        for was, now in pairs:
            if was != now and (now in before.types or now in new):
                old[was] = new.get(now, now)
            else:
                new[now] = was
        inlines = bool(step.get("inlines"))
        self.old = Numbering(before, old, inlines=inlines)
        self.new = Numbering(self.after, new, self.old, inlines=inlines)
        self.kept = {x for x, n in self.new.numbers.items() if self.old.numbers.get(x) == n}
        for now in old.values():
            if now in self.after.types and now not in self.kept:
                raise CertificateError(f"{now} is not what it was")

    def is_whole(self) -> bool:
        """Whether the claims are all that one must know to see that the results are the same."""
        heads = list[Any]()
        for program in (self.before, self.after):
            name, (block, symbols) = next(iter(program.functions.items()))
            heads.append((name, symbols, [program.types[x] for x in block.args]))
        name = heads[0][0]
        return heads[0] == heads[1] and self.old.functions[name] == self.new.functions[name]

    def graded(self, was: str, now: str, looks: Sequence[int]) -> tuple[str, float]:
        """The grade of a claim and its bound. CertificateError where it does not hold."""
        if self.before.types.get(was) != self.after.types.get(now, ""):
            raise CertificateError(f"{was} and {now} have different types, or are not there")
        if self.old.own[was] == self.new.own[now]:
            return "identical", 0.0
        sides = self.sides(was, now, looks)
        maker = self.before.makers.get(was)
        if maker is not None and maker.name in DERIVATIVES:
            if not derivative(maker, maker.results.index(was), sides, DIFFERENCES):
                raise CertificateError(f"{now} is no such derivative as {maker.name} says")
            return "tested", DIFFERENCES
        bound = _modulo(sides)
        error = max(ERRORS.get(kind.partition("[")[0], 1e-5) for s in sides for kind in s.kinds())
        try:
            with np.errstate(all="ignore"):
                for domain in (Floats(0), Floats(1, whole=True)):
                    found = [side.of(domain).get(side.value, {})[0] for side in sides]
                    if not close(found[0], found[1], error, ends=bound is None):
                        raise CertificateError(f"{was} before and {now} after are not equal")
        except UnknownError as what:
            if bound is None:
                raise CertificateError(f"{was} and {now}: no meaning is known of {what}") from what
        if bound is None or bound > WORST:
            return "tested", error
        return "probabilistic", float(f"{bound:.1e}")

    def sides(self, was: str, now: str, looks: Sequence[int]) -> list[Side]:
        """What values are computed from; what has one number is the same before and after."""
        ends = ((self.before, was, looks[0]), (self.after, now, looks[1]))
        seen = set[str]().union(*(near(p, x, n, self.kept) for p, x, n in ends))
        numbers = (self.old.numbers, self.new.numbers)
        return [
            Side(p, x, cone(p, x, self.kept - seen), known, self.sizes)
            for (p, x, _), known in zip(ends, numbers, strict=True)
        ]


def _modulo(sides: Sequence[Side]) -> float | None:
    """The probability that values are different and were not modulo a prime; None: they are."""
    bound = 1.0
    try:
        for seed in range(TESTS):
            domain = Residues(seed)
            runs = [side.of(domain) for side in sides]
            (x, k), (y, m) = (r.get(s.value, {}) for r, s in zip(runs, sides, strict=True))
            if not np.array_equal(x, y):
                return None
            degree = max(k, m, 1) + sum(run.collisions for run in runs)
            bound *= degree / PRIME + (0.5**domain.compared if domain.compared else 0)
    except UnknownError:
        return None
    return bound


def derivative(op: Op, number: int, sides: Sequence[Side], error: float) -> bool:
    """
    Whether a result of `pull_back` or `push_forward` is what the after side says: against quotients
    of differences along a random direction, or along the tangents.
    """
    before, after = sides
    domain, count = Floats(0), len(before.program.functions[op.props["callee"]][0].args)
    old = before.of(domain, but=op.results)
    found = after.of(domain).get(after.value, {})[0]
    given = [old.get(x, {}) for x in op.operands]
    xs, more = given[:count], [x for x, _ in given[count:]]
    old.tape, old.at = [], 0
    plain = [x for x, _ in old.call(op, xs)]
    wrt, of, k = op.props["wrt"], op.props["of"], number - len(plain)
    if k < 0:
        return close(found, plain[number], error)
    forward = op.name == "push_forward"
    u = domain.random("direction", "f64", found.shape)
    along = dict(zip(wrt, more, strict=True)) if forward else {wrt[k]: u / np.linalg.norm(u)}
    ends = [old.moved(op, xs, along, step * STEP) for step in (1, -1, 2, -2)]
    slopes = [(8 * (a - b) - (c - d)) / (12 * STEP) for a, b, c, d in zip(*ends, strict=True)]
    if forward:
        return close(found, slopes[of[k]], error)
    wanted = sum(np.sum(slopes[j] * y) for j, y in zip(of, more, strict=True))
    scale = np.linalg.norm(found) / max(found.size, 1) ** 0.5 + abs(wanted)
    return abs(np.sum(found * along[wrt[k]]) - wanted) <= error * scale


def close(x: Any, y: Any, error: float, *, ends: bool = True) -> bool:
    """
    Whether arrays differ by no more than `error` of the largest element, or of 1. `ends`: NaN and
    infinities must stand at the same places, too; else they are left out.
    """
    scale = max(1.0, float(np.max(np.abs(y), where=np.isfinite(y), initial=0.0)))
    same = np.isclose(x, y, rtol=0, atol=error * scale, equal_nan=True)
    return bool(np.all(same if ends else same | ~np.isfinite(x) | ~np.isfinite(y)))


class Worth:
    """What claims are worth, all in all."""

    def __init__(self) -> None:
        self.grades = {"identical": 0, "probabilistic": 0, "tested": 0, "none": 0}
        self.why = ""
        self.missed = 0.0

    def add(self, claims: Iterable[Json]) -> None:
        """Some more of them."""
        for claim in claims:
            self.grades[claim["grade"]] += 1
            self.why = self.why or str(claim.get("why", ""))
            self.missed += claim["bound"] if claim["grade"] == "probabilistic" else 0

    def said(self) -> Json:
        """How many of each grade, and the probability that one of them is wrong."""
        return {**self.grades, "missed": float(f"{self.missed:.1e}")}


class Certificate:
    """The lines of a certificate, read from the first to the last."""

    def __init__(self, text: str, program: Sequence[str] | None) -> None:
        self.records, self.at = text.splitlines(), 0
        self.program = program
        self.worth = Worth()

    def next(self) -> Any:
        """The next record."""
        if self.at >= len(self.records):
            raise CertificateError("the certificate ends too early")
        self.at += 1
        return json.loads(self.records[self.at - 1])

    def check(self) -> Json:
        """The last line, which says what all is worth."""
        header, rules, lines = self.next(), dict[str, Json](), list[str]()
        while "rule" in (record := self.next()) and isinstance(record, dict):
            rules[record["rule"]] = record
        while isinstance(record, str):
            lines.append(record)
            record = self.next()
        if self.program is not None and lines != list(self.program):
            raise CertificateError("this is the certificate of another program")
        sealed = hashlib.sha256("\n".join(self.records[: self.at - 1]).encode()).hexdigest()
        if header["numerics"] not in NUMERICS or set(header["sizes"].values()) - {SIZE}:
            raise CertificateError(
                f"numerics {header['numerics']}, sizes {header['sizes']}; expected"
                f" {', '.join(NUMERICS)}, and {SIZE} of each symbol"
            )
        allowed = NUMERICS[header["numerics"]]
        before, steps = Program(lines), 0
        while "step" in record:
            steps += 1
            lines = after(lines, record)
            sealed = seal(sealed, record, lines)
            if (record["step"], record["seal"]) != (steps, sealed):
                raise CertificateError("the seal is broken: a line was changed, moved or left out")
            change = Change(before, record, Program(lines), header["sizes"])
            self.step(change, record, rules, allowed)
            before, record = change.after, self.next()
        end = {"end": steps, **self.worth.said(), "seal": sealed}
        if record != end or self.at < len(self.records):
            raise CertificateError(f"expected the end, {json.dumps(end)}")
        return {**header, **end, "why": self.worth.why}

    def step(self, change: Change, step: Json, rules: Json, allowed: Sequence[str]) -> None:
        """Checks one step."""
        if (name := step.get("rule")) is not None:
            rule, claims = rules.get(name), step["claims"]
            if rule is None or len(claims) != 1:
                raise CertificateError(f"rule {name} is not listed, or gives several values")
            if rule["class"] not in allowed:
                raise CertificateError(f"rule {name} is {rule['class']}, which numerics forbid")
            bound: dict[str, str] = {}
            sides = ((rule["left"], "was", change.before), (rule["right"], "is", change.after))
            if not all(matches(side, claims[0][k], p, bound) for side, k, p in sides):
                raise CertificateError(f"{claims[0]['was']} is nothing that rule {name} is for")
        if not change.is_whole():
            raise CertificateError("the results change, and no claim says why they may")
        for claim in step["claims"]:
            found = "none", None
            if claim["grade"] != "none":
                found = change.graded(claim["was"], claim["is"], claim["looks"])
            if (claim["grade"], claim["bound"]) != found:
                raise CertificateError(
                    f"{claim['was']}: expected grade and bound {found}, found {claim['grade']!r},"
                    f" {claim['bound']}"
                )
        self.worth.add(step["claims"])


def check(text: str, program: Sequence[str] | None = None) -> Json:
    """
    The header and the sums of a certificate. `program`: the lines that it must be of.
    CertificateError, with the line, where anything is wrong.
    """
    certificate = Certificate(text, program)
    try:
        return certificate.check()
    except CertificateError as error:
        raise CertificateError(f"line {certificate.at}: {error}") from None
    except MALFORMED as error:
        why = f"malformed: {type(error).__name__}: {error}"
        raise CertificateError(f"line {certificate.at}: {why}") from None


def said(text: str, program: Sequence[str] | None = None, *, partial: bool = False) -> str:
    """
    What `check` finds, in words. CertificateError also where something is claimed without evidence,
    unless `partial`.
    """
    found = check(text, program)
    if found["none"] and not partial:
        raise CertificateError(f"{found['none']} claims without evidence; first: {found['why']}")
    return (
        f"accepted: {found['function']} for {found['target']}, numerics {found['numerics']}\n"
        f"{found['end']} changes; claims: {found['identical']} identical,"
        f" {found['probabilistic']} probabilistic (any is wrong with probability <="
        f" {found['missed']}), {found['tested']} tested, {found['none']} without evidence\n"
        f"not covered: {', '.join(found['not_covered'])}"
    )
