// The image to judge: cleared before another is requested, shown once decoded, zoomed around a point, moved by dragging.
const AHEAD = 6; // decoded images that are kept
const DECODING = 1000; // milliseconds after loading: a browser that draws no frames, as in a tab behind others, never says that it has decoded

export class Picture {
  constructor(frame) {
    this.frame = frame;
    this.turn = 0;
    this.zoomed = false;
    this.decoded = new Map();
    this.drags();
  }

  // Preloads an image.
  fetch(source) {
    if (!this.decoded.has(source)) {
      const image = new Image();
      const loaded = new Promise((done) => image.addEventListener("load", () => setTimeout(done, DECODING)));
      image.src = source;
      const ready = Promise.race([image.decode(), loaded]).then(() => image);
      ready.catch(() => this.decoded.delete(source));
      this.decoded.set(source, ready);
      for (const old of [...this.decoded.keys()].slice(0, -AHEAD)) this.decoded.delete(old);
    }
    return this.decoded.get(source);
  }

  // True once the image is shown, false if it cannot be read, and null if another was requested in the meantime.
  async show(source) {
    const turn = ++this.turn;
    this.source = source;
    this.zoomed = false;
    this.frame.replaceChildren();
    const image = await this.awaited(source, turn);
    if (turn !== this.turn) return null;
    if (image) this.place(image);
    return image !== null;
  }

  // The decoded image, or null; a server that has just started and still loads its collection (202) is asked again.
  async awaited(source, turn) {
    for (let ready = false; ; ) {
      const image = await this.fetch(source).catch(() => null);
      if (image || ready || turn !== this.turn) return image;
      const reply = await fetch(source).catch(() => null);
      if (!reply?.ok) return null;
      if (reply.status === 202) await new Promise((done) => setTimeout(done, 1000));
      else ready = true;
    }
  }

  place(image) {
    image.id = "picture";
    image.alt = "The image to judge";
    image.draggable = false;
    this.frame.replaceChildren(image);
  }

  // Around a point of the image, given as fractions of its width and height; a larger copy follows when it is decoded.
  async zoom(on, [x, y] = [0.5, 0.5]) {
    const turn = this.turn;
    this.zoomed = on;
    const centre = () => this.frame.scrollTo(x * this.frame.scrollWidth - this.frame.clientWidth / 2, y * this.frame.scrollHeight - this.frame.clientHeight / 2);
    if (!on) return;
    centre();
    const image = await this.fetch(this.source.replace("size=view", "size=full")).catch(() => null);
    if (!image || turn !== this.turn || !this.zoomed) return;
    const { scrollLeft, scrollTop } = this.frame;
    this.place(image);
    this.frame.scrollTo(scrollLeft, scrollTop);
  }

  drags() {
    let from = null;
    this.frame.addEventListener("pointerdown", (event) => {
      this.dragged = false;
      if (this.zoomed && event.pointerType === "mouse") from = { x: event.clientX, y: event.clientY, left: this.frame.scrollLeft, top: this.frame.scrollTop };
    });
    window.addEventListener("pointermove", (event) => {
      if (!from) return;
      const [right, down] = [event.clientX - from.x, event.clientY - from.y];
      if (Math.abs(right) + Math.abs(down) > 4) this.dragged = true;
      this.frame.scrollTo(from.left - right, from.top - down);
    });
    window.addEventListener("pointerup", () => { from = null; });
  }
}

// The position of a click as fractions of the drawn image, which may leave bars on two sides of its frame.
export function pointOf(event) {
  const { left, top, width, height } = event.target.getBoundingClientRect();
  const { naturalWidth, naturalHeight } = event.target;
  const scale = Math.min(width / naturalWidth, height / naturalHeight);
  const share = (at, side, drawn) => Math.min(1, Math.max(0, (at - (side - drawn) / 2) / drawn));
  return [share(event.clientX - left, width, naturalWidth * scale), share(event.clientY - top, height, naturalHeight * scale)];
}
