// The summary, for someone who decides within a minute: what is odd comes first, then what
// happened to each dataset, its columns and its area, and rows worth seeing.

import { KINDS, SIGNS } from "./changes.js";
import { element, find, marked, replace, sentence, value } from "./elements.js";
import { flagWords } from "./filters.js";
import { rasterWords } from "./table.js";
import { distance, number, plain, plural, short } from "./text.js";

const OPEN = 3;
const MOST = 300;
const LOOKS = 12;
const AUTHORS = 3;
const ALIKE = 2;
const CELLS = 3;
const RASTERS = 3; // told of a column

export function showSummary(manifest, changes, { filter, open }) {
  const { review } = manifest;
  replace(find("overview"), review.datasets.length ? tiles(review) : element("p", {}, "No dataset changes."));
  replace(find("commits"), review.commits.length ? commits(review) : null);
  replace(find("notes"), [
    review.findings.map((finding) => findingLine(finding, open)),
    review.notes.map((note) => element("p", { class: "callout" }, sentence(note))),
  ]);
  replace(find("datasets"),
    review.datasets.length > 1 ? datasetTable(review) : null,
    review.datasets.slice(0, MOST).map((each, index) => card(each, index, index < OPEN && review.datasets.length <= 2 * OPEN, changes, { filter, open })),
    review.datasets.length > MOST ? element("p", { class: "dim" }, `${review.datasets.length - MOST} more datasets are in the filter below.`) : null);
}

export function sumOf(review) {
  const sum = [0, 0, 0];
  for (const { counts } of review.datasets) [counts.inserts, counts.updates, counts.deletes].forEach((count, kind) => (sum[kind] += count));
  return sum;
}

function tiles(review) {
  const odd = review.findings.length + review.datasets.reduce((sum, each) => sum + each.flags.length, 0);
  const sum = sumOf(review);
  const tile = (label, kind) => element("div", { class: `tile ${KINDS[kind]}` }, element("span", { class: "big" }, element("span", { class: `sign ${KINDS[kind]}`, "aria-hidden": "true" }, SIGNS[kind]), number(sum[kind])), element("span", { class: "label" }, label));
  return element("div", { class: "tiles" },
    tile("rows inserted", 0), tile("rows updated", 1), tile("rows deleted", 2),
    element("div", { class: "tile" }, element("span", { class: "big" }, number(review.datasets.length)), element("span", { class: "label" }, review.datasets.length === 1 ? "dataset" : "datasets")),
    element(odd ? "a" : "div", { class: `tile ${odd ? "warn" : "fine"}`, href: odd ? "#datasets" : null, onclick: odd ? (event) => { event.preventDefault(); find("datasets").scrollIntoView(); } : null }, element("span", { class: "big" }, odd ? "\u26a0 " : "\u2713 ", number(odd)), element("span", { class: "label" }, odd === 1 ? "thing to look at" : "things to look at")));
}

// Who changed what, when and why: the last commit at once, all of them when asked for.
function commits(review) {
  const { commits: [last], commitCount: count } = review;
  const authors = [...new Set(review.commits.map((each) => each.author))];
  const names = authors.slice(0, AUTHORS).flatMap((name, index) => [index ? ", " : "", value(name, 60)]);
  return element("details", { class: "card commits" },
    element("summary", {},
      element("span", {}, element("strong", {}, plural(count, "commit")), " by ", names, authors.length > AUTHORS ? " and others" : ""),
      element("span", { class: "dim" }, element("time", { datetime: last.date }, last.date), " \u00b7 ", value(last.subject, 120))),
    element("ol", {}, review.commits.map((each) => element("li", {}, element("span", {}, value(each.subject, 300)), element("span", { class: "dim" }, value(each.author, 60), " \u00b7 ", element("time", { datetime: each.date }, each.date), " \u00b7 ", element("code", {}, each.id.slice(0, 10)))))),
    count > review.commits.length ? element("p", { class: "dim" }, `and ${number(count - review.commits.length)} before these`) : null);
}

