// The graph beside commits: a lane for each line of descent, newest on top. Lanes go on from
// page to page, so that older commits that come later join on.

const NAMESPACE = "http://www.w3.org/2000/svg";
const WIDTH = 14;
const MOST = 6;
const COLOURS = 4;

export class Lanes {
  constructor() {
    this.waiting = []; // the commit that each lane leads to
  }

  // Return where a commit stands, and the lanes above and below it.
  next({ id, parents }) {
    const above = [...this.waiting];
    let at = above.indexOf(id);
    if (at < 0) at = this.free(above);
    const below = above.map((each) => (each === id ? null : each));
    while (below.length <= at) below.push(null);
    const leads = [];
    parents.forEach((parent, number) => {
      let lane = below.indexOf(parent);
      if (lane < 0) {
        lane = number === 0 ? at : this.free(below);
        below[lane] = parent;
      }
      leads.push(lane);
    });
    while (below.length && below.at(-1) === null) below.pop();
    this.waiting = below;
    return { at, id, above, below, leads };
  }

  free(lanes) {
    const found = lanes.indexOf(null);
    return found < 0 ? lanes.length : found;
  }
}

function drawn(tag, attributes) {
  const made = document.createElementNS(NAMESPACE, tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  return made;
}

const x = (lane) => 10 + WIDTH * Math.min(lane, MOST);
const colour = (lane) => `lane-${lane % COLOURS}`;

// Draw one row of the graph; it is stretched to the height of its commit.
export function graph({ at, id, above, below, leads }, widest) {
  const width = 20 + WIDTH * Math.min(widest, MOST);
  const svg = drawn("svg", { width, height: "100%", viewBox: `0 0 ${width} 54`, preserveAspectRatio: "none", "aria-hidden": "true" });
  above.forEach((target, lane) => {
    if (target === null) return;
    const to = target === id ? at : below.indexOf(target) < 0 ? lane : below[lane] === target ? lane : below.indexOf(target);
    const end = target === id ? 27 : 54;
    svg.append(drawn("path", { class: `lane ${colour(lane)}`, d: curve(x(lane), 0, x(to), end) }));
  });
  for (const lane of leads) {
    svg.append(drawn("path", { class: `lane ${colour(lane)}`, d: curve(x(at), 27, x(lane), 54) }));
  }
  // The dot is no part of the drawing, which is as tall as its commit.
  const dot = document.createElement("span");
  dot.className = `dot dot-${at % COLOURS}`;
  dot.style.left = `${x(at)}px`;
  const box = document.createElement("span");
  box.className = "lanes";
  box.style.width = `${width}px`;
  box.append(svg, dot);
  return box;
}

function curve(x0, y0, x1, y1) {
  const middle = (y0 + y1) / 2;
  return x0 === x1 ? `M${x0} ${y0}V${y1}` : `M${x0} ${y0}C${x0} ${middle} ${x1} ${middle} ${x1} ${y1}`;
}
