// The chosen row: its cells with the commits that they are from, and all commits that changed it.

import { act, ask } from "./api.js";
import { element, marked, replace, value } from "./elements.js";
import { plural } from "./text.js";
import { by, commitLink, when } from "./words.js";

// Fill a box with a row. `columns` are the dataset's, `cell` gives the text of one; `other` has
// the `name` of a revision beside this one, and the texts there by column: none where it has no such row.
export async function showPast(box, { heading, columns, cell, other, query, key, isWanted }) {
  const shown = (text) => (text === null ? element("span", { class: "null" }, "null") : value(text, 500));
  const both = (text, there) => {
    if (there === undefined || there === text) return shown(text);
    const [left, right] = text === null || there === null ? [shown(text), shown(there)] : marked(text, there, 500);
    return [left, element("div", {}, "\u2192 ", right)];
  };
  const values = other?.cells ? ["Value \u2192 ", value(other.name, 40)] : "Value";
  if (other && !other.cells) heading = [heading, element("p", { class: "chart-note" }, "There is no such row at ", value(other.name, 40), ".")];
  const sides = (blamed) => element("table", { class: "cells" },
    element("thead", {}, element("tr", {}, ["Column", values, ...(blamed ? ["Last changed"] : [])].map((each) => element("th", { scope: "col" }, each)))),
    element("tbody", {}, columns.map((column) => {
      const text = cell(column.name);
      const from = blamed?.[column.name];
      return element("tr", {}, element("th", { scope: "row" }, element("span", { class: "field-name" }, value(column.name, 60))),
        element("td", {}, both(text, other?.cells?.[column.name])),
        blamed && element("td", { class: "small" }, from && [commitLink(from, 50), element("div", { class: "dim" }, value(from.author, 40), " \u00b7 ", when(from.time))]));
    })));
  replace(box, heading, sides(null), element("p", { class: "chart-note" }, key === undefined ? "This dataset has no key: its rows cannot be followed through history." : "Looking who it is from \u2026"));
  if (key === undefined) return;
  try {
    const { commits, more, cells, note } = await ask("row", { ...query, key });
    if (!isWanted()) return;
    const known = new Map(commits.map((each) => [each.id, each]));
    const blamed = Object.fromEntries(Object.entries(cells).map(([name, id]) => [name, known.get(id) ?? { id, subject: id.slice(0, 7), author: "", time: 0 }]));
    replace(box, heading, sides(Object.keys(cells).length ? blamed : null), note && element("p", { class: "callout" }, value(note, 300)),
      element("h3", {}, more ? `The last ${plural(commits.length, "commit")} that changed it` : `${plural(commits.length, "commit")} changed it`),
      element("ol", {}, commits.map((each, place) => element("li", {}, commitLink(each), element("div", { class: "small dim" }, by(each)), place > 0 && bringBack(query.dataset, key, each)))));
  } catch (error) {
    if (isWanted()) replace(box, heading, sides(null), element("p", { class: "callout" }, value(error.message, 400)));
  }
}

// What brings a row back as it was at a commit; it asks once more.
export function bringBack(dataset, key, commit, done = null) {
  return element("button", { type: "button", class: "quiet", "aria-label": `Bring this back: row ${key} as at ${commit.id.slice(0, 7)}`, onclick: async (event) => {
    const button = event.currentTarget;
    if (!button.classList.contains("armed")) {
      button.classList.add("armed");
      button.textContent = "Bring the row back as it was then?";
      button.removeAttribute("aria-label");
      return;
    }
    button.disabled = true;
    try {
      const { said } = await act("restore", { dataset, key, commit: commit.id });
      if (done) done(said);
      else button.replaceWith(element("p", { class: "callout done", role: "status" }, value(said, 300)));
    } catch (error) {
      button.replaceWith(element("p", { class: "callout", role: "alert" }, value(error.message, 400)));
    }
  } }, "Bring this back");
}
