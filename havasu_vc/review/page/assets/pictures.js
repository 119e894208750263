// Pictures of rasters, before and after and what differs. A dataset lists those that were
// made for its rows: {row, column, side, words, data}, where `data` is a part holding PNG,
// `side` is "before", "after" or "difference", and `words` say what is seen. Nothing but images of the page's own data.

import { element } from "./elements.js";
import { plain } from "./text.js";

const SIDES = ["before", "after", "difference"];

// Return what shows the pictures of a cell, or null where it has none.
export function picturesOf(dataset, row, column) {
  const found = dataset.pictures.filter((each) => each.row === row && each.column === column);
  if (!found.length) return null;
  found.sort((a, b) => SIDES.indexOf(a.side) - SIDES.indexOf(b.side));
  const box = element("div", { class: "pictures" });
  const turn = () => {
    const large = box.classList.toggle("large");
    for (const each of box.querySelectorAll("button")) each.setAttribute("aria-pressed", String(large));
  };
  box.append(...found.map((each) => element("figure", {},
    element("button", { type: "button", "aria-pressed": "false", "aria-label": `Large: ${plain(column, 60)}, ${each.side}`, title: "Small or large", onclick: turn },
      element("img", { src: address(dataset.parts.raw(each.data)), alt: `${column}, ${each.words || each.side}` })),
    element("figcaption", {}, each.side))));
  return box;
}

function address(bytes) {
  let text = "";
  for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
  return "data:image/png;base64," + btoa(text);
}
