// The data of the page: one deflated block, of which parts are known by where they begin.
// What is not looked at is not taken apart; text becomes strings when a cell is shown.

export async function unpack(base64) {
  const text = atob(base64);
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Parts(new Uint8Array(await new Response(stream).arrayBuffer()));
}

export class Parts {
  constructor(bytes) {
    this.bytes = bytes;
  }

  raw([start, length]) {
    return this.bytes.subarray(start, start + length);
  }

  // Numbers come as four planes, the lowest bytes of all of them first.
  numbers([start, count]) {
    const found = new Uint32Array(count);
    const b = this.bytes;
    const [one, two, three, four] = [0, 1, 2, 3].map((plane) => start + plane * count);
    for (let i = 0; i < count; i++) {
      found[i] = b[one + i] | (b[two + i] << 8) | (b[three + i] << 16) | (b[four + i] << 24);
    }
    return found;
  }

  floats(part) {
    return new Float32Array(this.numbers(part).buffer);
  }

  differences(part) {
    const steps = this.numbers(part);
    const found = new Int32Array(steps.length);
    let last = 0;
    for (let i = 0; i < steps.length; i++) {
      last = (last + ((steps[i] >>> 1) ^ -(steps[i] & 1))) | 0;
      found[i] = last;
    }
    return found;
  }

  string(part) {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.raw(part));
  }

  texts(lengths, text) {
    return new Texts(this, lengths, text);
  }
}

// Many texts in one string.
class Texts {
  constructor(parts, lengths, text) {
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
