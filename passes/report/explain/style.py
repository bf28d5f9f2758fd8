"""
The page's style and script. Colours follow the reader's light or dark preference. Neither has a
`<` or an `&`, so that the page is XML too.
"""

from mlc.passes.report.explain.layout import GAP_X, GAP_Y, STUB, TIP
from mlc.passes.report.explain.memory_view import HUES

TEMPLATE_HUES = {
    "cell": 210, "row": 150, "rows": 150, "magg": 100, "outer": 60, "contraction": 25, "scan": 290,
    "gather": 185, "window": 330, "sort": 255, "copy": 0, "library": 45,
}  # fmt: skip

_TEMPLATES = "\n".join(
    f".t-{name} {{ --hue: {hue}; --sat: {10 if name == 'copy' else 65}%; }}"
    for name, hue in TEMPLATE_HUES.items()
)
_LINES = "\n".join(f".h{k} {{ --hue: {(k * 137 + 200) % 360}; --sat: 55%; }}" for k in range(HUES))

STYLE = f"""
:root {{ color-scheme: light dark; --ink: #1b1f24; --paper: #ffffff; --faint: #d8dee4;
  --soft: #59636e; --frame: #f6f8fa; --fill: 80%; --edge: 35%; --hot: #b35900; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e6edf3; --paper: #0d1117; --faint: #30363d; --soft: #9198a1;
    --frame: #151b23; --fill: 28%; --edge: 65%; --hot: #ffa657; }} }}
body {{ margin: 0; background: var(--paper); color: var(--ink);
  font: 14px/1.45 system-ui, sans-serif; }}
main {{ max-width: 1280px; margin: 0 auto; padding: 12px 20px 60px; }}
h1 {{ font-size: 20px; }} h2 {{ font-size: 16px; margin: 28px 0 4px; }}
.hint, caption {{ color: var(--soft); text-align: left; margin: 4px 0; }}
dl {{ display: flex; flex-wrap: wrap; gap: 8px 28px; margin: 0; }}
dt {{ color: var(--soft); font-size: 12px; }} dd {{ margin: 0; font-weight: 600; }}
.frame {{ overflow: auto; max-height: 80vh; background: var(--frame);
  border: 1px solid var(--faint); border-radius: 6px; margin: 6px 0; }}
table {{ border-collapse: collapse; font-size: 12.5px; width: 100%; }}
caption {{ padding: 6px 8px; }}
th, td {{ padding: 3px 8px; border-top: 1px solid var(--faint); text-align: left;
  vertical-align: top; }}
th.number {{ text-align: right; }}
td.number {{ text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }}
th button {{ all: unset; cursor: pointer; font-weight: 600; }}
th button:focus-visible, g.head:focus-visible {{ outline: 2px solid var(--hot); }}
th[aria-sort=ascending] button::after {{ content: " ▲"; }}
th[aria-sort=descending] button::after {{ content: " ▼"; }}
code, svg text {{ font-family: ui-monospace, monospace; font-size: 11px; }}
a {{ color: inherit; }}
svg {{ display: block; margin: 0 auto; }} svg text {{ fill: var(--ink); }}
{_TEMPLATES}
{_LINES}
.chip, .box, .dot, .value {{ --back: hsl(var(--hue) var(--sat) var(--fill));
  --rim: hsl(var(--hue) var(--sat) var(--edge)); }}
.chip {{ background: var(--back); border: 1px solid var(--rim); border-radius: 9px;
  padding: 0 7px; font-size: 12px; }}
.box, .dot, .value {{ fill: var(--back); stroke: var(--rim); }}
.name {{ font-weight: 700; }}
.head {{ cursor: pointer; }}
.kernel:not(.open) .ops {{ display: none; }}
.inside {{ fill: none; stroke: var(--faint); }}
.op {{ fill: var(--paper); stroke: var(--faint); }}
.argument {{ fill: var(--paper); stroke: var(--soft); stroke-dasharray: 3 2; }}
.edge path, .inner {{ fill: none; stroke: var(--soft); stroke-opacity: .7; }}
.inner {{ pointer-events: none; }}
.edge .tip, .inner.tip {{ fill: var(--soft); stroke: none; }}
.again path {{ stroke-dasharray: 5 3; }}
.far path:first-of-type {{ visibility: hidden; }}
.far.lit path:first-of-type, .far:hover path:first-of-type {{ visibility: visible; }}
.far .stub {{ stroke-dasharray: 2 2; }}
.pointing .edge {{ opacity: .15; }}
.pointing .edge.lit, .edge:hover {{ opacity: 1; }}
.edge.lit path, .edge:hover path {{ stroke: var(--hot); stroke-opacity: 1; stroke-width: 2; }}
.edge.lit .tip, .edge:hover .tip {{ fill: var(--hot); }}
.grid {{ stroke: var(--faint); }}
.roof {{ stroke: var(--soft); stroke-width: 1.5; }}
svg .tick {{ fill: var(--soft); font-size: 10.5px; }}
svg .label {{ paint-order: stroke; stroke: var(--frame); stroke-width: 3px; }}
.middle {{ text-anchor: middle; }} .end {{ text-anchor: end; }}
.scratch {{ fill: var(--faint); stroke: var(--soft); stroke-dasharray: 2 2; }}
.live {{ fill: none; stroke: var(--ink); stroke-width: 1.5; }}
.peak {{ stroke: var(--hot); stroke-dasharray: 4 3; }}
.loop {{ fill: var(--soft); }}
@media print {{ .frame {{ max-height: none; }} }}
"""

