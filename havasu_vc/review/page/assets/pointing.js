// The hands on the map: mouse, touch and keyboard, and which row is meant by a place on it.

import { KINDS } from "./changes.js";
import { find } from "./elements.js";
import { plain } from "./text.js";

export class Pointing {
  constructor(map) {
    this.map = map;
    this.listen();
  }

  // Return the row nearest to a pixel, or -1.
  at(x, y, reach = 9) {
    const { items, width, height, view, mode } = this.map;
    if (mode === "side") x = (x % (width / 2)) + width / 4;
    const wx = view.x + (x - width / 2) / view.scale;
    const wy = view.y + (y - height / 2) / view.scale;
    const edge = reach / view.scale;
    let [best, row] = [Infinity, -1];
    for (let i = items.count - 1; i >= 0; i--) {
      const shapes = items.shapes[items.owners[i]];
      for (const shape of items.old[i] === items.now[i] ? [items.now[i]] : [items.now[i], items.old[i]]) {
        if (shape < 0) continue;
        const { boxes } = shapes;
        if (wx < boxes[4 * shape] - edge || wx > boxes[4 * shape + 2] + edge) continue;
        if (wy < boxes[4 * shape + 1] - edge || wy > boxes[4 * shape + 3] + edge) continue;
        const away = distanceTo(shapes, shape, wx, wy) * view.scale;
        // A small shape within a large one is the one meant.
        const area = Math.sqrt((boxes[4 * shape + 2] - boxes[4 * shape]) * (boxes[4 * shape + 3] - boxes[4 * shape + 1])) * view.scale;
        if (away <= reach && away + area / 1000 < best) [best, row] = [away + area / 1000, items.rows[i]];
      }
    }
    return row;
  }

  listen() {
    const pointers = new Map();
    let travelled = 0;
    const place = (event) => {
      const box = this.map.canvas.getBoundingClientRect();
      return [event.clientX - box.left, event.clientY - box.top];
    };
    this.map.canvas.addEventListener("pointerdown", (event) => {
      this.map.canvas.setPointerCapture(event.pointerId);
      pointers.set(event.pointerId, place(event));
      if (pointers.size === 1) travelled = 0;
      this.map.box.classList.add("grabbing");
    });
    this.map.canvas.addEventListener("pointermove", (event) => {
      const now = place(event);
      if (!pointers.has(event.pointerId)) return this.hover(now);
      const before = [...pointers.values()];
      const old = pointers.get(event.pointerId);
      pointers.set(event.pointerId, now);
      travelled += Math.hypot(now[0] - old[0], now[1] - old[1]);
      if (pointers.size === 1) this.map.look(this.map.view.moved(now[0] - old[0], now[1] - old[1]));
      else if (pointers.size === 2) this.pinch(before, [...pointers.values()]);
    });
    const end = (event) => {
      if (!pointers.delete(event.pointerId)) return;
      if (!pointers.size) this.map.box.classList.remove("grabbing");
      if (event.type === "pointerup" && travelled < 5 && !pointers.size) {
        this.map.box.focus({ preventScroll: true });
        this.map.select(this.at(...place(event), event.pointerType === "touch" ? 18 : 9));
      }
    };
    for (const name of ["pointerup", "pointercancel"]) this.map.canvas.addEventListener(name, end);
    this.map.canvas.addEventListener("pointerleave", () => this.tip(-1));
    this.map.canvas.addEventListener("wheel", (event) => {
      event.preventDefault();
      const turn = event.deltaMode === 1 ? event.deltaY * 16 : event.deltaY;
      this.map.zoom(Math.exp(-turn / (event.ctrlKey ? 120 : 400)), ...place(event));
    }, { passive: false });
    this.map.canvas.addEventListener("dblclick", (event) => this.map.zoom(2, ...place(event)));
    this.map.box.addEventListener("keydown", (event) => this.key(event));
    this.listenSwipe();
  }

