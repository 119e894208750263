// A box on the map as a filter: drawn by the pointer, or what is in sight.

import { element } from "./elements.js";

export const boxText = (box) => box.map((each) => Number(each.toFixed(6))).join(",");

export function boxOf(text) {
  const found = (text || "").split(",").map(Number);
  return found.length === 4 && found.every(Number.isFinite) ? found : null;
}

// Return buttons that set and clear a box; `chosen` hears it as four numbers, or null.
export function boxTools(chart, box, chosen) {
  const draw = element("button", { type: "button", "aria-pressed": "false", onclick: () => (chart.box.classList.contains("drawing") ? stop() : begin()) }, "Draw a box");
  const sight = element("button", { type: "button", onclick: () => chosen(chart.corners()) }, "What is in sight");
  const clear = box && element("button", { type: "button", onclick: () => chosen(null) }, "Everywhere");
  const shape = element("div", { class: "drawn-box", hidden: true });
  chart.box.append(shape);
  let from = null;

  function begin() {
    chart.box.classList.add("drawing");
    draw.setAttribute("aria-pressed", "true");
  }

  function stop() {
    chart.box.classList.remove("drawing");
    draw.setAttribute("aria-pressed", "false");
    shape.hidden = true;
    from = null;
  }

  const at = (event) => {
    const around = chart.box.getBoundingClientRect();
    return [event.clientX - around.x, event.clientY - around.y];
  };
  // Before the map hears of it, which would move. Listeners of tools that were replaced end.
  chart.tools?.abort();
  chart.tools = new AbortController();
  const { signal } = chart.tools;
  chart.box.addEventListener("pointerdown", (event) => {
    if (!chart.box.classList.contains("drawing") || event.target.closest("button")) return;
    event.stopPropagation();
    from = at(event);
    chart.box.setPointerCapture(event.pointerId);
  }, { capture: true, signal });
  chart.box.addEventListener("pointermove", (event) => {
    if (!from) return;
    event.stopPropagation();
    const to = at(event);
    shape.hidden = false;
    Object.assign(shape.style, { left: `${Math.min(from[0], to[0])}px`, top: `${Math.min(from[1], to[1])}px`, width: `${Math.abs(to[0] - from[0])}px`, height: `${Math.abs(to[1] - from[1])}px` });
  }, { capture: true, signal });
  chart.box.addEventListener("pointerup", (event) => {
    if (!from) return;
    event.stopPropagation();
    const to = at(event);
    const first = from;
    stop();
    if (Math.abs(to[0] - first[0]) < 4 || Math.abs(to[1] - first[1]) < 4) return;
    const [west, north] = chart.fromScreen(Math.min(first[0], to[0]), Math.min(first[1], to[1]));
    const [east, south] = chart.fromScreen(Math.max(first[0], to[0]), Math.max(first[1], to[1]));
    chosen([west, south, east, north]);
  }, { capture: true, signal });
  chart.box.addEventListener("keydown", (event) => { if (event.key === "Escape") stop(); }, { signal });
  return element("div", { class: "box-tools", role: "group", "aria-label": "Filter by place" }, draw, sight, clear);
}
