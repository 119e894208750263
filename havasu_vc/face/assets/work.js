// What is edited: rows with their cells before and after, to tick and commit, set aside or drop;
// branches and merges beside it. Whatever is done is said, and the view looks again.

import { act, address, ask, askOnce } from "./api.js";
import { element, find, marked, replace, value } from "./elements.js";
import { choice } from "./history.js";
import { didSomething } from "./jobs.js";
import { bringBack } from "./past.js";
import { number, plural } from "./text.js";
import { by, commitLink, counts } from "./words.js";

const SIGNS = { inserted: "+", updated: "~", deleted: "\u2212" };

// `left` are the filters of what was not ticked before, and is not now.
export async function showWork(box, _, left = []) {
  const found = await ask("work");
  const ticks = new Ticks(found.datasets);
  const said = element("p", { class: "callout", role: "status", hidden: true });

  async function run(what, asked, button) {
    button.disabled = true;
    said.hidden = false;
    said.className = "callout";
    replace(said, "Working \u2026");
    try {
      const { said: words } = await act(what, asked, found.seen);
      await tell(words);
    } catch (error) {
      button.disabled = false;
      // Stale: what was ticked and written stays until the reader looks again.
      replace(said, value(error.message, 800), error.status === 409 && [" ", element("button", { type: "button", class: "quiet", onclick: () => again(box) }, "Look again")]);
      said.scrollIntoView({ block: "nearest" });
    }
  }

  async function tell(words) {
    await didSomething();
    await showWork(box, {}, ticks.left);
    const told = box.querySelector("[role=status]");
    told.hidden = false;
    told.className = "callout done";
    replace(told, value(words, 400));
    find("said").textContent = words;
  }

  const button = (label, what, asked, attributes = {}) => element("button", { type: "button", ...attributes, onclick: (event) => { const sent = asked(); if (sent) run(what, sent, event.currentTarget); } }, label);
  replace(box, said,
    element("div", { class: "below" },
      element("div", { class: "side" }, found.merge && waiting(found.merge, button), edits(found, ticks, button)),
      element("div", { class: "side" }, found.datasets.length > 0 && keep(ticks, button), places(found, button), aside(found, button), found.head && back(tell)),
    ));
  ticks.leave(left);
  return {};
}

// Show the work anew, and keep the message that was written.
async function again(box) {
  const message = box.querySelector("#commit-message")?.value;
  await showWork(box);
  const anew = box.querySelector("#commit-message");
  if (anew && message) anew.value = message;
}

// Which rows are ticked: of each dataset all, or some.
class Ticks {
  constructor(datasets) {
    this.datasets = datasets.map((each) => ({ ...each, whole: true, boxes: [] }));
    this.summary = element("p", { class: "small dim", role: "status" });
  }

  get filters() {
    return this.datasets.flatMap((each) => (each.whole ? [each.dataset] : each.boxes.filter((box) => box.checked).map((box) => `${each.dataset}:feature:${box.dataset.key}`)));
  }

  get left() {
    return this.datasets.flatMap((each) => [...(each.head.checked || each.head.indeterminate ? [] : [each.dataset]), ...each.boxes.filter((box) => !box.checked).map((box) => `${each.dataset}:feature:${box.dataset.key}`)]);
  }

  // Take ticks away, of datasets and rows.
  leave(filters) {
    const out = new Set(filters);
    for (const each of this.datasets) {
      const gone = each.boxes.filter((box) => out.has(`${each.dataset}:feature:${box.dataset.key}`));
      gone.forEach((box) => { box.checked = false; });
      if (gone.length) this.counted(each);
      else if (out.has(each.dataset)) each.whole = each.head.checked = false;
    }
    this.tell();
  }

  counted(each) {
    const ticked = each.boxes.filter((box) => box.checked).length;
    each.whole = ticked === each.boxes.length && each.listed.length === each.rows.reduce((a, b) => a + b, 0);
    each.head.checked = each.whole;
    each.head.indeterminate = ticked > 0 && !each.whole;
  }

  get count() {
    return this.datasets.reduce((sum, each) => sum + (each.whole ? each.rows.reduce((a, b) => a + b, 0) : each.boxes.filter((box) => box.checked).length), 0);
  }

  tell() {
    const all = this.datasets.reduce((sum, each) => sum + each.rows.reduce((a, b) => a + b, 0), 0);
    this.summary.textContent = `${number(this.count)} of ${plural(all, "edited row")} ticked`;
  }

