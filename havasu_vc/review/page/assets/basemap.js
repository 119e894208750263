// What lies behind the changes: land and borders as far as they are fine enough to be true,
// lines of equal longitude and latitude with their numbers, a scale, and a small world that
// says where all this is. Coordinates of an unknown system get a grid of their own.

import { mercator, unprojected } from "./projection.js";

const FINEST = 24000; // pixels for the world, beyond which coasts at 1:110 million mislead
const EQUATOR = 40075016.686;

export class World {
  constructor(topology) {
    const { scale, translate } = topology.transform;
    this.arcs = topology.arcs.map((arc) => {
      const found = new Float64Array(2 * arc.length);
      let [x, y] = [0, 0];
      arc.forEach(([dx, dy], i) => {
        x += dx;
        y += dy;
        found.set(mercator(x * scale[0] + translate[0], y * scale[1] + translate[1]), 2 * i);
      });
      return found;
    });
    this.rings = topology.objects.land.geometries
      .flatMap((each) => (each.type === "Polygon" ? [each.arcs] : each.arcs))
      .flat();
  }

  // Land as a path, in units of the world. Rings run on across the antimeridian; one that goes
  // all the way round holds the south pole and is closed below it.
  get land() {
    const path = new Path2D();
    for (const ring of this.rings) {
      let [first, last, begun] = [0, 0, false];
      for (const number of ring) {
        const arc = this.arcs[number < 0 ? ~number : number];
        const length = arc.length / 2;
        for (let i = begun ? 1 : 0; i < length; i++) {
          const at = 2 * (number < 0 ? length - 1 - i : i);
          const x = begun ? arc[at] - Math.round(arc[at] - last) : arc[at];
          if (begun) path.lineTo(x, arc[at + 1]);
          else path.moveTo((first = x), arc[at + 1]);
          [last, begun] = [x, true];
        }
      }
      if (Math.abs(last - first) > 0.5) {
        path.lineTo(last, 5);
        path.lineTo(first, 5);
      }
      path.closePath();
    }
    Object.defineProperty(this, "land", { value: path });
    return path;
  }

  // Coasts and borders.
  get lines() {
    const path = new Path2D();
    for (const arc of this.arcs) {
      for (let i = 0; i < arc.length; i += 2) {
        if (i && Math.abs(arc[i] - arc[i - 2]) < 0.5) path.lineTo(arc[i], arc[i + 1]);
        else path.moveTo(arc[i], arc[i + 1]);
      }
    }
    Object.defineProperty(this, "lines", { value: path });
    return path;
  }

  draw(context, view, width, height, colours, ratio) {
    const fade = Math.min(1, Math.max(0, Math.log2(FINEST / view.scale) / 1.5 + 1));
    if (!fade) return;
    const left = view.x - width / 2 / view.scale;
    const right = view.x + width / 2 / view.scale;
    context.save();
    context.globalAlpha = fade;
    context.fillStyle = colours.sea;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.fillRect(0, 0, width, height);
    const k = view.scale * ratio;
    for (let turn = Math.floor(left) - 1; turn <= Math.floor(right) + 1; turn++) {
      context.setTransform(k, 0, 0, k, (turn - left) * k, ((height / 2) / view.scale - view.y) * k);
      context.fillStyle = colours.land;
      context.fill(this.land);
      context.lineWidth = 1 / view.scale;
      context.strokeStyle = colours.border;
      context.stroke(this.lines);
    }
    context.restore();
  }

  // The whole world in a corner, with a mark where the view is.
  drawSmall(context, view, width, height, colours, ratio) {
    const k = width * ratio;
    const top = 0.5 - height / width / 2 - 0.03;
    for (const turn of [0, -1, 1]) {
      context.setTransform(k, 0, 0, k, turn * k, -top * k);
      context.fillStyle = colours.sea;
      if (!turn) context.fillRect(0, -1, 1, 3);
      context.fillStyle = colours.land;
      context.fill(this.land);
    }
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    const x = Math.max(7, Math.min(width - 7, (((view.x % 1) + 1) % 1) * width));
    const y = Math.max(7, Math.min(height - 7, (view.y - top) * width));
    context.strokeStyle = colours.mark;
    context.lineWidth = 1.5;
    context.beginPath();
    context.arc(x, y, 5, 0, 2 * Math.PI);
    context.stroke();
    context.beginPath();
    context.arc(x, y, 1.5, 0, 2 * Math.PI);
    context.fillStyle = colours.mark;
    context.fill();
  }
}

