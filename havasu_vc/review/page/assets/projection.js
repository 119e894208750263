// Where things are on the map: longitudes and latitudes in Mercator's projection, the world
// one unit wide; coordinates of an unknown system as they are, their extent one unit wide.
// What crosses the antimeridian is kept in one piece, and all data in one turn of the world.

const MOST = 85.05112878;

export function mercator(longitude, latitude) {
  const bounded = Math.max(-MOST, Math.min(MOST, latitude));
  const sine = Math.sin((bounded * Math.PI) / 180);
  return [longitude / 360 + 0.5, 0.5 - Math.log((1 + sine) / (1 - sine)) / (4 * Math.PI)];
}

export function unprojected(x, y) {
  const longitude = (((x % 1) + 1) % 1) * 360 - 180;
  return [longitude, (Math.atan(Math.sinh(Math.PI * (1 - 2 * y))) * 180) / Math.PI];
}

export const OLD = 1;
export const NEW = 2;

// The shapes of a dataset on the grid of the page: paths of vertices in flat arrays.
export function laidOut(each, parts, count) {
  const rows = parts.differences(each.rows);
  const sides = parts.raw(each.sides);
  const pathsOf = parts.numbers(each.paths);
  const sizes = parts.numbers(each.counts);
  const old = new Int32Array(count).fill(-1);
  const now = new Int32Array(count).fill(-1);
  const firstPath = new Uint32Array(rows.length + 1);
  for (let i = 0; i < rows.length; i++) {
    if (sides[i] & OLD) old[rows[i]] = i;
    if (sides[i] & NEW) now[rows[i]] = i;
    firstPath[i + 1] = firstPath[i] + pathsOf[i];
  }
  const firstVertex = new Uint32Array(sizes.length + 1);
  for (let i = 0; i < sizes.length; i++) firstVertex[i + 1] = firstVertex[i] + sizes[i];
  const before = earlier({ rows, sides, pathsOf, sizes, old, firstPath, firstVertex });
  const [across, up] = each.places.map((part) => parts.differences(part, before));
  const [originX, originY] = each.origin;
  const [stepX, stepY] = each.step;
  // The coordinates of the first vertex of a shape, 0 without one.
  const vertex = (shape) => {
    const at = shape < 0 ? -1 : firstVertex[firstPath[shape]];
    return at < 0 ? [0, 0] : [originX + across[at] * stepX, originY + up[at] * stepY];
  };
  return { rows, old, now, kinds: parts.raw(each.kinds), firstPath, firstVertex, across, up, vertex };
}

// Return the vertex that each is told from: its old one where a shape has as many as before,
// otherwise the last one.
function earlier({ rows, sides, pathsOf, sizes, old, firstPath, firstVertex }) {
  const found = new Int32Array(firstVertex[sizes.length]);
  for (let i = 0; i < found.length; i++) found[i] = i - 1;
  for (let i = 0; i < rows.length; i++) {
    const was = sides[i] === NEW ? old[rows[i]] : -1;
    if (was < 0 || pathsOf[was] !== pathsOf[i]) continue;
    const [from, to] = [firstPath[was], firstPath[i]];
    let path = 0;
    while (path < pathsOf[i] && sizes[from + path] === sizes[to + path]) path++;
    if (path < pathsOf[i]) continue;
    const [start, first, end] = [firstVertex[from], firstVertex[to], firstVertex[firstPath[i + 1]]];
    for (let at = first; at < end; at++) found[at] = start + at - first;
  }
  return found;
}

// The same, ready to draw.
export function placesOf(each, { rows, old, now, kinds, firstPath, firstVertex, across, up }) {
  const [x, y] = [Float64Array.from(across), Float64Array.from(up)];
  const [originX, originY] = each.origin;
  const [stepX, stepY] = each.step;
  let grid = null;
  if (each.kind === "globe") {
    for (let i = 0; i < x.length; i++) {
      [x[i], y[i]] = mercator(originX + x[i] * stepX, originY + y[i] * stepY);
    }
  } else {
    const size = Math.max(stepX, stepY) * 2 ** 30;
    grid = { size, x: originX, y: originY };
    for (let i = 0; i < x.length; i++) {
      x[i] = (x[i] * stepX) / size;
      y[i] = -(y[i] * stepY) / size;
    }
  }
  const shapes = { rows, old, now, kinds, firstPath, firstVertex, x, y, grid, count: rows.length };
  if (each.kind === "globe") unwind(shapes);
  shapes.boxes = boxesOf(shapes);
  if (each.kind === "globe") turn(shapes);
  return shapes;
}

