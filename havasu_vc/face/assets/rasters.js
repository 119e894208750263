// Pictures of rasters: on the map, each in the rectangle that it covers, and beside a row.

import { ask } from "./api.js";
import { element, replace } from "./elements.js";

const MOST_ON_MAP = 24;
const NAMES = { before: 0, after: 1 };

const address = (png) => `data:image/png;base64,${png}`;

// What asks for pictures of a dataset's rows. `query` names the dataset, a revision and perhaps
// another to compare with.
export class Pictures {
  constructor(query) {
    this.query = query;
    this.known = new Map();
    this.drawn = new Map();
  }

  of(key) {
    if (!this.known.has(key)) this.known.set(key, ask("pictures", { ...this.query, key }).then((found) => found.pictures));
    return this.known.get(key);
  }

  // Give the items of a map their pictures, one after another; `isWanted` says until when.
  async illustrate(chart, items, isWanted) {
    const keys = [...new Set(items.map((each) => each.key))];
    if (keys.length > MOST_ON_MAP) return;
    for (const key of keys) {
      if (!this.drawn.has(key)) this.drawn.set(key, await this.images(key).catch(() => ({})));
      if (!isWanted()) return;
      for (const item of chart.items) if (item.key === key) item.image = this.drawn.get(key)[item.side ?? "after"];
      chart.request();
    }
  }

  async images(key) {
    const made = {};
    for (const { side, png } of await this.of(key)) {
      if (side === "difference") continue;
      made[side] = Object.assign(new Image(), { src: address(png) });
      await made[side].decode();
    }
    return made;
  }

  // The pictures of one row; `names` are what the two revisions are called.
  beside(key, names) {
    const box = element("div", { class: "pictures" });
    this.of(key).then((found) => {
      replace(box, found.map(({ side, words, png }) => element("figure", {},
        element("button", { type: "button", "aria-pressed": "false", "aria-label": `Large: ${side}`, title: "Small or large", onclick: () => turn(box) }, element("img", { src: address(png), alt: words })),
        element("figcaption", {}, names ? (names[NAMES[side]] ?? side) : ""))));
    }, () => box.remove());
    return box;
  }
}

function turn(box) {
  const large = box.classList.toggle("large");
  for (const each of box.querySelectorAll("button")) each.setAttribute("aria-pressed", String(large));
}
