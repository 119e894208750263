// A map of shapes or boxes over the land of the world: pan, zoom, click.

import { drawGrid, scaleBar, World } from "./basemap.js";
import { element } from "./elements.js";
import { mercator, unprojected, View } from "./projection.js";

const RING = 2; // kinds of paths, as the server counts them: a point, a line, a ring
const DEEPEST = 4e7;
let world = null;
const palettes = new Map();

function palette() {
  const style = getComputedStyle(document.documentElement);
  const scheme = style.colorScheme;
  if (!palettes.has(scheme)) {
    const names = ["sea", "land", "border", "grid", "label", "plain", "casing", "focus", "after", "before", "inserted", "deleted"];
    palettes.set(scheme, Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--map-${name}`).trim()])));
  }
  return palettes.get(scheme);
}

async function land() {
  world ??= fetch("/assets/countries-110m.json").then((answer) => answer.json()).then((found) => new World(found));
  return world;
}

export class Chart {
  constructor(name) {
    this.canvas = element("canvas");
    this.scale = element("div", { class: "chart-scale", "aria-hidden": "true" });
    const button = (label, text, act) => element("button", { type: "button", "aria-label": label, onclick: act }, text);
    this.box = element("div", { class: "chart", tabindex: "0", role: "application", "aria-roledescription": "map", "aria-label": name },
      this.canvas, this.scale, element("div", { class: "zoom" }, button("Zoom in", "+", () => this.zoom(2)), button("Zoom out", "\u2212", () => this.zoom(0.5)), button("Show all", "\u2922", () => this.fit())));
    this.items = [];
    this.cells = []; // boxes that stand for many rows, by how many
    this.swipe = null; // where items of before end and those of after begin, of 0 to 1
    this.moves = null; // who hears that another part of the world is in sight
    this.view = new View();
    this.chosen = null;
    this.globe = true;
    this.grid = null;
    this.moved = false;
    land().then((found) => { this.world = found; this.request(); });
    new ResizeObserver(() => this.resize()).observe(this.box);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.request());
    new MutationObserver(() => this.request()).observe(document.documentElement, { attributeFilter: ["data-theme"] });
    this.listen();
  }

  // Items have a key and either a box, or paths: kind, x, y. `role` is their colour, `side` says
  // on which side of the swipe they are drawn, `faint` that they stand behind others.
  show(items, { globe = true, open, keep = false, cells = [] } = {}) {
    const same = globe === this.globe;
    Object.assign(this, { globe, open });
    if (!globe && !same) this.grid = null;
    this.cells = cells.map((item) => ({ ...this.placed(item), count: item.count }));
    this.most = Math.max(1, ...cells.map((each) => each.count));
    this.items = items.map((item) => this.placed(item)).filter(Boolean);
    if (!keep || !same || !this.moved) this.fit();
    this.request();
  }

  // One item more, behind none.
  add(item) {
    const made = this.placed(item);
    if (made) this.items.push(made);
  }

  project(x, y) {
    if (this.globe) return mercator(x, y);
    this.grid ??= { x, y, size: 1 };
    return [(x - this.grid.x) / this.grid.size, (this.grid.y - y) / this.grid.size];
  }

  placed(item) {
    let paths = item.paths;
    if (item.box) {
      const [west, south, east, north] = item.box;
      const end = east < west ? east + 360 : east;
      paths = [[RING, [west, end, end, west], [south, south, north, north]]];
    }
    if (!paths?.length) return null;
    const bounds = [Infinity, Infinity, -Infinity, -Infinity];
    const found = paths.map(([kind, xs, ys]) => {
      let last = null;
      const points = new Float64Array(2 * xs.length);
      xs.forEach((x, i) => {
        let [px, py] = this.project(x, ys[i]);
        if (this.globe && last !== null && !item.box) px -= Math.round(px - last);
        last = px;
        points.set([px, py], 2 * i);
        bounds[0] = Math.min(bounds[0], px);
        bounds[1] = Math.min(bounds[1], py);
        bounds[2] = Math.max(bounds[2], px);
        bounds[3] = Math.max(bounds[3], py);
      });
      return { kind, points };
    });
    return { ...item, paths: found, bounds };
  }

  // West, south, east and north of what is in sight; of own coordinates their least and greatest.
  corners() {
    const [left, top] = this.fromScreen(0, 0);
    const [right, bottom] = this.fromScreen(this.width, this.height);
    if (!this.globe) return [left, bottom, right, top];
    return (this.width / this.view.scale >= 1) ? [-180, bottom, 180, top] : [left, bottom, right, top];
  }

  fromScreen(px, py) {
    const x = (px - this.width / 2) / this.view.scale + this.view.x;
    const y = (py - this.height / 2) / this.view.scale + this.view.y;
    return this.globe ? unprojected(x, y) : [this.grid.x + x * this.grid.size, this.grid.y - y * this.grid.size];
  }

  fit(key = null) {
    if (!this.width) return;
    const shown = [...this.items, ...this.cells].filter((each) => key === null || each.key === key);
    if (!shown.length) return;
    const around = shown.reduce(([a, b, c, d], { bounds: [e, f, g, h] }) => [Math.min(a, e), Math.min(b, f), Math.max(c, g), Math.max(d, h)], [Infinity, Infinity, -Infinity, -Infinity]);
    this.view = this.view.fitted(around, this.width, this.height, key === null ? 0.78 : 0.4, this.globe ? 3e7 : DEEPEST);
    this.moved = key !== null;
    this.request();
  }

  choose(key, bring = false) {
    this.chosen = key;
    const item = this.items.find((each) => each.key === key && key !== null);
    if (item && bring) {
      const [x, y] = this.toScreen((item.bounds[0] + item.bounds[2]) / 2, (item.bounds[1] + item.bounds[3]) / 2);
      if (x < 20 || y < 20 || x > this.width - 20 || y > this.height - 20) this.view = this.view.moved(this.width / 2 - x, this.height / 2 - y);
    }
    this.request();
  }

  toScreen(x, y) {
    return [(x - this.view.x) * this.view.scale + this.width / 2, (y - this.view.y) * this.view.scale + this.height / 2];
  }

  zoom(factor, dx = 0, dy = 0) {
    this.moved = true;
    this.view = this.view.scaled(factor, dx, dy, this.globe ? [Math.max(150, this.width * 0.9), 2e9] : [1e-9, 1e12]);
    this.request();
  }

  key(key) {
    const steps = { ArrowLeft: [60, 0], ArrowRight: [-60, 0], ArrowUp: [0, 60], ArrowDown: [0, -60] };
    if (key === "f" || key === "0") this.fit();
    else if (document.activeElement !== this.box) return false;
    else if (key === "+" || key === "=") this.zoom(1.6);
    else if (key === "-") this.zoom(1 / 1.6);
    else if (steps[key]) { this.view = this.view.moved(...steps[key]); this.moved = true; this.request(); }
    else return false;
    return true;
  }

  listen() {
    let from = null;
    let far = 0;
    this.canvas.addEventListener("pointerdown", (event) => { from = [event.clientX, event.clientY]; far = 0; this.canvas.setPointerCapture(event.pointerId); });
    this.canvas.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [dx, dy] = [event.clientX - from[0], event.clientY - from[1]];
      far += Math.abs(dx) + Math.abs(dy);
      from = [event.clientX, event.clientY];
      if (far > 4) { this.view = this.view.moved(dx, dy); this.moved = true; this.request(); }
    });
    this.canvas.addEventListener("pointerup", (event) => {
      if (from && far <= 4) this.clicked(event);
      from = null;
    });
    this.box.addEventListener("wheel", (event) => {
      event.preventDefault();
      const around = this.box.getBoundingClientRect();
      this.zoom(2 ** (-event.deltaY / 240), event.clientX - around.x - this.width / 2, event.clientY - around.y - this.height / 2);
    }, { passive: false });
  }

  clicked(event) {
    const around = this.box.getBoundingClientRect();
    const [x, y] = [event.clientX - around.x, event.clientY - around.y];
    let [best, found] = [12, null];
    for (const item of this.items) {
      if (item.key === undefined || item.key === null) continue;
      const away = this.away(item, x, y);
      if (away < best) [best, found] = [away, item];
    }
    if (found) this.open?.(found.key);
  }

  // How many pixels a point is from an item; nothing inside a small one.
  away({ paths, bounds }, x, y) {
    let least = Infinity;
    const [left, top] = this.toScreen(bounds[0], bounds[1]);
    const [right, bottom] = this.toScreen(bounds[2], bounds[3]);
    const outside = Math.hypot(Math.max(left - x, 0, x - right), Math.max(top - y, 0, y - bottom));
    if (outside > 12) return Infinity;
    for (const { kind, points } of paths) {
      if (kind === RING && this.context.isPointInPath(this.pathOf([{ kind, points }]), x * this.ratio, y * this.ratio)) return 0;
      for (let i = 0; i < points.length; i += 2) {
        const [px, py] = this.toScreen(points[i], points[i + 1]);
        const j = kind !== 0 && i + 2 < points.length ? i + 2 : i;
        const [qx, qy] = this.toScreen(points[j], points[j + 1]);
        const length = (qx - px) ** 2 + (qy - py) ** 2;
        const part = length ? Math.max(0, Math.min(1, ((x - px) * (qx - px) + (y - py) * (qy - py)) / length)) : 0;
        least = Math.min(least, Math.hypot(px + part * (qx - px) - x, py + part * (qy - py) - y));
      }
    }
    return least;
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (!width || !height) return;
    const first = !this.width;
    this.ratio = Math.min(devicePixelRatio || 1, 2);
    Object.assign(this, { width, height });
    this.canvas.width = width * this.ratio;
    this.canvas.height = height * this.ratio;
    this.context = this.canvas.getContext("2d");
    if (first || !this.moved) this.fit();
    this.request();
  }

  request() {
    if (this.asked) return;
    this.asked = true;
    requestAnimationFrame(() => { this.asked = false; this.draw(); });
    clearTimeout(this.settling);
    if (this.moves) this.settling = setTimeout(() => this.moves(), 180);
  }

  pathOf(paths) {
    const path = new Path2D();
    for (const { kind, points } of paths) {
      if (kind === 0) continue;
      for (let i = 0; i < points.length; i += 2) {
        const [x, y] = this.toScreen(points[i], points[i + 1]);
        if (i) path.lineTo(x, y);
        else path.moveTo(x, y);
      }
      if (kind === RING) path.closePath();
    }
    return path;
  }

  draw() {
    if (!this.width) return;
    const { context, view, width, height, ratio } = this;
    const colours = palette();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.plain;
    context.fillRect(0, 0, width, height);
    if (this.globe) this.world?.draw(context, view, width, height, colours, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawGrid(context, view, width, height, colours, this.globe ? null : this.grid);
    this.labels = [];
    if (this.swipe === null) this.drawSide(null, colours);
    else {
      const at = Math.round(width * this.swipe);
      for (const [side, from, to] of [["before", 0, at], ["after", at, width]]) {
        context.save();
        context.beginPath();
        context.rect(from, 0, to - from, height);
        context.clip();
        this.drawSide(side, colours);
        context.restore();
      }
    }
    const [length, text] = scaleBar(view, this.globe ? null : this.grid ?? { size: 1 });
    this.scale.style.width = `${Math.round(length)}px`;
    this.scale.textContent = text;
    this.box.dataset.drawn = String(this.items.length);
    this.box.dataset.pictures = String(this.items.filter((each) => each.image).length);
  }

  drawSide(side, colours) {
    const here = (each) => !side || !each.side || each.side === side;
    for (const cell of this.cells.filter(here)) {
      this.context.fillStyle = colours[cell.role ?? "after"];
      this.context.globalAlpha = 0.15 + 0.7 * (Math.log1p(cell.count) / Math.log1p(this.most));
      this.context.fill(this.pathOf(cell.paths));
      this.context.globalAlpha = 1;
    }
    const items = this.items.filter(here);
    for (const item of items) if (item.key !== this.chosen || this.chosen === null) this.drawItem(item, item.faint ? colours.label : colours[item.role ?? "after"], colours);
    for (const item of items) if (item.key === this.chosen && this.chosen !== null) this.drawItem(item, item.role && item.role !== "after" ? colours[item.role] : colours.focus, colours, true);
    for (const item of items) if (item.name) this.label(item, colours); // over all boxes
  }

  drawItem(item, colour, colours, strong = false) {
    const { context } = this;
    context.setLineDash(item.dashed ? [5, 4] : []);
    if (item.faint) context.globalAlpha = 0.45;
    const path = this.pathOf(item.paths);
    if (item.image) this.picture(item);
    const rings = !item.image && item.paths.some(({ kind }) => kind === RING);
    if (rings) {
      context.fillStyle = colour;
      context.globalAlpha = item.faint || item.hollow ? 0.03 : strong ? 0.3 : 0.12;
      context.fill(path, "evenodd");
      context.globalAlpha = item.faint ? 0.45 : 1;
    }
    context.lineJoin = "round";
    if (strong) {
      context.strokeStyle = colours.casing;
      context.lineWidth = 6;
      context.stroke(path);
    }
    context.strokeStyle = colour;
    context.lineWidth = strong ? 2.5 : 1.3;
    context.stroke(path);
    for (const { kind, points } of item.paths) {
      if (kind !== 0) continue;
      for (let i = 0; i < points.length; i += 2) this.dot(points[i], points[i + 1], colour, colours, strong);
    }
    context.globalAlpha = 1;
    context.setLineDash([]);
  }

  // An image over what an item covers, with its own cells where they are large enough to be seen.
  picture({ image, bounds }) {
    const [left, top] = this.toScreen(bounds[0], bounds[1]);
    const [right, bottom] = this.toScreen(bounds[2], bounds[3]);
    this.context.globalAlpha = 1;
    this.context.imageSmoothingEnabled = right - left < 2 * image.width;
    this.context.drawImage(image, left, top, right - left, bottom - top);
  }

  dot(x, y, colour, colours, strong) {
    const { context } = this;
    const [px, py] = this.toScreen(x, y);
    if (px < -9 || py < -9 || px > this.width + 9 || py > this.height + 9) return;
    context.beginPath();
    context.arc(px, py, strong ? 7 : 4, 0, 2 * Math.PI);
    context.fillStyle = colour;
    context.fill();
    context.strokeStyle = colours.casing;
    context.lineWidth = 1.5;
    context.stroke();
  }

  // The name of a box, at its corner that is in sight; none where there is no room left.
  label({ name, bounds }, colours) {
    const { context } = this;
    const [left, top] = this.toScreen(bounds[0], bounds[1]);
    const [right, bottom] = this.toScreen(bounds[2], bounds[3]);
    if (right < 0 || bottom < 0 || left > this.width || top > this.height) return;
    const shown = name.length > 30 ? `${name.slice(0, 29)}\u2026` : name;
    context.font = "600 12px system-ui, sans-serif";
    const width = context.measureText(shown).width + 10;
    const x = Math.max(4, Math.min(left + 3, this.width - width - 50));
    // Below what is written there already, and clear of the grid's own words and the scale.
    let at = Math.max(20, top + 3);
    while (this.labels.some((each) => Math.abs(each.at - at) < 19 && x < each.x + each.width && each.x < x + width)) at += 19;
    if (at > this.height - 46) return;
    this.labels.push({ x, at, width });
    context.globalAlpha = 0.88;
    context.fillStyle = colours.plain;
    context.beginPath();
    context.roundRect(x, at, width, 18, 4);
    context.fill();
    context.globalAlpha = 1;
    context.textAlign = "left";
    context.textBaseline = "middle";
    context.fillStyle = colours.focus;
    context.fillText(shown, x + 5, at + 9.5);
    context.textBaseline = "alphabetic";
  }
}
