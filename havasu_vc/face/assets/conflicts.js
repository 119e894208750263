// The conflicts of a merge that waits: of each cell the ancestor, both sides and the result. A
// click chooses by cell, by row, by column or for all; what is undecided is counted.

import { act, address, ask } from "./api.js";
import { Chart } from "./chart.js";
import { element, find, replace, value } from "./elements.js";
import { didSomething } from "./jobs.js";
import { plural } from "./text.js";
import { sure } from "./work.js";

const SIDES = ["ours", "theirs", "ancestor"];
const ROW = "\u0000row"; // the choice of a row as a whole
const ROLES = { ours: "after", theirs: "deleted", ancestor: "label" };

// `shown` has the answers that keys are for, also where the view was made anew.
export async function showConflicts(box, _, shown = {}) {
  const found = await ask("conflicts");
  shown.answers = null;
  const keys = { key: (key) => shown.answers?.key(key) ?? false };
  if (!found.merge) {
    replace(box, element("section", { class: "box padded" }, element("h2", {}, "No merge waits"), element("p", { class: "dim" }, "Where both sides of a merge changed one cell, it waits here for your answer. ", element("a", { href: address("work") }, "Merge a branch"))));
    return keys;
  }
  shown.answers = new Answers(found, () => showConflicts(box, {}, shown), box);
  shown.answers.show();
  return keys;
}

class Answers {
  constructor(found, again, box) {
    Object.assign(this, { found, again, box, number: 0, chosen: [], charts: new Map() });
    this.said = element("p", { class: "callout", role: "status", hidden: true });
    this.count = element("p", { class: "main", role: "status" });
    this.names = { ...found.sides, ancestor: "ancestor" };
    // What is to be decided: a cell, a row that one side deleted, or a meta item.
    for (const each of found.datasets) {
      for (const item of each.meta) this.add(each, { key: item.name, filter: `${each.dataset}:meta:${item.name}`, whole: true }, { ...item, name: item.name });
      for (const row of each.listed) {
        const one = { key: row.key, filter: `${each.dataset}:feature:${row.key}`, there: row.there, shapes: row.shapes, whole: !row.cells.length };
        if (one.whole) this.add(each, one, { name: ROW, ...Object.fromEntries(SIDES.map((side) => [side, row.there[side] ? "the row" : null])) });
        for (const cell of row.cells) this.add(each, one, cell);
      }
    }
  }

  add(dataset, row, cell) {
    this.chosen.push({ dataset: dataset.dataset, row, cell, side: null, number: this.number++ });
  }

  show() {
    const { found } = this;
    this.conclude = this.button("Conclude the merge", "conclude", () => ({}), "main-button");
    this.answer = this.button("Keep these answers", "resolve", () => ({ answers: this.answers() }), "main-button");
    replace(this.box, this.said,
      element("section", { class: "box padded", "aria-label": "Merge" }, element("div", { class: "head-line" }, element("h2", {}, `A ${found.merge.kind} waits`), element("span", { class: "dim" }, "ours is ", element("span", { class: "ref head" }, value(this.names.ours, 60)), ", theirs is ", element("span", { class: "ref" }, value(this.names.theirs, 60)))),
        this.count,
        element("div", { class: "actions" }, this.chosen.length > 0 && this.answer, !this.chosen.length && this.conclude, this.chosen.length > 0 && SIDES.slice(0, 2).map((side) => this.setter(`All from ${side}`, side, () => true)), this.chosen.length > 0 && this.setter("The rest from ours", "ours", (one) => !one.side), this.chosen.length > 0 && this.setter("The rest from theirs", "theirs", (one) => !one.side), sure((label, what, asked, { class: style }) => this.button(label, what, asked, style), "Drop the merge", "abort", {}))),
      found.datasets.map((each) => this.dataset(each)));
    this.tell();
  }

  button(label, what, asked, style) {
    return element("button", { type: "button", class: style, onclick: (event) => { const sent = asked(); if (sent) this.run(what, sent, event.currentTarget); } }, label);
  }

  setter(label, side, fits) {
    return element("button", { type: "button", class: "quiet", onclick: () => {
      this.chosen.filter(fits).forEach((each) => { each.side = side; });
      this.tell();
    } }, label);
  }

