// Shapes of changes on a canvas, in pieces: what draws yields often, so that a hundred
// thousand shapes never hold up the page. Kinds differ in colour and in form, for people
// who do not tell these colours apart: deleted is a cross, inserted a triangle, before a
// ring, after a disc; in a conflict the base is a ring, ours a disc, theirs a square.

import { DELETE, INSERT } from "./changes.js";

// In the order in which they are drawn: what was there lies over what covers it now.
export const ROLES = ["after", "inserted", "deleted", "before"];
const BATCH = 400;

// Return as what the old and the new shape of a row are shown.
export function rolesOf(kind) {
  if (kind === INSERT) return [null, "inserted"];
  return kind === DELETE ? ["deleted", null] : ["before", "after"];
}

// A mark of a role, `radius` pixels, drawn around a point.
export function mark(context, role, x, y, radius, colours) {
  const path = new Path2D();
  const r = radius;
  if (role === "deleted") {
    path.moveTo(x - r, y - r);
    path.lineTo(x + r, y + r);
    path.moveTo(x + r, y - r);
    path.lineTo(x - r, y + r);
  } else if (role === "inserted") {
    path.moveTo(x, y - r * 1.15);
    path.lineTo(x + r * 1.1, y + r * 0.85);
    path.lineTo(x - r * 1.1, y + r * 0.85);
    path.closePath();
  } else if (role === "theirs") {
    path.rect(x - r * 0.85, y - r * 0.85, r * 1.7, r * 1.7);
  } else {
    path.arc(x, y, r * 0.95, 0, 2 * Math.PI);
  }
  const open = role === "deleted" || role === "before" || role === "base";
  context.lineJoin = context.lineCap = "round";
  context.strokeStyle = colours.casing;
  context.lineWidth = open ? r * 0.7 + 2 : 2;
  context.stroke(path);
  if (open) {
    context.strokeStyle = colours[role];
    context.lineWidth = r * 0.6;
    context.stroke(path);
  } else {
    context.fillStyle = colours[role];
    context.fill(path);
  }
}

function sprites(radius, colours, ratio) {
  const size = Math.ceil((radius * 2 + 5) * ratio);
  const found = {};
  for (const role of ROLES) {
    const canvas = document.createElement("canvas");
    canvas.width = canvas.height = size;
    const context = canvas.getContext("2d");
    context.scale(ratio, ratio);
    mark(context, role, size / ratio / 2, size / ratio / 2, radius, colours);
    found[role] = canvas;
  }
  return found;
}

// Draw unchanged shapes, thin and grey.
export function* drawAround(context, sets, { view, width, height, colours, ratio }) {
  const edge = 12 / view.scale;
  const seen = {
    left: view.x - width / 2 / view.scale - edge, right: view.x + width / 2 / view.scale + edge,
    top: view.y - height / 2 / view.scale - edge, bottom: view.y + height / 2 / view.scale + edge,
  };
  const [left, top] = [width / 2 - view.x * view.scale, height / 2 - view.y * view.scale];
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.strokeStyle = context.fillStyle = colours.around;
  context.lineWidth = 1;
  for (const { shapes } of sets) {
    const { kinds, firstPath, firstVertex, x, y, boxes, count } = shapes;
    for (let shape = 0; shape < count; shape++) {
      if (!inside(boxes, shape, seen)) continue;
      const path = new Path2D();
      for (let part = firstPath[shape]; part < firstPath[shape + 1]; part++) {
        for (let i = firstVertex[part]; i < firstVertex[part + 1]; i++) {
          const [px, py] = [x[i] * view.scale + left, y[i] * view.scale + top];
          if (kinds[part] === 0) context.fillRect(px - 1.5, py - 1.5, 3, 3);
          else if (i === firstVertex[part]) path.moveTo(px, py);
          else path.lineTo(px, py);
        }
        if (kinds[part] === 2) path.closePath();
      }
      context.stroke(path);
      if (shape % 300 === 299) yield;
    }
  }
}

// Draw the shapes `items` has for a side ("before", "after" or "both").
export function* drawShapes(context, items, side, { view, width, height, colours, ratio }) {
  const lists = { before: [], deleted: [], inserted: [], after: [] };
  const edge = 12 / view.scale;
  const seen = {
    left: view.x - width / 2 / view.scale - edge, right: view.x + width / 2 / view.scale + edge,
    top: view.y - height / 2 / view.scale - edge, bottom: view.y + height / 2 / view.scale + edge,
  };
  const moves = [];
  for (let i = 0; i < items.count; i++) {
    const shapes = items.shapes[items.owners[i]];
    const [old, now] = [items.old[i], items.now[i]];
    const [oldRole, newRole] = rolesOf(items.kinds[i]);
    const oldSeen = old >= 0 && inside(shapes.boxes, old, seen);
    const nowSeen = now >= 0 && (old === now ? oldSeen : inside(shapes.boxes, now, seen));
    const before = oldSeen && side !== "after" && !(side === "both" && old === now);
    if (before && oldRole) lists[oldRole].push([shapes, old]);
    if (nowSeen && side !== "before" && newRole) lists[newRole].push([shapes, now]);
    if (side === "both" && old >= 0 && now >= 0 && old !== now && (oldSeen || nowSeen)) moves.push([shapes, old, now]);
    if (i % 5000 === 4999) yield;
  }
  const count = ROLES.reduce((sum, role) => sum + lists[role].length, 0);
  const radius = count > 20000 ? 2.5 : count > 2500 ? 3.5 : 5;
  const pens = sprites(radius, colours, ratio);
  const frame = { context, view, width, height, colours, ratio };
  yield* drawMoves(frame, moves);
  for (const role of ROLES) yield* drawList(frame, lists[role], role, pens[role]);
}

