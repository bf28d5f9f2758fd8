"""The texts that are mutated: what the lit tests read, and the zoo's programs at every level."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

LIT = Path(__file__).parent.parent / "lit"
MODELS = (
    *("softmax", "layer_norm", "attention", "mlp_step", "l2svm", "k_means", "n_body"),
    *("page_rank", "prefix_sums", "sorted_rows", "embedding", "histogram", "joined", "lstm_cell"),
)
FUNCTION = re.compile(r"^func\.func .*?^}\n", re.MULTILINE | re.DOTALL)
LONGEST = 12_000  # characters; a longer text spends its time on what a shorter one shows too


@dataclass(frozen=True)
class Base:
    """A text, and the arguments of `mlc opt` with which a test reads it."""

    name: str
    text: str
    arguments: tuple[str, ...] = ()


@lru_cache(maxsize=2)
def bases(kind: str) -> tuple[Base, ...]:
    """
    The base texts, in an order that does not depend on the machine: "lit", or "all", which takes
    some seconds to compile.
    """
    found = (*_lit(), *_zoo()) if kind == "all" else _lit()
    return tuple(b for b in found if len(b.text) <= LONGEST)


def write(kind: str, path: Path) -> None:
    """The base texts for worker processes."""
    path.write_text(json.dumps([asdict(base) for base in bases(kind)]))


def read(path: Path) -> list[Base]:
    """What `write` has written."""
    entries = json.loads(path.read_text())
    return [Base(x["name"], x["text"], tuple(x["arguments"])) for x in entries]


def _lit() -> Iterator[Base]:
    for path in sorted(LIT.rglob("*.mlir")):
        text = path.read_text(encoding="utf-8")
        arguments = _arguments(text)
        name = path.relative_to(LIT).as_posix()
        for number, piece in enumerate(text.split("// -----")):
            whole = _without_comments(piece)
            yield Base(f"{name}#{number}", whole, arguments)
            functions = FUNCTION.findall(whole)
            if len(functions) > 1:  # what `mlc show` reads holds one
                for k, function in enumerate(functions):
                    yield Base(f"{name}#{number}.{k}", function, arguments)


def _arguments(text: str) -> tuple[str, ...]:
    """Passes and target of the file's first RUN line."""
    found = re.search(r"RUN: mlc opt %s(.*?)[|>\n]", text)
    if found is None:
        return ()
    passes = re.search(r"-p ('[^']*'|\S+)", found[1])
    target = re.search(r"--target=(\S+)", found[1])
    arguments: list[str] = []
    if passes is not None:
        arguments += ["-p", passes[1].strip("'")]
    if target is not None:
        arguments += ["--target", target[1]]
    return tuple(arguments)


def _without_comments(text: str) -> str:
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("//"))
    return "\n".join(lines).strip("\n") + "\n"


def _zoo() -> Iterator[Base]:
    """Small models, through the pipeline for three kinds of machine."""
    import mlc
    from benchmarks.zoo import ZOO
    from mlc.backends import LEVELS
    from mlc.dialects.target.known import named_target
    from mlc.frontend.call.compile import Compiled
    from mlc.levels import Levels
    from mlc.options import Options

    for name in MODELS:
        model = ZOO[name]
        compiled: Compiled[..., object] = mlc.compile(model.function)
        lowered = compiled.lower(*model.arrays("small"))
        yield Base(f"zoo:{name}@trace", f"{lowered.module}\n")
        for target in ("avx2", "avx512", "sm_80"):
            options = Options(target=named_target(target), threads=2)
            levels = Levels(str(lowered.module), name, lowered.signature, options, {})
            for level in LEVELS[:-1]:
                yield Base(f"zoo:{name}@{level}:{target}", levels.text(level))
