"""
The `mlc` command. Exit status: 0; 1, the input is at fault; 2, the command line is; 130, Ctrl-C.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, cast

from mlc.dialects.errors import CompilerBug, MlcError
from mlc.knobs import KnobError, Overrides, scope
from mlc.parsers import Command, call_parser, parser

if TYPE_CHECKING:
    from mlc.programs import Opened


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line (default: the process's); the exit status."""
    if sys.stdout is None:  # the caller has closed it
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 - it lives as long as the process
    try:
        status = _command(list(sys.argv[1:] if argv is None else argv))
        sys.stdout.flush()  # whoever reads it may be gone, or a disk be full
        return status
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


def _command(arguments: Sequence[str]) -> int:
    if arguments[:1] == ["opt"]:
        from mlc.opt import main as opt

        return opt(arguments[1:])
    parsed = parser(COMMANDS).parse_args(arguments)
    return parsed.command(parsed)


def _run(args: argparse.Namespace) -> int:
    from mlc.calls import call_function, run_script
    from mlc.command_line import UsageError, options_given
    from mlc.programs import split

    path, function = split(args.file)
    given = options_given(args)
    if path.suffix == ".py" and function is None:
        for name in ("numerics", "peak_bytes", "schedule", "tune", "discover"):
            if name in given:
                flag = name.replace("_", "-")
                raise UsageError(f"--{flag} is for one function; expected {path}:function")
        with scope(**cast("Overrides", given)):
            return run_script(path, args.rest)
    behind = call_parser().parse_intermixed_args(args.rest)
    return call_function(path, function, behind, {**given, **options_given(behind)})


def _show(args: argparse.Namespace) -> int:
    from mlc.command_line import UsageError
    from mlc.programs import shown

    if args.unit is not None and args.at != "code":
        raise UsageError(f"--unit {args.unit}: LLVM modules are at the level code; add --at code")
    sys.stdout.write(shown(_program(args).levels, args.at, args.unit))
    return 0


def _build(args: argparse.Namespace) -> int:
    from mlc.code_files import build_llvm, build_program
    from mlc.command_line import UsageError
    from mlc.programs import split

    if args.file.endswith(".ll"):
        if args.certify is not None:
            raise UsageError(f"--certify: {args.file} is code; expected a program")
        paths = build_llvm(args.file, args.emit, args.output, args.target)
    else:
        program = _program(args, "arguments" if args.weights == "arguments" else "constants")
        program.check_contract()
        of_python = split(args.file)[0].suffix == ".py"
        paths = build_program(
            program.levels,
            args.emit,
            args.output,
            team=args.team,
            captured=program.captured,
            weights=args.weights or ("arguments" if of_python else "freeze"),
            lapack=args.lapack,
        )
        if args.certify is not None:
            from mlc.certificate import certificate

            paths.append(Path(args.certify))
            paths[-1].write_text(certificate(program.levels), encoding="utf-8")
    print(*paths, sep="\n")
    return 0


def _check(args: argparse.Namespace) -> int:
    from mlc.certificate import lines_of, said
    from mlc.check import CertificateError, check

    lines = None
    if args.program is not None:
        args.file = args.program
        lines = lines_of(_program(args).levels)
    text = Path(args.certificate).read_text(encoding="utf-8", errors="replace")
    try:
        print(said(check(text, lines, args.seed), partial=args.partial))
    except CertificateError as error:
        print(f"rejected: {error}")
        return 1
    return 0


def _explain(args: argparse.Namespace) -> int:
    program = _program(args)
    said = program.levels.explain({}).said(args.form)
    if args.output is None:
        sys.stdout.write(said.rstrip("\n") + "\n")
    else:
        Path(args.output).write_text(said, encoding="utf-8")
    program.check_contract()  # after the plan that says why it is broken
    return 0


