// What does not merge: how much, rows with both sides beside what was there, the same on a map,
// and commands to copy. In each map a side has its colour and its form.

import { drawGrid } from "./basemap.js";
import { drawShape, mark } from "./drawing.js";
import { element, find, replace, sentence, value } from "./elements.js";
import { mercator, View } from "./projection.js";
import { number, plain, plural } from "./text.js";

const SIDES = ["base", "ours", "theirs"];
const PATHS = { Point: 0, MultiPoint: 0, LineString: 1, MultiLineString: 1, Polygon: 2, MultiPolygon: 2 };
const NEAREST = 2 ** 27; // pixels for the world
const CELLS = 60;

export function showConflicts(conflicts, world, palette) {
  const maps = [];
  if (!conflicts) return maps;
  replace(find("conflicts"),
    element("div", { class: "callout refuse" }, element("div", {}, headline(conflicts))),
    conflicts.datasets.map((each) => card(each, conflicts, world, palette, maps)),
    commands(conflicts));
  return maps;
}

function headline({ theirs, rows, items, files, unknown }) {
  const name = value(theirs, 60);
  if (unknown) return [element("strong", {}, "Git alone does not merge this with ", name, "."), " What is in conflict cannot be told: ", sentence(unknown)];
  const counts = [[rows, "row"], [items, "meta item"], [files.length, "file"]].filter(([count]) => count).map(([count, word]) => plural(count, word));
  if (!counts.length) return [element("strong", {}, "Git alone does not merge this with ", name), ", but no cell is in conflict: ", element("code", {}, "havasu-vc merge"), " does it, with nothing to decide."];
  const one = rows + items + files.length === 1;
  return [
    element("strong", {}, counts.join(", "), one ? " is" : " are", " in conflict with ", name), ".",
    files.length ? [" Files that git cannot merge: ", files.slice(0, 10).map((file) => [element("code", {}, plain(file, 100)), " "])] : null,
  ];
}

function card(each, conflicts, world, palette, maps) {
  const map = new ConflictMap(each.samples, world, palette);
  if (map.count) maps.push(map);
  return element("details", { class: "card conflict", open: true },
    element("summary", {}, element("h2", {}, "Conflicts of ", value(each.path)), each.rows ? element("span", { class: "badge" }, plural(each.rows, "row")) : null),
    element("div", { class: "card-body" },
      element("div", {},
        each.items.length ? element("ul", { class: "words" }, each.items.map((item) => element("li", {}, itemWords(item)))) : null,
        each.samples.length ? table(each, conflicts, map) : null),
      map.count ? map.box : null));
}

function itemWords(item) {
  const columns = Object.entries(item.columns);
  if (columns.length) return ["Columns: ", columns.map(([name, kinds], index) => [index ? "; " : "", name ? element("code", {}, plain(name, 60)) : "the key", ` (${kinds.join(", ")})`])];
  return [item.name === "dataset" ? "The dataset" : element("code", {}, plain(item.name, 80)), ": ",
    SIDES.filter((side) => side !== "base" || item.base !== null).map((side, index) => [index ? ", " : "", side, " ", item[side] === null ? "removed" : value(item[side], 120)])];
}

function table(each, conflicts, map) {
  const heads = ["Row", "Column", "Base", ["ours: ", value(conflicts.ours, 40)], ["theirs: ", value(conflicts.theirs, 40)]];
  return [
    element("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Rows in conflict" }, element("table", { class: "plain sides" },
      element("thead", {}, element("tr", {}, heads.map((text, index) => element("th", { scope: "col", class: index > 1 ? `of-${SIDES[index - 2]}` : "" }, text)))),
      each.samples.map((row, index) => element("tbody", {}, lines(row).map((cells, line) => element("tr", {},
        element("th", { scope: "row" }, line ? null : rowName(row, index, map)),
        cells.map((cell) => element("td", {}, cell)))))))),
    each.samples.length < each.rows ? element("p", { class: "dim" }, `${number(each.samples.length)} of ${number(each.rows)} rows in conflict are shown.`) : null,
  ];
}

function rowName(row, index, map) {
  const name = value(row.key, 60);
  if (!map.shapes.some((shape) => shape.row === index)) return name;
  return element("button", { type: "button", class: "linklike", onclick: () => map.choose(index) }, name);
}

// A line for each cell that is not alike in all versions; of what is deleted, or counted, one for the row.
function lines(row) {
  const found = [];
  const gone = { base: row.kind === "insert/insert", ours: row.ours === "deleted", theirs: row.theirs === "deleted" };
  const strong = (text) => element("strong", {}, text);
  if (gone.ours || gone.theirs || row.kind === "count" || !row.cells.length) found.push([element("span", { class: "dim" }, "the row"), gone.base ? "" : "there", strong(row.ours), strong(row.theirs)]);
  const cells = [...row.cells].sort((one, other) => other.clashes - one.clashes);
  for (const cell of cells.slice(0, CELLS)) {
    const shown = (side) => {
      if (gone[side]) return null;
      const text = cell[side] === null ? element("i", { class: "null" }, "null") : value(cell[side], 300);
      return cell.clashes && side !== "base" ? element("mark", { class: side }, text) : text;
    };
    found.push([value(cell.column, 80), ...SIDES.map(shown)]);
  }
  if (cells.length > CELLS) found.push([element("span", { class: "dim" }, `${cells.length - CELLS} more columns`), null, null, null]);
  return found;
}

