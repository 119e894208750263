// What a reader marks: rows that were seen, and rows in doubt, which make a comment. Both are
// kept in this browser, under the review that they are of.

import { KINDS, UPDATE } from "./changes.js";
import { element, find, replace } from "./elements.js";
import { flagWords } from "./filters.js";
import { number, plain, plural } from "./text.js";

const MOST = 200; // rows in a comment
const CELLS = 4; // of a row there

export class Marks {
  constructor(changes, review) {
    Object.assign(this, { changes, review, marks: new Map() });
    this.name = `havasu-vc review ${JSON.stringify([review.base, review.head, review.mergeBase ?? null, review.commits?.[0]?.id ?? null, changes.total])}`;
    try {
      this.marks = new Map(Object.entries(JSON.parse(localStorage.getItem(this.name)) ?? {}).filter(([, mark]) => mark === "seen" || mark === "doubt"));
    } catch { /* a browser that keeps nothing, or what it kept is not ours */ }
    this.text = element("textarea", { rows: 6, readonly: true, "aria-label": "Comment about rows in doubt", hidden: true });
    this.words = element("span", { class: "dim", role: "status" });
    this.button = element("button", { type: "button", class: "linklike", hidden: true, onclick: () => this.hand() }, "Comment on rows in doubt");
    const bar = element("div", { class: "marks" }, this.words, this.button, this.text);
    find("shown").parentElement.append(bar);
    this.tell();
  }

  of(row) {
    return this.marks.get(this.changes.link(row)) ?? null;
  }

  // Give a row a mark, or take it away where it has that.
  turn(row, mark) {
    const name = this.changes.link(row);
    if (this.marks.get(name) === mark) this.marks.delete(name);
    else this.marks.set(name, mark);
    try {
      localStorage.setItem(this.name, JSON.stringify(Object.fromEntries(this.marks)));
    } catch { /* as above */ }
    this.tell();
    find("said").textContent = { seen: "marked as seen", doubt: "marked as doubtful" }[this.of(row)] ?? "not marked";
  }

  // Show the mark of a row on its line.
  dress(line, row) {
    const mark = this.of(row);
    line.classList.toggle("seen", mark === "seen");
    line.classList.toggle("doubt", mark === "doubt");
    line.querySelector(".mark")?.remove();
    const words = mark === "seen" ? "seen" : "in doubt";
    if (mark) line.querySelector(".c-flags").prepend(element("span", { class: `mark of-${mark}`, title: words }, element("span", { "aria-hidden": "true" }, mark === "seen" ? "\u2713" : "?"), element("span", { class: "unseen" }, words)));
  }

  buttons(row, turned) {
    const mark = this.of(row);
    return element("div", { class: "mark-buttons buttons", role: "group", "aria-label": "Marks" }, [["seen", "Seen (v)"], ["doubt", "In doubt (d)"]].map(([each, words]) => element("button", { type: "button", "aria-pressed": String(mark === each), onclick: () => turned(each) }, words)));
  }

  tell() {
    const counts = { seen: 0, doubt: 0 };
    for (const mark of this.marks.values()) counts[mark]++;
    this.words.textContent = this.marks.size ? `${number(counts.seen)} seen, ${number(counts.doubt)} in doubt` : "";
    this.button.hidden = !counts.doubt;
    if (!counts.doubt) this.text.hidden = true;
    else if (!this.text.hidden) this.text.value = this.comment();
  }

  // The rows in doubt as Markdown, in which no value can be more than text.
  comment() {
    const names = [...this.marks].filter(([, mark]) => mark === "doubt").map(([name]) => name);
    const lines = names.slice(0, MOST).flatMap((name) => {
      const row = this.changes.linked(name);
      if (row < 0) return [];
      const dataset = this.changes.datasetOf(row);
      const at = row - dataset.first;
      return [`- ${code(`${dataset.path}:${this.changes.label(row)}`)} ${KINDS[dataset.kinds[at]]}${changed(dataset, at)}${this.changes.flagsOf(row).map((flag) => `; ${flagWords(flag)}`).join("")}`];
    });
    if (names.length > MOST) lines.push(`- and ${plural(names.length - MOST, "row")} more`);
    return [`${plural(names.length, "row")} of ${code(this.review.base)} \u2192 ${code(this.review.head)} in doubt:`, "", ...lines, ""].join("\n");
  }

  async hand() {
    this.text.hidden = false;
    this.text.value = this.comment();
    this.text.select();
    try {
      await navigator.clipboard.writeText(this.text.value);
      find("said").textContent = "comment copied";
      replace(this.button, "Comment copied");
    } catch { /* without the right to write, it is selected */ }
    setTimeout(() => replace(this.button, "Comment on rows in doubt"), 2000);
  }
}

// What became what in a row that was updated.
function changed(dataset, at) {
  if (dataset.kinds[at] !== UPDATE) return "";
  const text = (side) => (side === null ? "none" : side.text === null ? "null" : code(side.text, 60));
  const words = dataset.cells(at, CELLS + 1).map(({ column, old, now }) => (column.kind === "value" ? `${code(column.name, 40)} ${text(old)} \u2192 ${text(now)}` : `${code(column.name, 40)} changed`));
  return `: ${words.slice(0, CELLS).join(", ")}${words.length > CELLS ? ", \u2026" : ""}`;
}

function code(text, longest = 120) {
  const shown = plain(text, longest) || " ";
  const fence = "`".repeat(1 + Math.max(0, ...(shown.match(/`+/g) ?? []).map((each) => each.length)));
  return fence.length > 1 ? `${fence} ${shown} ${fence}` : fence + shown + fence;
}
