// A picture of something slow to draw, a little larger than the map. While the map moves
// the picture moves with it; a new one is drawn beside it, a few milliseconds a frame, and
// takes its place when it is whole.

const MARGIN = 0.3;

export class Layer {
  constructor(draw) {
    this.drawing = draw;
    this.shown = null;
    this.next = null;
    this.spare = null;
    this.stale = true;
  }

  invalidate() {
    this.stale = true;
    this.next = null;
  }

  // Whether the picture, moved, fills the map, and is not too coarse.
  covers(view, width, height) {
    if (!this.shown) return false;
    const { view: old, width: w, height: h } = this.shown;
    const ratio = view.scale / old.scale;
    return (
      ratio < 2.5 && ratio > 0.7 &&
      Math.abs(view.x - old.x) * view.scale <= (w * ratio - width) / 2 &&
      Math.abs(view.y - old.y) * view.scale <= (h * ratio - height) / 2
    );
  }

  // Whether a picture of this view is there or under way.
  isOf(view, size) {
    const one = this.next || (this.stale ? null : this.shown);
    return one !== null && one.view === view && one.size === size;
  }

  begin(view, width, height, size, how) {
    const canvas = this.spare || document.createElement("canvas");
    this.spare = null;
    const [w, h] = [Math.round(width * (1 + 2 * MARGIN)), Math.round(height * (1 + 2 * MARGIN))];
    canvas.width = w * how.ratio;
    canvas.height = h * how.ratio;
    const context = canvas.getContext("2d");
    const frame = { ...how, view, width: w, height: h };
    this.next = { canvas, view, width: w, height: h, size, work: this.drawing(context, frame) };
    this.stale = false;
  }

  // Draw until a time; return whether there is nothing more to do.
  work(until) {
    if (!this.next) return true;
    do {
      if (this.next.work.next().done) {
        this.spare = this.shown && this.shown.canvas;
        this.shown = this.next;
        this.next = null;
        return true;
      }
    } while (performance.now() < until);
    return false;
  }

  paint(context, view, width, height) {
    if (!this.shown) return;
    const { canvas, view: old, width: w, height: h } = this.shown;
    const ratio = view.scale / old.scale;
    const left = (old.x - view.x) * view.scale + width / 2 - (w * ratio) / 2;
    const top = (old.y - view.y) * view.scale + height / 2 - (h * ratio) / 2;
    context.drawImage(canvas, left, top, w * ratio, h * ratio);
  }
}
