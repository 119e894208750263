// One dataset at a revision: a table that asks for the rows in sight, their places on a map, and
// of the chosen row its cells, who they are from, and the commits that changed it.

import { act, address, ask, note } from "./api.js";
import { Chart } from "./chart.js";
import { element, replace, sentence, value } from "./elements.js";
import { choice } from "./history.js";
import { number, plural } from "./text.js";
import { bytes, commitLink, by, when } from "./words.js";

const HEIGHT = 31; // pixels of a row
const PAGE = 100;
const MOST_PAGES = 12;
const TALLEST = 12e6; // pixels that browsers can scroll; beyond, a pixel is many rows
const NUMBERS = /^(integer|number|whole|decimal|float|double|int|long)/;

export async function showData(box, query) {
  const at = query.at || "";
  const [names, { datasets }] = await Promise.all([ask("refs"), ask("datasets", { at })]);
  const path = query.dataset || datasets[0];
  if (!path) {
    replace(box, element("p", { class: "waiting" }, "There is no dataset here yet."));
    return {};
  }
  const go = (more) => { location.hash = address("data", { dataset: path, at, ...more }); };
  const revisions = [["", names.head ? `${names.head} (here)` : "here"], ...[...names.branches, ...names.remote, ...names.tags].filter((each) => each !== names.head).map((each) => [each, each])];
  const find = element("input", { type: "search", placeholder: "Go to the row with the key  ( / )", autocomplete: "off", spellcheck: "false", "data-first": true });
  const tools = element("div", { class: "tools", role: "search", "aria-label": "What is shown" },
    choice("Dataset", path, datasets.map((each) => [each, each]), (event) => go({ dataset: event.target.value })),
    choice("Branch or tag", at, revisions, (event) => go({ at: event.target.value })),
    element("form", { class: "field grow", onsubmit: (event) => { event.preventDefault(); if (find.value) view.seek(find.value); } }, element("label", { class: "field grow" }, element("span", { class: "unseen" }, "Key"), find)));
  replace(box, tools, element("p", { class: "waiting" }, "\u2026"));
  const about = await ask("dataset", { dataset: path, at });
  const view = new DataView(about, { dataset: path, at });
  replace(box, tools, view.head(), view.box);
  await view.begin(query.row);
  return view;
}

class DataView {
  constructor(about, query) {
    Object.assign(this, { about, query, pages: new Map(), coming: new Map(), chosen: -1, chosenKey: null, wanted: 0 });
    const placed = about.columns.some((each) => each.geometry);
    this.columns = about.columns.filter((each) => !each.geometry);
    this.geometries = about.columns.filter((each) => each.geometry);
    this.chart = placed ? new Chart(`Rows of ${about.path} that are in sight`) : null;
    this.body = element("tbody");
    this.grid = element("div", { class: "grid", tabindex: "0", role: "region", "aria-label": "Rows" },
      element("table", { role: "grid", "aria-rowcount": about.rows + 1, "aria-label": `Rows of ${about.path}` }, element("thead", {}, element("tr", {}, [...this.columns, ...this.geometries].map((each) => element("th", { scope: "col", class: this.classOf(each) }, value(each.name, 40), each.key && " \u2022", element("span", { class: "type" }, sentence(each.type)))))), this.body));
    this.place = element("span", {});
    this.past = element("section", { class: "box past", "aria-label": "The chosen row", tabindex: "0", hidden: true });
    this.chartNote = element("p", { class: "chart-note" });
    this.right = element("div", { class: "right" }, this.chart && element("section", { class: "box", "aria-label": "Map" }, this.chart.box, this.chartNote), this.past);
    this.right.hidden = !this.chart;
    this.box = element("div", { class: `data${this.chart ? "" : " no-chart"}` },
      element("section", { class: "box", "aria-label": "Table" }, this.grid, element("div", { class: "foot" }, this.place, element("span", {}, this.columns.some((each) => each.key) || this.geometries.some((each) => each.key) ? "\u2022 is the key" : "without a key"))), this.right);
    this.grid.addEventListener("scroll", () => this.look());
    this.body.addEventListener("click", (event) => { const row = event.target.closest("[data-row]"); if (row) this.choose(Number(row.dataset.row)); });
    new ResizeObserver(() => this.look()).observe(this.grid);
  }

  head() {
    const { about } = this;
    return element("div", { class: "head-line" }, element("h2", {}, value(about.path, 120)), about.title && element("span", {}, value(about.title, 120)), element("span", { class: "dim" }, plural(about.rows, "row"), about.size ? `, ${bytes(about.size)}` : "", about.commit ? ", at " : "", about.commit && element("code", {}, about.commit.slice(0, 7))), element("a", { href: address("history", { dataset: about.path, at: this.query.at }) }, "Its history"));
  }

