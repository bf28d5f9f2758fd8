"""The page of `explain` in a browser: where things stand, and what pointing and clicking do."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from html import unescape
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import mlc

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "chrome")
FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"),
    "--virtual-time-budget=3000",
)
LIMIT_S = 120.0
Spec = mlc.TensorSpec

PROBE = Path(__file__).parent / "explain_page.js"


def _browser() -> str:
    for name in BROWSERS:
        if path := shutil.which(name):
            return path
    pytest.skip(f"needs a browser: none of {', '.join(BROWSERS)} is installed")


def _softmax(x: Any) -> Any:
    e = np.exp(x - x.max(axis=1, keepdims=True))
    return e / e.sum(axis=1, keepdims=True)


def _loss(p: dict[str, Any], x: Any, y: Any) -> Any:
    return ((np.tanh(x @ p["w"] + p["b"]) @ p["v"] - y) ** 2).mean()


def _step(p: dict[str, Any], x: Any, y: Any) -> Any:
    value, slope = mlc.value_and_grad(_loss)(p, x, y)
    return value, {name: p[name] - 0.1 * slope[name] for name in p}


def _blocks(weights: list[Any], x: Any) -> Any:
    for w in weights:
        x = x + _softmax(x @ w @ x.T) @ x
    return (x**2).mean()


def _one(x: Any) -> Any:
    return np.maximum(x * 2.0, 0.5)


STEP = ({"w": Spec(784, 128), "b": Spec(128), "v": Spec(128, 10)}, Spec(64, 784), Spec(64, 10))
BLOCKS = ([Spec(32, 32)] * 2, Spec(64, 32))
PROGRAMS: dict[str, tuple[Any, tuple[Any, ...], dict[str, Any]]] = {
    "one kernel": (_one, (Spec("B", 8),), {"target": "neon"}),
    "a training step": (_step, STEP, {"target": "avx2"}),
    "a training step on a GPU": (_step, STEP, {"target": "h200"}),
    "a deep gradient": (mlc.grad(_blocks), BLOCKS, {"target": "avx512", "fusion": "none"}),
}


def _seen(page: str, folder: Path, *flags: str) -> dict[str, Any]:
    """What the probe finds on a page."""
    path, probe = folder / "page.html", PROBE.read_text(encoding="utf-8")
    path.write_text(page.replace("</body>", f"<script>{probe}</script></body>"), encoding="utf-8")
    profile = f"--user-data-dir={folder / 'profile'}"
    done = subprocess.run(
        [_browser(), *FLAGS, profile, *flags, "--dump-dom", path.as_uri()],
        capture_output=True, text=True, timeout=LIMIT_S, check=False,
    )  # fmt: skip
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None, done.stderr[-2000:] + done.stdout[-2000:]
    return json.loads(unescape(found[1]))


def _meet(a: list[float], b: list[float], by: float = 0.5) -> bool:
    return a[0] + by < b[2] and b[0] + by < a[2] and a[1] + by < b[3] and b[1] + by < a[3]


def _check_graph(graph: dict[str, Any]) -> None:
    """Arrows lead from box to box, from above, and past the others; boxes stand apart."""
    boxes = {g["number"]: g["box"] for g in graph["kernels"] + graph["arguments"]}
    listed = list(boxes.items())
    for k, (_, a) in enumerate(listed):
        assert not any(_meet(a, b) for _, b in listed[:k])
    for edge in graph["edges"]:
        start, end = boxes[edge["from"]], boxes[edge["to"]]
        assert start[0] < edge["points"][0][0] < start[2]
        assert abs(edge["points"][0][1] - start[3]) < 2
        assert end[0] < (edge["tip"][0] + edge["tip"][2]) / 2 < end[2]
        assert abs(edge["tip"][3] - end[1]) < 2
        assert edge["tip"][2] - edge["tip"][0] > 5, "an arrowhead"
        assert edge["tip"][3] - edge["tip"][1] > 5
        assert " → " in edge["said"]
        if edge["far"] or edge["again"]:
            continue
        for number, (left, top, right, bottom) in listed:
            if number not in (edge["from"], edge["to"]):
                crossed = [
                    p for p in edge["points"]
                    if left + 1 < p[0] < right - 1 and top + 1 < p[1] < bottom - 1
                ]  # fmt: skip
                assert not crossed, f"{edge['said']} crosses {number}"


def _check_roofline(found: dict[str, Any]) -> None:
    """No two words lie over one another, and no word over a dot."""
    labels = found["labels"]
    for k, (said, *a) in enumerate(labels):
        for other, *b in labels[:k]:
            assert not _meet(a, b), f"{said} over {other}"
        assert not any(_meet(a, dot, by=1.5) for dot in found["dots"]), said


def _check_tables(tables: list[dict[str, Any]]) -> None:
    """Numbers end where their heads do, words begin there."""
    assert len(tables) >= 2
    for table in tables:
        for row in table["rows"]:
            for head, (left, right, width, is_number) in zip(table["heads"], row, strict=True):
                if width and is_number:
                    assert abs(right - head[1]) < 1.5
                elif width:
                    assert abs(left - head[0]) < 12, "a chip has padding"


@pytest.mark.parametrize("name", PROGRAMS)
def test_page_in_a_browser(name: str, tmp_path: Path) -> None:
    _browser()
    function, specs, options = PROGRAMS[name]
    lowered = mlc.compile(**options)(function).lower(*specs)
    page = lowered.levels.explain({}).html()
    is_dark = name.endswith("GPU")
    flags = ["--window-size=1280,900"]
    if is_dark:
        flags = ["--window-size=500,800", "--blink-settings=preferredColorScheme=0"]
    found = _seen(page, tmp_path, *flags)
    assert found["wide"] <= 0, "what is wide scrolls in its frame"
    assert found["paper"] == ("rgb(13, 17, 23)" if is_dark else "rgb(255, 255, 255)")
    start = found["start"]
    large = len(start["kernels"]) > 12
    assert large == (name == "a deep gradient")
    assert all(g["open"] != large for g in start["kernels"])
    assert any(edge["far"] for edge in start["edges"]) == large
    assert found["order"] == sorted(found["order"]), "edges are in front"
    assert found["front"]
    for graph in (start, found["toggled"], found["again"]):
        _check_graph(graph)
    changed = [
        g["number"]
        for g, h in zip(start["kernels"], found["toggled"]["kernels"], strict=True)
        if g["open"] != h["open"]
    ]
    assert changed == [found["pointed"]]
    assert [g["open"] for g in found["again"]["kernels"]] == [g["open"] for g in start["kernels"]]
    for before, edge in zip(start["edges"], found["lit"], strict=True):
        mine = found["pointed"] in (edge["from"], edge["to"])
        assert (edge["colour"] != before["colour"]) == mine
        assert (edge["faint"] == 1.0) == mine
        assert edge["seen"] == (mine or not edge["far"])
        assert before["seen"] != before["far"]
    _check_roofline(found)
    _check_tables(found["tables"])
