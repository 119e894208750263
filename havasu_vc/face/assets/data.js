// One dataset at a revision: a table that asks for the rows in sight, their places on a map, and
// of the chosen row its cells, who they are from, and the commits that changed it.

import { address, ask, note } from "./api.js";
import { boxOf, boxText, boxTools } from "./boxes.js";
import { Chart } from "./chart.js";
import { bothSides, swipeOf } from "./compare.js";
import { element, replace, sentence, value } from "./elements.js";
import { choice } from "./history.js";
import { showPast } from "./past.js";
import { Pictures } from "./rasters.js";
import { number, plural } from "./text.js";
import { bytes } from "./words.js";

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
    replace(box, element("p", { class: "waiting" }, "There is no dataset here yet. ", element("code", {}, "havasu-vc import FILE"), " makes one."));
    return {};
  }
  const go = (more) => { location.hash = address("data", { dataset: path, at, against: query.against, box: query.box, ...more }); };
  const revisions = [["", names.head ? `${names.head} (here)` : "here"], ...[...names.branches, ...names.remote, ...names.tags].filter((each) => each !== names.head).map((each) => [each, each])];
  const find = element("input", { type: "search", placeholder: "Go to the row with the key  ( / )", autocomplete: "off", spellcheck: "false", "data-first": true });
  const tools = element("div", { class: "tools", role: "search", "aria-label": "What is shown" },
    choice("Dataset", path, datasets.map((each) => [each, each]), (event) => go({ dataset: event.target.value, box: "" })),
    choice("Branch or tag", at, revisions, (event) => go({ at: event.target.value })),
    choice("Compare on the map with", query.against || "", [["", "Compare with \u2026"], ...revisions.slice(1), ...(at ? [["HEAD", "HEAD"]] : [])], (event) => go({ against: event.target.value })),
    element("form", { class: "field grow", onsubmit: (event) => { event.preventDefault(); if (find.value) view.seek(find.value); } }, element("label", { class: "field grow" }, element("span", { class: "unseen" }, "Key"), find)));
  replace(box, tools, element("p", { class: "waiting" }, "\u2026"));
  const about = await ask("dataset", { dataset: path, at });
  const view = new DataView(about, { dataset: path, at, against: query.against, box: boxOf(query.box) ? query.box : "" }, go);
  replace(box, tools, view.head(), view.box);
  await view.begin(query.row);
  return view;
}

class DataView {
  constructor(about, query, go) {
    Object.assign(this, { about, query, go, total: query.box ? 0 : about.rows, pages: new Map(), coming: new Map(), chosen: -1, wanted: 0, asked: "" });
    this.source = { dataset: query.dataset, at: about.commit || query.at };
    const { placed } = about;
    this.columns = about.columns.filter((each) => !each.geometry);
    this.geometries = about.columns.filter((each) => each.geometry);
    this.chart = placed ? new Chart(`Rows of ${about.path}`) : null;
    if (this.chart) {
      this.chart.moves = () => this.place();
      this.tools = boxTools(this.chart, query.box, (box) => go({ box: box && boxText(box) }));
      if (query.against) this.swipe = swipeOf(this.chart, query.at || "here", query.against);
    }
    this.pictures = about.columns.some((each) => each.raster) ? new Pictures({ ...this.source, against: query.against }) : null;
    this.body = element("tbody");
    this.grid = element("div", { class: "grid", tabindex: "0", role: "region", "aria-label": "Rows" },
      element("table", { role: "grid", "aria-rowcount": about.rows + 1, "aria-label": `Rows of ${about.path}` }, element("thead", {}, element("tr", {}, [...this.columns, ...this.geometries].map((each) => element("th", { scope: "col", class: this.classOf(each) }, value(each.name, 40), each.key && " \u2022", element("span", { class: "type" }, sentence(each.type)))))), this.body));
    this.foot = element("span", {});
    this.past = element("section", { class: "box past", "aria-label": "The chosen row", tabindex: "0", hidden: true });
    this.chartNote = element("p", { class: "chart-note" });
    this.right = element("div", { class: "right" }, this.chart && element("section", { class: "box", "aria-label": "Map" }, this.chart.box, this.tools, this.chartNote), this.past);
    this.right.hidden = !this.chart;
    this.box = element("div", { class: `data${this.chart ? "" : " no-chart"}` },
      element("section", { class: "box", "aria-label": "Table" }, this.grid, element("div", { class: "foot" }, this.foot, element("span", {}, this.columns.some((each) => each.key) || this.geometries.some((each) => each.key) ? "\u2022 is the key" : "without a key"))), this.right);
    this.grid.addEventListener("scroll", () => this.look());
    this.body.addEventListener("click", (event) => { const row = event.target.closest("[data-row]"); if (row) this.choose(Number(row.dataset.row)); });
    new ResizeObserver(() => this.resize()).observe(this.grid);
  }

