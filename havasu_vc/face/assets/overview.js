// The first view: where we are, what is edited, what waits; datasets, where they lie, branches.

import { address, ask, askOnce } from "./api.js";
import { Chart } from "./chart.js";
import { element, replace, value } from "./elements.js";
import { number, plural } from "./text.js";
import { by, bytes, commitLink, counts, refs, when } from "./words.js";

const MOST_READ = 300_000; // rows of a dataset whose places are read for the small map

export async function showOverview(box) {
  const found = await ask("overview");
  const { datasets, branches } = found;
  const placed = datasets.filter((each) => each.extent);
  // Those that keep no bounds are read, once all else is shown.
  const unread = datasets.filter((each) => each.geometry && !each.extent && each.rows && each.rows <= MOST_READ);
  const recent = element("section", { class: "box", "aria-label": "Recent changes" });
  const chart = placed.length || unread.length ? new Chart("Where the datasets lie") : null;
  replace(box,
    found.problems.map((each) => element("p", { class: "callout" }, value(each, 600))),
    element("div", { class: "glance" }, here(found), edited(found.edited), waits(found)),
    element("div", { class: "below" },
      element("div", { class: "side" }, element("section", { class: "box", "aria-label": "Datasets" }, element("h2", {}, "Datasets", element("span", { class: "badge" }, number(datasets.length))), datasets.length ? listed(datasets) : element("p", { class: "waiting" }, "There is none yet. ", element("code", {}, "havasu-vc import FILE"), " makes the first.")), recent),
      element("div", { class: "side" },
        chart && element("section", { class: "box", "aria-label": "Map" }, element("h2", {}, "Where it lies"), chart.box, element("p", { class: "chart-note" }, "Each box holds all rows of a dataset.")),
        element("section", { class: "box", "aria-label": "Branches" }, element("h2", {}, "Branches", element("span", { class: "badge" }, number(found.branchesInAll))), listedBranches(branches, found.branch)),
      ),
    ),
  );
  const draw = () => chart?.show(placed.map((each) => ({ name: each.path, key: each.path, box: each.extent })), { open: (path) => { location.hash = address("data", { dataset: path }); }, keep: true });
  draw();
  await recents(recent, found);
  lasts(box, found.commit).then(() => extents(box, unread, found.commit, (one) => { placed.push(one); draw(); })).then(() => { if (!placed.length) box.querySelector("[aria-label=Map]")?.remove(); });
  return { key: (key) => chart?.key(key) };
}

function here(found) {
  const apart = [found.ahead && `${number(found.ahead)} ahead`, found.behind && `${number(found.behind)} behind`].filter(Boolean).join(", ");
  return element("section", { class: "tile" }, element("h2", {}, "On the branch"),
    element("div", { class: "main" }, found.branch ? value(found.branch, 80) : found.commit ? element("span", {}, "no branch, at ", element("code", {}, found.commit.slice(0, 7))) : "no commit yet"),
    found.branch && !found.commit && element("div", { class: "small dim" }, "without a commit yet"),
    found.upstream && element("div", {}, apart ? `${apart} of ` : "even with ", value(found.upstream, 80)),
    found.last && element("div", { class: "small" }, "Last change: ", commitLink(found.last), element("div", { class: "dim" }, by(found.last))),
  );
}

function edited(found) {
  if (!found) return element("section", { class: "tile" }, element("h2", {}, "Edited"), element("div", { class: "main" }, "Nothing is checked out"), element("div", { class: "small" }, element("code", {}, "havasu-vc checkout"), " makes tables to edit"));
  const rows = found.tables.reduce((sum, each) => sum + each.rows.reduce((a, b) => a + b, 0), 0);
  const place = element("div", { class: "small dim" }, "in ", value(found.place, 300));
  if (!found.tables.length) return element("section", { class: "tile" }, element("h2", {}, "Edited"), element("div", { class: "main" }, "Nothing"), place, found.problems.map((each) => element("p", { class: "callout" }, value(each, 400))));
  return element("section", { class: "tile warn" }, element("h2", {}, "Edited, not committed"), element("div", { class: "main" }, `${plural(rows, "row")} of ${plural(found.tables.length, "dataset")}`),
    element("ul", {}, found.tables.map((each) => element("li", {}, value(each.dataset, 80), counts(each.rows), each.meta > 0 && `${plural(each.meta, "meta item")}`))),
    element("div", { class: "small" }, element("a", { href: address("work") }, "See it, and commit it")));
}