  dataset(each) {
    const mine = this.chosen.filter((one) => one.dataset === each.dataset);
    const columns = [...new Set(mine.map((one) => one.cell.name))].filter((name) => name !== ROW);
    const map = this.map(each, mine);
    return element("section", { class: "box spaced", "aria-label": each.dataset },
      element("header", { class: "edited-head" }, element("h2", {}, value(each.dataset, 100)), element("span", { class: "dim" }, plural(each.count + each.meta.length, "conflict")), element("span", { class: "spread" }), columns.length < 9 && columns.map((name) => element("span", { class: "of-column" }, value(name, 40), ": ", ["ours", "theirs"].map((side) => this.setter(side, side, (one) => one.dataset === each.dataset && one.cell.name === name))))),
      map,
      element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Conflicts of ${each.dataset}` }, element("table", { class: "plain choices" },
        element("thead", {}, element("tr", {}, ["Row", "Column", "Ours", "Theirs", "Ancestor", "Result"].map((name) => element("th", { scope: "col" }, name)))),
        element("tbody", {}, mine.map((one, i) => this.line(one, i === 0 || mine[i - 1].row !== one.row))))),
      each.listed.length < each.count && element("p", { class: "chart-note" }, `The first ${each.listed.length} rows; others follow when these are answered.`));
  }

  // Where the rows of both sides, and of the ancestor, are.
  map(each, mine) {
    const rows = [...new Set(mine.map((one) => one.row))].filter((row) => row.shapes);
    if (!rows.length) return null;
    const items = rows.flatMap((row) => ["ancestor", "theirs", "ours"].map((side) => ({ key: row.key, paths: row.shapes[side] ?? [], role: ROLES[side], dashed: side !== "ours", hollow: side === "ancestor" })));
    if (!items.some((item) => item.paths.length)) return null;
    const chart = new Chart(`Where the rows in conflict of ${each.dataset} are on both sides`);
    this.charts.set(each.dataset, chart);
    chart.show(items, { globe: each.map === "globe", open: (key) => this.choose(rows.find((row) => row.key === key), true) });
    return element("div", { class: "conflict-map" }, chart.box, element("div", { class: "roles" }, SIDES.map((side) => element("span", { class: side }, side === "ancestor" ? side : [side, ", ", value(this.names[side], 40)]))));
  }

  // Mark a row in the table and on the map.
  choose(row, scroll = false) {
    if (!row) return;
    this.current = row;
    for (const each of this.chosen) each.line?.classList.toggle("current", each.row === row);
    const first = this.chosen.find((each) => each.row === row);
    if (scroll) first?.line.scrollIntoView({ block: "nearest" });
    const chart = this.charts.get(first?.dataset);
    if (row.shapes) chart?.fit(row.key);
    chart?.choose(row.key);
  }

  key(key) {
    const lines = this.chosen.filter((each) => each.line);
    const at = lines.findIndex((each) => each === this.line_);
    const step = { j: 1, k: -1 }[key];
    if (step && lines.length) {
      this.line_ = lines[Math.max(0, Math.min(lines.length - 1, at + step))];
      this.choose(this.line_.row, true);
      (this.line_.inputs.find((input) => input.checked) ?? this.line_.inputs[0]).focus();
      return true;
    }
    const side = { o: "ours", h: "theirs", a: "ancestor" }[key];
    if (side && this.line_) {
      this.line_.side = side;
      this.tell();
      this.line_.inputs[SIDES.indexOf(side)].focus();
      return true;
    }
    return false;
  }

  line(one, first) {
    const { row, cell } = one;
    one.result = element("td", { class: "result" });
    one.inputs = SIDES.map((side) => element("input", { type: "radio", name: `choice-${one.number}`, value: side, "aria-label": `${side} for ${cell.name === ROW ? "the row" : cell.name} of ${row.key}`, onchange: () => { one.side = side; this.tell(); } }));
    const same = (each) => each.row === row;
    one.line = element("tr", { class: first ? "first-of-row" : null, onclick: () => { this.line_ = one; if (this.current !== row) this.choose(row); } },
      element("th", { scope: "row" }, !first && element("span", { class: "unseen" }, value(row.key, 60)), first && [value(row.key, 60), " ", !row.whole && ["ours", "theirs"].map((side) => this.setter(side, side, same))]),
      element("td", {}, cell.name === ROW ? element("i", {}, "the row") : value(cell.name, 60)),
      SIDES.map((side, i) => element("td", {}, element("label", { class: "choice", "data-side": side }, one.inputs[i], this.shown(one, side)))),
      one.result);
    return one.line;
  }

  shown({ cell }, side) {
    const text = cell[side];
    if (text !== null && text !== undefined) return value(text, 120);
    return element("span", { class: "null" }, cell.name === ROW ? "deleted" : "null");
  }

  tell() {
    const left = this.chosen.filter((each) => !each.side).length;
    for (const each of this.chosen) {
      each.inputs.forEach((input) => { input.checked = input.value === each.side; });
      replace(each.result, each.side ? this.shown(each, each.side) : element("span", { class: "flagged" }, "undecided"));
    }
    this.count.textContent = this.chosen.length ? (left ? `${left} of ${plural(this.chosen.length, "answer")} undecided` : "All is decided") : "Every conflict is answered";
    this.answer.disabled = !this.answers().length;
  }

  // Rows whose cells are all decided; those answered alike go together.
  answers() {
    const rows = new Map();
    for (const each of this.chosen) rows.set(each.row, [...(rows.get(each.row) ?? []), each]);
    const groups = new Map();
    for (const [row, cells] of rows) {
      if (cells.some((each) => !each.side)) continue;
      const side = (each) => (each === "ancestor" ? "base" : each);
      const how = row.whole ? { choice: side(cells[0].side) } : { columns: Object.fromEntries(cells.map((each) => [each.cell.name, side(each.side)])) };
      const name = JSON.stringify([cells[0].dataset, how]);
      if (!groups.has(name)) groups.set(name, { filters: [], ...how });
      groups.get(name).filters.push(row.filter);
    }
    return [...groups.values()];
  }

  async run(what, asked, button) {
    button.disabled = true;
    try {
      const { said } = await act(what, asked, this.found.seen);
      await didSomething();
      await this.again();
      this.box.prepend(element("p", { class: "callout done", role: "status" }, value(said, 300)));
      find("said").textContent = said;
    } catch (error) {
      button.disabled = false;
      this.said.hidden = false;
      replace(this.said, value(error.message, 600), error.status === 409 && [" ", element("button", { type: "button", class: "quiet", onclick: () => this.again() }, "Look again")]);
    }
  }
}
