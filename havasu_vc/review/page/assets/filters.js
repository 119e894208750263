// What the reader wants to see: kinds, a dataset, a column, a flag, a text, and in what order.
// Changing anything tells `changed`; the state is a plain object.

import { KINDS, SIGNS } from "./changes.js";
import { element, find, replace } from "./elements.js";
import { number, plain } from "./text.js";

export const WORDS = {
  "dataset-removed": "dataset removed",
  "mass-delete": "many deletes",
  "crs-changed": "CRS changed, coordinates did not",
  "key-changed": "key changed",
  "column-removed": "column removed",
  "emptied-geometry": "geometry emptied",
  "invalid-geometry": "invalid geometry",
  "far-from-the-rest": "far from the rest",
  "moved-far": "moved far",
  "new-nulls": "new nulls",
  "out-of-range": "out of range",
  "duplicates": "duplicate rows",
  "other-coordinates": "coordinates of another system",
  "unverified": "unverified",
  "changed-back": "changed back",
};

export const flagWords = (flag) => WORDS[flag] || flag.replaceAll("-", " ");

export class Filters {
  constructor(changes, changed) {
    this.changes = changes;
    this.changed = changed;
    this.state = Filters.nothing();
    this.build();
  }

  static nothing() {
    return { kinds: [true, true, true], dataset: null, column: null, flag: null, text: "", order: "key" };
  }

  // Change some of the state.
  set(part) {
    Object.assign(this.state, part);
    this.show();
    this.changed(this.state);
  }

  clear() {
    this.set({ ...Filters.nothing(), order: this.state.order });
  }

  get narrowed() {
    const { kinds, dataset, column, flag, text } = this.state;
    return !kinds.every(Boolean) || dataset !== null || column !== null || flag !== null || text !== "";
  }

  build() {
    const { changes } = this;
    const totals = [0, 0, 0];
    const flags = new Uint32Array(32);
    for (const dataset of changes.datasets) {
      for (const kind of dataset.kinds) totals[kind]++;
      for (const bits of dataset.flags) {
        if (bits) for (let bit = 0; bit < changes.flags.length; bit++) flags[bit] += (bits >>> bit) & 1;
      }
    }
    this.buttons = KINDS.map((word, kind) =>
      element("button", { type: "button", class: `kind ${word}`, "data-kind": word, onclick: () => this.toggle(kind) },
        element("span", { class: `sign ${word}`, "aria-hidden": "true" }, SIGNS[kind]), element("span", {}, ` ${number(totals[kind])} ${word}`)),
    );
    replace(find("kinds"), this.buttons);
    this.fill("dataset", "All datasets", changes.datasets.map((each) => [each.number, `${plain(each.path, 80)} (${number(each.count)})`]));
    find("dataset-field").hidden = changes.datasets.length < 2;
    this.fill("flag", "Any flag or none", changes.flags.map((flag, bit) => [flag, `${flagWords(flag)} (${number(flags[bit])})`]).filter((_, bit) => flags[bit]));
    find("flag-field").hidden = !flags.some(Boolean);
    this.columns();
    const choose = (id, read) => find(id).addEventListener("change", (event) => this.set({ [id]: read(event.target.value) }));
    choose("dataset", (value) => (value === "" ? null : Number(value)));
    choose("column", (value) => (value === "" ? null : this.names[Number(value)]));
    choose("flag", (value) => value || null);
    choose("order", (value) => value);
    let timer = 0;
    find("text").addEventListener("input", (event) => {
      clearTimeout(timer);
      timer = setTimeout(() => this.set({ text: event.target.value.trim() }), 150);
    });
    find("clear").addEventListener("click", () => this.clear());
    // Where there is little room, choices are folded away behind a button.
    const more = find("more-filters");
    more.addEventListener("click", () => more.setAttribute("aria-expanded", more.parentElement.classList.toggle("unfolded")));
    this.show();
  }

  fill(id, all, options) {
    replace(find(id), element("option", { value: "" }, all), options.map(([value, text]) => element("option", { value }, text)));
  }

  // Columns of the chosen dataset, or of all.
  columns() {
    const datasets = this.changes.datasets.filter((each) => this.state.dataset === null || each.number === this.state.dataset);
    this.names = [...new Set(datasets.flatMap((each) => each.columns.map((column) => column.name)))].slice(0, 2000);
    this.fill("column", "Any column", this.names.map((name, index) => [index, plain(name, 60)]));
  }

  toggle(kind) {
    const kinds = [...this.state.kinds];
    kinds[kind] = !kinds[kind];
    this.set({ kinds });
  }

  show() {
    const { kinds, dataset, column, flag, text, order } = this.state;
    this.columns();
    if (column !== null && !this.names.includes(column)) this.state.column = null;
    this.buttons.forEach((button, kind) => button.setAttribute("aria-pressed", kinds[kind]));
    find("dataset").value = dataset ?? "";
    find("column").value = this.state.column === null ? "" : this.names.indexOf(column);
    find("flag").value = flag ?? "";
    find("order").value = order;
    if (find("text").value.trim() !== text) find("text").value = text;
    find("clear").hidden = !this.narrowed;
    const chosen = [dataset, this.state.column, flag].filter((each) => each !== null).length;
    find("more-filters").textContent = chosen ? `Filters: ${chosen}` : "Filters";
  }
}
