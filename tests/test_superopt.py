"""`mlc superopt`: programs that rules lead to, judged by their plans."""

# pyright: reportUnknownMemberType=false
# pyright: reportUnknownParameterType=false, reportUnknownVariableType=false

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc
from mlc.certificate import certificate
from mlc.check import check as checked_certificate
from mlc.dialects.target.known import AVX2
from mlc.driver import main
from mlc.levels import Levels
from mlc.options import Options, RuleFile
from mlc.passes.rules.load import read_rules
from mlc.passes.rules.search import Search
from mlc.runtime.interpret import interpret
from mlc.superopt import superopt
from tests.sums_of_products import RULES, SQUARE, TEXT, discovering, levels_of

DATA = Path(__file__).parent / "data" / "rules"


def searched(levels: Levels, plans: int) -> Search:
    found = superopt(levels, RULES, plans=plans)
    assert isinstance(found, Search)
    return found


@pytest.fixture(scope="module")
def found() -> Search:
    return searched(levels_of(), 20)


def test_three_products_become_one(found: Search) -> None:
    assert [step.rule for step in found.steps] == ["product_of_sum", "product_of_sum"]
    assert str(found.best).count("mlc.contract") == 1
    assert found.best_s < found.steps[0].predicted_s < found.start_s
    assert all("sums_of_products.py:" in step.at for step in found.steps)


def test_it_computes_the_same(found: Search) -> None:
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal((96, 96)).astype(np.float32) for _ in range(4)]
    wanted = interpret(found.start, arrays)[0]
    for module in found.modules:
        np.testing.assert_allclose(interpret(module, arrays)[0], wanted, rtol=0, atol=1e-3)


def test_more_plans_are_no_worse_and_the_same_each_time(found: Search) -> None:
    some = [searched(levels_of(), n) for n in (1, 2, 3)]
    assert [found.best_after(n) for n in (1, 2, 3)] == [search.curve[-1][1] for search in some]
    times = [search.best_s for search in (*some, found)]
    assert times == sorted(times, reverse=True)
    assert [search.judged for search in some] == [1, 2, 3]
    assert some[0].steps == ()
    assert searched(levels_of(), 20).said() == found.said()


def test_orders_of_operands_are_one_plan() -> None:
    @mlc.compile(target="avx2", threads=1)
    def f(x: Any, y: Any) -> Any:
        return np.tanh(x + y) * np.exp(x) + y

    turned = [x for x in read_rules(DATA / "right.rules") if x.name == "add_commutes"]
    found = superopt(f.lower(SQUARE, SQUARE).levels, turned, plans=20)
    assert found.judged < found.seen


def test_numerics_say_which_rules_there_are() -> None:
    assert searched(levels_of("standard"), 20).steps == ()


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, source, best = tmp_path / "r.rules", tmp_path / "f.mlir", tmp_path / "best.mlir"
    rules.write_text(TEXT)
    levels = levels_of()
    source.write_text(levels.traced)
    command = ["superopt", str(source), "--numerics", "fast", "--plans", "9", "-o", str(best)]
    command += ["--curve", str(tmp_path / "curve.csv")]
    assert main([*command, "--target", "avx2", "--rules", str(rules)]) == 0
    said = capsys.readouterr().out
    assert "as it is" in said
    assert said.count("product_of_sum") == 2
    assert best.read_text().count("mlc.contract") == 1
    first, *rows = (tmp_path / "curve.csv").read_text().splitlines()
    plans, times = zip(*(map(float, row.split(",")) for row in rows), strict=True)
    assert first == "plans,predicted_us"
    assert plans[0] == 1
    assert f"{plans[-1]:.0f} plans judged" in said
    assert list(plans) == sorted(plans)
    assert list(times) == sorted(times, reverse=True)
    rules.write_text(TEXT.replace("(add %x, %y)", "(sub %x, %y)"))
    assert main([*command, "--rules", str(rules)]) == 1
    assert "rule product_of_sum is refuted" in capsys.readouterr().err


def test_what_is_found_is_what_is_compiled(tmp_path: Path, found: Search) -> None:
    rules = tmp_path / "sums.rules"
    rules.write_text(TEXT)
    levels = discovering(rules, numerics="fast").lower(SQUARE, SQUARE, SQUARE, SQUARE).levels
    assert levels.text("tensor").count("mlc.contract") == 1
    said = [x for x in map(str, levels.remarks()) if "discover:" in x]
    assert ["product_of_sum" in x and "sums_of_products.py:" in x for x in said] == [True] * 2
    last = said[-1].split("-> ")[1].split(" us")[0]
    assert last == f"{found.best_s * 1e6:.1f}"
    assert all(x in levels.explain({}).said("text") for x in ("step 1 of 2", "step 2 of 2"))
    text = certificate(levels)
    assert '"pass": "superopt"' in text
    assert checked_certificate(text)["claims"]


def test_it_runs_and_is_another_program_than_without(tmp_path: Path) -> None:
    rules = tmp_path / "sums.rules"
    rules.write_text(TEXT)
    rng = np.random.default_rng(0)
    arrays = [rng.integers(-4, 5, (96, 96)).astype(np.float32) for _ in range(4)]
    x, y, z, w = arrays
    for path, numerics, products in ((rules, "fast", 1), (None, "fast", 3), (rules, "strict", 3)):
        f = discovering(path, numerics=numerics)
        np.testing.assert_array_equal(f(*arrays), (x + y + z) @ w)
        assert f.lower(*arrays).text("tensor").count("mlc.contract") == products


def test_options_are_in_the_key(tmp_path: Path) -> None:
    def key(text: str, threads: int = 1) -> str:
        return Options(target=AVX2, discover=RuleFile(str(tmp_path), text), threads=threads).key()

    keys = [Options(target=AVX2).key(), key(""), key(TEXT), key(TEXT, 2)]
    assert len({*keys}) == len(keys)
    assert key(TEXT) == keys[2]


def test_wrong_files_are_errors(tmp_path: Path) -> None:
    def message(rules: object) -> str:
        with pytest.raises((mlc.MlcError, ValueError)) as error:
            discovering(rules, numerics="fast").lower(SQUARE, SQUARE, SQUARE, SQUARE).text()
        return str(error.value)

    rules = tmp_path / "sums.rules"
    assert f"discover={str(rules)!r}: No such file or directory; expected" in message(rules)
    rules.write_text("contract")
    assert f"{rules}:1:" in message(rules)
    rules.write_text(TEXT.replace("(add %x, %y)", "(sub %x, %y)"))
    assert f"{rules}:2: rule product_of_sum is refuted" in message(rules)
    assert message(3) == "discover=3; expected True, or a file of rewrite rules"


def test_the_flag(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rules, source = tmp_path / "r.rules", tmp_path / "f.mlir"
    rules.write_text(TEXT)
    source.write_text(levels_of().traced)
    command = ["show", str(source), "--numerics", "fast", "--target", "avx2"]
    counts: list[int] = []
    for more in ([], ["--discover", "mlc"], ["--discover", str(rules)]):
        assert main([*command, *more]) == 0
        counts.append(capsys.readouterr().out.count("mlc.contract"))
    assert counts == [3, 3, 1]
    assert main([*command, "--discover", str(tmp_path / "none")]) == 1
    assert "No such file" in capsys.readouterr().err
