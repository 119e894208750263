// Tiles of a map behind the changes, of a server that the maker of the page asked for. The
// page's policy lets no other be asked. Without them, and until they come, the map is as ever.

const SIDE = 256;
const DEEPEST = 19;
const KEPT = 400;

export class Tiles {
  constructor(manifest, changed) {
    this.url = manifest?.url ?? null;
    this.changed = changed;
    this.known = new Map();
  }

  paint(context, view, width, height) {
    if (!this.url) return;
    const depth = Math.max(0, Math.min(DEEPEST, Math.round(Math.log2(view.scale / SIDE))));
    const count = 2 ** depth;
    const side = view.scale / count;
    const [left, top] = [view.x - width / 2 / view.scale, view.y - height / 2 / view.scale];
    const first = [Math.floor(left * count), Math.max(0, Math.floor(top * count))];
    const last = [Math.floor((left + width / view.scale) * count), Math.min(count - 1, Math.floor((top + height / view.scale) * count))];
    for (let y = first[1]; y <= last[1]; y++) {
      for (let x = first[0]; x <= last[0]; x++) {
        const image = this.tile(depth, ((x % count) + count) % count, y);
        if (image.complete && image.naturalWidth) context.drawImage(image, (x / count - left) * view.scale, (y / count - top) * view.scale, side + 0.5, side + 0.5);
      }
    }
  }

  tile(z, x, y) {
    const name = `${z}/${x}/${y}`;
    let image = this.known.get(name);
    if (!image) {
      image = new Image();
      image.onload = () => this.changed();
      image.src = this.url.replace("{z}", z).replace("{x}", x).replace("{y}", y);
      this.known.set(name, image);
      if (this.known.size > KEPT) this.known.delete(this.known.keys().next().value);
    }
    return image;
  }
}
