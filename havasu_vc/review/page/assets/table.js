// The table of changes: a grid of which only the rows in sight exist, so that a hundred
// thousand scroll as well as ten. One row is selected; arrows move the selection.

import { INSERT, KINDS, SIGNS, UPDATE } from "./changes.js";
import { element, find, marked, value } from "./elements.js";
import { flagWords } from "./filters.js";
import { distance } from "./text.js";

const HEIGHT = 44;
const SPARE = 6;
const SHOWN = 3;

export class Table {
  constructor(changes, { select, open, dress }) {
    Object.assign(this, { changes, select, open, dress });
    this.scroller = find("table");
    this.body = find("table-body");
    this.rows = new Uint32Array(0);
    this.places = null;
    this.made = new Map();
    this.selected = -1;
    find("table").classList.toggle("one-dataset", changes.datasets.length < 2);
    this.scroller.addEventListener("scroll", () => this.request(), { passive: true });
    this.scroller.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    this.body.addEventListener("dblclick", () => this.selected >= 0 && this.open(this.selected));
    // The chosen row stays in sight where what is told of it takes room.
    new ResizeObserver(() => { this.bring(); this.request(); }).observe(this.scroller);
  }

  show(rows) {
    this.rows = rows;
    this.places = null;
    this.scroller.setAttribute("aria-rowcount", rows.length + 1);
    this.body.style.height = `${rows.length * HEIGHT}px`;
    find("no-rows").hidden = rows.length > 0;
    this.forget();
    this.scroller.scrollTop = 0;
    this.draw();
  }

  forget() {
    for (const made of this.made.values()) made.remove();
    this.made.clear();
  }

  redress() {
    for (const [index, made] of this.made) this.dress(made, this.rows[index]);
  }

  request() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.draw();
    });
  }

  draw() {
    const top = this.scroller.scrollTop;
    const first = Math.max(0, Math.floor(top / HEIGHT) - SPARE);
    const last = Math.min(this.rows.length, Math.ceil((top + this.scroller.clientHeight) / HEIGHT) + SPARE);
    for (const [index, made] of this.made) {
      if (index < first || index >= last) {
        made.remove();
        this.made.delete(index);
      }
    }
    const fresh = [];
    for (let index = first; index < last; index++) {
      if (!this.made.has(index)) {
        const made = this.make(index);
        this.made.set(index, made);
        fresh.push(made);
      }
    }
    // In the order in which they are read out.
    if (fresh.length && this.body.firstChild && Number(fresh[0].ariaRowIndex) < Number(this.body.firstChild.ariaRowIndex)) this.body.prepend(...fresh);
    else this.body.append(...fresh);
    const current = this.made.get(this.place(this.selected));
    if (current) this.scroller.setAttribute("aria-activedescendant", current.id);
    else this.scroller.removeAttribute("aria-activedescendant");
  }

  make(index) {
    const row = this.rows[index];
    const made = changeRow(this.changes, row, index);
    made.style.transform = `translateY(${index * HEIGHT}px)`;
    this.dress(made, row);
    made.setAttribute("aria-selected", row === this.selected);
    return made;
  }

  // Return at which line a row stands, or -1.
  place(row) {
    if (row < 0) return -1;
    if (!this.places) {
      this.places = new Int32Array(this.changes.count).fill(-1);
      for (let i = 0; i < this.rows.length; i++) this.places[this.rows[i]] = i;
    }
    return this.places[row];
  }

  choose(row) {
    const old = this.made.get(this.place(this.selected));
    if (old) old.setAttribute("aria-selected", false);
    this.selected = row;
    this.bring();
    this.draw();
    this.made.get(this.place(row))?.setAttribute("aria-selected", true);
  }

  // Scroll the chosen row into sight.
  bring() {
    const index = this.place(this.selected);
    if (index < 0) return;
    const { scrollTop, clientHeight } = this.scroller;
    const top = index * HEIGHT;
    if (top < scrollTop) this.scroller.scrollTop = top;
    else if (top + HEIGHT > scrollTop + clientHeight - 34) this.scroller.scrollTop = top + HEIGHT - clientHeight + 34;
  }

  // Select a row some lines further.
  step(lines) {
    if (!this.rows.length) return;
    const from = this.place(this.selected);
    const to = from < 0 ? (lines < 0 ? this.rows.length - 1 : 0) : from + lines;
    this.select(this.rows[Math.max(0, Math.min(this.rows.length - 1, to))]);
  }

  key(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const page = Math.max(1, Math.floor(this.scroller.clientHeight / HEIGHT) - 1);
    const steps = { ArrowDown: 1, ArrowUp: -1, PageDown: page, PageUp: -page, Home: -Infinity, End: Infinity };
    if (event.key in steps) {
      const lines = steps[event.key];
      if (Number.isFinite(lines)) this.step(lines);
      else if (this.rows.length) this.select(this.rows[lines < 0 ? 0 : this.rows.length - 1]);
    } else if (event.key === "Enter" || event.key === " ") {
      if (this.selected >= 0) this.open(this.selected);
    } else return;
    event.preventDefault();
  }

  click(event) {
    const line = event.target.closest("[data-row]");
    if (line) this.select(Number(line.dataset.row));
  }
}

