"""`mlc opt`: passes on MLIR text, as `mlir-opt` and `xdsl-opt` do it, for every level of mlc."""

from __future__ import annotations

import argparse
import difflib
import sys
import time
from collections.abc import Sequence
from dataclasses import fields
from pathlib import Path
from typing import IO

from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.printer import Printer
from xdsl.universe import XDSL_UNIVERSE
from xdsl.utils.arg_spec import ArgSpec, parse_pipeline
from xdsl.utils.exceptions import ArgSpecParseError, DiagnosticException, VerifyException
from xdsl.xdsl_opt_main import xDSLOptMain

from mlc import registry
from mlc.command_line import UsageError, named
from mlc.dialects.analysis.dominance import verify_dominance
from mlc.dialects.errors import MlcError
from mlc.dialects.target.attribute import ATTRIBUTE
from mlc.knobs import FUSIONS
from mlc.passes import wellformed
from mlc.passes.cost.sizes import sizes_of
from mlc.passes.remarks import listening
from mlc.passes.tensor.rules import Rules, limited
from mlc.text import context, parse_text, read_text, verify_text

PREFIX = "mlc-"
XDSL_PREFIX = "xdsl-"


class MlcOpt(xDSLOptMain):
    """
    xDSL's driver with our dialects, passes and parser. A pass is named with or without `mlc-`;
    where xDSL has one of the same bare name, that one is `xdsl-…`.
    """

    args: argparse.Namespace

    def __init__(self, args: Sequence[str]) -> None:
        super().__init__("passes on MLIR text of any level", args)

    # registration ---------------------------------------------------------------------------

    def register_all_dialects(self) -> None:
        self.ctx = context()

    def register_all_passes(self) -> None:
        for name, factory in XDSL_UNIVERSE.all_passes.items():
            self.register_pass(name, factory)
        for name, factory in registry.passes().items():
            self.register_pass(name, factory)

    def register_all_targets(self) -> None:
        self.available_targets["mlir"] = XDSL_UNIVERSE.all_targets["mlir"]

    def register_all_frontends(self) -> None:
        self.available_frontends["mlir"] = self._parsed

    def register_all_arguments(self, arg_parser: argparse.ArgumentParser) -> None:
        arg_parser.prog = "mlc opt"
        arg_parser.add_argument(
            "input_file", nargs="?", metavar="FILE", help="MLIR text; - or nothing: stdin"
        )
        arg_parser.add_argument(
            "-p", "--passes", default="", metavar="PASSES",
            help="passes in order, such as 'canonicalize{max-elements=8},cse'; see --list-passes",
        )  # fmt: skip
        arg_parser.add_argument(
            "--target", dest="machine", metavar="NAME",
            help="the machine the module is for: host, avx2, avx512, neon, h200, cuda:sm_90a …",
        )  # fmt: skip
        arg_parser.add_argument(
            "--fusion", choices=FUSIONS,
            help="how kernels are formed: the option of form-kernels and form-tiles, for those of"
            " the passes that do not say it themselves",
        )  # fmt: skip
        arg_parser.add_argument(
            "--rules", metavar="FILE",
            help="rewrite rules, which are verified and applied before the passes; docs/rules.md",
        )  # fmt: skip
        arg_parser.add_argument(
            "--rule", metavar="NAME", help="of --rules: this one alone, applied once"
        )
        arg_parser.add_argument("-o", "--output-file", metavar="PATH", help="instead of stdout")
        flags = {
            "--list-passes": "print the names of all passes and stop",
            "--print-between-passes": "print the module after every pass but the last",
            "--time-passes": "print to stderr what each pass took",
            "--remarks": "print to stderr what passes left undone, and why",
            "--split-input-file": "read pieces separated by '// -----', each on its own",
            "--verify-diagnostics": "print errors and go on with the next piece, status 0",
            "--allow-unregistered-dialect": "accept ops of dialects that are not known",
            "--print-op-generic": "print ops in generic form",
            "--print-debuginfo": "print locations",
        }
        for flag, text in flags.items():
            arg_parser.add_argument(flag, action="store_true", help=text)
        arg_parser.add_argument(
            "--verify-each", action=argparse.BooleanOptionalAction, default=True,
            help="verify after every pass, and that values are defined before their uses",
        )  # fmt: skip
        arg_parser.set_defaults(
            target="mlir", frontend="mlir", disable_verify=False, shrink=False,
            syntax_highlight=False,
            no_implicit_module=False, parsing_diagnostics=False, print_no_properties=False,
        )  # fmt: skip

    def setup_pipeline(self) -> None:
        self.machine = named(self.args.machine) if self.args.machine else None
        self.passes = [self._pass(spec) for spec in self._specs()]
        self.rules = self._rules()

    def _rules(self) -> Rules | None:
        if self.args.rules is None:
            if self.args.rule is not None:
                raise UsageError(f"--rule {self.args.rule}: expected --rules FILE, too")
            return None
        from mlc.rule_files import checked_rules  # few command lines need it

        return checked_rules(self.args.rules, self.args.rule)

    def _specs(self) -> list[ArgSpec]:
        try:
            return list(parse_pipeline(self.args.passes))
        except ArgSpecParseError as error:
            raise UsageError(
                f"-p {self.args.passes!r}: {error}; expected passes such as 'canonicalize,cse' or"
                " 'form-kernels{{fusion=\"none\"}}'".replace("{{", "{").replace("}}", "}")
            ) from None

    def _pass(self, spec: ArgSpec) -> ModulePass:
        name = self._full_name(spec.name)
        chosen = self.available_passes[name]()
        parameters = dict(spec.parameters)
        if self.args.fusion and any(f.name == "fusion" for f in fields(chosen)):
            parameters.setdefault("fusion", (self.args.fusion,))
        try:
            return chosen.from_spec(ArgSpec(chosen.name, parameters))
        except (ValueError, TypeError) as error:
            names = [f.name.replace("_", "-") for f in fields(chosen)]
            known = f"expected one of {', '.join(names)}" if names else "it takes no options"
            raise UsageError(f"pass {spec.name}: {error}; {known}") from None

    def _full_name(self, name: str) -> str:
        if PREFIX + name in self.available_passes:
            return PREFIX + name
        if name.removeprefix(XDSL_PREFIX) in self.available_passes:
            return name.removeprefix(XDSL_PREFIX)
        known = self.pass_names()
        near = difflib.get_close_matches(name, known, n=1) or difflib.get_close_matches(
            PREFIX + name, known, n=1
        )
        meant = (
            f"did you mean {near[0].removeprefix(PREFIX)}?" if near else "see mlc opt --list-passes"
        )
        raise UsageError(f"no pass is called {name!r}; {meant}")

    def pass_names(self) -> list[str]:
        """Ours first, then xDSL's."""
        return sorted(self.available_passes, key=lambda n: (not n.startswith(PREFIX), n))

    # running --------------------------------------------------------------------------------

    def status(self) -> int:
        """Runs; the exit status."""
        if self.args.list_passes:
            print("\n".join(self.pass_names()))
            return 0
        status = 0
        output = self.prepare_output()
        try:
            for number, (text, offset) in enumerate(self._pieces()):
                if number:
                    output.write("// -----\n")
                try:
                    output.write(self._one(text, offset))
                except (MlcError, VerifyException, DiagnosticException) as error:
                    if self.args.verify_diagnostics:
                        output.write(f"{error}\n")
                        continue
                    output.flush()
                    said = str(error)
                    print(said if "error:" in said else f"mlc: {said}", file=sys.stderr)
                    status = 1
        finally:
            if output is not sys.stdout:
                output.close()
        return status

    def prepare_output(self) -> IO[str]:
        if self.args.output_file is None:
            return sys.stdout
        return Path(self.args.output_file).open("w", encoding="utf-8")

    def _pieces(self) -> list[tuple[str, int]]:
        """Texts, each with the number of lines before it."""
        text = read_text(self.args.input_file)
        if not self.args.split_input_file:
            return [(text, 0)]
        pieces: list[tuple[str, int]] = []
        offset = 0
        for piece in text.split("// -----"):
            pieces.append((piece, offset))
            offset += piece.count("\n")
        return pieces

    def _one(self, text: str, offset: int) -> str:
        name = self.name
        module = parse_text(
            text, name, line_offset=offset, unregistered=self.args.allow_unregistered_dialect
        )
        if self.machine is not None:
            module.attributes[ATTRIBUTE] = self.machine
        verify_text(module, text, name, line_offset=offset)
        with listening() as heard:
            if self.rules is not None:
                self._check_level(module, f"--rules {self.args.rules}")
                with limited(None if self.args.rule is None else 1):
                    self.rules.sweep(module)
                self._verify(module, f"--rules {self.args.rules}")
            self.apply_passes(module)
        if self.args.remarks:
            for remark in heard:
                print(remark, file=sys.stderr)
        return self.output_resulting_program(module).rstrip("\n") + "\n"

    def apply_passes(self, prog: ModuleOp) -> None:
        for number, each in enumerate(self.passes):
            start = time.perf_counter()
            if each.name in registry.PASSES and each.name not in registry.OF_LOOPS:
                self._check_level(prog, each.name)
            try:
                with sizes_of(prog):
                    each.apply(self.ctx, prog)
            except ValueError as error:  # an option that only the pass can judge
                if isinstance(error, MlcError):
                    raise
                raise MlcError(f"pass {error}") from error
            if self.args.time_passes:
                print(f"{each.name}: {(time.perf_counter() - start) * 1e3:.3f} ms", file=sys.stderr)
            if self.args.verify_each:
                self._verify(prog, each.name)
            if self.args.print_between_passes and number < len(self.passes) - 1:
                print(f"// IR after {each.name}:")
                Printer(stream=sys.stdout).print_op(prog)
                print("\n")

    def _check_level(self, prog: ModuleOp, name: str) -> None:
        """Our passes rely on functions of the level that they are written for."""
        found = next(wellformed.faults(prog), None)
        if found is None and name not in registry.OF_CALLS:
            found = wellformed.use_of_function(prog)
        if found is not None:
            op, message = found
            raise MlcError(f"{self.name}: error: {name} cannot run: {op.name}: {message}")

    def _verify(self, prog: ModuleOp, name: str) -> None:
        try:
            prog.verify()
            verify_dominance(prog)
        except VerifyException as error:
            raise MlcError(
                f"{self.name}: error: the module is wrong after pass {name}: {error};"
                " this is a bug of the pass"
            ) from None

    @property
    def name(self) -> str:
        """What messages call the input."""
        given = self.args.input_file
        return "<stdin>" if given in (None, "-") else str(given)

    def _parsed(self, io: IO[bytes]) -> ModuleOp:
        return parse_text(io.read().decode(), self.name)


def main(args: Sequence[str]) -> int:
    """`mlc opt …`; the exit status."""
    return MlcOpt(args).status()
