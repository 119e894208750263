// Values as people can read them: what is not to be seen is made visible, and of two
// texts the part that differs is known. Values are data, so none of this is ever markup.

const HIDDEN =
  /[\u0000-\u001f\u007f-\u00a0\u00ad\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b-\u200f\u2028-\u202f\u205f-\u206f\u3000\u3164\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]|\udb40[\udc00-\udfff]/g;
const NAMES = {
  "\n": "\u21b5", "\t": "\u21e5", "\r": "\u240d", "\u0000": "\u2400", "\u001b": "\u241b",
  "\u00a0": "NBSP", "\u200b": "ZWSP", "\u200e": "LRM", "\u200f": "RLM", "\u202a": "LRE",
  "\u202b": "RLE", "\u202c": "PDF", "\u202d": "LRO", "\u202e": "RLO", "\u2066": "LRI",
  "\u2067": "RLI", "\u2068": "FSI", "\u2069": "PDI", "\ufeff": "BOM",
};

// Return a text as pieces: [text, false] as it is, [name, true] in place of what is hidden.
export function pieces(text) {
  const found = [];
  let start = 0;
  for (const match of text.matchAll(HIDDEN)) {
    if (match.index > start) found.push([text.slice(start, match.index), false]);
    const code = match[0].codePointAt(0);
    found.push([NAMES[match[0]] || "U+" + code.toString(16).toUpperCase().padStart(4, "0"), true]);
    start = match.index + match[0].length;
  }
  if (start < text.length) found.push([text.slice(start), false]);
  return found;
}

// Return a text without anything hidden, for places that have room for words only.
export function plain(text, longest = 200) {
  const cut = text.length > longest ? text.slice(0, longest) + "\u2026" : text;
  return pieces(cut).map(([part, hidden]) => (hidden ? `[${part}]` : part)).join("");
}

// Return how many characters two texts begin and end with alike.
export function common(old, now) {
  const most = Math.min(old.length, now.length);
  let start = 0;
  while (start < most && old[start] === now[start]) start++;
  if (start && isHigh(old.charCodeAt(start - 1))) start--;
  let end = 0;
  while (end < most - start && old[old.length - 1 - end] === now[now.length - 1 - end]) end++;
  if (end && isLow(old.charCodeAt(old.length - end))) end--;
  return [start, end];
}

const isHigh = (code) => code >= 0xd800 && code < 0xdc00;
const isLow = (code) => code >= 0xdc00 && code < 0xe000;

// Return the name of a revision with the ten digits of an id by which people know it.
export const shortName = (revision) => revision.replace(/\b([0-9a-f]{10})[0-9a-f]{30}\b/g, "$1");

export const number = (value) => value.toLocaleString("en-US");

export function plural(count, one, many = one + "s") {
  return `${number(count)} ${count === 1 ? one : many}`;
}

// Return a distance with three digits that count.
export function distance(value, unit) {
  if (unit === "m" && value >= 1000) [value, unit] = [value / 1000, "km"];
  if (!Number.isFinite(value)) return "";
  return `${value === 0 ? "0" : Number(value.toPrecision(3)).toLocaleString("en-US", { maximumFractionDigits: 12 })} ${unit}`;
}

export function short(value) {
  return Number(value.toPrecision(7)).toLocaleString("en-US", { maximumSignificantDigits: 7 });
}