function waits(found) {
  const { merge, state } = found;
  if (!merge && state === "clean") return element("section", { class: "tile idle" }, element("h2", {}, "Open merge"), element("div", { class: "main" }, "None"), element("div", { class: "small dim" }, "No conflict waits for an answer"));
  if (!merge) return element("section", { class: "tile warn" }, element("h2", {}, "In the middle of"), element("div", { class: "main" }, value(state)));
  const sum = merge.conflicts.reduce((all, each) => all + each.count, 0);
  return element("section", { class: `tile ${sum ? "warn" : "fine"}` }, element("h2", {}, `Open ${merge.kind}`), element("div", { class: "main" }, sum ? plural(sum, "conflict") : "All is decided"),
    element("ul", {}, merge.conflicts.map((each) => element("li", {}, value(each.dataset, 80), number(each.count)))),
    element("div", { class: "small" }, element("a", { href: address("conflicts") }, sum ? "Answer them" : "Conclude it")));
}

function listed(datasets) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of datasets" }, element("table", { class: "plain" },
    element("thead", {}, element("tr", {}, ["Dataset", "Rows"].map((name, i) => element("th", { scope: "col", class: i ? "number" : null }, name)), element("th", { scope: "col", class: "number optional" }, "Size"), element("th", { scope: "col" }, "Last change"))),
    element("tbody", {}, datasets.map((each) => element("tr", {},
      element("th", { scope: "row" }, element("a", { href: address("data", { dataset: each.path }) }, value(each.path, 120)), each.title && element("div", { class: "small" }, value(each.title, 120)), each.geometry ? element("div", { class: "small" }, "map: ", value(each.geometry, 60), each.crs && [", ", value(each.crs, 60)]) : each.rows === null && element("div", { class: "small" }, "cannot be read")),
      element("td", { class: "number" }, each.rows === null ? "\u2013" : number(each.rows)),
      element("td", { class: "number optional" }, bytes(each.size)),
      element("td", { class: "lasts", "data-dataset": each.path })))),
  ));
}

async function recents(box, { commit, branch }) {
  if (!commit) return box.remove();
  const { commits } = await ask("history", { at: commit, limit: 5 });
  replace(box, element("h2", {}, "Recent changes"), element("ul", { class: "recent" }, commits.map((each) => element("li", {}, element("div", { class: "subject" }, commitLink(each), refs(each.refs, branch)), element("div", { class: "small dim" }, by(each))))),
    element("p", { class: "chart-note" }, element("a", { href: address("history") }, "All of the history")));
}

// The last change of each dataset follows, one after another: it takes a walk through history.
async function lasts(box, commit) {
  // What is asked for quickly is put on the page once it is made: not before this call is over.
  await new Promise((over) => { setTimeout(over); });
  for (const cell of box.querySelectorAll("[data-dataset]")) {
    if (!cell.isConnected) return;
    const { commits: [last] } = await askOnce("history", { dataset: cell.dataset.dataset, at: commit, limit: 1 }).catch(() => ({ commits: [] }));
    if (last) replace(cell, commitLink(last, 60), element("div", { class: "dim" }, value(last.author, 40), " \u00b7 ", when(last.time)));
  }
}

// Where datasets lie that keep no bounds, one after another.
async function extents(box, datasets, commit, place) {
  for (const each of datasets) {
    if (!box.isConnected) return;
    const found = await askOnce("places", { dataset: each.path, at: commit, count: 1 }).catch(() => null);
    if (found?.kind === "globe" && found.box) place({ ...each, extent: found.box });
  }
}

function listedBranches(branches, head) {
  return element("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "List of branches" }, element("table", { class: "plain" },
    element("thead", {}, element("tr", {}, element("th", { scope: "col" }, "Branch"), element("th", { scope: "col" }, "Ahead, behind"))),
    element("tbody", {}, branches.map((each) => element("tr", {},
      element("th", { scope: "row" }, element("a", { class: "plain-link", href: address("history", { at: each.name }) }, refs([each.name], head)), element("div", { class: "small" }, commitLink(each.last, 60), " \u00b7 ", when(each.last.time))),
      element("td", {}, apart(each, head))))),
  ));
}

function apart(each, head) {
  const against = each.isHead ? each.upstream : head || "HEAD";
  if (each.ahead === null) return element("span", { class: "dim" }, each.isHead ? "here" : "");
  const words = each.ahead || each.behind ? [each.ahead && `${number(each.ahead)} ahead`, each.behind && `${number(each.behind)} behind`].filter(Boolean).join(", ") : "even";
  return [words, element("div", { class: "small" }, each.ahead && !each.isHead ? element("a", { href: `/review?${new URLSearchParams({ base: against, head: each.name })}` }, "Review against ", value(against, 40)) : ["with ", value(against, 40)])];
}
