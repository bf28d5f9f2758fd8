"""
The `mlc` command. Exit status: 0; 1, the input is at fault; 2, the command line is; 130, Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

from mlc.dialects.errors import CompilerBug, MlcError
from mlc.knobs import FUSIONS, KnobError, scope
from mlc.version import __version__

Command = Callable[[argparse.Namespace], int]


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (default: the process's); the exit status."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    try:
        if arguments[:1] == ["opt"]:
            from mlc.opt import main as opt

            return opt(arguments[1:])
        parsed = _parser().parse_args(arguments)
        fusion = getattr(parsed, "fusion", None)  # of the commands that form kernels
        with scope(fusion=fusion) if fusion else nullcontext():
            return parsed.command(parsed)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:  # whoever reads our output has had enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    except CompilerBug as error:
        print(f"mlc: this is a bug in mlc: {error}", file=sys.stderr)
        return 1
    except (MlcError, KnobError) as error:
        print(f"mlc: {error}" if "error:" not in str(error) else error, file=sys.stderr)
        return 2 if type(error).__name__ == "UsageError" else 1
    except OSError as error:
        name = f"{error.filename}: " if error.filename else ""
        print(f"mlc: {name}{error.strerror or error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="mlc", description="NumPy functions to native CPU and GPU code, every level readable"
    )
    parser.add_argument("--version", action="version", version=f"mlc {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    commands.add_parser("opt", help="run passes on MLIR text; see mlc opt --help", add_help=False)
    _add_run(
        commands.add_parser("run", help="run a script, or one function with given or random inputs")
    )
    _add_show(commands.add_parser("show", help="print a function's program at a level"))
    _add_build(commands.add_parser("build", help="write LLVM IR, assembly or object code"))
    _add_explain(commands.add_parser("explain", help="print kernels, costs, memory and decisions"))
    _add_why_not(commands.add_parser("why-not", help="say why two lines do not share a kernel"))
    _add_machine(commands.add_parser("machine", help="print what mlc knows of this machine"))
    _add_cache(
        commands.add_parser("cache", help="look at, check or empty the cache of compiled code")
    )
    return parser


def add_fusion(parser: argparse.ArgumentParser) -> None:
    """`--fusion`, which says it in place of MLC_FUSION."""
    parser.add_argument(
        "--fusion",
        choices=FUSIONS,
        help="how kernels are formed (default: MLC_FUSION, else exact); for functions that do not"
        " say mlc.compile(fusion=)",
    )


def _add_run(parser: argparse.ArgumentParser) -> None:
    add_fusion(parser)
    parser.add_argument(
        "file", metavar="FILE", help="FILE.py: the script; FILE.py:f or FILE.mlir: one function"
    )
    parser.add_argument(
        "rest",
        nargs=argparse.REMAINDER,
        metavar="…",
        help="the script's arguments; or inputs: .npz, .npy, --random …",
    )
    parser.set_defaults(command=_run)


def _program_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", metavar="FILE", help="FILE.py, FILE.py:function or FILE.mlir")
    parser.add_argument(
        "--spec", metavar="TYPES", help="the arguments' types: 'f32[64,32],f32[B,16]'"
    )
    parser.add_argument(
        "--target", metavar="NAME", help="host (default), avx2, avx512, neon, cuda:sm_90a …"
    )
    add_fusion(parser)


def _add_show(parser: argparse.ArgumentParser) -> None:
    _program_arguments(parser)
    levels = ("trace", "tensor", "plan", "loops", "code")
    parser.add_argument(
        "--at", choices=levels, default="tensor", help="the level (default: tensor)"
    )
    parser.set_defaults(command=_show)


def _add_build(parser: argparse.ArgumentParser) -> None:
    _program_arguments(parser)
    parser.add_argument(
        "--emit", default="obj", metavar="KINDS", help="of ll, asm, obj, ptx; several with commas"
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="PATH",
        help="file, or stem of the files where there are several kinds",
    )
    parser.set_defaults(command=_build)


def _add_explain(parser: argparse.ArgumentParser) -> None:
    _program_arguments(parser)
    parser.add_argument("--sizes", default="", metavar="SIZES", help="values of symbols: B=64,N=10")
    forms = parser.add_mutually_exclusive_group()
    forms.add_argument(
        "--json", dest="form", action="store_const", const="json", help="for programs"
    )
    forms.add_argument(
        "--html", dest="form", action="store_const", const="html", help="one page, with pictures"
    )
    parser.add_argument("-o", "--output", metavar="PATH", help="a file instead of stdout")
    parser.set_defaults(command=_explain, form="text")


def _add_why_not(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("producer", metavar="FILE:LINE", help="a line that computes something")
    parser.add_argument("consumer", metavar="FILE:LINE", help="a line that reads it")
    parser.add_argument(
        "--of",
        metavar="FILE",
        help="the program: FILE.py, FILE.py:function or FILE.mlir (default: the function at the"
        " first line, or the only compiled one of its file)",
    )
    parser.add_argument(
        "--spec", metavar="TYPES", help="the arguments' types: 'f32[64,32],f32[B,16]'"
    )
    parser.add_argument("--target", metavar="NAME", help="host (default), avx2, avx512, neon …")
    add_fusion(parser)
    parser.add_argument("--sizes", default="", metavar="SIZES", help="values of symbols: B=64,N=10")
    parser.add_argument(
        "--measure", action="store_true", help="run both plans on random inputs, in turn"
    )
    parser.add_argument("--json", action="store_true", help="for programs")
    parser.set_defaults(command=_why_not)


def _add_machine(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--measure", action="store_true", help="measure its rates again (about a second)"
    )
    parser.set_defaults(command=_machine)


def _add_cache(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("action", nargs="?", choices=("info", "clear", "verify"), default="info")
    parser.set_defaults(command=_cache)


def _run(args: argparse.Namespace) -> int:
    from mlc.programs import call_function, run_script, split

    path, function = split(args.file)
    if path.suffix == ".py" and function is None:
        return run_script(path, args.rest)
    return call_function(path, function, args.rest)


def _show(args: argparse.Namespace) -> int:
    from mlc.programs import open_program

    sys.stdout.write(open_program(args.file, args.spec, args.target).text(args.at))
    return 0


def _build(args: argparse.Namespace) -> int:
    from mlc.programs import build_files, open_program

    program = open_program(args.file, args.spec, args.target)
    for path in build_files(program, args.emit.split(","), args.output):
        print(path)
    return 0


def _explain(args: argparse.Namespace) -> int:
    from mlc.programs import open_program, sizes_of

    about = open_program(args.file, args.spec, args.target).explain(sizes_of(args.sizes))
    said = {"text": about.text, "json": about.json, "html": about.html}[args.form]()
    if args.output is None:
        sys.stdout.write(said.rstrip("\n") + "\n")
    else:
        Path(args.output).write_text(said, encoding="utf-8")
    return 0


def _why_not(args: argparse.Namespace) -> int:
    from mlc.passes.explain.edges import Line
    from mlc.programs import inputs_of, open_program, program_at, sizes_of
    from mlc.why_not import why_not

    producer, consumer = Line.parse(args.producer), Line.parse(args.consumer)
    sizes = sizes_of(args.sizes)
    file = args.of or program_at(producer)
    levels = open_program(file, args.spec, args.target).levels
    arguments = inputs_of(levels, sizes) if args.measure else None
    answer = why_not(levels, producer, consumer, sizes, arguments)
    print(answer.to_json() if args.json else answer)
    return 0


def _machine(args: argparse.Namespace) -> int:
    from dataclasses import fields

    from mlc.runtime.probe import host_target, measure
    from mlc.runtime.threads import describe

    target = measure() if args.measure else host_target()
    for field in fields(target):
        value = getattr(target, field.name)
        print(
            f"{field.name:<36}{value:,}" if isinstance(value, int) else f"{field.name:<36}{value}"
        )
    print(f"{'threads':<36}{describe()}")
    return 0


def _cache(args: argparse.Namespace) -> int:
    from mlc.runtime.cache import object_cache

    cache = object_cache()
    if args.action == "clear":
        print(f"{cache.clear()} entries removed from {cache.folder}")
        return 0
    if args.action == "verify":
        sound, damaged = cache.verify()
        print(f"{sound} sound entries, {len(damaged)} damaged ones removed from {cache.folder}")
        for path in damaged:
            print(f"  {Path(path).name}")
        return 0
    info = cache.info()
    print(f"folder    {info.folder}{'' if info.writable else '  (cannot be written)'}")
    print(f"entries   {info.entries:,}")
    print(f"size      {info.size_bytes:,} of at most {info.limit_bytes:,} bytes")
    return 0
