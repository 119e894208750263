// What goes on: long work with how far it is and a button that ends it, and word of what a
// terminal or another tab changed meanwhile.

import { act, ask, onRequests } from "./api.js";
import { element, find, replace, value } from "./elements.js";
import { number } from "./text.js";

const PATIENCE = 700; // milliseconds before work is long
const OFTEN = 4000; // milliseconds between looks at how things stand
const QUIET = new Set(["standing", "word", "job", "cancel"]);
const under = new Map();
const channel = "BroadcastChannel" in self ? new BroadcastChannel("havasu-vc") : null;
let known = null;

export function watchWork() {
  onRequests(({ job, what, begins }) => {
    if (QUIET.has(what)) return;
    if (begins) under.set(job, { what, timer: setTimeout(() => look(job), PATIENCE), told: null });
    else {
      clearTimeout(under.get(job)?.timer);
      under.delete(job);
      show();
    }
  });
}

async function look(job) {
  const one = under.get(job);
  if (!one) return;
  try {
    const answer = await fetch(`/api/v1/job?${new URLSearchParams({ name: job })}`);
    one.told = (await answer.json()).job;
  } catch { /* the server is busy, or gone */ }
  if (!under.has(job)) return;
  one.isLong = true;
  show();
  one.timer = setTimeout(() => look(job), PATIENCE);
}

function show() {
  const bar = find("going-on");
  const long = [...under].filter(([, one]) => one.isLong);
  bar.hidden = !long.length;
  if (!long.length) return replace(bar);
  // The elements stay, so that whoever is about to press the button finds it.
  const [job, { told }] = long[0];
  if (bar.dataset.job !== job || !bar.firstChild) {
    bar.dataset.job = job;
    replace(bar, element("span", { class: "what" }), element("progress", { "aria-label": "How far it is" }),
      element("button", { type: "button", class: "quiet", onclick: (event) => { event.currentTarget.disabled = true; act("cancel", { job }).catch(() => {}); } }, "Cancel"));
  }
  const steps = told?.total > 1 ? `, ${number(told.done)} of ${number(told.total)}` : "";
  replace(bar.querySelector(".what"), told?.what ? value(told.what, 80) : "Working", steps, told ? `, ${number(Math.round(told.seconds))} s` : "");
  const progress = bar.querySelector("progress");
  if (told?.total > 1) Object.assign(progress, { max: told.total, value: told.done });
  else progress.removeAttribute("value");
}

let stand = async () => {};

// Look now and then how things stand; `changed` is called when that is otherwise than before.
export function watchOthers(changed) {
  stand = async () => {
    if (document.hidden) return;
    try {
      const now = JSON.stringify(await ask("standing"));
      const news = known !== null && known !== now;
      known = now;
      if (news) changed();
    } catch { /* told where it matters: by the view */ }
  };
  setInterval(() => stand(), OFTEN);
  document.addEventListener("visibilitychange", () => stand());
  channel?.addEventListener("message", () => stand());
  stand();
}

// What this page did itself is no news to it, but is to other tabs.
export async function didSomething() {
  known = JSON.stringify(await ask("standing").catch(() => null));
  channel?.postMessage("changed");
}

// The view is made anew, and will show what is there.
export function upToDate() {
  known = null;
  find("news").hidden = true;
  stand();
}