  classOf(column) {
    return [column.key && "key-cell", NUMBERS.test(column.type) && "number"].filter(Boolean).join(" ") || null;
  }

  async begin(key) {
    if (key) await this.seek(key, false);
    else await this.load(0);
    this.look();
  }

  // How many pixels the whole table is, and how many a row is of these.
  get tall() {
    return Math.min(this.about.rows * HEIGHT, TALLEST);
  }

  get each() {
    return this.about.rows ? this.tall / this.about.rows : HEIGHT;
  }

  // Show what is in sight; what is not there yet is asked for, when scrolling rests.
  look() {
    const { rows } = this.about;
    const room = Math.ceil(this.grid.clientHeight / HEIGHT) + 2;
    this.first = Math.max(0, Math.min(Math.floor(this.grid.scrollTop / this.each), rows - room + 3));
    this.last = Math.min(rows, this.first + room);
    this.fill();
    clearTimeout(this.resting);
    const missing = [Math.floor(this.first / PAGE), Math.floor(Math.max(0, this.last - 1) / PAGE)].filter((page) => !this.pages.has(page));
    if (missing.length) this.resting = setTimeout(() => missing.forEach((page) => this.load(page)), 60);
  }

  // Have a page; who asks while it comes waits for the same one.
  load(page) {
    if (!this.coming.has(page)) this.coming.set(page, this.bring(page).finally(() => this.coming.delete(page)));
    return this.coming.get(page);
  }

  async bring(page) {
    if (this.pages.has(page) || page * PAGE >= Math.max(1, this.about.rows)) return;
    try {
      const found = await ask("rows", { ...this.query, at: this.about.commit || this.query.at, start: page * PAGE, count: PAGE });
      this.pages.set(page, found);
      while (this.pages.size > MOST_PAGES) this.pages.delete([...this.pages.keys()].reduce((a, b) => (Math.abs(a - page) > Math.abs(b - page) ? a : b)));
      this.fill();
    } catch (error) {
      this.place.textContent = error.message;
    }
  }

  rowAt(index) {
    const page = this.pages.get(Math.floor(index / PAGE));
    const at = index % PAGE;
    return page && at < (page.shapes?.rows.length ?? Object.values(page.cells)[0]?.length ?? 0) ? { page, at } : null;
  }

  fill() {
    const rows = [];
    for (let index = this.first; index < this.last; index++) rows.push(this.shown(index));
    const spacer = () => element("tr", { class: "spacer-row", "aria-hidden": "true" }, element("td", { class: "spacer", colspan: this.about.columns.length }));
    const above = spacer();
    const below = spacer();
    const span = (this.last - this.first) * HEIGHT;
    const top = Math.min(this.first * this.each, Math.max(0, this.tall - span));
    above.firstChild.style.height = `${top}px`;
    below.firstChild.style.height = `${Math.max(0, this.tall - top - span)}px`;
    replace(this.body, above, rows, below);
    const { rows: total } = this.about;
    this.place.textContent = total ? `Rows ${number(this.first + 1)} to ${number(this.last)} of ${number(total)}` : "No rows";
    this.draw();
  }

  shown(index) {
    const found = this.rowAt(index);
    const made = element("tr", { "data-row": index, "aria-rowindex": index + 2, "aria-selected": String(index === this.chosen) });
    for (const column of [...this.columns, ...this.geometries]) {
      const text = found ? found.page.cells[column.name][found.at] : "";
      const cell = element(column.key ? "th" : "td", { class: this.classOf(column), scope: column.key ? "row" : null }, !found ? "\u2026" : text === null ? element("span", { class: "null" }, "null") : value(text, 80));
      made.append(cell);
    }
    return made;
  }

  // The places of the rows that were asked for and are near.
  draw() {
    if (!this.chart) return;
    const items = [];
    let globe = true;
    let crs = null;
    for (const page of this.pages.values()) {
      if (!page?.shapes || page.start + PAGE <= this.first || page.start >= this.last) continue;
      globe = page.shapes.kind === "globe";
      crs = page.shapes.crs;
      page.shapes.rows.forEach((paths, at) => items.push({ key: page.start + at, paths }));
    }
    const name = `${items.map((each) => each.key).join()} ${globe}`;
    if (name !== this.drawn) {
      this.drawn = name;
      this.chart.show(items, { globe, keep: true, open: (index) => this.choose(index, true) });
    }
    this.chartNote.textContent = items.length ? `${plural(items.length, "row")} around those in the table${globe ? "" : `, in their own coordinates${crs ? "" : ": the reference system is not known"}`}` : "";
  }

  async seek(key, focus = true) {
    try {
      const found = await ask("rows", { ...this.query, at: this.about.commit || this.query.at, key, count: 2 });
      const index = found.start + found.keys.indexOf(key);
      const at = index >= found.start ? index : found.start;
      await this.load(Math.floor(at / PAGE));
      this.choose(at, true);
      if (focus) this.grid.focus();
    } catch (error) {
      this.place.textContent = error.message;
    }
  }

