// Two revisions of a dataset on one map, parted by a line that is swiped.

import { element, value } from "./elements.js";

const STEP = 0.05;

// Shapes of both revisions as items of a map. What is alike on both sides stands in grey:
// the rows that are not `differing`, or where that is not known the shapes that are the same.
export function bothSides(left, right, differing) {
  const shapes = (found) => new Map((found.shapes?.rows ?? []).map((paths, i) => [found.keys[i] ?? `row ${i}`, paths]));
  const [before, after] = [shapes(left), shapes(right)];
  const alike = differing ? ([key]) => !differing.has(key) : ([key, paths]) => JSON.stringify(paths) === JSON.stringify(after.get(key));
  const same = new Set([...before].filter((each) => after.has(each[0]) && alike(each)).map(([key]) => key));
  const one = (side) => ([key, paths]) => ({ key, paths, side, role: side, faint: same.has(key) });
  return [...[...before].map(one("before")), ...[...after].map(one("after"))].sort((a, b) => Number(b.faint) - Number(a.faint));
}

// The line, with a handle for the pointer and the arrow keys, and what is on either side of it.
export function swipeOf(chart, left, right) {
  const handle = element("div", { class: "swipe", role: "slider", tabindex: "0", "aria-label": `${left} on the left, ${right} on the right`, "aria-valuemin": "0", "aria-valuemax": "100" });
  const names = [element("span", { class: "pane-name left" }, value(left, 40)), element("span", { class: "pane-name right" }, value(right, 40))];
  const to = (at) => {
    chart.swipe = Math.max(0, Math.min(1, at));
    handle.style.left = `${chart.swipe * 100}%`;
    handle.setAttribute("aria-valuenow", String(Math.round(chart.swipe * 100)));
    chart.request();
  };
  handle.addEventListener("pointerdown", (event) => { event.stopPropagation(); handle.setPointerCapture(event.pointerId); });
  handle.addEventListener("pointermove", (event) => {
    if (!handle.hasPointerCapture(event.pointerId)) return;
    const around = chart.box.getBoundingClientRect();
    to((event.clientX - around.x) / around.width);
  });
  handle.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -STEP, ArrowRight: STEP, Home: -1, End: 1 }[event.key];
    if (!step) return;
    event.preventDefault();
    event.stopPropagation();
    to(chart.swipe + step);
  });
  chart.box.append(...names, handle);
  to(0.5);
  return handle;
}
