// The page comes together: data is unpacked, summary, map, table and filters are made, and
// a row that one of them selects is selected in all.

import { World } from "./basemap.js";
import { Changes, KINDS, SIGNS } from "./changes.js";
import { showConflicts } from "./conflicts.js";
import { Detail } from "./detail.js";
import { mark, ROLES } from "./drawing.js";
import { element, find, replace, value } from "./elements.js";
import { Filters } from "./filters.js";
import { ChangeMap, MODES } from "./map.js";
import { Marks } from "./marks.js";
import { showSummary, sumOf } from "./summary.js";
import { changeRow, Table } from "./table.js";
import { number, plain, plural, shortName } from "./text.js";
import { unpack } from "./unpacking.js";

const PRINTED = 300;
// A page that cannot be shown says so.
addEventListener("error", (event) => fail(event.message));
addEventListener("unhandledrejection", (event) => fail(event.reason));
const manifest = JSON.parse(find("manifest").textContent);

showHead();
const parts = await unpack(find("data").textContent);
const changes = new Changes(manifest, parts);
for (const part of ["summary", "datasets"]) find(part).hidden = !manifest.summary;
if (manifest.summary) showSummary(manifest, changes, { filter: explore, open: openRow });

const world = new World(JSON.parse(parts.string(manifest.world)));
const conflictMaps = manifest.summary ? showConflicts(manifest.review.conflicts, world, palette) : [];
const map = new ChangeMap(changes, world, palette, { select, tiles: manifest.tiles });
const marks = new Marks(changes, manifest.review);
const table = new Table(changes, { select, dress: (line, row) => marks.dress(line, row), open: (row) => { map.fit(row); find("detail").querySelector("h2")?.focus(); } });
const detail = new Detail(changes, { marks: (row) => marks.buttons(row, (mark) => turnMark(row, mark)), undo: manifest.summary ? manifest.review : null, go: (row) => map.fit(row), close: () => { select(-1); find("table").focus(); }, step: (lines) => table.step(lines) });
const filters = new Filters(changes, narrow);
let chosen = -1;

showExplorer();
showLegend();
showModes();
showTiles();
showNotice();
listen();
narrow(filters.state);
follow();
document.documentElement.dataset.ready = "yes";
performance.mark("ready");

// Parts of the page

function fail(reason) {
  find("notice").hidden = false;
  find("notice").textContent = `Something went wrong, and this page may not show all: ${reason}. A current browser is needed, such as Chrome 103, Firefox 113 or Safari 16.4.`;
}