  // The box before a dataset ticks all its rows; those of rows make it half ticked.
  head(each) {
    each.head = element("input", { type: "checkbox", checked: true, "aria-label": `All of ${each.dataset}`, onchange: () => {
      each.whole = each.head.checked;
      each.boxes.forEach((box) => { box.checked = each.head.checked; });
      this.tell();
    } });
    return each.head;
  }

  row(each, row) {
    const made = element("input", { type: "checkbox", checked: true, "data-key": row.key, "aria-label": `Row ${row.key}`, onchange: () => {
      this.counted(each);
      this.tell();
    } });
    each.boxes.push(made);
    return made;
  }
}

function waiting(merge, button) {
  const left = merge.conflicts.reduce((sum, each) => sum + each.count, 0);
  return element("section", { class: "box padded", "aria-label": "Open merge" }, element("h2", {}, left ? `A ${merge.kind} waits for ${plural(left, "answer")}` : `A ${merge.kind} waits to be concluded`),
    element("ul", {}, merge.conflicts.map((each) => element("li", {}, value(each.dataset, 80), ": ", plural(each.count, "conflict")))),
    left > 0 && element("p", {}, element("a", { href: address("conflicts") }, "Answer them")),
    element("div", { class: "actions" }, !left && button("Conclude it", "conclude", () => ({}), { class: "main-button" }), sure(button, "Drop the merge", "abort", {})));
}

function edits(found, ticks, button) {
  const { edited } = found;
  const nothing = !edited ? ["Nothing is checked out. ", element("code", {}, "havasu-vc checkout"), " makes tables for engines, ", element("code", {}, "havasu-vc create-workingcopy"), " a GeoPackage for QGIS."] : ["Nothing is edited in ", value(edited.place, 300), "."];
  if (!ticks.datasets.length) return element("section", { class: "box padded", "aria-label": "Edits" }, element("h2", {}, "Edits"), element("p", { class: "dim" }, nothing), edited?.problems.map((each) => element("p", { class: "callout" }, value(each, 400))));
  return [
    element("div", { class: "head-line" }, element("h2", {}, "Edited, not committed"), element("a", { href: "/review?work=1" }, "On the map, before and after")),
    edited.problems.map((each) => element("p", { class: "callout" }, value(each, 400))),
    ticks.datasets.map((each) => dataset(each, ticks, button)),
  ];
}