  choose(index, bring = false) {
    if (index < 0 || index >= this.about.rows) return;
    this.chosen = index;
    const head = this.grid.querySelector("thead").offsetHeight;
    const top = index * this.each;
    const { scrollTop, clientHeight } = this.grid;
    if (this.each < HEIGHT || top < scrollTop || top > scrollTop + clientHeight - head - HEIGHT) {
      if (bring || Math.abs(index - this.first) > 200) this.grid.scrollTop = Math.max(0, top - clientHeight / 2);
      else this.grid.scrollTop = top < scrollTop ? top : top - clientHeight + head + HEIGHT + 16;
    }
    this.look();
    this.chart?.choose(index, true);
    this.tell();
  }

  async tell() {
    const found = this.rowAt(this.chosen);
    if (!found) return;
    const key = found.page.keys?.[found.at];
    this.right.hidden = false;
    this.box.classList.remove("no-chart");
    this.right.classList.add("chosen");
    this.past.hidden = false;
    const close = element("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => this.close() }, "\u2715");
    const heading = element("header", {}, element("h2", {}, key === undefined ? `Row ${number(this.chosen + 1)}` : value(key, 80)), close);
    const sides = (cells) => element("table", { class: "cells" }, element("thead", {}, element("tr", {}, ["Column", "Value", ...(cells ? ["Last changed"] : [])].map((each) => element("th", { scope: "col" }, each)))),
      element("tbody", {}, this.about.columns.map((column) => { const text = found.page.cells[column.name][found.at]; return element("tr", {}, element("th", { scope: "row" }, element("span", { class: "field-name" }, value(column.name, 60))), element("td", {}, text === null ? element("span", { class: "null" }, "null") : value(text, 500)), cells && element("td", { class: "small" }, cells[column.name] && [commitLink(cells[column.name], 50), element("div", { class: "dim" }, value(cells[column.name].author, 40), " \u00b7 ", when(cells[column.name].time))])); })));
    replace(this.past, heading, sides(null), element("p", { class: "chart-note" }, key === undefined ? "This dataset has no key: its rows cannot be followed through history." : "Looking who it is from \u2026"));
    if (key === undefined) return;
    note("data", { ...this.query, row: key });
    const turn = ++this.wanted;
    try {
      const { commits, more, cells, note: unread } = await ask("row", { ...this.query, at: this.about.commit || this.query.at, key });
      if (turn !== this.wanted) return;
      const known = new Map(commits.map((each) => [each.id, each]));
      const blamed = Object.fromEntries(Object.entries(cells).map(([name, id]) => [name, known.get(id) ?? { id, subject: id.slice(0, 7), author: "", time: 0 }]));
      replace(this.past, heading, sides(Object.keys(cells).length ? blamed : null), unread && element("p", { class: "callout" }, value(unread, 300)),
        element("h3", {}, more ? `The last ${plural(commits.length, "commit")} that changed it` : `${plural(commits.length, "commit")} changed it`),
        element("ol", {}, commits.map((each, place) => element("li", {}, commitLink(each), element("div", { class: "small dim" }, by(each)), place > 0 && this.back(key, each)))));
    } catch (error) {
      if (turn === this.wanted) replace(this.past, heading, sides(null), element("p", { class: "callout" }, value(error.message, 400)));
    }
  }

  // What commits the row as it was then.
  back(key, commit) {
    return element("button", { type: "button", class: "quiet", onclick: async (event) => {
      const button = event.currentTarget;
      if (!button.classList.contains("armed")) {
        button.classList.add("armed");
        button.textContent = "Commit the row as it was then?";
        return;
      }
      button.disabled = true;
      try {
        const { said } = await act("restore", { dataset: this.about.path, key, commit: commit.id });
        button.replaceWith(element("p", { class: "callout done", role: "status" }, value(said, 300)));
      } catch (error) {
        button.replaceWith(element("p", { class: "callout", role: "alert" }, value(error.message, 400)));
      }
    } }, "Bring this back");
  }

  close() {
    this.chosen = -1;
    this.past.hidden = true;
    this.right.classList.remove("chosen");
    this.right.hidden = !this.chart;
    this.box.classList.toggle("no-chart", !this.chart);
    this.chart?.choose(null);
    note("data", this.query);
    this.fill();
    this.grid.focus();
  }

  key(key) {
    if (key === "j") this.choose(this.chosen < 0 ? this.first : this.chosen + 1);
    else if (key === "k") this.choose(this.chosen - 1);
    else if (key === "Escape" && this.chosen >= 0) this.close();
    else if (key === "Enter" && this.chosen >= 0 && document.activeElement === this.grid) this.chart?.fit(this.chosen);
    else return this.chart?.key(key) ?? false;
    return true;
  }
}