function nice(least) {
  const power = 10 ** Math.floor(Math.log10(least));
  return power * [1, 2, 5, 10].find((step) => step * power >= least * 0.9999);
}

// Lines of a round number of degrees or units, about a hundred pixels apart, and their names.
export function drawGrid(context, view, width, height, colours, grid) {
  const lines = grid ? ownLines(view, width, height, grid) : globeLines(view, width, height);
  context.strokeStyle = colours.grid;
  context.lineWidth = 1;
  context.beginPath();
  for (const [at] of lines.x) {
    context.moveTo(Math.round(at) + 0.5, 0);
    context.lineTo(Math.round(at) + 0.5, height);
  }
  for (const [at] of lines.y) {
    context.moveTo(0, Math.round(at) + 0.5);
    context.lineTo(width, Math.round(at) + 0.5);
  }
  context.stroke();
  context.fillStyle = colours.label;
  context.font = "11px system-ui, sans-serif";
  context.textAlign = "center";
  for (const [at, name] of lines.x) if (at > 60 && at < width - 60) context.fillText(name, at, 14);
  context.textAlign = "left";
  for (const [at, name] of lines.y) if (at > 30 && at < height - 70) context.fillText(name, 6, at - 3);
}

function globeLines(view, width, height) {
  const step = nice(100 / (view.scale / 360));
  const digits = Math.max(0, -Math.floor(Math.log10(step)));
  const left = (view.x - width / 2 / view.scale - 0.5) * 360;
  const right = (view.x + width / 2 / view.scale - 0.5) * 360;
  const [, north] = unprojected(0, Math.max(view.y - height / 2 / view.scale, 0));
  const [, south] = unprojected(0, Math.min(view.y + height / 2 / view.scale, 1));
  const lines = { x: [], y: [] };
  for (let at = Math.ceil(left / step) * step; at <= right && lines.x.length < 50; at += step) {
    const longitude = ((((at + 180) % 360) + 360) % 360) - 180;
    lines.x.push([(at / 360 + 0.5 - view.x) * view.scale + width / 2, degrees(longitude, digits, "E", "W")]);
  }
  for (let at = Math.ceil(south / step) * step; at <= north && lines.y.length < 50; at += step) {
    lines.y.push([(mercator(0, at)[1] - view.y) * view.scale + height / 2, degrees(at, digits, "N", "S")]);
  }
  return lines;
}

function degrees(value, digits, above, below) {
  const text = Math.abs(value).toFixed(digits);
  return `${text}\u00b0${Number(text) % 180 === 0 ? "" : value > 0 ? above : below}`;
}

function ownLines(view, width, height, grid) {
  const scale = view.scale / grid.size;
  const step = nice(100 / scale);
  const lines = { x: [], y: [] };
  const x = grid.x + view.x * grid.size;
  const y = grid.y - view.y * grid.size;
  const number = (value) => Number(value.toPrecision(12)).toLocaleString("en-US", { maximumSignificantDigits: 9 });
  for (let i = Math.ceil((x - width / 2 / scale) / step), n = 0; n < 50; i++, n++) {
    const at = (i * step - x) * scale + width / 2;
    if (!(at <= width)) break;
    lines.x.push([at, number(i * step)]);
  }
  for (let i = Math.ceil((y - height / 2 / scale) / step), n = 0; n < 50; i++, n++) {
    const at = (y - i * step) * scale + height / 2;
    if (!(at >= 0)) break;
    lines.y.push([at, number(i * step)]);
  }
  return lines;
}

// Return how long a bar of a round length is in pixels, and what it says.
export function scaleBar(view, grid) {
  if (grid) {
    const length = nice((60 / view.scale) * grid.size);
    return [(length / grid.size) * view.scale, `${Number(length.toPrecision(3)).toLocaleString("en-US", { maximumSignificantDigits: 3 })} units`];
  }
  const [, latitude] = unprojected(0, Math.max(0, Math.min(1, view.y)));
  const metres = (EQUATOR * Math.cos((latitude * Math.PI) / 180)) / view.scale;
  const length = nice(60 * metres);
  const text = length >= 1000 ? `${(length / 1000).toLocaleString("en-US")} km` : `${Number(length.toPrecision(3))} m`;
  return [length / metres, text];
}
