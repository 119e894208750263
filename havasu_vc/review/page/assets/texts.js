// The texts of a column: as they are, or made of what they spell. None is made before it is
// looked at; a search makes them all, as one string.

// Return texts in the form in which they are told. `side` is what is known of them: how many
// they are, where the map has the point of each, and the old ones of the same rows.
export function textsOf(parts, each, side) {
  if (each.points) return new Points(parts, each.points, side);
  if (each.numbers) return new Numbers(parts, each.numbers, side);
  return each.changed ? new Changed(parts, each.changed, side) : new Texts(parts, each);
}

class Texts {
  constructor(parts, { lengths, text }) {
    this.load = () => {
      const sizes = parts.numbers(lengths);
      this.ends = new Uint32Array(sizes.length);
      let end = 0;
      for (let i = 0; i < sizes.length; i++) this.ends[i] = end += sizes[i];
      this.whole = parts.string(text);
      this.load = () => {};
    };
  }

  at(index) {
    this.load();
    return this.whole.slice(index ? this.ends[index - 1] : 0, this.ends[index]);
  }

  // Call `found` with the index of each text that holds a match.
  search(pattern, found) {
    this.load();
    pattern.lastIndex = 0;
    let index = 0;
    for (let match; (match = pattern.exec(this.whole)); ) {
      while (this.ends[index] <= match.index) index++;
      if (match.index + match[0].length <= this.ends[index]) {
        found(index);
        pattern.lastIndex = this.ends[index++];
      } else {
        pattern.lastIndex = match.index + 1;
      }
      if (index >= this.ends.length) break;
    }
  }
}

// Texts that are made one by one, but for others, which stay as they are.
class Made extends Texts {
  constructor(parts, { others }, count) {
    super(parts, {});
    this.others = others && new Texts(parts, others);
    this.isOther = once(() => {
      const found = new Int32Array(count).fill(-1);
      if (others) parts.differences(others.at).forEach((at, index) => (found[at] = index));
      return found;
    });
    this.load = () => {
      const made = Array.from({ length: count }, (_, index) => this.at(index));
      this.ends = new Uint32Array(count);
      let end = 0;
      for (let i = 0; i < count; i++) this.ends[i] = end += made[i].length;
      this.whole = made.join("");
      this.load = () => {};
    };
  }

  at(index) {
    const other = this.isOther()[index];
    return other < 0 ? this.made(index) : this.others.at(other);
  }
}

function once(make) {
  let made;
  return () => (made ??= make());
}

// Numbers: whole ones of their last decimal, each perhaps told from the last one or the old one.
class Numbers extends Made {
  constructor(parts, told, { count, before }) {
    super(parts, told, count);
    Object.assign(this, { digits: told.digits, least: told.least });
    this.counts = once(() => {
      const found = parts.whole(told.counts);
      if (told.of === "last") for (let i = 1; i < count; i++) found[i] += found[i - 1];
      if (told.of === "old") {
        const old = before.texts.counts();
        for (let i = 0; i < count; i++) found[i] += old[before.indexOf(i)] ?? 0;
      }
      return found;
    });
  }

  made(index) {
    return decimal(this.counts()[index], this.digits, this.least);
  }
}

// New texts by what stands between a start and an end that are those of the old one.
class Changed extends Made {
  constructor(parts, told, { count, before }) {
    super(parts, {}, count);
    this.before = before;
    this.middles = new Texts(parts, told);
    this.starts = once(() => parts.numbers(told.start));
    this.ending = once(() => parts.numbers(told.end));
  }

  made(index) {
    const middle = this.middles.at(index);
    const was = this.before.indexOf(index);
    if (was < 0) return middle;
    const old = this.before.texts.at(was);
    return old.slice(0, this.starts()[index]) + middle + old.slice(old.length - this.ending()[index]);
  }
}

// Points: how far each is from where the map has it, and whether that is told of the old
// point of the same row, so that what moved by little is little.
class Points extends Made {
  constructor(parts, told, { count, onMap, before }) {
    super(parts, told, count);
    const { digits, map, moved, x, y } = told;
    Object.assign(this, { digits, onMap: map && onMap, before: moved && before });
    this.away = [x, y].map((part) => once(() => parts.wide(part)));
  }

  made(index) {
    const near = this.onMap ? this.onMap(index) : [0, 0];
    return `POINT (${near.map((value, axis) => spelled(value, this.distance(index, axis), this.digits)).join(" ")})`;
  }

  distance(index, axis) {
    const found = this.away[axis]()(index);
    const old = this.before ? this.before.indexOf(index) : -1;
    return old < 0 ? found : found + this.before.texts.distance(old, axis);
  }
}

const FLOAT = new Float64Array(1);
const BITS = new BigInt64Array(FLOAT.buffer);

// Return the text of a number that is some decimals, or floats, from another.
function spelled(near, away, digits) {
  if (digits === null) {
    FLOAT[0] = near;
    BITS[0] += away;
    return String(FLOAT[0]);
  }
  return decimal(Math.floor(near * Number(`1e${digits}`) + 0.5) + Number(away), digits);
}

// Return the text of a count of decimals, without zeros at its end beyond the `least` of them.
function decimal(count, digits, least = 0) {
  if (!digits) return String(count);
  const text = String(Math.abs(count)).padStart(digits + 1, "0");
  const rest = text.slice(-digits).replace(/0+$/, "").padEnd(least, "0");
  return `${count < 0 ? "-" : ""}${text.slice(0, -digits)}${rest && "."}${rest}`;
}