  pinch([a, b], [c, d]) {
    const span = (one, other) => Math.hypot(one[0] - other[0], one[1] - other[1]) || 1;
    const mean = (one, other) => [(one[0] + other[0]) / 2, (one[1] + other[1]) / 2];
    const [old, now] = [mean(a, b), mean(c, d)];
    this.map.look(this.map.view.moved(now[0] - old[0], now[1] - old[1]));
    this.map.zoom(span(c, d) / span(a, b), ...now);
  }

  hover([x, y]) {
    if (this.pending) return;
    this.pending = requestAnimationFrame(() => {
      this.pending = 0;
      this.tip(this.at(x, y), x, y);
    });
  }

  tip(row, x = 0, y = 0) {
    const tip = find("tip");
    this.map.canvas.classList.toggle("pointing", row >= 0);
    tip.hidden = row < 0;
    if (row < 0) return;
    const words = KINDS[this.map.changes.kind(row)];
    tip.textContent = `${plain(this.map.changes.label(row), 60)} \u00b7 ${words}`;
    tip.style.left = `${Math.min(x + 14, this.map.width - tip.offsetWidth - 6)}px`;
    tip.style.top = `${y + 26 > this.map.height - 30 ? y - 30 : y + 16}px`;
  }

  listenSwipe() {
    const handle = find("swipe");
    const to = (value) => {
      this.map.swipe = Math.max(0, Math.min(1, value));
      this.map.request();
    };
    handle.addEventListener("pointerdown", (event) => handle.setPointerCapture(event.pointerId));
    handle.addEventListener("pointermove", (event) => {
      if (!handle.hasPointerCapture(event.pointerId)) return;
      const box = this.map.box.getBoundingClientRect();
      to((event.clientX - box.left) / box.width);
    });
    handle.addEventListener("keydown", (event) => {
      const step = { ArrowLeft: -0.02, ArrowDown: -0.02, ArrowRight: 0.02, ArrowUp: 0.02, PageDown: -0.2, PageUp: 0.2, Home: -1, End: 1 }[event.key];
      if (step === undefined) return;
      event.preventDefault();
      event.stopPropagation();
      to(this.map.swipe + step);
    });
  }

  key(event) {
    if (event.target !== this.map.box || event.ctrlKey || event.metaKey || event.altKey) return;
    const step = event.shiftKey ? 200 : 60;
    const moves = { ArrowLeft: [step, 0], ArrowRight: [-step, 0], ArrowUp: [0, step], ArrowDown: [0, -step] };
    if (moves[event.key]) this.map.look(this.map.view.moved(...moves[event.key]));
    else if (event.key === "+" || event.key === "=") this.map.zoom(1.5);
    else if (event.key === "-" || event.key === "_") this.map.zoom(1 / 1.5);
    else if (event.key === "0" || event.key === "Home") this.map.fit();
    else if (event.key === "Enter") this.map.select(this.at(this.map.width / 2, this.map.height / 2, 60));
    else if (event.key === " " && this.map.mode === "blink") this.map.blink();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }
}

// Return how far a point is from a shape, 0 within an area, in units of the plane.
function distanceTo({ kinds, firstPath, firstVertex, x, y }, shape, px, py) {
  let [best, within] = [Infinity, false];
  for (let part = firstPath[shape]; part < firstPath[shape + 1]; part++) {
    const [start, end] = [firstVertex[part], firstVertex[part + 1]];
    if (end - start === 1) best = Math.min(best, Math.hypot(x[start] - px, y[start] - py));
    for (let i = start + 1; i < end; i++) {
      const [ax, ay, bx, by] = [x[i - 1], y[i - 1], x[i], y[i]];
      const [dx, dy] = [bx - ax, by - ay];
      const t = Math.max(0, Math.min(1, ((px - ax) * dx + (py - ay) * dy) / (dx * dx + dy * dy || 1)));
      best = Math.min(best, Math.hypot(ax + t * dx - px, ay + t * dy - py));
      if (kinds[part] === 2 && ay > py !== by > py && px < ax + ((py - ay) / (by - ay)) * dx) within = !within;
    }
  }
  return within ? 0 : best;
}
