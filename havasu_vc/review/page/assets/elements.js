// Elements of the page. Text goes in as text: there is no way here to make markup of a value.

import { common, pieces } from "./text.js";

export function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  append(made, children);
  return made;
}

function append(parent, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== null && child !== undefined && child !== false) parent.append(child);
  }
}

export function replace(parent, ...children) {
  parent.replaceChildren();
  append(parent, children);
}

export const find = (id) => document.getElementById(id);

// A text of the data, isolated from the direction of what stands around it.
export function value(text, longest = Infinity) {
  const cut = text.length > longest ? text.slice(0, longest) + "\u2026" : text;
  if (cut === "") return element("i", { class: "empty" }, "empty text");
  return element("bdi", { class: "value" }, visible(cut));
}

function visible(text) {
  return pieces(text).map(([part, hidden]) =>
    hidden ? element("span", { class: "hidden-character" }, part) : part,
  );
}

// Old and new text, the part that differs in <del> and <ins>; long stretches alike are left out.
export function marked(old, now, longest = Infinity) {
  if (old === "" || now === "") return [value(old, longest), value(now, longest)];
  const [start, end] = common(old, now);
  const whole = start + end < 3 || start + end < Math.max(old.length, now.length) / 4;
  return [
    side(old, whole ? [0, 0] : [start, end], "del", longest),
    side(now, whole ? [0, 0] : [start, end], "ins", longest),
  ];
}

function side(text, [start, end], tag, longest) {
  let before = text.slice(0, start);
  let middle = text.slice(start, text.length - end);
  let after = text.slice(text.length - end);
  if (text.length > longest) {
    const room = Math.max(8, Math.floor((longest - Math.min(middle.length, longest)) / 2));
    if (before.length > room) before = "\u2026" + before.slice(-room);
    if (middle.length > longest) middle = middle.slice(0, longest) + "\u2026";
    if (after.length > room) after = after.slice(0, room) + "\u2026";
  }
  return element("bdi", { class: "value" }, visible(before), middle && element(tag, {}, visible(middle)), visible(after));
}

// A sentence of ours, in which names from the data stand between backticks.
export function sentence(text) {
  return text.split("`").map((part, index) => (index % 2 ? element("code", {}, visible(part)) : part));
}
