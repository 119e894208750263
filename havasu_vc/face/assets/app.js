// The page comes together: the address says which view is shown, keys move between views.

import { ask, place } from "./api.js";
import { showConflicts } from "./conflicts.js";
import { showData } from "./data.js";
import { element, find, replace, value } from "./elements.js";
import { showHistory } from "./history.js";
import { upToDate, watchOthers, watchWork } from "./jobs.js";
import { showOverview } from "./overview.js";
import { plain } from "./text.js";
import { showWork } from "./work.js";

const VIEWS = { overview: showOverview, history: showHistory, data: showData, work: showWork, conflicts: showConflicts };
const TITLES = { overview: "Overview", history: "History", data: "Data", work: "Work", conflicts: "Conflicts" };
let current = null;
let turn = 0;

async function show() {
  const mine = ++turn;
  const { view, query } = place();
  const known = VIEWS[view] ? view : "overview";
  document.documentElement.dataset.ready = "no";
  upToDate();
  for (const tab of document.querySelectorAll("#tabs a")) {
    if (tab.dataset.view === known) tab.setAttribute("aria-current", "page");
    else tab.removeAttribute("aria-current");
  }
  const box = element("div");
  let late = null;
  try {
    if (!find("view").children.length) replace(find("view"), element("p", { class: "waiting" }, "Looking \u2026"));
    const made = VIEWS[known](box, query);
    // What is quick comes at once; what is slow shows that it is on its way.
    late = setTimeout(() => { if (mine === turn) replace(find("view"), box); }, 150);
    const shown = await made;
    if (mine !== turn) return;
    current = shown;
    if (!box.isConnected) replace(find("view"), box);
  } catch (error) {
    if (mine !== turn) return;
    current = null;
    replace(find("view"), element("p", { class: "callout", role: "alert" }, value(error.message, 800)));
  } finally {
    clearTimeout(late);
  }
  find("said").textContent = `${TITLES[known]} is shown`;
  document.documentElement.dataset.ready = "yes";
  performance.mark("ready");
}

function toggleTheme() {
  const dark = getComputedStyle(document.documentElement).colorScheme.includes("dark");
  document.documentElement.dataset.theme = dark ? "light" : "dark";
  try {
    localStorage.setItem("theme", document.documentElement.dataset.theme);
  } catch { /* a browser that keeps nothing */ }
}

addEventListener("keydown", (event) => {
  const writes = event.target.closest?.("input:not([type=radio], [type=checkbox]), select, textarea");
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (writes) {
    if (event.key === "Escape") writes.blur();
    return;
  }
  if (find("help").open) return;
  const tabs = { 1: "overview", 2: "history", 3: "data", 4: "work", 5: "conflicts" };
  let done = true;
  if (tabs[event.key]) location.hash = `#/${tabs[event.key]}`;
  else if (event.key === "t") toggleTheme();
  else if (event.key === "?") find("help").showModal();
  else if (event.key === "r") show();
  else if (event.key === "/") document.querySelector("#message, [data-first]")?.focus();
  else done = Boolean(current?.key?.(event.key));
  if (done) event.preventDefault();
});
find("theme").addEventListener("click", toggleTheme);
find("help-button").addEventListener("click", () => find("help").showModal());
find("help-close").addEventListener("click", () => find("help").close());
addEventListener("hashchange", show);
// What a terminal or another tab did is shown at once where nothing can be lost by it, and told
// where the reader may have ticked, chosen or written something.
watchOthers(() => {
  if (place().view === "overview") show();
  else find("news").hidden = false;
});
find("look-again").addEventListener("click", show);
try {
  const theme = localStorage.getItem("theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* as above */ }

watchWork();
show();
const { name } = await ask("refs");
find("repository").textContent = plain(name, 80);
find("repository").title = plain(name, 200);
document.title = `${plain(name, 80)} \u2013 havasu-vc`;