function commands({ ours, theirs, datasets, commands: text, files }) {
  if (!text.length) return null;
  const block = element("pre", { tabindex: "0", "aria-label": "Commands that settle it" }, text.map((line) => plain(line, 2000) + "\n").join(""));
  const copy = element("button", { type: "button", onclick: async () => {
    getSelection().selectAllChildren(block);
    try {
      await navigator.clipboard.writeText(text.join("\n") + "\n");
      find("said").textContent = "commands copied";
      copy.textContent = "Copied";
    } catch {
      // Without the right to write, they are selected.
    }
  } }, "Copy");
  return element("div", { class: "card settle" },
    element("div", {}, element("h2", {}, "Settle it"), copy),
    datasets.length ? element("p", { class: "dim" }, element("code", {}, "ours"), " is what ", value(ours, 60), " has, ", element("code", {}, "theirs"), " what ", value(theirs, 60), " has; ", element("code", {}, "resolve"), " also takes single rows.") : null,
    files.length ? element("p", { class: "dim" }, "Before ", element("code", {}, "git add"), ", bring together what both say in these files.") : null,
    block);
}

// Shapes of the rows in conflict, all of them or one that the reader chose.
class ConflictMap {
  constructor(samples, world, palette) {
    Object.assign(this, { world, palette, chosen: -1 });
    this.shapes = samples.flatMap((row, index) => SIDES.flatMap((side) => (row[`${side}Geometry`] ? [shapeOf(row[`${side}Geometry`], side, index)] : []))).filter((shape) => shape.x.length);
    this.count = this.shapes.length;
    if (!this.count) return;
    this.canvas = element("canvas", { role: "img", "aria-label": "Map of the rows in conflict: base, ours and theirs" });
    this.all = element("button", { type: "button", hidden: true, onclick: () => this.choose(-1) }, "Show all");
    this.legend = element("ul", { class: "sides" });
    this.box = element("div", { class: "conflict-map" }, this.canvas, element("div", { class: "map-foot" }, this.legend, this.all));
    new ResizeObserver(() => this.draw()).observe(this.canvas);
  }

  choose(row) {
    this.chosen = row;
    this.all.hidden = row < 0;
    this.draw();
  }

  get colours() {
    const known = this.palette();
    return { ...known, base: known.before, ours: known.after, theirs: known.deleted };
  }

  draw() {
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    const { colours } = this;
    const ratio = Math.min(devicePixelRatio || 1, 2);
    this.canvas.width = width * ratio;
    this.canvas.height = height * ratio;
    const context = this.canvas.getContext("2d");
    const shapes = this.chosen < 0 ? this.shapes : this.shapes.filter((shape) => shape.row === this.chosen);
    const view = new View().fitted(boxOf(shapes), width, height, 0.75, NEAREST);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillStyle = colours.plain;
    context.fillRect(0, 0, width, height);
    this.world.draw(context, view, width, height, colours, ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    drawGrid(context, view, width, height, colours, null);
    for (const side of SIDES) {
      for (const shape of shapes) {
        if (shape.side === side) drawShape(context, shape, 0, side, { view, width, height, colours, ratio, bold: this.chosen < 0 ? 0 : 3 });
      }
    }
    replace(this.legend, SIDES.map((side) => {
      const canvas = element("canvas", { width: 32, height: 32, "aria-hidden": "true" });
      const small = canvas.getContext("2d");
      small.scale(2, 2);
      mark(small, side, 8, 8, 4.5, colours);
      return element("li", {}, canvas, side);
    }));
  }
}

// A geometry of GeoJSON as flat arrays, which is how shapes are drawn.
function shapeOf(geometry, side, row) {
  const shape = { side, row, kinds: [], firstPath: [0, 0], firstVertex: [0], x: [], y: [] };
  collect(geometry, shape);
  shape.firstPath[1] = shape.kinds.length;
  return shape;
}

function collect({ type, coordinates, geometries }, shape) {
  if (geometries) {
    for (const each of geometries) collect(each, shape);
    return;
  }
  const add = (path) => {
    for (const [longitude, latitude] of path) {
      let [x, y] = mercator(longitude, latitude);
      // All of it in one turn of the world, next to what came first.
      if (shape.x.length) x -= Math.round(x - shape.x[0]);
      shape.x.push(x);
      shape.y.push(y);
    }
    shape.kinds.push(PATHS[type]);
    shape.firstVertex.push(shape.x.length);
  };
  const depth = { Point: -1, MultiPoint: 0, LineString: 0, Polygon: 1, MultiLineString: 1, MultiPolygon: 2 }[type];
  if (depth < 0) add([coordinates]);
  else if (!depth) add(coordinates);
  else coordinates.flat(depth - 1).forEach(add);
}

function boxOf(shapes) {
  let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
  for (const { x, y } of shapes) {
    for (let i = 0; i < x.length; i++) {
      left = Math.min(left, x[i]);
      right = Math.max(right, x[i]);
      top = Math.min(top, y[i]);
      bottom = Math.max(bottom, y[i]);
    }
  }
  return [left, top, right, bottom];
}