function showHead() {
  const { base, head } = manifest.review;
  replace(find("range"), value(shortName(base), 60), element("span", { class: "arrow" }, " \u2192 "), value(shortName(head), 60));
  find("range").title = `${plain(base)} \u2192 ${plain(head)}`;
  if (manifest.home) {
    find("what").before(element("a", { class: "home", href: manifest.home, title: "Back to the repository", "aria-label": "Back to the repository" }, "\u2039"));
    // As the pages beside it, which keep what the reader chose.
    const theme = localStorage.getItem("theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  }
  replace(find("what"), manifest.repository ? [value(manifest.repository, 40), " \u00b7 "] : null, manifest.summary ? "Review" : "Diff");
  replace(find("sums"), sumOf(manifest.review).map((count, kind) => element("span", { class: `chip ${KINDS[kind]}`, "data-sum": KINDS[kind] }, element("span", { class: `sign ${KINDS[kind]}`, "aria-hidden": "true" }, SIGNS[kind]), number(count), element("span", { class: "unseen" }, ` ${KINDS[kind]} `))));
}

// Without rows there is nothing to explore, and without places there is no map.
function showExplorer() {
  const explorer = find("explorer");
  explorer.classList.toggle("no-rows", !changes.count);
  explorer.classList.toggle("no-map", !changes.datasets.some((each) => each.count && each.place !== "none"));
  const unread = manifest.review.datasets.some((each) => each.unread);
  find("no-changes").hidden = changes.count > 0;
  find("no-changes").textContent = unread ? "No changed row could be read." : "No row changes.";
}

function showNotice() {
  const notice = find("notice");
  notice.hidden = changes.count === changes.total;
  replace(notice, `This page holds ${number(changes.count)} of ${number(changes.total)} changed rows: the first of each dataset, and odd ones beyond. `, "See them all with ", element("code", {}, plain(manifest.more, 500)), ".");
}

// Colours as the style has them, for the canvas.
function palette() {
  if (!palette.known) {
    const style = getComputedStyle(document.documentElement);
    const names = ["sea", "land", "border", "grid", "label", "plain", "casing", "focus", "move", "around", ...ROLES];
    palette.known = Object.fromEntries(names.map((name) => [name, style.getPropertyValue(`--map-${name}`).trim()]));
    palette.known.mark = palette.known.deleted;
  }
  return palette.known;
}

function showLegend() {
  const words = { inserted: "inserted", deleted: "deleted", before: "before", after: "after an update" };
  replace(find("legend"), ["inserted", "deleted", "before", "after"].map((role) => {
    const canvas = element("canvas", { width: 32, height: 32, "aria-hidden": "true" });
    const context = canvas.getContext("2d");
    context.scale(2, 2);
    mark(context, role, 8, 8, 4.5, palette());
    return element("li", {}, canvas, words[role]);
  }), changes.datasets.some((each) => each.manifest.around) ? element("li", {}, element("span", { class: "around", "aria-hidden": "true" }), "unchanged") : null);
}

function showTiles() {
  find("tiles-words").textContent = manifest.tiles ? plain(manifest.tiles.words, 200) : "";
  if (manifest.tiles) find("complete").textContent = `Its map asks ${new URL(manifest.tiles.url).host} for tiles, as its maker wished; else this page is complete in itself.`;
}

function showModes() {
  for (const input of document.querySelectorAll("#modes input")) {
    input.addEventListener("change", () => map.setMode(input.value));
  }
}

function setMode(mode) {
  document.querySelector(`#modes input[value=${mode}]`).checked = true;
  map.setMode(mode);
}

// What follows from what the reader does

function narrow(state) {
  const rows = changes.select(state);
  table.show(rows);
  map.show(rows, state.dataset);
  const all = rows.length === changes.count;
  find("shown").textContent = all ? plural(rows.length, "changed row") : `${number(rows.length)} of ${plural(changes.count, "changed row")}`;
  if (chosen < 0) return;
  if (table.place(chosen) < 0) select(-1);
  else table.choose(chosen);
}

function select(row) {
  chosen = row;
  find("explorer").classList.toggle("chosen", row >= 0);
  detail.show(row);
  table.choose(row);
  map.choose(row);
  if (row >= 0) {
    history.replaceState(null, "", changes.link(row));
    find("said").textContent = `${plain(changes.label(row), 80)}, ${KINDS[changes.kind(row)]}`;
  } else if (location.hash) {
    history.replaceState(null, "", location.pathname + location.search);
  }
}

function turnMark(row, mark) {
  if (row < 0) return;
  marks.turn(row, mark);
  table.redress();
  detail.show(row);
}

function explore(part) {
  filters.set({ ...Filters.nothing(), order: filters.state.order, ...part });
  find("explorer").scrollIntoView();
  find("table").focus({ preventScroll: true });
}

function openRow(path, key) {
  const dataset = changes.datasets.find((each) => each.path === path);
  const row = dataset ? dataset.named(key) : -1;
  if (row < 0) {
    find("said").textContent = "this row is not on the page";
    return;
  }
  goTo(dataset.first + row);
}

function goTo(row) {
  if (table.place(row) < 0) filters.clear();
  find("explorer").scrollIntoView();
  select(row);
  map.fit(row);
}

// Go to the row that the address names.
function follow() {
  if (location.hash.length < 2) return;
  const row = changes.linked(location.hash);
  if (row >= 0) goTo(row);
  else find("said").textContent = "the row of this address is not on the page";
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  palette.known = null;
  map.recolour();
  for (const each of conflictMaps) each.draw();
  showLegend();
}

function isDark() {
  const { theme } = document.documentElement.dataset;
  return theme ? theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

function listen() {
  addEventListener("hashchange", follow);
  const turn = () => setTheme(isDark() ? "light" : "dark");
  find("theme").addEventListener("click", turn);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(document.documentElement.dataset.theme || ""));
  find("zoom-in").addEventListener("click", () => map.zoom(1.6));
  find("zoom-out").addEventListener("click", () => map.zoom(1 / 1.6));
  find("zoom-fit").addEventListener("click", () => map.fit());
  find("help-button").addEventListener("click", () => find("help").showModal());
  find("help-close").addEventListener("click", () => find("help").close());
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented || find("help").open) return;
    if (event.target.closest("input:not([type=radio]), select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const acts = {
      "/": () => find("text").focus(), j: () => table.step(1), k: () => table.step(-1),
      v: () => turnMark(chosen, "seen"), d: () => turnMark(chosen, "doubt"),
      z: () => chosen >= 0 && map.fit(chosen), f: () => map.fit(), t: turn,
      "?": () => find("help").showModal(), Escape: () => select(-1),
      1: () => filters.toggle(0), 2: () => filters.toggle(1), 3: () => filters.toggle(2),
      m: () => setMode(MODES[(MODES.indexOf(map.mode) + 1) % MODES.length]), b: () => (map.mode === "blink" ? map.blink() : setMode("blink")),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  });
  addEventListener("beforeprint", () => {
    const rows = table.rows.subarray(0, PRINTED);
    replace(find("printed"), element("h2", {}, rows.length < table.rows.length ? `The first ${number(rows.length)} of ${number(table.rows.length)} changed rows` : "Changed rows"), [...rows].map((row, index) => {
      const made = changeRow(changes, row, index);
      made.removeAttribute("id"); // the table has it
      return made;
    }));
    for (const each of document.querySelectorAll("details.card")) each.open = true;
  });
  addEventListener("afterprint", () => find("printed").replaceChildren());
}