function dataset(each, ticks, button) {
  const sum = each.rows.reduce((a, b) => a + b, 0);
  return element("section", { class: "box", "aria-label": each.dataset },
    element("header", { class: "edited-head" }, element("label", {}, ticks.head(each), element("h2", {}, value(each.dataset, 100))), counts(each.rows), each.meta.length > 0 && element("span", { class: "dim" }, each.meta.map((name) => [value(name, 60), " "])), element("span", { class: "spread" }), sure(button, "Drop the edits", "discard", { datasets: [each.dataset] })),
    each.listed.length > 0 && element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Edited rows of ${each.dataset}` }, element("table", { class: "plain edits" },
      element("thead", {}, element("tr", {}, element("th", { scope: "col" }, element("span", { class: "unseen" }, "Ticked")), ["Row", "What changed"].map((name) => element("th", { scope: "col" }, name)), element("th", { scope: "col" }, element("span", { class: "unseen" }, "Drop")))),
      element("tbody", {}, each.listed.map((row) => element("tr", {}, element("td", {}, each.keyed && ticks.row(each, row)), element("th", { scope: "row" }, element("span", { class: `sign ${row.what}`, "aria-hidden": "true" }, SIGNS[row.what]), " ", value(row.key, 40), element("span", { class: "unseen" }, ` ${row.what}`)), element("td", {}, row.cells.map((cell) => cellOf(cell, row.what))), element("td", { class: "drop" }, each.keyed && sure(button, "Drop", "drop", { filters: [`${each.dataset}:feature:${row.key}`] }, `Drop the edit of row ${row.key}`))))))),
    each.listed.length < sum && element("p", { class: "chart-note" }, `${plural(sum - each.listed.length, "more row")}: the review has them.`));
}

function cellOf([name, old, now], what) {
  const text = (each) => (each === null ? element("span", { class: "null" }, "null") : value(each, 60));
  const shown = what === "inserted" ? text(now) : what === "deleted" ? element("del", {}, text(old)) : old !== null && now !== null ? marked(old, now, 40).flatMap((each, i) => (i ? [" \u2192 ", each] : [each])) : [text(old), " \u2192 ", text(now)];
  return element("div", { class: "edit" }, element("span", { class: "dim" }, value(name, 40), " "), shown);
}

function keep(ticks, button) {
  const message = element("textarea", { id: "commit-message", rows: 3, placeholder: "What changed, and why", "data-first": true });
  return element("section", { class: "box padded", "aria-label": "Commit" }, element("h2", {}, "Commit"), ticks.summary,
    element("label", {}, element("span", { class: "unseen" }, "Message"), message),
    element("div", { class: "actions" }, button("Commit what is ticked", "commit", () => {
      if (!message.value.trim()) return message.focus();
      return ticks.filters.length ? { filters: ticks.filters, message: message.value } : undefined;
    }, { class: "main-button", id: "commit" }), button("Set all aside", "stash", () => ({ message: message.value }))));
}

function places(found, button) {
  const others = found.branches.filter((each) => each !== found.head);
  const to = others.length > 0 && choice("Branch", others[0], others.map((each) => [each, each]), () => {});
  const chosen = () => ({ branch: to.querySelector("select").value });
  const name = element("input", { type: "text", placeholder: "Name of a new branch", autocomplete: "off", spellcheck: "false" });
  return element("section", { class: "box padded", "aria-label": "Branch" }, element("h2", {}, "On ", found.head ? element("span", { class: "ref head" }, value(found.head, 60)) : "no branch"),
    to && element("div", { class: "actions" }, to, button("Switch to it", "switch", chosen, { id: "switch" }), button("Merge it into this", "merge", chosen, { id: "merge" })),
    element("div", { class: "actions" }, element("label", { class: "field grow" }, element("span", { class: "unseen" }, "Name of a new branch"), name), button("Make and switch", "branch", () => (name.value.trim() ? { name: name.value } : name.focus()), { id: "branch" })));
}

function aside(found, button) {
  if (!found.stashes.length) return null;
  return element("section", { class: "box padded", "aria-label": "Set aside" }, element("h2", {}, "Set aside"), element("ul", { class: "stashes" }, found.stashes.map((each) => element("li", {}, element("span", {}, value(each.message, 160)), button("Bring back", "unstash", () => ({ stash: each.name }))))));
}

// A row as it was at any commit: its past is listed, and each of it can come back.
function back(tell) {
  const which = element("div", { class: "field" });
  const key = element("input", { type: "text", placeholder: "Key of a row", autocomplete: "off", spellcheck: "false", "aria-label": "Key of a row" });
  const list = element("div", { class: "row-past" });
  const look = async (event) => {
    event.preventDefault();
    const dataset = which.querySelector("select")?.value;
    if (!key.value || !dataset) return key.focus();
    try {
      const { commits } = await ask("history", { dataset, key: key.value, limit: 50 });
      replace(list, commits.length ? element("ol", {}, commits.map((each) => element("li", {}, element("span", {}, commitLink(each), element("div", { class: "small dim" }, by(each))), bringBack(dataset, key.value, each, tell)))) : element("p", { class: "dim" }, "No commit changed a row of that key."));
    } catch (error) {
      replace(list, element("p", { class: "callout", role: "alert" }, value(error.message, 400)));
    }
  };
  askOnce("datasets", {}).then(({ datasets }) => { if (datasets.length) replace(which, choice("Dataset of the row", datasets[0], datasets.map((each) => [each, each]), () => replace(list))); }).catch(() => {});
  return element("section", { class: "box padded", "aria-label": "Bring a row back" }, element("h2", {}, "Bring a row back"),
    element("form", { class: "actions", onsubmit: look }, which, element("label", { class: "field grow" }, key), element("button", { type: "submit" }, "Its past")), list);
}

// A button that asks once more before it takes something away.
export function sure(button, label, what, asked, name = null) {
  let armed = false;
  const made = button(label, what, () => {
    if (armed) return asked;
    armed = true;
    made.textContent = `${label}: really?`;
    made.classList.add("armed");
    if (name) made.setAttribute("aria-label", `${label}: really? ${name}`);
    setTimeout(() => {
      armed = false;
      made.textContent = label;
      made.classList.remove("armed");
      if (name) made.setAttribute("aria-label", name);
    }, 4000);
    return undefined;
  }, { class: "quiet", "aria-label": name });
  return made;
}
