// Commits, newest first, with the graph of their descent and what each changed.

import { ask, askOnce, note } from "./api.js";
import { boxOf, boxText, boxTools } from "./boxes.js";
import { Chart } from "./chart.js";
import { element, replace, value } from "./elements.js";
import { graph, Lanes } from "./lanes.js";
import { plural } from "./text.js";
import { by, counts, refs, reviewOf } from "./words.js";

const PAGE = 60;
const SHOWN = 4;

export async function showHistory(box, query) {
  const [names, overview] = await Promise.all([ask("refs"), ask("datasets", { at: query.at })]);
  const state = { at: query.at || "", dataset: query.dataset || "", author: query.author || "", text: query.text || "", key: query.key || "", box: boxOf(query.box) ? query.box : "" };
  const list = element("div", { class: "box commits", role: "group", "aria-label": "Commits" });
  const change = (name) => (event) => { state[name] = event.target.value; note("history", state); load(); };
  const where = place(state.box, (chosen) => { state.box = chosen ? boxText(chosen) : ""; note("history", state); load(); });
  replace(box,
    element("div", { class: "tools", role: "search", "aria-label": "Filter" },
      choice("Branch or tag", state.at, [["", names.head ? `${names.head} (here)` : "here"], ...[...names.branches, ...names.remote, ...names.tags].filter((each) => each !== names.head).map((each) => [each, each])], change("at")),
      choice("Dataset", state.dataset, [["", "All datasets"], ...overview.datasets.map((each) => [each, each])], change("dataset")),
      text("author", "Author", state.author, change("author")),
      text("row-key", "Key of a row", state.key, change("key")),
      text("message", "Text of the message  ( / )", state.text, change("text"), true),
    ), where.box, list);

  let [skip, lanes, observer] = [0, new Lanes(), null];

  async function load() {
    [skip, lanes] = [0, new Lanes()];
    observer?.disconnect();
    observer = new IntersectionObserver((seen) => seen.filter((each) => each.isIntersecting).forEach(({ target }) => fill(target)), { rootMargin: "200px" });
    replace(list, state.box && element("p", { class: "waiting" }, "Looking which commits changed a row there \u2026"));
    await more();
    list.querySelector(".waiting:not(:only-child)")?.remove();
  }

  async function more() {
    const mine = lanes;
    try {
      const found = await ask("history", { ...state, skip, limit: PAGE });
      if (mine !== lanes) return;
      skip += found.commits.length;
      list.querySelector(".more")?.remove();
      const drawn = !(state.dataset || state.author || state.text || state.box);
      const rows = found.commits.map((commit) => [commit, lanes.next(commit)]);
      const widest = Math.max(0, ...rows.flatMap(([, row]) => [row.at, row.above.length - 1, row.below.length - 1]));
      for (const [commit, row] of rows) {
        const made = shown(commit, drawn ? graph(row, widest) : element("span"), names.head);
        list.append(made);
        observer.observe(made);
      }
      if (found.more) list.append(element("div", { class: "more" }, element("button", { type: "button", onclick: more }, "Show older commits")));
      if (!skip) replace(list, element("p", { class: "waiting" }, "No commit is like that."));
    } catch (error) {
      if (mine === lanes) replace(list, element("p", { class: "callout", role: "alert" }, value(error.message, 600)));
    }
  }

  async function fill(target) {
    observer.unobserve(target);
    const found = await askOnce("changes", { commit: target.dataset.commit }).catch((error) => ({ datasets: [], note: error.message }));
    // A merge may change files alone, and no row beside what its first parent has.
    const changed = found.datasets.filter((each) => each.what !== "changed" || each.meta.length || each.rows.some(Boolean));
    const rest = changed.length - SHOWN;
    replace(target.querySelector(".counts"), found.note ? element("span", { class: "of", title: found.note }, "not all can be read") : !changed.length && element("span", { class: "of dim" }, "no rows"),
      changed.slice(0, SHOWN).map((each) => element("span", { class: "of" }, value(each.dataset, 40), each.what !== "changed" && element("span", { class: "dim" }, each.what), counts(each.rows), each.meta.length > 0 && element("span", { class: "dim" }, plural(each.meta.length, "meta item")))),
      rest > 0 && element("span", { class: "of" }, `and ${plural(rest, "dataset")} more`));
  }

  await load();
  return {
    key(key) {
      const rows = [...list.querySelectorAll(".commit")];
      const at = rows.indexOf(document.activeElement);
      if (key === "j") rows[Math.min(at + 1, rows.length - 1)]?.focus();
      else if (key === "k") rows[Math.max(at - 1, 0)]?.focus();
      else if (key === "b" && where.chart) where.toggle();
      else return where.chart?.key(key) ?? false;
      return true;
    },
  };
}

// A map to draw the box on, which is folded away until a place is asked for.
function place(chosen, narrow) {
  const holder = element("details", { class: "box where", open: Boolean(chosen) }, element("summary", {}, chosen ? "Only commits that changed rows in the box" : "Only commits that changed a place"));
  const found = { box: holder, chart: null, toggle: () => { holder.open = !holder.open; } };
  let tools = null;
  const show = (items, box) => found.chart.show([...items, ...(box ? [{ box, role: "focus", dashed: true, hollow: true }] : [])], { open: () => {} });
  async function open() {
    if (found.chart) return;
    found.chart = new Chart("The place");
    const { datasets } = await ask("overview");
    const items = datasets.filter((each) => each.extent).map((each) => ({ name: each.path, box: each.extent, faint: true }));
    const set = (box) => {
      show(items, box);
      found.chart.moved = true;
      tools?.remove();
      found.chart.box.querySelector(".drawn-box")?.remove();
      tools = boxTools(found.chart, box, (next) => { set(next); narrow(next); });
      holder.append(tools);
      holder.firstChild.textContent = box ? "Only commits that changed rows in the box" : "Only commits that changed a place";
    };
    holder.append(found.chart.box);
    set(boxOf(chosen));
    found.chart.moved = false;
  }
  holder.addEventListener("toggle", () => { if (holder.open) open(); });
  if (chosen) open();
  return found;
}

function shown(commit, drawn, head) {
  return element("a", { class: "commit", href: reviewOf(commit.id), "data-commit": commit.id }, drawn,
    element("div", { class: "what" },
      element("div", { class: "subject" }, commit.subject ? value(commit.subject, 160) : element("i", {}, "without a message"), refs(commit.refs, head)),
      element("div", { class: "by" }, by(commit), commit.parents.length > 1 && " \u00b7 merge")),
    element("div", { class: "counts" }));
}

export function choice(name, chosen, options, onchange) {
  const known = options.some(([each]) => each === chosen) ? options : [...options, [chosen, chosen]];
  return element("label", { class: "field" }, element("span", { class: "unseen" }, name),
    element("select", { onchange }, known.map(([each, shown]) => element("option", { value: each, selected: each === chosen }, value(shown, 60).textContent))));
}

export function text(id, name, filled, onchange, first = false) {
  return element("label", { class: `field${first ? " grow" : ""}` }, element("span", { class: "unseen" }, name),
    element("input", { id, type: "search", placeholder: name, value: filled, onchange, autocomplete: "off", spellcheck: "false", "data-first": first }));
}
