"""`explain` as text (word for word: tests/golden/explain.txt), as JSON and as a page."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, cast
from xml.etree import ElementTree as ET

import numpy as np
import pytest

import mlc
from mlc.dialects.errors import MlcError
from mlc.driver import main
from mlc.passes.report.explain.layout import MAX_IN_ROW, Size, positions, rows_of
from mlc.profile import Profiler
from tests.plans import RUNNABLE

GOLDEN = Path(__file__).parent / "golden" / "explain.txt"
PROGRAM = """
import mlc
import numpy as np


@mlc.compile
def ranked(x: mlc.TensorSpec("B", 64)):
    y = np.sort(x, axis=1)

    def step(i, total):
        return total * 0.5 + np.sort(total, axis=1)

    return mlc.fori_loop(0, 10, step, y - y.min()), np.argsort(x, axis=1)


def failing(x):
    return x @ x
"""


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "ranked.py"
    path.write_text(PROGRAM)
    return f"{path}:ranked"


def explained(program: str, capsys: pytest.CaptureFixture[str], *options: str) -> str:
    """What `mlc explain` prints for a stated machine."""
    assert main(["explain", program, "--target", "avx512", "--sizes", "B=100", *options]) == 0
    return capsys.readouterr().out


def test_text(
    program: str, capsys: pytest.CaptureFixture[str], request: pytest.FixtureRequest
) -> None:
    """Without predictions, which depend on how many threads there are, and without remarks."""
    found = explained(program, capsys).replace(str(Path(program).parent) + "/", "")
    found = re.sub(r" *\d+\.\d\d us", " … us", found)
    found = "".join(line for line in found.splitlines(True) if ": remark: " not in line)
    if request.config.getoption("--update-golden"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


# JSON

SCHEMA: dict[str, dict[str, type | tuple[type, ...]]] = {
    "": {
        "version": int, "name": str, "target": dict, "sizes": dict, "plan": dict, "memory": dict,
        "graph": dict, "remarks": list,
    },
    "target": {"name": str, "threads": int, "roofs": list},
    "target.roofs": {"name": str, "short": str, "bytes_per_s": float, "flops_per_s": float},
    "plan": {
        "kernels": list, "intermediates": list, "tiles": list, "copies": list,
        "kernel_count": int, "copied_bytes": int, "predicted_s": float,
    },
    "plan.kernels": {
        "number": int, "template": str, "ops": list, "results": list, "source": list,
        "predicted_s": float, "runs": (int, type(None)), "tile_sizes": list, "phases": list,
        "flops": int, "bytes_read": int,
        "bytes_written": int, "bytes": int, "accesses": int, "intensity": float,
        "intensity_per_access": float,
    },
    "plan.intermediates": {
        "result": str, "bytes": int, "written_by": int, "read_by": list, "place": str,
    },
    "memory": {
        "arguments_bytes": int, "results_bytes": int, "arena_bytes": int, "peak_bytes": int,
        "peak_step": int, "slots_bytes": list, "arguments": list, "steps": list,
    },
    "memory.arguments": {
        "value": str, "made_by": str, "bytes": int, "place": str, "source": str,
    },
    "memory.steps": {
        "number": int, "kernel": (int, type(None)), "what": str, "source": str,
        "phase": (int, type(None)), "inside": (int, type(None)),
        "trips": (int, type(None)), "held": list,
        "scratch_bytes": int, "live_bytes": int,
    },
    "graph": {"nodes": list, "edges": list, "results": list},
    "graph.nodes": {
        "number": int, "op": str, "kernel": (int, type(None)), "phase": (int, type(None)),
        "result": str, "bytes": int, "flops": int, "source": str,
    },
    "graph.edges": {"producer": int, "consumer": int, "again": bool},
    "remarks": {"op": str, "text": str, "where": str, "decision": (dict, type(None))},
}  # fmt: skip


def test_json_has_the_documented_fields(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    whole = json.loads(explained(program, capsys, "--json"))
    document = (Path(__file__).parent.parent / "docs" / "explain.md").read_text()
    for path, fields in SCHEMA.items():
        found: Any = whole
        for name in filter(None, path.split(".")):
            found = found[name]
        assert found or path == "remarks", path
        parts = cast("list[Any]", found if isinstance(found, list) else [found])
        for part in parts:
            assert set(part) == set(fields), path
            for name, kind in fields.items():
                assert isinstance(part[name], kind), f"{path}.{name}"
        assert all(f"`{name}`" in document for name in fields), path


def test_formats_say_the_same() -> None:
    def f(x: Any, w: Any) -> Any:
        return np.sort(np.exp(x) @ w, axis=1) * 2.0

    shapes = mlc.TensorSpec("B", 20), mlc.TensorSpec(20, 30)
    exe = mlc.compile(f).lower(*shapes).compile()
    whole = json.loads(exe.explain("json", B=50))
    assert whole["plan"] == json.loads(exe.plan(B=50).to_json())
    assert [k["bytes"] for k in whole["plan"]["kernels"]] == [
        k.bytes for k in exe.plan(B=50).kernels
    ]
    assert whole["memory"]["peak_bytes"] == exe.memory(B=50).peak_bytes
    assert whole["sizes"] == {"B": 50}
    assert f"{exe.memory(B=50).peak_bytes:,} bytes" in exe.explain(B=50)
    with pytest.raises(ValueError, match="expected 'text', 'json' or 'html'"):
        exe.explain("yaml")


def test_remarks_name_the_users_lines() -> None:
    """Of a program that no cache knows, too."""
    factor = float(np.random.default_rng().random())

    def f(x: Any) -> Any:
        e = np.exp(x * factor)
        return e / e.sum(axis=1, keepdims=True)

    exe = mlc.compile(f).lower(np.ones((30, 40), np.float32)).compile()
    assert exe.compilations == 1
    sources = {remark.where for remark in exe.levels.remarks() if remark.where}
    sources |= {kernel.source[0] for kernel in exe.plan().kernels if kernel.source}
    assert sources
    assert all(source.startswith(f"{__file__}:") for source in sources)


# The page


def page_of(text: str) -> ET.Element:
    """The page as a tree: it is XML too."""
    assert text.startswith("<!DOCTYPE html>")
    return ET.fromstring(text)


def check_page(text: str, kernels: int) -> None:
    """Nothing from outside; a box and a row for each kernel; names for what is not text."""
    page = page_of(text)
    for element in page.iter():
        assert element.tag not in ("link", "img", "iframe", "object", "embed")
        assert "src" not in element.attrib
        assert element.get("href", "#").startswith("#")
        if element.tag == "svg":
            assert element.get("aria-label")
            assert element.find("title") is not None
    assert "http" not in text
    assert "@import" not in text
    assert "url(" not in text
    ids = [name for element in page.iter() if (name := element.get("id"))]
    assert len(set(ids)) == len(ids)
    assert "drawing" in ids, "the script finds the graph by this name"
    assert 'getElementById("drawing")' in text
    assert {f"box{k}" for k in range(kernels)} <= set(ids)
    rows = [a.text for a in page.iter("a")]
    assert rows == [str(k) for k in range(kernels)]


def test_page(program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "out.html"
    whole = json.loads(explained(program, capsys, "--json"))
    assert explained(program, capsys, "--html", "-o", str(path)) == ""
    text = path.read_text(encoding="utf-8")
    check_page(text, len(whole["plan"]["kernels"]))
    assert "ranked.py:8" in text
    for step in whole["memory"]["steps"]:
        for held in step["held"]:
            assert f"{held['bytes']:,} bytes, in {held['place']}" in text
    assert "prefers-color-scheme: dark" in text


def softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def test_a_tile_loop_is_one_kernel_with_phases() -> None:
    """In every format, with what it moves from and to outside; its last tile is smaller."""
    exe = mlc.compile(target=RUNNABLE)(softmax).lower(mlc.TensorSpec("B", 1000)).compile()
    plan = exe.plan(B=301)
    (kernel,) = plan.kernels
    assert kernel.template == "row"
    assert kernel.results == ("f32[B, 1000]",)
    assert kernel.bytes == 2 * 301 * 1000 * 4
    assert kernel.flops == 5 * 301 * 1000 == exe.cost(B=301).flops
    assert kernel.ops == tuple(name for phase in kernel.phases for name in phase.ops)
    runs = {phase.runs for phase in kernel.phases}
    assert runs == {-(-301 // kernel.tile_sizes[0])}
    spent = sum(phase.predicted_s * (phase.runs or 0) for phase in kernel.phases)
    assert kernel.predicted_s == pytest.approx(spent) == pytest.approx(plan.predicted_s)
    assert plan.intermediates == ()
    assert {tile.kernel for tile in plan.tiles} == {0}
    text = exe.explain(B=301)
    assert "\n0        row " in text
    assert all(f"\n  0.{phase.number} " in text for phase in kernel.phases)
    whole = json.loads(exe.explain("json", B=301))
    (found,) = whole["plan"]["kernels"]
    assert [tuple(phase["ops"]) for phase in found["phases"]] == [p.ops for p in kernel.phases]
    nodes = [node for node in whole["graph"]["nodes"] if node["kernel"] == 0]
    assert {node["phase"] for node in nodes} == {phase.number for phase in kernel.phases}
    page = exe.explain("html", B=301)
    check_page(page, 1)
    assert all(f'<text x="8" y="12" class="tick">0.{p.number}' in page for p in kernel.phases)


def test_templates_of_tile_loops() -> None:
    """Attention walks columns too, and reads each operand once; a sum of a softmax is a fold."""

    def attention(q: Any, k: Any, v: Any) -> Any:
        return softmax(q @ k.T) @ v

    q, k = np.ones((300, 64), np.float32), np.ones((500, 64), np.float32)
    exe = mlc.compile(attention).lower(q, k, k).compile()
    (kernel,) = exe.plan().kernels
    assert kernel.template == "outer"
    assert kernel.bytes == 2 * q.nbytes + 2 * k.nbytes
    assert len(kernel.tile_sizes) > 1
    graph = json.loads(exe.explain("json"))["graph"]
    read = {edge["producer"] for edge in graph["edges"]}
    outside = {node["op"]: node["number"] for node in graph["nodes"] if node["kernel"] is None}
    assert {outside[name] for name in ("q", "k", "v")} <= read

    def folded(x: Any) -> Any:
        return (softmax(x) * x).sum()

    x = np.ones((333, 1000), np.float32)
    (kernel,) = mlc.compile(folded).lower(x).compile().plan().kernels
    assert kernel.template == "magg"
    assert kernel.phases
    assert kernel.bytes == x.nbytes + 4


def test_profiles_have_a_time_for_each_kernel() -> None:
    """Of phases too, by one thread; threads that share a tile loop do not write one clock."""
    x = np.ones((300, 1000), np.float32)
    one, two = (mlc.compile(threads=n)(softmax).lower(x).compile() for n in (1, 2))
    (kernel,) = one.plan().kernels
    for exe in (one, two):
        assert exe.profile(x, seconds=0.0).runs == (1,)
    phases = Profiler(one.levels, phases=True).run((x,), 0.0)
    assert phases.runs == tuple(phase.runs for phase in kernel.phases)
    with pytest.raises(MlcError, match="profile them with threads=1"):
        Profiler(two.levels, phases=True)


def test_page_of_many_kernels_starts_closed() -> None:
    def f(x: Any) -> Any:
        for k in range(110):
            x = -np.sort(x, axis=k.bit_count() % 2)  # no period, which would be one loop
        return x

    exe = mlc.compile(target=RUNNABLE)(f).lower(np.ones((8, 8), np.float32)).compile()
    text = exe.explain("html")
    check_page(text, len(exe.plan().kernels))
    boxes = [g for g in page_of(text).iter("g") if (g.get("id") or "").startswith("box")]
    assert len(boxes) > 100
    assert not any("open" in (g.get("class") or "") for g in boxes)


def test_text_of_programs_is_escaped() -> None:
    def successor(x: Any) -> Any:
        return x + 1

    successor.__name__ = "<lambda>"
    exe = mlc.compile(successor).lower(np.ones(3)).compile()
    assert "<lambda>" not in exe.explain("html").replace("&lt;lambda&gt;", "")
    check_page(exe.explain("html"), 1)


# The layout


@pytest.mark.parametrize("seed", range(5))
def test_layers(seed: int) -> None:
    """Who reads stands below who is read, and no two boxes overlap."""
    rng = np.random.default_rng(seed)
    count = 60
    edges = [(int(a), int(b)) for a, b in rng.integers(0, count, (150, 2)) if a < b]
    rows = rows_of(count, edges)
    row_of = {k: r for r, row in enumerate(rows) for k in row}
    assert sorted(row_of) == list(range(count))
    assert all(row_of[a] < row_of[b] for a, b in edges)
    assert max(map(len, rows)) <= MAX_IN_ROW
    sizes = [Size(*rng.uniform(10, 90, 2)) for _ in range(count)]
    at, whole = positions(rows, sizes)
    boxes = [(x, y, x + sizes[k].width, y + sizes[k].height) for k, (x, y) in at.items()]
    for i, a in enumerate(boxes):
        assert a[0] >= 0
        assert a[2] <= whole.width
        assert a[3] <= whole.height
        for b in boxes[:i]:
            assert a[2] <= b[0] or b[2] <= a[0] or a[3] <= b[1] or b[3] <= a[1]


def test_arguments_stand_above_their_readers() -> None:
    assert rows_of(4, [(0, 1), (1, 2), (3, 2)], floating=[3]) == [[0], [1, 3], [2]]


def on_gpu(f: Any, *shapes: tuple[int, ...], dtype: str = "f32", target: str = "h200") -> Any:
    specs = [mlc.TensorSpec(*shape, dtype=dtype) for shape in shapes]
    return mlc.compile(target=target)(f).lower(*specs)


def chain(x: Any) -> Any:
    return np.tanh(x) * np.exp(x) + np.log1p(x)


def multiply(x: Any, y: Any) -> Any:
    return x @ y


def sort(x: Any) -> Any:
    return np.sort(x), x.sum()


def launches(program: Any) -> list[dict[str, Any]]:
    return json.loads(program.explain("json")).get("launches", [])


def test_launches_of_a_gpu_fill_the_machine() -> None:
    (cell,) = launches(on_gpu(chain, (1 << 24,)))
    assert cell["roof"] == "device memory"
    assert cell["blocks"] * cell["threads"] * 4 == 1 << 24
    assert 40 < cell["slots_per_element"] < 100
    assert cell["waves"] == pytest.approx(cell["blocks"] / (132 * cell["blocks_per_sm"]))
    assert cell["occupancy"] == cell["blocks_per_sm"] * cell["threads"] / 2048
    (product,) = launches(on_gpu(multiply, (2048, 2048), (2048, 2048), dtype="f64"))
    assert product["roof"] == "tensor cores, f64 by mma"
    assert (product["registers"], product["blocks_per_sm"]) == (128, 2)
    assert product["shared_bytes"] == 3 * 8 * (64 * (8 + 4) + 8 * (128 + 4))
    (product,) = launches(on_gpu(multiply, (2048, 2048), (2048, 2048), target="cuda:sm_80"))
    assert product["roof"] == "cores"


def test_launches_of_one_kernel_are_told_apart() -> None:
    found = launches(on_gpu(sort, (1 << 20,)))
    assert [x["kernel"] for x in found] == [0, 0, 0, 1, 1]
    assert [x["times"] for x in found] == [1, 10, 1, 1, 1]


def test_launches_are_a_table_and_a_section_of_the_page() -> None:
    program = on_gpu(chain, (1 << 24,))
    heads = "launch +kernel +blocks +threads +shared +registers +per SM +occupancy +waves +slots"
    assert re.search(heads, program.explain())
    assert 'id="launches"' in program.explain("html")


def test_cpus_launch_nothing() -> None:
    assert launches(on_gpu(chain, (1 << 20,), target="avx2")) == []
