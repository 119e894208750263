// All changed rows, numbered through the datasets, and which of them the reader wants to see.
// Everything is in typed arrays; a row is a number until it is shown.

import { beside, laidOut, placesOf } from "./projection.js";
import { textsOf } from "./texts.js";

export const INSERT = 0;
export const UPDATE = 1;
export const DELETE = 2;
export const KINDS = ["inserted", "updated", "deleted"];
export const SIGNS = ["+", "~", "\u2212"];

const [WHOLE, NULL, CUT] = [0, 1, 2];

export class Changes {
  constructor(manifest, parts) {
    this.flags = manifest.flags;
    this.datasets = [];
    let first = 0;
    for (const each of manifest.datasets) {
      this.datasets.push(new Dataset(each, parts, first, this.datasets.length));
      first += each.count;
    }
    this.count = first;
    this.total = manifest.datasets.reduce((sum, each) => sum + each.total, 0);
  }

  datasetOf(row) {
    let least = 0;
    let most = this.datasets.length - 1;
    while (least < most) {
      const middle = (least + most + 1) >> 1;
      if (this.datasets[middle].first <= row) least = middle;
      else most = middle - 1;
    }
    return this.datasets[least];
  }

  kind(row) {
    const dataset = this.datasetOf(row);
    return dataset.kinds[row - dataset.first];
  }

  flagsOf(row) {
    const dataset = this.datasetOf(row);
    const bits = dataset.flags[row - dataset.first];
    return this.flags.filter((_, index) => bits & (1 << index));
  }

  label(row) {
    const dataset = this.datasetOf(row);
    return dataset.keys.at(row - dataset.first);
  }

  link(row) {
    const safe = (text) => encodeURIComponent(text).replaceAll("%2F", "/").replaceAll("%2C", ",");
    return `#${safe(this.datasetOf(row).path)}:${safe(this.label(row))}`;
  }