function datasetTable(review) {
  const widest = Math.max(...review.datasets.map(({ counts }) => counts.inserts + counts.updates + counts.deletes), 1);
  return element("div", { class: "scroll-x", tabindex: "0", role: "region", "aria-label": "Rows of each dataset" }, element("table", { class: "plain" },
    element("thead", {}, element("tr", {}, ["Dataset", "Rows before", "Inserted", "Updated", "Deleted", "Rows after", "Look at"].map((text, index) => element("th", { scope: "col", class: index ? "number" : "" }, text)))),
    element("tbody", {}, review.datasets.slice(0, MOST).map((each, index) => element("tr", {},
      element("th", { scope: "row" }, element("a", { href: `#dataset-${index}`, onclick: (event) => { event.preventDefault(); const box = find(`dataset-${index}`); box.open = true; box.scrollIntoView(); } }, value(each.path)), each.state === "changed" ? null : [" ", element("span", { class: "badge" }, each.state)], bar(each.counts, widest)),
      [each.rowsBefore, each.counts.inserts, each.counts.updates, each.counts.deletes, each.rowsAfter].map((count) => element("td", { class: "number" }, count === null ? "?" : count ? number(count) : "\u00b7")),
      element("td", { class: "number" }, each.flags.length ? element("span", { class: "flagged" }, `\u26a0 ${each.flags.length}`) : "\u00b7")))))); 
}

function bar(counts, whole) {
  const parts = [counts.inserts, counts.updates, counts.deletes];
  const made = element("span", { class: "bar", "aria-hidden": "true" });
  parts.forEach((count, kind) => {
    const part = element("span", { class: KINDS[kind] });
    part.style.width = `${(100 * count) / whole}%`;
    made.append(part);
  });
  return made;
}

function card(each, place, isOpen, changes, { filter, open }) {
  const rows = changes.datasets.find((dataset) => dataset.path === each.path);
  const only = (part) => filter({ ...part, dataset: changes.datasets.length > 1 ? rows.number : null });
  const { counts } = each;
  const total = counts.inserts + counts.updates + counts.deletes;
  return element("details", { class: "card", id: `dataset-${place}`, open: isOpen },
    element("summary", {},
      element("h2", {}, value(each.path)), each.title ? element("span", { class: "dim" }, value(each.title, 120)) : null,
      each.state === "changed" ? null : element("span", { class: "badge" }, each.state),
      element("span", { class: "chips" }, [counts.inserts, counts.updates, counts.deletes].map((count, kind) => count ? element("span", { class: `chip ${KINDS[kind]}` }, element("span", { class: `sign ${KINDS[kind]}`, "aria-hidden": "true" }, SIGNS[kind]), number(count), element("span", { class: "unseen" }, ` ${KINDS[kind]} `)) : null)),
      each.flags.length ? element("span", { class: "flagged" }, `\u26a0 ${each.flags.length}`) : null),
    element("div", { class: "card-body" },
      element("div", {},
        each.flags.map((flag) => flagLine(flag, only, rows, changes, { each, open })),
        each.words.length ? section("Schema and description", element("ul", { class: "words" }, each.words.map((words) => element("li", {}, sentence(words))))) : null,
        section("Rows", element("p", {}, rowWords(each, total))),
        areaSection(each.area, rows?.unit || ""),
        each.samples.length ? section("Worth a look", samples(each, rows, open)) : null),
      each.columns.length ? section("Columns changed in updated rows", columns(each, rows, (name) => only({ column: name, kinds: [false, true, false] }))) : null));
}

const section = (title, ...content) => element("section", {}, element("h3", {}, title), content);

// Something against the policy; what refuses the change is told apart from what warns.
function findingLine(finding, open) {
  return element("div", { class: `callout ${finding.refuses ? "refuse" : "warn"}` },
    element("strong", {}, finding.refuses ? "Against the policy" : "Policy warns"),
    element("div", {}, finding.dataset ? [element("code", {}, plain(finding.dataset, 80)), ": "] : null, sentence(finding.message), element("span", { class: "dim" }, ` (${finding.rule})`),
      finding.rows.length ? element("div", { class: "keys" }, finding.rows.map((key) => rowLink(finding.dataset, key, open))) : null));
}

