// The map: changes before and after, to pan and zoom by mouse, touch and keyboard. It shows
// the rows it is given, in one space at a time: the globe, or a dataset's own coordinates.

import { drawGrid, scaleBar } from "./basemap.js";
import { drawAround, drawShape, drawShapes, extent, mark, middle, rolesOf, strayVertices } from "./drawing.js";
import { find } from "./elements.js";
import { Layer } from "./layers.js";
import { Pointing } from "./pointing.js";
import { View } from "./projection.js";
import { Tiles } from "./tiles.js";
import { plain } from "./text.js";

export const MODES = ["both", "before", "after", "swipe", "blink", "side"];
const METRE = 1 / 40075016.686;
const BUDGET = 7;
const STILL = matchMedia("(prefers-reduced-motion: reduce)");

export class ChangeMap {
  constructor(changes, world, colours, { select, tiles }) {
    Object.assign(this, { changes, world, colours, select });
    this.box = find("map");
    this.canvas = find("canvas");
    this.small = find("locator");
    this.context = this.canvas.getContext("2d");
    this.mode = "both";
    this.swipe = 0.5;
    this.blinkAfter = true;
    this.space = null;
    this.rows = new Uint32Array(0);
    this.items = { count: 0 };
    this.selected = -1;
    this.view = new View();
    this.size = 0;
    this.moved = 0;
    const shapes = (side) => (context, frame) => drawShapes(context, this.items, side, frame);
    this.layers = { both: new Layer(shapes("both")), before: new Layer(shapes("before")), after: new Layer(shapes("after")) };
    this.tiles = new Tiles(tiles, () => this.request());
    this.around = new Layer((context, frame) => drawAround(context, this.unchanged(), frame));
    this.land = new Layer(function* (context, { view, width, height, colours, ratio }) {
      world.draw(context, view, width, height, colours, ratio);
    });
    this.pointing = new Pointing(this);
    new ResizeObserver(() => this.resize()).observe(this.box);
    this.resize();
  }

  // Show these rows; `dataset` is the one that the reader chose, or null.
  show(rows, dataset) {
    this.rows = rows;
    const present = this.changes.datasets.filter((each) => each.place !== "none" && each.count);
    const chosen = present.find((each) => each.number === dataset) || present.find((each) => each.place === "globe") || present[0];
    this.enter(chosen && (chosen.place === "globe" ? "globe" : chosen));
  }

  // Take the rows that lie in a space; a new space is fitted.
  enter(space) {
    const other = space !== this.space;
    this.space = space;
    this.items = this.gather();
    for (const layer of [this.around, ...Object.values(this.layers)]) layer.invalidate();
    if (other) this.fit();
    this.note();
    this.request();
  }

  gather() {
    const { changes, rows } = this;
    const items = {
      shapes: [], rows: new Uint32Array(rows.length), owners: new Uint16Array(rows.length),
      old: new Int32Array(rows.length), now: new Int32Array(rows.length), kinds: new Uint8Array(rows.length), count: 0,
    };
    let dataset = null;
    for (const row of rows) {
      if (!dataset || row < dataset.first || row >= dataset.first + dataset.count) dataset = changes.datasetOf(row);
      if (!this.holds(dataset)) continue;
      const shapes = (items.shapes[dataset.number] = dataset.shapes);
      const at = row - dataset.first;
      if (shapes.old[at] < 0 && shapes.now[at] < 0) continue;
      const i = items.count++;
      items.rows[i] = row;
      items.owners[i] = dataset.number;
      items.old[i] = shapes.old[at];
      items.now[i] = shapes.now[at];
      items.kinds[i] = dataset.kinds[at];
    }
    return items;
  }

  holds(dataset) {
    return this.space === "globe" ? dataset.place === "globe" : dataset === this.space;
  }

  // Unchanged rows beside the changes, of the datasets that are in sight.
  unchanged() {
    const owners = new Set(this.items.rows.subarray(0, this.items.count).length ? this.items.owners.subarray(0, this.items.count) : []);
    return this.changes.datasets.filter((each) => owners.has(each.number) && each.around).map((each) => each.around);
  }

  get grid() {
    return this.space && this.space !== "globe" ? this.space.shapes.grid : null;
  }

  note() {
    const { changes } = this;
    const parts = [];
    const own = this.space && this.space !== "globe" ? this.space : null;
    if (!this.space) parts.push("These rows have no geometries.");
    if (own) parts.push(`The coordinate reference system of ${plain(own.path)} is not known: its own coordinates are shown, without the world behind them.`);
    const elsewhere = changes.datasets.filter((each) => each.place === "own" && each.count && each !== own);
    if (elsewhere.length) parts.push(`Choose ${elsewhere.map((each) => plain(each.path)).join(" or ")} to see it in its own coordinates.`);
    const simplified = changes.datasets.filter((each) => this.space && this.holds(each)).reduce((sum, each) => sum + each.simplified, 0);
    const beside = changes.datasets.filter((each) => this.space === "globe" && each.around).reduce((sum, each) => [sum[0] + each.around.count, sum[1] + each.around.total], [0, 0]);
    if (beside[0] < beside[1]) parts.push(`${beside[0].toLocaleString("en-US")} of ${beside[1].toLocaleString("en-US")} unchanged rows nearby are shown.`);
    if (simplified) parts.push(`${simplified.toLocaleString("en-US")} large shapes are drawn simplified.`);
    find("map-note").textContent = parts.join(" ");
    this.box.classList.toggle("empty", !this.space);
    this.small.hidden = this.space !== "globe";
  }

