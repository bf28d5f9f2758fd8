"""
The grammar of the `mlc` command: what it accepts, and what `--help` says. Imports nothing of the
compiler, so that `mlc --help` is quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from typing import Any

from mlc.knobs import FUSIONS
from mlc.version import __version__

Command = Callable[[argparse.Namespace], int]
LEVELS = ("trace", "tensor", "stablehlo", "plan", "tiles", "loops", "code")
NUMERICS = ("strict", "standard", "fast")
BY = ("search", "saturation")
TEAMS = ("1", "pthread", "openmp")
WEIGHTS = ("arguments", "freeze", "file")
FILES = "FILE.py, FILE.py:function, FILE.mlir or FILE.onnx"
OPTIONS = (
    "target", "threads", "numerics", "fusion", "peak_bytes", "schedule", "tune", "discover",
    "discover_by",
)  # fmt: skip
"""Of mlc.compile, as flags."""
OWN_RULES = "mlc"
"""What --discover says for `discover=True`."""
STATUS = "exit status: 0; 1, the input is at fault; 2, the command line is; 130, Ctrl-C"


class _Verb(argparse.ArgumentParser):
    """A verb, whose files may stand on both sides of its options."""

    _is_within = False

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:  # pyright: ignore[reportIncompatibleMethodOverride]
        """As argparse does, which else takes files that may be left out for left out too early."""
        takes_all = any(action.nargs == argparse.REMAINDER for action in self._actions)
        if self._is_within or takes_all:  # within: it is called for options, then for files
            return super().parse_known_args(args, namespace)
        self._is_within = True
        try:
            return self.parse_known_intermixed_args(args, namespace)
        finally:
            self._is_within = False


def parser(commands: Mapping[str, Command]) -> argparse.ArgumentParser:
    """The whole command line; `command` of what it parses is one of `commands`."""
    whole = argparse.ArgumentParser(
        prog="mlc",
        description="NumPy functions to native CPU and GPU code, every level readable",
        epilog=STATUS,
    )
    whole.add_argument("--version", action="version", version=f"mlc {__version__}")
    listed = whole.add_subparsers(
        title="commands", required=True, metavar="COMMAND", parser_class=_Verb
    )
    listed.add_parser("opt", help="run passes on MLIR text; see mlc opt --help", add_help=False)
    for name, (said, fill) in _COMMANDS.items():
        one = listed.add_parser(name, help=said, description=f"{said[0].upper()}{said[1:]}.")
        fill(one)
        one.set_defaults(command=commands[name])
    return whole


def call_parser() -> argparse.ArgumentParser:
    """What stands behind FILE where `mlc run` calls one function."""
    behind = argparse.ArgumentParser(
        prog="mlc run FILE.py:function", description="Call one function and print its results."
    )
    behind.add_argument(
        "inputs", nargs="*", metavar="INPUT", help=".npy files, or one .npz, in argument order"
    )
    behind.add_argument("--random", action="store_true", help="random inputs of the argument types")
    behind.add_argument("--seed", type=int, default=0, help="of --random (default: 0)")
    _add_types(behind)
    behind.add_argument("-o", "--output", metavar="OUT.npz", help="write the results too")
    _add_options(behind)
    return behind


def _add_options(to: argparse.ArgumentParser, *, threads: bool = True) -> None:
    """Flags for options of `mlc.compile`; the program's own hold where they are not given."""
    group = to.add_argument_group(
        "options of the compiler",
        "in place of those of @mlc.compile, or of the module; docs/explain.md",
    )
    group.add_argument(
        "--target", metavar="NAME", help="host, avx2, avx512, neon, h200, cuda:sm_90a …"
    )
    if threads:
        group.add_argument("--threads", type=int, metavar="N", help="threads of parallel loops")
    group.add_argument("--numerics", choices=NUMERICS, help="what may be rewritten")
    group.add_argument("--fusion", choices=FUSIONS, help="how kernels are formed")
    group.add_argument(
        "--peak-bytes", metavar="BYTES", help="what a call may allocate: 1000000, 64MiB"
    )
    group.add_argument(
        "--schedule", metavar="WORDS",
        help="how the one product is cut: 'register(m 6, n 64), via(fma)'; docs/tiles.md",
    )  # fmt: skip
    group.add_argument(
        "--tune", type=float, metavar="SECONDS", help="measure schedules for so long"
    )
    group.add_argument(
        "--discover", metavar="RULES",
        help="compile the best program that rules lead to: those of a file and of mlc, or"
        f" {OWN_RULES!r} alone; docs/superopt.md",
    )  # fmt: skip
    group.add_argument(
        "--discover-by", choices=BY, help="one rule after the other (default: search), or all"
    )


def _add_types(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--spec", metavar="TYPES",
        help="the arguments: 'f32[64,32], f32[B,16]', by name 'w=f32[3]', in containers"
        " '{\"w\": f32[3]}', and values such as 2.0; default: annotations and defaults",
    )  # fmt: skip
    to.add_argument("--sizes", default="", metavar="SIZES", help="values of symbols: B=64,N=10")


