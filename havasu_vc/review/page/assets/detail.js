// One changed row in full: every cell, old and new side by side, with the part that differs
// marked, what is odd about it, how far it moved, and its address.

import { INSERT, KINDS, SIGNS, UPDATE } from "./changes.js";
import { strayVertices } from "./drawing.js";
import { element, find, marked, replace, sentence, value } from "./elements.js";
import { flagWords } from "./filters.js";
import { picturesOf } from "./pictures.js";
import { nothing } from "./table.js";
import { distance, plain, plural, shortName } from "./text.js";

// What nobody sees in a line, or a terminal obeys, is in no command that is to be copied.
const UNSAFE = /[^\x20-\x7e\u00a1-\u00ac\u00ae-\u05ff\u0900-\u167f\u1e00-\u1fff\u2c00-\u2fef\u3040-\u3163\u3165-\ud7ff\uf900-\ufaff]/;

const COLUMNS = 6; // of a row, for which there are commands

// The commands that undo a row, a column that changed in it, or all changes of its dataset, on
// the branch that is reviewed.
function undoing(review, path, label, columns) {
  const source = review.mergeBase ?? review.base;
  if ([source, path, label].some((text) => UNSAFE.test(text))) return null;
  const safe = columns.filter((name) => !UNSAFE.test(name)).slice(0, COLUMNS);
  const quoted = (text) => (/^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
  const command = (filter, column) => `havasu-vc restore --source ${quoted(source)} ${column === undefined ? "" : `--column ${quoted(column)} `}-- ${quoted(filter)}`;
  const acts = [["This row", `${path}:feature:${label}`], ...safe.map((name) => [["Column ", value(name, 40), " of all rows"], path, name]), ["All of the dataset", path]];
  return element("details", { class: "undo" },
    element("summary", {}, "Undo it on ", value(shortName(review.head), 60)),
    acts.map(([words, filter, column]) => element("div", {}, element("span", { class: "dim" }, words), element("code", {}, command(filter, column)), copying(command(filter, column), column === undefined ? words : `column ${plain(column, 40)}`))));
}

function copying(text, words) {
  const button = element("button", { type: "button", "aria-label": `Copy: ${words.toLowerCase()}`, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
      find("said").textContent = "command copied";
    } catch {
      getSelection().selectAllChildren(button.previousSibling); // without the right to write
    }
  } }, "Copy");
  return button;
}

export class Detail {
  constructor(changes, { marks, undo, go, close, step }) {
    Object.assign(this, { changes, marks, undo, go, close, step });
    this.box = find("detail");
  }

