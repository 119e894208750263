// The texts of a column: as they are, or points made of numbers. None is made before it is
// looked at; a search makes them all, as one string.

export class Texts {
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

// Points: how far each is from where the map has it, and whether that is told of the old
// point of the same row, so that what moved by little is little.
export class Points extends Texts {
  constructor(parts, { digits, map, moved, x, y, others }, { count, onMap, before }) {
    super(parts, others);
    Object.assign(this, { digits, onMap: map && onMap, before: moved && before });
    this.others = new Texts(parts, others);
    const once = (make) => {
      let made;
      return () => (made ??= make());
    };
    this.away = [x, y].map((part) => once(() => parts.wide(part)));
    this.isOther = once(() => {
      const found = new Int32Array(count).fill(-1);
      parts.differences(others.at).forEach((at, index) => (found[at] = index));
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
    if (other >= 0) return this.others.at(other);
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

function decimal(count, digits) {
  if (!digits) return String(count);
  const text = String(Math.abs(count)).padStart(digits + 1, "0");
  const rest = text.slice(-digits).replace(/0+$/, "");
  return `${count < 0 ? "-" : ""}${text.slice(0, -digits)}${rest && "."}${rest}`;
}
