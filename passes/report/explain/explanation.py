"""All that is known of a plan, as text, as JSON and as a page."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping

from mlc.dialects.target import Target
from mlc.lazy_dataclass import dataclass
from mlc.passes.remarks import Remark
from mlc.passes.report.explain.graph import Graph
from mlc.passes.report.launches import LaunchReport, launches_table
from mlc.passes.report.report import Plan, as_dict, table
from mlc.passes.report.timeline import Memory

JSON_VERSION = 2  # of the names and meanings of fields; more fields may be added


@dataclass(frozen=True, kw_only=True)
class Explanation:
    """A program's plan for some sizes on a machine."""

    name: str
    target: Target
    threads: int
    sizes: Mapping[str, int]
    plan: Plan
    memory: Memory
    graph: Graph
    remarks: tuple[Remark, ...]
    launches: tuple[LaunchReport, ...] = ()  # on a GPU

    @property
    def title(self) -> str:
        """What is explained."""
        title = f"@{self.name} for {self.target.name}"
        if self.sizes:
            title += " at " + ", ".join(f"{name} = {value}" for name, value in self.sizes.items())
        return title

    def said(self, form: str) -> str:
        """As "text", "json" or "html"."""
        forms = {"text": self.text, "json": self.json, "html": self.html}
        if form not in forms:
            raise ValueError(f"format={form!r}; expected 'text', 'json' or 'html'")
        return forms[form]()

    def text(self) -> str:
        """Kernels, buffers, memory step by step, and remarks."""
        parts = [self.title, table(self.plan, self.memory)]
        if self.launches:
            parts += launches_table(self.launches)
        if self.memory.peak_bytes:
            parts += steps_text(self.memory)
        return "\n".join([*parts, *map(str, self.remarks)])

    def json(self) -> str:
        """The same for programs; docs/explain.md has its fields."""
        roofs = [dataclasses.asdict(roof) for roof in self.target.roofs(self.threads)]
        whole: dict[str, object] = {
            "version": JSON_VERSION,
            "name": self.name,
            "target": {"name": self.target.name, "threads": self.threads, "roofs": roofs},
            "sizes": dict(self.sizes),
            "plan": as_dict(self.plan),
            "memory": memory_dict(self.memory),
            "graph": dataclasses.asdict(self.graph),
            "remarks": [dataclasses.asdict(x) for x in self.remarks],
        }
        if self.launches:
            found = [{**dataclasses.asdict(x), "roof": x.roof} for x in self.launches]
            whole["launches"] = found
        return json.dumps(whole, indent=1)

    def html(self) -> str:
        """One page that needs nothing else."""
        from mlc.passes.report.explain.page import page

        return page(self)


def memory_dict(memory: Memory) -> dict[str, object]:
    """The memory of a call as what JSON can say."""
    peak = memory.peak_step
    return {
        **dataclasses.asdict(memory),
        "peak_bytes": memory.peak_bytes,
        "peak_step": None if peak is None else peak.number,
    }


def steps_text(memory: Memory) -> list[str]:
    """A line per step, and what lies where during the one that needs most."""
    lines = [f"{'step':<6}{'kernel':<8}{'live bytes':>14}  what"]
    depth: dict[int | None, int] = {None: -1}
    peak = memory.peak_step
    for step in memory.steps:
        depth[step.number] = depth[step.inside] + 1
        kernel = step.place
        what = "  " * depth[step.number] + step.what
        if step.trips is not None:
            what += f", {step.trips:,} trips"
        where = f"   ({step.source})" if step.source else ""
        mark = "   <- most" if step is peak else ""
        lines.append(f"{step.number:<6}{kernel:<8}{step.live_bytes:>14,}  {what}{where}{mark}")
    if peak is not None:
        lines += [
            f"during step {peak.number}, {held.place} holds {held.value} of {held.made_by}:"
            f" {held.bytes:,} bytes" + (f"   ({held.source})" if held.source else "")
            for held in peak.held
        ]
        if peak.scratch_bytes:
            lines.append(f"during step {peak.number}, the kernel's scratch: {peak.scratch_bytes:,}")
    return lines