  show(row) {
    this.box.hidden = row < 0;
    if (row < 0) return;
    const focused = this.box.contains(document.activeElement) && document.activeElement.getAttribute("aria-label");
    const { changes } = this;
    const dataset = changes.datasetOf(row);
    const at = row - dataset.first;
    const kind = dataset.kinds[at];
    const flags = changes.flagsOf(row);
    const button = (label, text, onclick) => element("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick }, text);
    replace(this.box,
      element("header", {},
        element("span", { class: `sign ${KINDS[kind]}`, "aria-hidden": "true" }, SIGNS[kind]),
        element("h2", { tabindex: "-1" }, element("span", { class: "dim" }, value(dataset.path, 80), " : "), value(changes.label(row), 120), element("span", { class: "unseen" }, ` ${KINDS[kind]}`)),
        button("Previous change (k)", "\u2191", () => this.step(-1)),
        button("Next change (j)", "\u2193", () => this.step(1)),
        dataset.place === "none" ? null : button("Show on the map (z)", find("target-icon").content.cloneNode(true), () => this.go(row)),
        this.copyButton(row),
        button("Close (Esc)", "\u2715", () => this.close())),
      element("div", { class: "facts" },
        element("span", { class: `badge ${KINDS[kind]}` }, KINDS[kind]),
        this.moved(dataset, at),
        flags.map((flag) => element("span", { class: "badge flag" }, "\u26a0 ", flagWords(flag))),
        this.marks(row)),
      this.cells(dataset, at, kind),
      this.undo ? undoing(this.undo, dataset.path, changes.label(row), this.columns(dataset, at, kind)) : null);
    this.box.scrollTop = 0;
    // A button that was made anew keeps the focus.
    if (focused) [...this.box.querySelectorAll("[aria-label]")].find((each) => each.getAttribute("aria-label") === focused)?.focus();
  }

  // Columns that changed in a row and are called now what they were.
  columns(dataset, at, kind) {
    if (kind !== UPDATE) return [];
    return dataset.cells(at).filter(({ column }) => !column.before).map(({ column }) => column.name);
  }

  copyButton(row) {
    const link = element("a", { class: "icon", href: this.changes.link(row), "aria-label": "Link to this row", title: "Link to this row", onclick: async (event) => {
      event.preventDefault();
      history.replaceState(null, "", this.changes.link(row));
      let said = "the address of this page now leads to this row";
      try {
        await navigator.clipboard.writeText(location.href);
        said = "link copied";
      } catch {
        // Without the right to write, the address bar has it.
      }
      find("said").textContent = said;
      link.textContent = "\u2713";
      setTimeout(() => (link.textContent = "#"), 1200);
    } }, "#");
    return link;
  }

  moved(dataset, at) {
    const length = dataset.distance(at);
    const found = [];
    if (length > 0) found.push(element("span", { class: "badge" }, `moved ${distance(length, dataset.unit)}`));
    const { shapes } = dataset;
    const [old, now] = [shapes.old[at], shapes.now[at]];
    if (old >= 0 && now >= 0 && old !== now && shapes.kinds[shapes.firstPath[now]] !== 0 && !dataset.simplified) {
      const [gone, come] = [strayVertices(shapes, old, now).length, strayVertices(shapes, now, old).length];
      const words = gone === come ? `${plural(gone, "vertex", "vertices")} moved` : `${plural(gone, "vertex", "vertices")} removed, ${come} added`;
      if (gone || come) found.push(element("span", { class: "badge" }, words));
    }
    return found;
  }

  cells(dataset, at, kind) {
    const cells = dataset.cells(at);
    const heads = kind === UPDATE ? ["Column", "Before", "After"] : ["Column", kind === INSERT ? "New value" : "Deleted value"];
    const lines = cells.slice(0, 500).map((cell) => {
      const pictures = picturesOf(dataset, at, cell.column.name);
      const name = element("th", { scope: "row" }, value(cell.column.name, 200),
        cell.column.before ? element("span", { class: "type" }, "was ", value(cell.column.before, 60)) : null,
        element("span", { class: "type" }, sentence(cell.column.type)));
      const values = kind === UPDATE ? this.pair(cell) : [this.one(kind === INSERT ? cell.now : cell.old)];
      return [pictures ? element("tr", {}, element("td", { colspan: heads.length }, pictures)) : null, element("tr", {}, name, values.map((each) => element("td", {}, each)))];
    });
    return [
      element("table", { class: "cells" }, element("thead", {}, element("tr", {}, heads.map((text) => element("th", { scope: "col" }, text)))), element("tbody", {}, lines)),
      cells.length > 500 ? element("p", { class: "dim" }, `${cells.length - 500} more columns`) : null,
      cells.length ? null : element("p", { class: "dim" }, kind === UPDATE ? "Only columns that came or went differ." : "Every value is null."),
    ];
  }

  pair({ old, now }) {
    if (!old || !now || old.text === null || now.text === null) return [this.one(old), this.one(now)];
    const [left, right] = marked(old.text, now.text);
    return [[left, this.cut(old)], [right, this.cut(now)]];
  }

  one(side) {
    if (side === null) return nothing("none");
    return side.text === null ? nothing("null") : [value(side.text), this.cut(side)];
  }

  cut(side) {
    return side.cut ? element("span", { class: "type" }, "a long text, cut") : null;
  }
}