def _add_program(to: argparse.ArgumentParser, also: str = "") -> None:
    to.add_argument("file", metavar="FILE", help=f"{FILES}{also}")


def _run(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "file",
        metavar="FILE",
        help="FILE.py: the script; FILE.py:f, FILE.mlir, FILE.onnx: one function",
    )
    to.add_argument(
        "rest", nargs=argparse.REMAINDER, metavar="…",
        help="the script's arguments; or a function's inputs: see mlc run FILE.py:f --help",
    )  # fmt: skip
    _add_options(to)


def _show(to: argparse.ArgumentParser) -> None:
    _add_program(to)
    to.add_argument("--at", choices=LEVELS, default="tensor", help="the level (default: tensor)")
    to.add_argument("--unit", metavar="NAME", help="of --at code: one of its LLVM modules alone")
    _add_types(to)
    _add_options(to)


def _build(to: argparse.ArgumentParser) -> None:
    _add_program(to, "; FILE.ll as show prints it")
    to.add_argument(
        "--emit", metavar="KINDS",
        help="of ll, asm, ptx, and for C obj, header, a, so, for CUDA c, header; several with"
        " commas (default: obj, and ptx for a GPU)",
    )  # fmt: skip
    to.add_argument(
        "-o", "--output", metavar="PATH",
        help="file, or stem of the files where there are several kinds",
    )  # fmt: skip
    to.add_argument(
        "--threads", dest="team", choices=TEAMS, default=TEAMS[0],
        help="of a program for C: one (the default), a pool of its own, or OpenMP's",
    )  # fmt: skip
    to.add_argument(
        "--weights", choices=WEIGHTS,
        help="a model's weights, and arrays from outside a function, for C: arguments (the default"
        " of functions), part of the code (that of models; above 16 MiB in NAME.weights), or in"
        " NAME.weights",
    )  # fmt: skip
    to.add_argument(
        "--lapack", metavar="SUFFIX",
        help="for np.linalg in C: what the LAPACK to link with puts behind its names, _ or _64_, or"
        " how it spells them: 'scipy_{}_64_'",
    )  # fmt: skip
    to.add_argument(
        "--certify", metavar="OUT.cert", help="write what was rewritten, for mlc check, as well"
    )
    _add_types(to)
    _add_options(to, threads=False)


def _check(to: argparse.ArgumentParser) -> None:
    to.add_argument("certificate", metavar="FILE.cert", help="as mlc build --certify writes it")
    to.add_argument("--program", metavar="FILE", help=f"what it must be of: {FILES}")
    to.add_argument(
        "--partial", action="store_true", help="accept changes for which nothing is claimed"
    )
    to.add_argument(
        "--seed", default="", help="of the numbers that values are tried on, besides the file"
    )
    _add_types(to)
    _add_options(to)


def _explain(to: argparse.ArgumentParser) -> None:
    _add_program(to)
    forms = to.add_mutually_exclusive_group()
    forms.add_argument(
        "--json", dest="form", action="store_const", const="json", help="for programs"
    )
    forms.add_argument(
        "--html", dest="form", action="store_const", const="html", help="one page, with pictures"
    )
    to.add_argument("-o", "--output", metavar="PATH", help="a file instead of stdout")
    to.set_defaults(form="text")
    _add_types(to)
    _add_options(to)


def _why_not(to: argparse.ArgumentParser) -> None:
    to.add_argument("producer", metavar="FILE:LINE", help="a line that computes something")
    to.add_argument("consumer", metavar="FILE:LINE", help="a line that reads it")
    to.add_argument(
        "--of", metavar="FILE",
        help="the program: FILE.py, FILE.py:function or FILE.mlir (default: the function at the"
        " first line, or the only compiled one of its file)",
    )  # fmt: skip
    to.add_argument(
        "--measure", action="store_true", help="run both plans on random inputs, in turn"
    )
    to.add_argument("--json", action="store_true", help="for programs")
    _add_types(to)
    _add_options(to)


def _blame(to: argparse.ArgumentParser) -> None:
    _add_program(to)
    to.add_argument(
        "--inputs", nargs="+", default=(), metavar="INPUT",
        help=".npy files, or one .npz, in argument order (default: random inputs)",
    )  # fmt: skip
    to.add_argument("--seed", type=int, default=0, help="of random inputs (default: 0)")
    to.add_argument(
        "-o", "--output", default="blame", metavar="STEM",
        help="of the small program, STEM.mlir and STEM.npz (default: blame)",
    )  # fmt: skip
    _add_types(to)
    _add_options(to)


def _mutants(to: argparse.ArgumentParser) -> None:
    _add_program(to)
    to.add_argument(
        "mutant", nargs="?", metavar="MUTANT",
        help="the one program to compare (default: those that are found for its convolutions)",
    )  # fmt: skip
    to.add_argument(
        "--tests", type=int, default=2, metavar="T", help="of each position (default: 2)"
    )
    to.add_argument(
        "-o", "--output", metavar="FILE.mlir", help="write the fastest one, with corrections"
    )
    _add_types(to)
    _add_options(to)