  resize() {
    const { clientWidth: width, clientHeight: height } = this.box;
    if (!width || !height) return;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    if (width === this.width && height === this.height && ratio === this.ratio) return;
    const first = !this.width;
    Object.assign(this, { width, height, ratio });
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    this.size++;
    if (first) this.fit();
    this.request(true);
  }

  recolour() {
    for (const layer of [this.land, this.around, ...Object.values(this.layers)]) layer.invalidate();
    this.request();
  }

  get limits() {
    return this.space === "globe" ? [Math.max(180, this.width * 0.9), 20 / METRE] : [this.width * 0.2, this.width * 1e7];
  }

  // Bring rows into view: all that are shown, or the one given.
  fit(row = -1) {
    if (!this.width) return;
    const { items } = this;
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = 0; i < items.count; i++) {
      if (row >= 0 && items.rows[i] !== row) continue;
      const { boxes } = items.shapes[items.owners[i]];
      for (const shape of [items.old[i], items.now[i]]) {
        if (shape < 0) continue;
        left = Math.min(left, boxes[4 * shape]);
        top = Math.min(top, boxes[4 * shape + 1]);
        right = Math.max(right, boxes[4 * shape + 2]);
        bottom = Math.max(bottom, boxes[4 * shape + 3]);
      }
    }
    if (left > right) {
      if (row < 0) this.look(new View(0.5, 0.45, Math.max(this.limits[0], Math.min(this.width, this.height))));
      return;
    }
    const deepest = this.space === "globe" ? 0.5 / METRE : this.width * 20;
    const width = this.mode === "side" ? this.width / 2 : this.width;
    const view = new View().fitted([left, top, right, bottom], width, this.height, 0.8, deepest);
    view.scale = Math.max(view.scale, this.limits[0]);
    this.look(view);
  }

  look(view) {
    // Data lies in the turns from 0 to 2; there is nothing to see beyond.
    if (this.space === "globe") {
      view.x = Math.max(-0.5, Math.min(2.5, view.x));
      view.y = Math.max(0, Math.min(1, view.y));
    }
    this.view = view;
    this.moved = performance.now();
    this.request();
  }

  zoom(factor, x = this.width / 2, y = this.height / 2) {
    if (this.mode === "side") x = (x % (this.width / 2)) + this.width / 4;
    this.look(this.view.scaled(factor, x - this.width / 2, y - this.height / 2, this.limits));
  }

  setMode(mode) {
    this.mode = mode;
    clearInterval(this.blinking);
    this.blinkAfter = true;
    if (mode === "blink" && !STILL.matches) this.blinking = setInterval(() => this.blink(), 800);
    this.request();
  }

  blink() {
    this.blinkAfter = !this.blinkAfter;
    this.request();
  }

  // Select a row and, where it is out of sight, go there.
  choose(row, { go = true } = {}) {
    this.selected = row;
    if (row >= 0) {
      const dataset = this.changes.datasetOf(row);
      if (dataset.place !== "none" && !this.holds(dataset)) this.enter(dataset.place === "globe" ? "globe" : dataset);
      if (go && !this.inSight(row)) this.fit(row);
    }
    this.request();
  }

  shapesOf(row) {
    const dataset = this.changes.datasetOf(row);
    if (!this.space || !this.holds(dataset)) return null;
    const { shapes } = dataset;
    const at = row - dataset.first;
    return { shapes, old: shapes.old[at], now: shapes.now[at], kind: dataset.kinds[at] };
  }

  inSight(row) {
    const found = this.shapesOf(row);
    if (!found) return true;
    return [found.old, found.now].every((shape) => {
      if (shape < 0) return true;
      const [x, y] = middle(found.shapes.boxes, shape, this.view, this.width, this.height);
      return x > 20 && y > 20 && x < this.width - 20 && y < this.height - 20;
    });
  }

  // Drawing

  request(now = false) {
    if (now) this.frame();
    else if (!this.waiting) {
      this.waiting = true;
      requestAnimationFrame(() => {
        this.waiting = false;
        this.frame();
      });
    }
  }

  get wanted() {
    const { mode } = this;
    const shapes = mode === "swipe" || mode === "side" || mode === "blink" ? ["before", "after"] : [mode];
    return [...(this.space === "globe" ? [this.land, this.around] : []), ...shapes.map((side) => this.layers[side])];
  }

  frame() {
    if (!this.width) return;
    const colours = this.colours();
    const until = performance.now() + BUDGET;
    const settled = performance.now() - this.moved > 90;
    let busy = false;
    for (const layer of this.wanted) {
      const current = layer.isOf(this.view, this.size);
      const due = settled || layer.stale || !layer.covers(this.view, this.width, this.height);
      if (!current && due && (settled || !layer.next)) layer.begin(this.view, this.width, this.height, this.size, { colours, ratio: this.ratio });
      if (!layer.work(until)) busy = true;
      if (!layer.isOf(this.view, this.size)) busy = true;
    }
    this.compose(colours);
    this.box.dataset.busy = busy;
    if (busy) this.request();
  }

  compose(colours) {
    const { context, width, height, ratio, mode } = this;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.globalAlpha = 1;
    context.fillStyle = colours.plain;
    context.fillRect(0, 0, width, height);
    if (!this.space) return;
    if (mode === "side") {
      this.pane("before", [0, width / 2], -width / 4, colours);
      this.pane("after", [width / 2, width], width / 4, colours);
    } else if (mode === "swipe") {
      const at = Math.round(width * this.swipe);
      this.pane("before", [0, at], 0, colours);
      this.pane("after", [at, width], 0, colours);
    } else {
      const side = mode === "blink" ? (this.blinkAfter ? "after" : "before") : mode;
      this.pane(side, [0, width], 0, colours);
    }
    this.decorate(colours);
  }

  pane(side, [left, right], shift, colours) {
    const { context, width, height, ratio } = this;
    const view = this.view.moved(shift, 0);
    context.save();
    context.beginPath();
    context.rect(left, 0, right - left, height);
    context.clip();
    if (this.space === "globe") {
      this.land.paint(context, view, width, height);
      this.tiles.paint(context, view, width, height);
    }
    drawGrid(context, view, width, height, colours, this.grid);
    if (this.space === "globe") this.around.paint(context, view, width, height);
    this.layers[side].paint(context, view, width, height);
    this.drawSelected(side, view, colours);
    context.restore();
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
  }

  drawSelected(side, view, colours) {
    const found = this.selected >= 0 && this.shapesOf(this.selected);
    if (!found) return;
    const { context, width, height, ratio } = this;
    const { shapes, old, now } = found;
    const roles = rolesOf(found.kind);
    const frame = { view, width, height, colours, ratio, bold: 3 };
    const drawn = [];
    if (now >= 0 && side !== "before") drawn.push([now, roles[1], old]);
    if (old >= 0 && side !== "after" && !(old === now && side === "both")) drawn.push([old, roles[0], now]);
    for (const [shape] of drawn) {
      const [x, y] = middle(shapes.boxes, shape, view, width, height);
      const size = extent(shapes.boxes, shape) * view.scale;
      if (size > 24) continue;
      context.beginPath();
      context.arc(x, y, size / 2 + 12, 0, 2 * Math.PI);
      context.strokeStyle = colours.casing;
      context.lineWidth = 5;
      context.stroke();
      context.strokeStyle = colours.focus;
      context.lineWidth = 2.5;
      context.stroke();
    }
    for (const [shape, role] of drawn) {
      const [x, y] = middle(shapes.boxes, shape, view, width, height);
      if (extent(shapes.boxes, shape) * view.scale < 4) mark(context, role, x, y, 6.5, colours);
      else drawShape(context, shapes, shape, role, frame);
    }
    if (old < 0 || now < 0 || old === now) return;
    for (const [shape, role, other] of drawn) {
      if (other < 0 || shapes.kinds[shapes.firstPath[shape]] === 0) continue;
      for (const [x, y] of strayVertices(shapes, shape, other)) {
        const [px, py] = [(x - view.x) * view.scale + width / 2, (y - view.y) * view.scale + height / 2];
        if (px > -9 && py > -9 && px < width + 9 && py < height + 9) mark(context, role, px, py, 4, colours);
      }
    }
  }

  decorate(colours) {
    const { width, height, mode } = this;
    const divided = mode === "swipe" || mode === "side";
    const handle = find("swipe");
    handle.hidden = mode !== "swipe";
    handle.style.left = `${this.swipe * 100}%`;
    handle.setAttribute("aria-valuenow", Math.round(this.swipe * 100));
    find("pane-line").hidden = mode !== "side";
    find("pane-before").hidden = !(divided || (mode === "blink" && !this.blinkAfter));
    find("pane-after").hidden = !(divided || (mode === "blink" && this.blinkAfter));
    find("pane-after").classList.toggle("right", divided);
    const [length, text] = scaleBar(this.view, this.grid);
    const bar = find("scale");
    bar.style.width = `${length.toFixed(0)}px`;
    bar.textContent = text;
    if (this.space === "globe") {
      const [w, h] = [this.small.clientWidth, this.small.clientHeight];
      if (!w) return;
      this.small.width = w * this.ratio;
      this.small.height = h * this.ratio;
      this.world.drawSmall(this.small.getContext("2d"), this.view, w, h, colours, this.ratio);
      this.small.classList.toggle("away", this.view.scale < 3 * Math.max(width, height));
    }
  }
}