function inside(boxes, shape, seen) {
  const at = 4 * shape;
  return (
    boxes[at] <= seen.right && boxes[at + 2] >= seen.left &&
    boxes[at + 1] <= seen.bottom && boxes[at + 3] >= seen.top
  );
}

function* drawMoves({ context, view, width, height, colours, ratio }, moves) {
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.strokeStyle = colours.move;
  context.lineWidth = 1.25;
  for (let start = 0; start < moves.length; start += BATCH) {
    context.beginPath();
    for (const [shapes, old, now] of moves.slice(start, start + BATCH)) {
      const [ax, ay] = middle(shapes.boxes, old, view, width, height);
      const [bx, by] = middle(shapes.boxes, now, view, width, height);
      const length = Math.hypot(bx - ax, by - ay);
      // Shapes that overlap show by themselves what moved.
      if (!(length > 7) || length < extent(shapes.boxes, now) * view.scale) continue;
      context.moveTo(ax, ay);
      context.lineTo(bx, by);
      if (length > 24) {
        const [ux, uy] = [(bx - ax) / length, (by - ay) / length];
        const [hx, hy] = [bx - ux * 8, by - uy * 8];
        context.moveTo(hx - ux * 6 - uy * 4, hy - uy * 6 + ux * 4);
        context.lineTo(hx, hy);
        context.lineTo(hx - ux * 6 + uy * 4, hy - uy * 6 - ux * 4);
      }
    }
    context.stroke();
    yield;
  }
}

export function extent(boxes, shape) {
  return Math.max(boxes[4 * shape + 2] - boxes[4 * shape], boxes[4 * shape + 3] - boxes[4 * shape + 1]);
}

export function middle(boxes, shape, view, width, height) {
  const at = 4 * shape;
  return [
    ((boxes[at] + boxes[at + 2]) / 2 - view.x) * view.scale + width / 2,
    ((boxes[at + 1] + boxes[at + 3]) / 2 - view.y) * view.scale + height / 2,
  ];
}

function* drawList({ context, view, width, height, colours, ratio }, list, role, sprite) {
  const half = sprite.width / 2;
  let work = 0;
  for (const [shapes, shape] of list) {
    const { boxes, kinds, firstPath, firstVertex } = shapes;
    const path = firstPath[shape];
    const size = extent(boxes, shape) * view.scale;
    if (kinds[path] === 0 ? firstPath[shape + 1] - path === 1 : size < 6) {
      const [x, y] = middle(boxes, shape, view, width, height);
      context.setTransform(1, 0, 0, 1, 0, 0);
      context.drawImage(sprite, Math.round(x * ratio - half), Math.round(y * ratio - half));
      work += 1;
    } else {
      context.setTransform(ratio, 0, 0, ratio, 0, 0);
      drawShape(context, shapes, shape, role, { view, width, height, colours, ratio, sprite });
      work += 2 + (firstVertex[firstPath[shape + 1]] - firstVertex[path]) / 20;
    }
    if (work > BATCH) {
      work = 0;
      yield;
    }
  }
}

// One shape of lines, rings or several points.
export function drawShape(context, shapes, shape, role, { view, width, height, colours, ratio, sprite, bold }) {
  const { kinds, firstPath, firstVertex, x, y } = shapes;
  const [left, top] = [width / 2 - view.x * view.scale, height / 2 - view.y * view.scale];
  const path = new Path2D();
  let area = false;
  for (let part = firstPath[shape]; part < firstPath[shape + 1]; part++) {
    const [start, end] = [firstVertex[part], firstVertex[part + 1]];
    let [lastX, lastY] = [NaN, NaN];
    for (let i = start; i < end; i++) {
      const [px, py] = [x[i] * view.scale + left, y[i] * view.scale + top];
      if (kinds[part] === 0) {
        if (sprite) context.drawImage(sprite, px - sprite.width / 2 / ratio, py - sprite.height / 2 / ratio, sprite.width / ratio, sprite.height / ratio);
        else mark(context, role, px, py, 6, colours);
      } else if (i === start) {
        path.moveTo((lastX = px), (lastY = py));
      } else if (Math.abs(px - lastX) + Math.abs(py - lastY) > 0.7 || i === end - 1) {
        path.lineTo((lastX = px), (lastY = py));
      }
    }
    if (kinds[part] === 2) {
      path.closePath();
      area = true;
    }
  }
  context.lineJoin = context.lineCap = "round";
  if (area) {
    context.globalAlpha = role === "before" || role === "base" ? 0.16 : 0.26;
    context.fillStyle = colours[role];
    context.fill(path, "evenodd");
    context.globalAlpha = 1;
  }
  context.setLineDash(role === "before" || role === "base" ? [5, 4] : role === "deleted" ? [2, 4] : []);
  if (bold && role !== "before") {
    context.strokeStyle = colours.casing;
    context.lineWidth = bold + 3;
    context.stroke(path);
  }
  context.strokeStyle = colours[role];
  context.lineWidth = bold || (area ? 1.5 : 2.5);
  context.stroke(path);
  context.setLineDash([]);
}

// Return the vertices of a shape that the other does not have.
export function strayVertices(shapes, shape, other) {
  const { firstPath, firstVertex, x, y } = shapes;
  const range = (each) => [firstVertex[firstPath[each]], firstVertex[firstPath[each + 1]]];
  const known = new Set();
  const [otherStart, otherEnd] = range(other);
  for (let i = otherStart; i < otherEnd; i++) known.add(x[i] + " " + y[i]);
  const [start, end] = range(shape);
  const found = new Map();
  for (let i = start; i < end; i++) {
    const name = x[i] + " " + y[i];
    if (!known.has(name)) found.set(name, [x[i], y[i]]);
  }
  return [...found.values()];
}
