// What test_explain_page.py asks a browser that shows a page of `explain`.
const box = e => { const r = e.getBoundingClientRect();
  return [r.left + scrollX, r.top + scrollY, r.right + scrollX, r.bottom + scrollY]; };
const textOf = e => { const range = document.createRange(); range.selectNodeContents(e);
  const r = range.getBoundingClientRect(); return [r.left, r.right, r.width]; };
const drawing = document.getElementById("drawing");
const sections = () => ({
  kernels: [...drawing.querySelectorAll(".kernel")].map(g => ({
    open: g.classList.contains("open"), number: g.id.slice(3),
    box: g.classList.contains("open") ? box(g.querySelector(".inside")) : box(g.querySelector(".box")),
  })),
  arguments: [...drawing.querySelectorAll(".outside")].map(g => ({number: g.id.slice(3), box: box(g)})),
  edges: [...drawing.querySelectorAll(":scope > .edge")].map(e => {
    const [line, tip] = e.querySelectorAll("path"), points = [], m = line.getScreenCTM();
    for (let k = 0; k <= 60; k++) {
      const p = line.getPointAtLength(line.getTotalLength() * k / 60).matrixTransform(m);
      points.push([p.x + scrollX, p.y + scrollY]);
    }
    return {from: e.dataset.from, to: e.dataset.to, points, tip: box(tip),
      far: e.classList.contains("far"), again: e.classList.contains("again"),
      colour: getComputedStyle(line).stroke, faint: +getComputedStyle(e).opacity,
      seen: getComputedStyle(line).visibility === "visible", said: e.querySelector("title").textContent};
  }),
});
const found = {start: sections(), wide: document.documentElement.scrollWidth - innerWidth,
  paper: getComputedStyle(document.body).backgroundColor};
found.order = [...drawing.children].map(e => e.classList.contains("edge"));
const edge = drawing.querySelector(":scope > .edge:not(.far)");
const tip = edge.querySelector(".tip");
tip.scrollIntoView({block: "center", inline: "center"});
const r = tip.getBoundingClientRect();
found.front = document.elementFromPoint((r.left + r.right) / 2, r.top + 2)
  .closest(".edge")?.dataset.to === edge.dataset.to;
const pointed = drawing.querySelector("#box" + edge.dataset.to);
found.pointed = edge.dataset.to;
pointed.dispatchEvent(new PointerEvent("pointerenter"));
found.lit = sections().edges;
pointed.dispatchEvent(new PointerEvent("pointerleave"));
pointed.querySelector(".head").dispatchEvent(new MouseEvent("click", {bubbles: true}));
found.toggled = sections();
pointed.querySelector(".head").dispatchEvent(new MouseEvent("click", {bubbles: true}));
found.again = sections();
found.labels = [...document.querySelectorAll("#roofline svg text")].map(e => [e.textContent, ...box(e)]);
found.dots = [...document.querySelectorAll("#roofline .dot")].map(box);
document.querySelectorAll("details").forEach(e => e.open = true);
found.tables = [...document.querySelectorAll("table")].map(table => ({
  heads: [...table.tHead.rows[0].cells].map(h => textOf(h.firstChild)),
  rows: [...table.tBodies[0].rows].map(row => [...row.cells].map(c =>
    [...textOf(c), c.classList.contains("number")])),
}));
const out = document.createElement("pre");
out.id = "found";
out.textContent = JSON.stringify(found);
document.body.replaceChildren(out);