  // Return the row that the part of an address behind # is of, or -1.
  linked(hash) {
    let text;
    try {
      text = decodeURIComponent(hash.replace(/^#/, ""));
    } catch {
      return -1;
    }
    for (const dataset of this.datasets) {
      if (!text.startsWith(dataset.path + ":")) continue;
      const row = dataset.named(text.slice(dataset.path.length + 1));
      if (row >= 0) return dataset.first + row;
    }
    return -1;
  }

  // Return the rows that pass, in the order asked for.
  select({ kinds, dataset, column, flag, text, order }) {
    const found = new Uint32Array(this.count);
    let count = 0;
    const bit = flag ? 1 << this.flags.indexOf(flag) : 0;
    for (const each of this.datasets) {
      if (dataset !== null && each.number !== dataset) continue;
      let passing = null;
      if (column !== null) passing = each.changing(column);
      if (text) passing = both(passing, each.holding(text));
      for (let i = 0; i < each.count; i++) {
        if (!kinds[each.kinds[i]]) continue;
        if (bit && !(each.flags[i] & bit)) continue;
        if (passing && !passing[i]) continue;
        found[count++] = each.first + i;
      }
    }
    return this.sorted(found.subarray(0, count), order);
  }

  sorted(rows, order) {
    if (order === "key") return rows;
    const weight = new Float64Array(this.count);
    for (const each of this.datasets) {
      for (let i = 0; i < each.count; i++) {
        weight[each.first + i] =
          order === "moved" ? each.distance(i) : each.flags[i] ? 2 : each.kinds[i] === DELETE ? 1 : 0;
      }
    }
    return rows.slice().sort((a, b) => weight[b] - weight[a] || a - b);
  }
}

function both(first, second) {
  if (!first) return second;
  for (let i = 0; i < first.length; i++) first[i] &= second[i];
  return first;
}

class Dataset {
  constructor(each, parts, first, index) {
    this.number = index;
    this.first = first;
    this.path = each.path;
    this.count = each.count;
    this.total = each.total;
    this.unit = each.unit;
    this.kinds = parts.raw(each.kinds);
    this.flags = parts.numbers(each.flags);
    this.distances = parts.floats(each.distances);
    this.keys = textsOf(parts, each.keys, { count: each.count });
    this.columns = each.columns.map((column) => new Column(column, parts, this));
    this.place = each.places.kind;
    this.crs = each.places.crs;
    this.simplified = each.places.simplified;
    this.pictures = each.pictures || [];
    this.parts = parts;
    this.manifest = each;
  }

  // Shapes of the rows on the grid of the page, and for the map; made when first needed.
  get laid() {
    const found = laidOut(this.manifest.places, this.parts, this.count);
    Object.defineProperty(this, "laid", { value: found });
    return found;
  }

  get shapes() {
    const found = placesOf(this.manifest.places, this.laid);
    Object.defineProperty(this, "shapes", { value: found });
    return found;
  }

  // Unchanged rows beside the changes, with their shapes in the same turn of the world.
  get around() {
    const { around } = this.manifest;
    const found = around && { ...around, shapes: placesOf(around.places, laidOut(around.places, this.parts, around.count)) };
    if (found) beside(found.shapes, this.shapes);
    Object.defineProperty(this, "around", { value: found });
    return found;
  }

  // Whether some row has a flag.
  hasFlag(bit) {
    return this.flags.some((bits) => bits & (1 << bit));
  }

  distance(row) {
    const found = this.distances.length ? this.distances[row] : NaN;
    return found === found ? found : -1;
  }

  // Return the row with a key, or -1; names are gathered when the first is asked for.
  named(key) {
    if (!this.names) {
      this.names = new Map();
      for (let i = this.count - 1; i >= 0; i--) this.names.set(this.keys.at(i), i);
    }
    return this.names.get(key) ?? -1;
  }

  cells(row, most = Infinity) {
    const found = [];
    for (const column of this.columns) {
      const cell = column.cell(row, this.kinds[row]);
      if (cell) found.push(cell);
      if (found.length >= most) break;
    }
    return found;
  }

  // Return which rows have something in a column, of updates whether it changed.
  changing(name) {
    const found = new Uint8Array(this.count);
    for (const column of this.columns) {
      if (column.name !== name) continue;
      for (const side of [column.old, column.now]) {
        for (const row of side.rows) if (this.kinds[row] === UPDATE) found[row] = 1;
      }
    }
    return found;
  }

  // Return which rows hold a text, whatever its case.
  holding(text) {
    const pattern = new RegExp(text.replace(/[.*+?^${}()|[\]\\/]/g, "\\$&"), "giu");
    const found = new Uint8Array(this.count);
    this.keys.search(pattern, (index) => (found[index] = 1));
    for (const column of this.columns) {
      for (const side of [column.old, column.now]) {
        const rows = side.rows;
        side.texts.search(pattern, (index) => (found[rows[index]] = 1));
      }
    }
    return found;
  }
}

class Column {
  constructor(each, parts, dataset) {
    this.name = each.name;
    this.before = each.before;
    this.type = each.type;
    this.kind = each.kind;
    this.old = new Side(each.old, parts, (row) => dataset.laid.vertex(dataset.laid.old[row]));
    this.now = new Side(each.new, parts, (row) => dataset.laid.vertex(dataset.laid.now[row]), this.old);
  }

  cell(row, kind) {
    const old = this.old.at(row);
    const now = this.now.at(row);
    if (old === undefined && now === undefined) return null;
    return { column: this, kind, old: old ?? null, now: now ?? null };
  }
}

// Values of some rows of a column.
class Side {
  constructor(each, parts, onMap, old) {
    this.states = parts.raw(each.states);
    this.texts = textsOf(parts, each, {
      count: this.states.length,
      onMap: (index) => onMap(this.rows[index]),
      before: old && { texts: old.texts, indexOf: (index) => old.indexOf(this.rows[index]) },
    });
    Object.defineProperty(this, "rows", {
      configurable: true,
      get: () => {
        const rows = parts.differences(each.rows);
        Object.defineProperty(this, "rows", { value: rows });
        return rows;
      },
    });
  }

  // Return where a row stands among those that have something here, or -1.
  indexOf(row) {
    const rows = this.rows;
    let least = 0;
    let most = rows.length - 1;
    while (least <= most) {
      const middle = (least + most) >> 1;
      if (rows[middle] < row) least = middle + 1;
      else if (rows[middle] > row) most = middle - 1;
      else return middle;
    }
    return -1;
  }

  // Return {text, cut}; text is null for null; undefined where the row has nothing here.
  at(row) {
    const index = this.indexOf(row);
    if (index < 0) return undefined;
    const state = this.states[index];
    return { text: state === NULL ? null : this.texts.at(index), cut: state === CUT, whole: state === WHOLE };
  }
}
