// Small pieces that all views are made of: people, times, counts, names of branches.

import { element, value } from "./elements.js";
import { number, plural } from "./text.js";

const STEPS = [[60, "second", 1], [3600, "minute", 60], [86400, "hour", 3600], [604800, "day", 86400], [2629800, "week", 604800], [31557600, "month", 2629800], [Infinity, "year", 31557600]];
const AGO = new Intl.RelativeTimeFormat("en", { numeric: "auto" });

// When something was: how long ago, and the whole date at a closer look.
export function when(seconds) {
  const passed = Date.now() / 1000 - seconds;
  const [, unit, length] = STEPS.find(([most]) => Math.abs(passed) < most);
  const date = new Date(seconds * 1000);
  const exact = date.toLocaleString("en-GB", { dateStyle: "medium", timeStyle: "short" });
  return element("time", { datetime: date.toISOString(), title: exact }, AGO.format(-Math.round(passed / length), unit));
}

export const reviewOf = (commit) => `/review?${new URLSearchParams({ commit })}`;

export function commitLink(commit, longest = 90) {
  return element("a", { class: "plain-link", href: reviewOf(commit.id) }, commit.subject ? value(commit.subject, longest) : element("i", {}, "without a message"));
}

export function by(commit) {
  return [value(commit.author, 60), " \u00b7 ", when(commit.time), " \u00b7 ", element("code", {}, commit.id.slice(0, 7))];
}

// Names of a commit; what stands at HEAD is marked.
export function refs(names, head) {
  return names.map((name) => element("span", { class: `ref${name === head ? " head" : ""}` }, value(name, 60)));
}

const KINDS = [["inserted", "+", "plus"], ["updated", "~", "tilde"], ["deleted", "\u2212", "minus"]];

// Rows that come, change and go.
export function counts(rows) {
  return rows.map((count, kind) => count > 0 && element("span", { class: KINDS[kind][2] }, `${KINDS[kind][1]}${number(count)}`, element("span", { class: "unseen" }, ` ${KINDS[kind][0]} `)));
}

export function bytes(size) {
  if (size === null || size === undefined) return "";
  let unit = 0;
  let left = size;
  while (left >= 1024 && unit < 4) [left, unit] = [left / 1024, unit + 1];
  return unit ? `${left.toFixed(1)} ${["KiB", "MiB", "GiB", "TiB"][unit - 1]}` : plural(size, "byte");
}