// Something odd, with what shows its rows where they are on the page.
function flagLine(flag, only, rows, changes, { each, open }) {
  let part = null;
  if (rows?.hasFlag(changes.flags.indexOf(flag.kind))) part = { flag: flag.kind };
  else if (rows && flag.kind === "mass-delete") part = { kinds: [false, false, true] };
  return element("div", { class: "callout warn" },
    element("span", { "aria-hidden": "true" }, "\u26a0"),
    element("div", {}, sentence(flag.message),
      flag.rows.length ? element("div", { class: "keys" }, flag.rows.map((key) => rowLink(each.path, key, open))) : null),
    part ? element("button", { type: "button", onclick: () => only(part), "aria-label": `Show rows: ${flagWords(flag.kind)}` }, "Show rows") : null);
}

function rowLink(path, key, open) {
  return element("a", { href: `#${encodeURIComponent(path)}:${encodeURIComponent(key)}`, onclick: (event) => { event.preventDefault(); open(path, key); } }, value(key, 40));
}

function rowWords(each, total) {
  // Where only the changes are known, rows are not counted.
  const [before, after] = [each.rowsBefore, each.rowsAfter];
  if (each.state === "added") return `The dataset is new${after === null ? "" : `, with ${plural(after, "row")}`}.`;
  if (each.state === "removed") return `The dataset is removed${before === null ? "" : ` with its ${plural(before, "row")}`}.`;
  if (!total) return `No row${before === null ? "" : ` of ${number(before)}`} changes.`;
  if (before === null || after === null) return "";
  const touched = each.counts.updates + each.counts.deletes;
  const share = before ? (100 * touched) / before : 0;
  const part = share >= 100 ? "All" : `${share.toFixed(share >= 99.95 ? 2 : 1)}%`;
  const percent = share >= 0.1 ? ` ${part} of what was there is updated or deleted.` : "";
  return `${number(before)} before, ${number(after)} after.${percent}`;
}

const corners = (bounds) => `${short(bounds.xmin)}, ${short(bounds.ymin)} to ${short(bounds.xmax)}, ${short(bounds.ymax)}`;

// Square metres, with four digits that count.
function ground(metres) {
  const [size, unit] = metres >= 1e7 ? [1e6, "km\u00b2"] : metres >= 1e4 ? [1e4, "ha"] : [1, "m\u00b2"];
  return `${Number((metres / size).toPrecision(4)).toLocaleString("en-US")} ${unit}`;
}

function areaSection(found, unit) {
  const lines = [];
  if (!found) return null;
  if (found.touched) lines.push([`Changes lie in ${corners(found.touched)}`, found.crs ? [" (", element("code", {}, plain(found.crs, 60)), ")"] : null]);
  if (found.moved && found.farthest > 0) lines.push(`${plural(found.moved, "geometry", "geometries")} changed; the farthest moved ${distance(found.farthest, unit)}.`);
  if (found.before && found.after && corners(found.before) !== corners(found.after)) lines.push(`The extent was ${corners(found.before)} and is ${corners(found.after)}.`);
  if (found.covered) {
    const [gone, come] = found.covered.map(ground);
    lines.push(gone === come ? `Inserted shapes cover ${come}, as much as deleted ones.` : `Inserted shapes cover ${come}, deleted ones ${gone}.`);
  }
  return lines.length ? section("Area", element("ul", { class: "words" }, lines.map((line) => element("li", {}, line)))) : null;
}

// A few rows of each reason; a distance at its end is not part of a reason.
function fewOfEach(samples) {
  const seen = new Map();
  return samples.filter(({ reason }) => {
    const name = reason.replace(/ [\d.,]+ \w+$/, "");
    seen.set(name, (seen.get(name) || 0) + 1);
    return seen.get(name) <= ALIKE;
  });
}

