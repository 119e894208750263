// Questions to the server, and the address of a view: `#/data?dataset=roads&at=main&row=12`.

const kept = new Map(); // What a commit's id names never changes.
const MOST_KEPT = 400;

const listeners = new Set(); // who hears of requests that begin and end
let count = 0;

export function onRequests(heard) {
  listeners.add(heard);
}

// Send a request that has a name, by which its progress is asked for and it is cancelled.
async function send(address, what, options = {}) {
  const job = `${Math.random().toString(36).slice(2, 12)}-${++count}`;
  const headers = { ...options.headers, "x-havasu-job": job };
  listeners.forEach((heard) => heard({ job, what, begins: true }));
  try {
    const answer = await fetch(address, { ...options, headers });
    const found = await answer.json().catch(() => ({ error: { message: "the answer was cut off", hints: [] } }));
    if (found.error) throw Object.assign(new Error([found.error.message, ...found.error.hints].join("; ")), { status: answer.status });
    return found;
  } finally {
    listeners.forEach((heard) => heard({ job, what, begins: false }));
  }
}

export function ask(what, query = {}) {
  const wanted = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  return send(`/api/v1/${what}?${new URLSearchParams(wanted)}`, what, { headers: { accept: "application/json" } });
}

export async function askOnce(what, query) {
  const name = `${what} ${JSON.stringify(query)}`;
  if (!kept.has(name)) {
    if (kept.size >= MOST_KEPT) kept.delete(kept.keys().next().value);
    const asked = ask(what, query);
    kept.set(name, asked);
    asked.catch(() => kept.delete(name));
  }
  return kept.get(name);
}

// Do something. The word is one that no other site's page can read. `seen` is what the page has
// seen: where that has changed meanwhile, the server refuses.
export async function act(what, asked, seen = null) {
  const { word } = await ask("word");
  const body = JSON.stringify(seen ? { ...asked, seen } : asked);
  return send(`/api/v1/do/${what}`, what, { method: "POST", headers: { "content-type": "application/json", "x-havasu-word": word }, body });
}

export function address(view, query = {}) {
  const wanted = Object.entries(query).filter(([, value]) => value);
  return `#/${view}${wanted.length ? "?" + new URLSearchParams(wanted) : ""}`;
}

export function place() {
  const [view, query = ""] = location.hash.replace(/^#\//, "").split("?");
  return { view: view || "overview", query: Object.fromEntries(new URLSearchParams(query)) };
}

// Change what the address says without a step back in the browser's history.
export function note(view, query) {
  history.replaceState(null, "", address(view, query));
}