_GAPS = f"const GAP_X = {GAP_X}, GAP_Y = {GAP_Y}, TIP = {TIP}, STUB = {STUB};"

_SCRIPT = """
for (const table of document.querySelectorAll("table.sortable")) {
  const heads = [...table.tHead.rows[0].cells], body = table.tBodies[0];
  heads.forEach((head, column) => head.firstChild.addEventListener("click", () => {
    const up = head.getAttribute("aria-sort") !== "ascending";
    heads.forEach(other => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", up ? "ascending" : "descending");
    const key = row => row.cells[column].dataset.key;
    const isNumber = [...body.rows].every(row => key(row) !== "" ? !isNaN(key(row)) : false);
    const compare = isNumber ? (a, b) => key(a) - key(b) : (a, b) => key(a).localeCompare(key(b));
    body.append(...[...body.rows].sort((a, b) => up ? compare(a, b) : compare(b, a)));
  }));
}
const graph = document.getElementById("drawing");
if (graph) {
  const number = g => g.id.replace(/[a-z]+/, "");
  const boxes = new Map([...graph.querySelectorAll(":scope > g[id]")].map(g => [number(g), g]));
  const edges = [...graph.querySelectorAll(":scope > .edge")];
  const sizeOf = g => {
    const open = g.classList.contains("open") ? "1" : "0";
    return {width: +g.dataset["w" + open], height: +g.dataset["h" + open]};
  };
  const place = () => {
    const rows = [];
    for (const g of boxes.values()) (rows[+g.dataset.row] ||= []).push(g);
    const widths = rows.map(row => row.reduce((sum, g) => sum + sizeOf(g).width + GAP_X, GAP_X));
    const total = Math.max(...widths), at = new Map();
    let y = GAP_Y;
    rows.forEach((row, k) => {
      let x = (total - widths[k]) / 2 + GAP_X, tallest = 0;
      for (const g of row) {
        const {width, height} = sizeOf(g);
        g.setAttribute("transform", `translate(${x} ${y})`);
        at.set(number(g), {x: x + width / 2, top: y, end: y + height});
        x += width + GAP_X;
        tallest = Math.max(tallest, height);
      }
      for (const g of row) at.get(number(g)).bottom = y + tallest;
      y += tallest + GAP_Y;
    });
    graph.setAttribute("width", total);
    graph.setAttribute("height", y);
    for (const edge of edges) {
      const {from, to, by} = edge.dataset, [line, tip, stub] = edge.querySelectorAll("path");
      let a = at.get(from), d = `M${a.x} ${a.end}V${a.bottom}`;
      for (const stop of [...(by ? by.split(" ") : []), to]) {
        const b = at.get(stop), bend = Math.max(8, Math.abs(b.top - a.bottom) / 2);
        d += `C${a.x} ${a.bottom + bend} ${b.x} ${b.top - bend} ${b.x} ${b.top}`;
        if (stop !== to) d += `V${b.bottom}`;
        a = b;
      }
      line.setAttribute("d", d);
      tip.setAttribute("d", `M${a.x - TIP / 2} ${a.top - TIP}h${TIP}L${a.x} ${a.top}Z`);
      const start = at.get(from);
      if (stub) stub.setAttribute("d",
        `M${start.x} ${start.end}v${STUB}M${a.x} ${a.top - TIP - STUB}v${STUB}`);
    }
  };
  const mine = new Map([...boxes.keys()].map(k => [k, []]));
  for (const edge of edges) for (const k of [edge.dataset.from, edge.dataset.to])
    mine.get(k).push(edge);
  for (const [k, g] of boxes) {
    const head = g.querySelector(".head"), point = on => {
      graph.classList.toggle("pointing", on);
      mine.get(k).forEach(edge => edge.classList.toggle("lit", on));
    };
    g.addEventListener("pointerenter", () => point(true));
    g.addEventListener("pointerleave", () => point(false));
    if (!head) continue;
    head.addEventListener("focus", () => point(true));
    head.addEventListener("blur", () => point(false));
    const say = () => head.setAttribute("aria-expanded", g.classList.contains("open"));
    const toggle = () => { g.classList.toggle("open"); say(); place(); };
    say();
    head.addEventListener("click", toggle);
    head.addEventListener("keydown", event => {
      if (event.key === "Enter" || event.key === " ") { event.preventDefault(); toggle(); }
    });
  }
}
"""

SCRIPT = f'\n"use strict";\n{_GAPS}{_SCRIPT}'