def _why_not(args: argparse.Namespace) -> int:
    from mlc.calls import inputs_of
    from mlc.executable import calls_of
    from mlc.passes.report.explain.edges import Line
    from mlc.programs import program_at
    from mlc.why_not import why_not

    producer, consumer = Line.parse(args.producer), Line.parse(args.consumer)
    args.file = args.of or program_at(producer)
    levels = _program(args).levels
    arguments = inputs_of(levels) if args.measure else None
    answer = why_not(levels, producer, consumer, {}, calls_of(arguments))
    print(answer.to_json() if args.json else answer)
    return 0


def _blame(args: argparse.Namespace) -> int:
    from mlc.blame import blame_program

    found = blame_program(_program(args), args.inputs, args.seed)
    if found is None:
        print("nothing is wrong: every level gives the same results")
        return 0
    print(found, *found.write(args.output), sep="\n")
    return 1


def _mutants(args: argparse.Namespace) -> int:
    from mlc.command_line import UsageError, options_given
    from mlc.mutants import of_command_line
    from mlc.programs import open_program

    if args.tests < 1:
        raise UsageError(f"--tests {args.tests}: expected 1 or more")
    given = None
    if args.mutant is not None:
        given = open_program(args.mutant, args.spec, options_given(args))
    print(*of_command_line(_program(args), given, args.tests, args.output), sep="\n")
    return 0


def _superopt(args: argparse.Namespace) -> int:
    from mlc.backends import backend_of
    from mlc.calls import inputs_of
    from mlc.programs import portable_text
    from mlc.rule_files import verified
    from mlc.superopt import compiled, superopt

    levels = _program(args).levels
    rules = [] if args.rules is None else verified(args.rules)
    found = superopt(levels, rules, by=args.by, plans=args.plans, alpha=args.alpha)
    measured: list[float] = []
    if args.measure:
        functions = [compiled(levels, x) for x in (found.start, *found.modules)]
        measured = backend_of(levels.options.target).measure(functions, inputs_of(levels))
    print(found.said(measured))
    if args.output is not None:
        Path(args.output).write_text(portable_text(found.best.clone()), encoding="utf-8")
    if args.curve is not None:
        Path(args.curve).write_text(found.csv(), encoding="utf-8")
    return 0


def _program(args: argparse.Namespace, weights: str = "constants") -> Opened:
    """The program that a command line names, with the sizes that it says; `weights`: of a model."""
    from mlc.command_line import options_given, sizes_of
    from mlc.programs import open_program

    program = open_program(args.file, args.spec, options_given(args), weights)
    program.levels.sizes = program.levels.known_sizes(sizes_of(args.sizes))
    return program


def _machine(args: argparse.Namespace) -> int:
    from dataclasses import fields

    from mlc.runtime.probe import host_target
    from mlc.runtime.threads import describe

    if args.measure:
        from mlc.machine import measure

        if apart := measure()[1]:
            print(
                f"warning: the best two of several rounds differ: {apart}; what was kept is the "
                "best of them. Measure again when less other work runs",
                file=sys.stderr,
            )
    target = host_target()
    for row, prefix in ((target, ""), (target.loops, "loops.")):
        for field in fields(row):
            value, name = getattr(row, field.name), f"{prefix}{field.name}"
            if field.name != "loops":
                print(f"{name:<36}{value:,}" if isinstance(value, int) else f"{name:<36}{value}")
    print(f"{'threads':<36}{describe()}")
    return 0


def _tile(args: argparse.Namespace) -> int:
    from mlc.schedules import of_command_line

    print(of_command_line(args))
    return 0


def _rules(args: argparse.Namespace) -> int:
    from mlc.rule_files import of_command_line

    return of_command_line(args.action, args.files, writes=args.write)


def _discover(args: argparse.Namespace) -> int:
    from mlc.discovery import run

    return run(args)


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


COMMANDS: dict[str, Command] = {
    "run": _run,
    "show": _show,
    "build": _build,
    "check": _check,
    "explain": _explain,
    "why-not": _why_not,
    "tile": _tile,
    "blame": _blame,
    "mutants": _mutants,
    "superopt": _superopt,
    "machine": _machine,
    "rules": _rules,
    "discover": _discover,
    "cache": _cache,
}
