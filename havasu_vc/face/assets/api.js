// Questions to the server, and the address of a view: `#/data?dataset=roads&at=main&row=12`.

const kept = new Map(); // What a commit's id names never changes.
const MOST_KEPT = 400;

export async function ask(what, query = {}) {
  const wanted = Object.entries(query).filter(([, value]) => value !== undefined && value !== null && value !== "");
  const answer = await fetch(`/api/v1/${what}?${new URLSearchParams(wanted)}`, { headers: { accept: "application/json" } });
  const found = await answer.json().catch(() => ({ error: { message: "the answer was cut off", hints: [] } }));
  if (found.error) throw new Error([found.error.message, ...found.error.hints].join("; "));
  return found;
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

// Do something. The word is one that no other site's page can read.
export async function act(what, asked) {
  const { word } = await ask("word");
  const answer = await fetch(`/api/v1/do/${what}`, { method: "POST", headers: { "content-type": "application/json", "x-havasu-word": word }, body: JSON.stringify(asked) });
  const found = await answer.json();
  if (found.error) throw new Error([found.error.message, ...found.error.hints].join("; "));
  return found;
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