  head() {
    const { about } = this;
    return element("div", { class: "head-line" }, element("h2", {}, value(about.path, 120)), about.title && element("span", {}, value(about.title, 120)), element("span", { class: "dim" }, plural(about.rows, "row"), about.size ? `, ${bytes(about.size)}` : "", about.commit ? ", at " : "", about.commit && element("code", {}, about.commit.slice(0, 7))), element("a", { href: address("history", { dataset: about.path, at: this.query.at }) }, "Its history"));
  }

  classOf(column) {
    return [column.key && "key-cell", NUMBERS.test(column.type) && "number"].filter(Boolean).join(" ") || null;
  }

  async begin(key) {
    this.look();
    if (key) await this.seek(key, false);
    else await this.load(0);
    this.look();
  }

  // How many pixels the whole table is, and how many a row is of these.
  get tall() {
    return Math.min(this.total * HEIGHT, TALLEST);
  }

  get each() {
    return this.total ? this.tall / this.total : HEIGHT;
  }

  // Show what is in sight; what is not there yet is asked for, when scrolling rests.
  look() {
    const rows = this.total;
    this.height = this.grid.clientHeight;
    const room = Math.ceil(this.height / HEIGHT) + 2;
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
    if (this.pages.has(page) || page * PAGE >= Math.max(1, this.total)) return;
    try {
      const found = await ask("rows", { ...this.source, box: this.query.box, start: page * PAGE, count: PAGE });
      this.pages.set(page, found);
      if (this.total !== found.total) {
        this.total = found.total;
        setTimeout(() => this.look());
      }
      while (this.pages.size > MOST_PAGES) this.pages.delete([...this.pages.keys()].reduce((a, b) => (Math.abs(a - page) > Math.abs(b - page) ? a : b)));
      this.fill();
    } catch (error) {
      this.foot.textContent = error.message;
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
    const { total } = this;
    this.foot.textContent = total ? `Rows ${number(this.first + 1)} to ${number(this.last)} of ${number(total)}${this.query.box ? ` in the box, of ${number(this.about.rows)}` : ""}` : !this.pages.size ? "\u2026" : this.query.box ? "No row lies in the box" : "No rows";
    if (!this.about.columns.some((each) => each.key)) this.draw();
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

  // What lies in sight on the map, asked for when it rests; of many rows, how many lie where.
  async place() {
    if (!this.chart.width) return;
    const box = this.asked ? boxText(this.chart.corners()) : "";
    if (this.asked === `${box} ` || !this.about.columns.some((each) => each.key)) return;
    this.asked = `${box} `;
    const mine = this.asked;
    try {
      const ask1 = (at) => ask("places", { dataset: this.query.dataset, at, box });
      const found = await Promise.all([ask1(this.source.at), ...(this.query.against ? [ask1(this.query.against), this.differing()] : [])]);
      if (mine !== this.asked) return;
      this.showPlaces(found.slice(0, 2), !box);
      await this.pictures?.illustrate(this.chart, this.chart.items.filter((each) => "key" in each), () => mine === this.asked);
    } catch (error) {
      this.chartNote.textContent = error.message;
    }
  }

  // Which rows differ from the other revision; null where they are too many to tell by name.
  async differing() {
    if (this.keys !== undefined) return;
    const { keys, more } = await ask("differing", { ...this.source, against: this.query.against });
    this.keys = more ? null : new Set(keys);
  }

  showPlaces(found, first) {
    const [left, right] = found;
    const sides = right ? ["before", "after"] : [null];
    const items = right ? bothSides(left, right, this.keys) : (left.shapes?.rows ?? []).map((paths, i) => ({ key: left.keys[i], paths }));
    const cells = found.flatMap((each, i) => cellsOf(each, sides[i]));
    const box = boxOf(this.query.box);
    if (box) items.push({ box, hollow: true, dashed: true, role: "focus" });
    this.chart.show(items, { globe: left.kind === "globe", cells, keep: !first, open: (key) => this.seek(key, false) });
    this.chart.moved = true;
    const [one, other] = found.map((each) => (each.cells.length ? `${number(each.total)} rows in sight, counted by cell: zoom in for shapes` : `${plural(each.total, "row")} in sight`));
    const how = left.kind === "globe" ? "" : ", in their own coordinates: the reference system is not known";
    this.chartNote.textContent = right ? `Left ${one}, right ${other}; what differs is coloured${how}` : `${one}${how}`;
  }

  // The places of rows without a key: of those that were asked for and are near.
  draw() {
    if (!this.chart) return;
    const items = [];
    let globe = true;
    for (const page of this.pages.values()) {
      if (!page?.shapes || page.start + PAGE <= this.first || page.start >= this.last) continue;
      globe = page.shapes.kind === "globe";
      page.shapes.rows.forEach((paths, at) => items.push({ key: page.start + at, paths }));
    }
    const name = `${items.map((each) => each.key).join()} ${globe}`;
    if (name !== this.drawn) {
      this.drawn = name;
      this.chart.show(items, { globe, keep: true, open: (index) => this.choose(index, true) });
    }
    this.chartNote.textContent = items.length ? `${plural(items.length, "row")} around those in the table${globe ? "" : ", in their own coordinates: the reference system is not known"}` : "";
  }

  async seek(key, focus = true) {
    try {
      const found = await ask("rows", { ...this.source, box: this.query.box, key, count: 2 });
      if (!found.keys.includes(key)) throw new Error(`the row ${key} is not in the box`);
      const at = found.start + found.keys.indexOf(key);
      this.total = found.total;
      this.look();
      await this.load(Math.floor(at / PAGE));
      this.choose(at, true);
      if (focus) this.grid.focus();
    } catch (error) {
      this.foot.textContent = error.message;
    }
  }

  choose(index, bring = false) {
    if (index < 0 || index >= this.total) return;
    this.chosen = index;
    this.scroll(bring);
    this.look();
    this.point();
    this.tell();
  }

  // Scroll to the chosen row where it is out of sight.
  scroll(bring) {
    const top = this.chosen * this.each;
    const { scrollTop, clientHeight } = this.grid;
    if (this.each >= HEIGHT && this.sees(clientHeight)) return;
    if (bring || Math.abs(this.chosen - this.first) > 200) this.grid.scrollTop = Math.max(0, top - clientHeight / 2);
    else this.grid.scrollTop = top < scrollTop ? top : top - clientHeight + this.grid.querySelector("thead").offsetHeight + HEIGHT + 16;
  }

  // Whether the chosen row is in sight where the table is so high.
  sees(height) {
    const top = this.chosen * this.each;
    const { scrollTop } = this.grid;
    return top >= scrollTop && top <= scrollTop + height - this.grid.querySelector("thead").offsetHeight - HEIGHT;
  }

  // A chosen row that was in sight stays there in a lower window; one that was chosen before the
  // table had a place on the page comes into sight.
  resize() {
    if (this.chosen >= 0 && (!this.height || this.sees(this.height))) this.scroll(!this.height);
    this.look();
  }

  async tell() {
    const { chosen } = this;
    if (!this.rowAt(chosen)) {
      // It is on its way, as where a key was quicker than the rows.
      await this.load(Math.floor(chosen / PAGE));
      if (chosen !== this.chosen) return;
      this.point();
    }
    const found = this.rowAt(chosen);
    if (!found) return;
    const key = found.page.keys?.[found.at];
    this.right.hidden = false;
    this.box.classList.remove("no-chart");
    this.right.classList.add("chosen");
    this.past.hidden = false;
    const close = element("button", { type: "button", class: "icon", "aria-label": "Close", onclick: () => this.close() }, "\u2715");
    const names = this.query.against && [this.query.at || "here", this.query.against];
    const heading = [element("header", {}, element("h2", {}, key === undefined ? `Row ${number(this.chosen + 1)}` : value(key, 80)), close), key !== undefined && this.pictures?.beside(key, names)];
    if (key !== undefined) note("data", { ...this.query, row: key });
    const turn = ++this.wanted;
    const other = key !== undefined && this.query.against ? await this.beside(key) : null;
    if (turn !== this.wanted) return;
    await showPast(this.past, { heading, key, columns: this.about.columns, cell: (name) => found.page.cells[name][found.at], other, query: { ...this.source }, isWanted: () => turn === this.wanted });
  }

  // The row as the other revision has it.
  async beside(key) {
    const name = this.query.against;
    const found = await ask("rows", { dataset: this.query.dataset, at: name, key, count: 1 }).catch(() => null);
    return { name, cells: found && Object.fromEntries(Object.entries(found.cells).map(([column, texts]) => [column, texts[0]])) };
  }

  // Mark the chosen row on the map, and bring it into sight.
  point() {
    const found = this.rowAt(this.chosen);
    if (!this.chart || !found) return;
    const key = found.page.keys?.[found.at];
    const paths = found.page.shapes?.rows[found.at];
    if (key !== undefined && paths?.length && !this.chart.items.some((each) => each.key === key)) this.chart.add({ key, paths });
    this.chart.choose(key ?? this.chosen, true);
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
    else if (key === "Enter" && this.chosen >= 0 && document.activeElement === this.grid) this.chart?.fit(this.rowAt(this.chosen)?.page.keys?.[this.rowAt(this.chosen).at] ?? this.chosen);
    else if (key === "b" && this.chart) this.go({ box: this.query.box ? "" : boxText(this.chart.corners()) });
    else if (key === "s" && this.swipe) this.swipe.focus();
    else return this.chart?.key(key) ?? false;
    return true;
  }
}

function cellsOf({ cells, grid, box }, side) {
  if (!cells.length) return [];
  const [west, south] = box;
  const [across, up] = [((box[2] < west ? box[2] + 360 : box[2]) - west) / grid[0], (box[3] - south) / grid[1]];
  return cells.map(([i, j, count]) => ({ box: [west + i * across, south + j * up, west + (i + 1) * across, south + (j + 1) * up], count, side, role: side ?? "after" }));
}