// One line of the table.
export function changeRow(changes, row, index) {
  const dataset = changes.datasetOf(row);
  const at = row - dataset.first;
  const kind = dataset.kinds[at];
  const flags = changes.flagsOf(row);
  return element("div", { role: "row", class: "row", id: `row-${row}`, "data-row": row, "aria-rowindex": index + 2, "aria-selected": "false" },
    element("span", { role: "gridcell", class: "c-kind" }, element("span", { class: `sign ${KINDS[kind]}`, "aria-hidden": "true" }, SIGNS[kind]), element("span", { class: "unseen" }, KINDS[kind])),
    element("span", { role: "gridcell", class: "c-row" },
      element("span", { class: "key" }, value(dataset.keys.at(at), 60)),
      element("span", { class: "dataset" }, value(dataset.path, 60))),
    element("span", { role: "gridcell", class: "c-what" }, brief(dataset, at)),
    element("span", { role: "gridcell", class: "c-flags" }, flags.length ? element("span", { class: "flagged", title: flags.map(flagWords).join(", ") }, element("span", { "aria-hidden": "true" }, "\u26a0"), element("span", { class: "unseen" }, flags.map(flagWords).join(", "))) : null),
  );
}

// The first cells of a change in a line.
function brief(dataset, at) {
  const kind = dataset.kinds[at];
  const keys = dataset.keys.at(at);
  let cells = dataset.cells(at, SHOWN + 3);
  if (kind !== UPDATE) {
    // The map shows where; what a row is called comes first, and its key is there already.
    const isShape = (cell) => cell.column.kind === "geometry";
    cells = cells.filter((cell) => (cell.now ?? cell.old).text !== keys);
    cells = [...cells.filter((cell) => !isShape(cell)), ...cells.filter(isShape)];
  }
  const more = cells.length > SHOWN;
  return [
    cells.slice(0, SHOWN).map((cell) => element("span", { class: "cell" }, element("span", { class: "name" }, value(cell.column.name, 40)), " ", shapeWords(dataset, at, cell) || transition(cell, kind))),
    more ? element("span", { class: "more" }, "\u2026") : null,
  ];
}

// What happened to a shape or a raster, where that is less than its coordinates.
function shapeWords(dataset, at, { column, kind, old, now }) {
  if (kind !== UPDATE || column.kind === "value" || !old?.text || !now?.text) return null;
  if (column.kind === "raster") return value(rasterWords(now.text), 60);
  const length = dataset.distance(at);
  return length > 0 ? `moved ${distance(length, dataset.unit)}` : "changed";
}

// What changed of a raster: it stands behind what the raster is.
export const rasterWords = (text) => text.split("): ")[1] ?? "changed";

function transition(cell, kind) {
  const text = (side) => (side === null ? nothing("none") : side.text === null ? nothing("null") : value(side.text, 40));
  if (kind !== UPDATE) return text(kind === INSERT ? cell.now : cell.old);
  const [old, now] = cell.old?.text && cell.now?.text ? marked(cell.old.text, cell.now.text, 28) : [text(cell.old), text(cell.now)];
  return [old, element("span", { class: "arrow" }, " \u2192 "), now];
}

export const nothing = (word) => element("i", { class: "null" }, word);