// A row in words: why it is here, and what of it became what. That a column changed needs no
// word where its cells stand, and the map has the shapes.
function told(sample, rows) {
  const kindOf = (name) => rows?.columns.find((one) => one.name === name)?.kind ?? "value";
  const cells = sample.kind === "update" ? sample.cells.filter((cell) => kindOf(cell.column) !== "geometry") : [];
  const reason = cells.length && sample.reason.startsWith("`") ? null : element("span", { class: "dim" }, sentence(sample.reason), " ");
  const text = (side) => (side === null ? element("i", { class: "null" }, "null") : value(side, 40));
  const became = (column, old, now) => (kindOf(column) === "raster" && old && now ? value(rasterWords(now), 90) : arrow(...(old && now ? marked(old, now, 28) : [text(old), text(now)])));
  const lines = cells.slice(0, CELLS).map(({ column, old, new: now }) => element("span", { class: "cell" }, element("span", { class: "name" }, value(column, 40)), " ", became(column, old, now), " "));
  return [reason, lines, cells.length > CELLS ? element("span", { class: "dim" }, "\u2026") : null];
}

const arrow = (old, now) => [old, " \u2192 ", now];

function samples(each, rows, open) {
  return element("ul", { class: "samples" }, fewOfEach(each.samples).slice(0, LOOKS).map((sample) => {
    const kind = ["insert", "update", "delete"].indexOf(sample.kind);
    return element("li", {}, element("span", { class: `sign ${KINDS[kind]}`, "aria-hidden": "true" }, SIGNS[kind]), element("span", { class: "unseen" }, KINDS[kind]),  " ", rowLink(each.path, sample.key, open), " ", element("span", {}, sample.label ? [value(sample.label, 60), " "] : null, told(sample, rows)));
  }));
}

function columns(each, rows, show) {
  const widest = Math.max(...each.columns.map((column) => column.changed), 1);
  return element("table", { class: "plain columns" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Column"), element("th", { scope: "col", class: "number" }, "Rows"), element("th", { scope: "col" }, "What happened"))),
    element("tbody", {}, each.columns.slice(0, 60).map((column) => {
      const share = element("span", { class: "updated" });
      share.style.width = `${(100 * column.changed) / widest}%`;
      return element("tr", {},
        element("th", { scope: "row" }, element("button", { type: "button", class: "linklike", onclick: () => show(column.name) }, value(column.name, 80)), element("span", { class: "bar", "aria-hidden": "true" }, share)),
        element("td", { class: "number" }, number(column.changed)),
        element("td", {}, whatHappened(column, each, rows)));
    })),
    each.columns.length > 60 ? element("tfoot", {}, element("tr", {}, element("td", { colspan: 3 }, `${each.columns.length - 60} more columns`))) : null);
}

function whatHappened(column, { area, samples }, rows) {
  const lines = [];
  const kind = rows?.columns.find((one) => one.name === column.name)?.kind;
  if (kind === "geometry" && area?.farthest > 0) lines.push(`the farthest moved ${distance(area.farthest, rows.unit)}`);
  if (kind === "raster") {
    for (const { key, cells } of samples.slice(0, RASTERS)) {
      const cell = cells.find((each) => each.column === column.name);
      if (cell?.old && cell.new) lines.push([value(key, 40), ": ", value(rasterWords(cell.new), 120)]);
    }
  }
  const { numbers } = column;
  if (numbers && numbers.oldMean !== null && numbers.newMean !== null) {
    lines.push(`mean ${short(numbers.oldMean)} \u2192 ${short(numbers.newMean)}` + (numbers.least === null ? "" : `, now ${short(numbers.least)} to ${short(numbers.greatest)}`));
  }
  if (column.emptied) lines.push(`${number(column.emptied)} to null`);
  if (column.filled) lines.push(`${number(column.filled)} from null`);
  for (const each of column.transitions.slice(0, 5)) {
    const text = (side) => (side === null ? element("i", { class: "null" }, "null") : value(side, 40));
    const [old, now] = each.old && each.new ? marked(each.old, each.new, 40) : [text(each.old), text(each.new)];
    lines.push([old, " \u2192 ", now, element("span", { class: "dim" }, ` \u00d7 ${number(each.count)}`)]);
  }
  return element("ul", { class: "words" }, lines.map((line) => element("li", {}, line)));
}