def _superopt(to: argparse.ArgumentParser) -> None:
    _add_program(to)
    to.add_argument(
        "--rules", metavar="FILE", help="rewrite rules, which are verified; docs/rules.md"
    )
    to.add_argument(
        "--by", choices=BY, default="search",
        help="apply one rule after the other (default: search), or all at once",
    )  # fmt: skip
    to.add_argument(
        "--plans", type=int, default=200, metavar="N", help="judge so many (default: 200)"
    )
    to.add_argument(
        "--alpha", type=float, default=1.05, metavar="A",
        help="go on from what should take A times as long as the best (default: 1.05)",
    )  # fmt: skip
    to.add_argument("--measure", action="store_true", help="run each step on random inputs")
    to.add_argument("-o", "--output", metavar="OUT.mlir", help="write the best program")
    to.add_argument(
        "--curve", metavar="OUT.csv", help="write what the best one should take, over plans"
    )
    _add_types(to)
    _add_options(to)


def _machine(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--measure", action="store_true", help="measure its rates and loops again (about a minute)"
    )


def _rules(to: argparse.ArgumentParser) -> None:
    to.add_argument("action", choices=("verify", "table", "pdl"))
    to.add_argument("files", nargs="*", metavar="FILE", help="rules; default: those of mlc")
    to.add_argument("--write", action="store_true", help="of verify: put the grades into the files")


def _discover(to: argparse.ArgumentParser) -> None:
    to.add_argument(
        "--ops", required=True, metavar="OP,…",
        help="add, sub, mul, max, neg, relu, tanh, transpose, concat, split, matmul, conv",
    )  # fmt: skip
    to.add_argument("--depth", type=int, default=2, metavar="N", help="ops of a side (default: 2)")
    to.add_argument("--limit", type=int, metavar="N", help="enumerate at most so many programs")
    to.add_argument("--seconds", type=float, metavar="S", help="stop after so long")
    to.add_argument(
        "--processes", type=int, metavar="N",
        help="how many compute; the files do not depend on it (default: all CPUs)",
    )  # fmt: skip
    to.add_argument(
        "--resume", metavar="FOLDER", help="keep there what is computed, and go on from there"
    )
    to.add_argument("--no-tests", action="store_true", help="write no lit tests")
    to.add_argument(
        "-o", "--output", default="discovered", metavar="FOLDER",
        help="of the files smaller.rules, other.rules and lit/*.mlir (default: discovered)",
    )  # fmt: skip


def _tile(to: argparse.ArgumentParser) -> None:
    for name, said in (("m", "rows"), ("n", "columns"), ("k", "summed")):
        to.add_argument(name, type=int, metavar=name.upper(), help=said)
    to.add_argument("--batch", type=int, default=1, metavar="N", help="products at once")
    to.add_argument(
        "--dtype", default="f32", metavar="NAME", help="of both factors: f32, bf16, i8 …"
    )
    to.add_argument(
        "--transposed", choices=("a", "b", "ab"), default="", help="factors given transposed"
    )
    to.add_argument(
        "--target", default="host", metavar="NAME", help="host, avx2, avx512, amx, neon, h200 …"
    )
    to.add_argument("--threads", type=int, default=1, metavar="N", help="workers (default: 1)")
    to.add_argument("--measure", action="store_true", help="run the first of them, in turn")
    to.add_argument(
        "--first", type=int, default=8, metavar="N", help="print and measure so many (default: 8)"
    )
    to.add_argument("--json", action="store_true", help="for programs")


def _cache(to: argparse.ArgumentParser) -> None:
    to.add_argument("action", nargs="?", choices=("info", "clear", "verify"), default="info")


_COMMANDS: dict[str, tuple[str, Callable[[argparse.ArgumentParser], None]]] = {
    "run": ("run a script, or one function with given or random inputs", _run),
    "show": ("print a function's program at a level", _show),
    "build": ("write LLVM IR, assembly, object code or PTX", _build),
    "check": ("check the certificate of a compilation", _check),
    "explain": ("print kernels, costs, memory and decisions", _explain),
    "why-not": ("say why two lines do not share a kernel", _why_not),
    "tile": ("say how a product of matrices may be cut, and what each way should take", _tile),
    "blame": ("find the pass and the rule that compile a program wrong", _blame),
    "mutants": ("find programs that are right at most positions, and correct them", _mutants),
    "superopt": ("search for a program that should take less time", _superopt),
    "machine": ("print what mlc knows of this machine", _machine),
    "rules": ("verify rewrite rules, or print them as a table", _rules),
    "discover": ("find rewrite rules by enumeration, each verified and with a test", _discover),
    "cache": ("look at, check or empty the cache of compiled code", _cache),
}