// Vertices that follow each other are never more than half the world apart.
function unwind({ kinds, firstVertex, x }) {
  for (let path = 0; path < kinds.length; path++) {
    for (let i = firstVertex[path] + 1; i < firstVertex[path + 1]; i++) {
      x[i] -= Math.round(x[i] - x[i - 1]);
    }
  }
}

function boxesOf({ firstPath, firstVertex, x, y, count }) {
  const boxes = new Float64Array(4 * count);
  for (let shape = 0; shape < count; shape++) {
    let [left, top, right, bottom] = [Infinity, Infinity, -Infinity, -Infinity];
    for (let i = firstVertex[firstPath[shape]]; i < firstVertex[firstPath[shape + 1]]; i++) {
      if (x[i] < left) left = x[i];
      if (x[i] > right) right = x[i];
      if (y[i] < top) top = y[i];
      if (y[i] > bottom) bottom = y[i];
    }
    boxes.set([left, top, right, bottom], 4 * shape);
  }
  return boxes;
}

// Shapes west of the widest empty stretch of the world move a turn east, so that a change
// around the antimeridian is in one place.
function turn(shapes) {
  const { firstPath, firstVertex, x, boxes, count } = shapes;
  const taken = new Uint8Array(360);
  for (let shape = 0; shape < count; shape++) {
    const left = Math.floor(boxes[4 * shape] * 360);
    const right = Math.min(Math.floor(boxes[4 * shape + 2] * 360), left + 359);
    for (let degree = left; degree <= right; degree++) taken[((degree % 360) + 360) % 360] = 1;
  }
  let [best, seam, run] = [0, 0, 0];
  for (let i = 0; i < 720; i++) {
    run = taken[i % 360] ? 0 : run + 1;
    if (run > best && run <= 360) [best, seam] = [run, (i + 1) % 360];
  }
  // The seam is where data begins; only a change that straddles the antimeridian needs it.
  if (!(taken[0] && taken[359]) || !best) seam = 0;
  for (let shape = 0; shape < count; shape++) {
    const middle = (boxes[4 * shape] + boxes[4 * shape + 2]) / 2;
    const turns = -Math.floor(middle - seam / 360);
    if (!turns) continue;
    for (let i = firstVertex[firstPath[shape]]; i < firstVertex[firstPath[shape + 1]]; i++) x[i] += turns;
    boxes[4 * shape] += turns;
    boxes[4 * shape + 2] += turns;
  }
}

// Bring shapes into the turn of the world in which others are.
export function beside({ x, boxes, firstPath, firstVertex, count }, others) {
  if (!others.count) return;
  const at = (others.boxes[0] + others.boxes[2]) / 2;
  for (let shape = 0; shape < count; shape++) {
    const turns = Math.round(at - (boxes[4 * shape] + boxes[4 * shape + 2]) / 2);
    if (!turns) continue;
    for (let i = firstVertex[firstPath[shape]]; i < firstVertex[firstPath[shape + 1]]; i++) x[i] += turns;
    boxes[4 * shape] += turns;
    boxes[4 * shape + 2] += turns;
  }
}

// What of the plane is seen: its middle, and how many pixels a unit is.
export class View {
  constructor(x = 0.5, y = 0.5, scale = 256) {
    Object.assign(this, { x, y, scale });
  }

  fitted([left, top, right, bottom], width, height, room = 0.8, deepest = Infinity) {
    const scale = Math.min(
      (width * room) / Math.max(right - left, 1e-12),
      (height * room) / Math.max(bottom - top, 1e-12),
      deepest,
    );
    return new View((left + right) / 2, (top + bottom) / 2, scale);
  }

  moved(dx, dy) {
    return new View(this.x - dx / this.scale, this.y - dy / this.scale, this.scale);
  }

  // Scaled around a point that is `dx`, `dy` pixels from the middle.
  scaled(factor, dx, dy, [least, most]) {
    const scale = Math.max(least, Math.min(most, this.scale * factor));
    return new View(
      this.x + dx / this.scale - dx / scale,
      this.y + dy / this.scale - dy / scale,
      scale,
    );
  }
}
