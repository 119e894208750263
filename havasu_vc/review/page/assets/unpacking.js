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

  // Numbers told as distances: each from the last one, or from an earlier one that `of` names.
  differences(part, of) {
    const steps = this.numbers(part);
    const found = new Int32Array(steps.length);
    for (let i = 0; i < steps.length; i++) {
      const from = of ? of[i] : i - 1;
      found[i] = ((from < 0 ? 0 : found[from]) + ((steps[i] >>> 1) ^ -(steps[i] & 1))) | 0;
    }
    return found;
  }

  string(part) {
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(this.raw(part));
  }

  // Signed numbers of 64 bits, as a function from an index to one of them.
  wide([low, high]) {
    const [lower, upper] = [this.numbers(low), high && this.numbers(high)];
    return (index) => {
      if (!upper) return BigInt((lower[index] >>> 1) ^ -(lower[index] & 1));
      const word = (BigInt(upper[index]) << 32n) | BigInt(lower[index]);
      return (word >> 1n) ^ -(word & 1n);
    };
  }

  // Such numbers where a float holds each of them.
  whole([low, high]) {
    const lower = this.numbers(low);
    const upper = high && this.numbers(high);
    const found = new Float64Array(lower.length);
    for (let i = 0; i < found.length; i++) {
      const word = (upper ? upper[i] * 2 ** 32 : 0) + lower[i];
      found[i] = word % 2 ? -(word + 1) / 2 : word / 2;
    }
    return found;
  }
}
