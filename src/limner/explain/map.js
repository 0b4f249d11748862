// A map of points on a canvas: wheel, pinch and keys zoom and move, dragging selects, a list beside it says what is there.
const root = document.getElementById("map"), plot = root.querySelector(".plot"), canvas = plot.querySelector("canvas");
const context = canvas.getContext("2d"), colourBy = root.querySelector("#colour"), drag = root.querySelector("#drag");
const about = root.querySelector("[data-about]"), said = root.querySelector("[data-said]"), list = root.querySelector(".listed");
const swatches = root.querySelector(".swatches"), ids = root.querySelector("[name=items]"), send = root.querySelector("[data-send]");
const GRID = 65535, MOST_LISTED = 100, MOST_SENT = 500, NEAR = 60, SIDE = 56, LARGEST = 160;
const HUES = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#d55e00", "#56b4e9", "#8a6d00", "#7a5cc7", "#b03a2e", "#5b8c2a"];
const points = { ids: [], texts: [], x: [], y: [], labels: [], colours: [] };
const view = { scale: 1, x: 0.5, y: 0.5 }, thumbs = new Map(), touches = new Map();
let head = null, chosen = null, box = null, waiting = false;

const number = (value) => value.toLocaleString("en");
const style = (name) => getComputedStyle(root).getPropertyValue(name).trim() || "#888";
const side = () => Math.min(plot.clientWidth, plot.clientHeight) * 0.94 * view.scale;
const thumb = () => Math.min(LARGEST, SIDE * Math.max(1, Math.sqrt(view.scale)));  // grows with the zoom
const screen = (n) => [plot.clientWidth / 2 + (points.x[n] / GRID - view.x) * side(), plot.clientHeight / 2 + (points.y[n] / GRID - view.y) * side()];
const place = (x, y) => [view.x + (x - plot.clientWidth / 2) / side(), view.y + (y - plot.clientHeight / 2) / side()];

function hue(colour, code, most) {
  if (code < 0 || colour.values[code] === "right") return style("--edge");
  if (colour.values.length) return HUES[code % HUES.length];
  const share = most ? Math.log1p(code) / Math.log1p(most) : 0;
  return `hsl(${Math.round(250 - 230 * share)} 75% ${Math.round(46 + 6 * share)}%)`;
}

function visible() {
  const found = [], edge = thumb() / 2;
  for (let n = 0; n < points.ids.length; n += 1) {
    const [x, y] = screen(n);
    if (x > -edge && y > -edge && x < plot.clientWidth + edge && y < plot.clientHeight + edge) found.push(n);
  }
  return found;
}

function draw() {
  waiting = false;
  const ratio = window.devicePixelRatio || 1, at = Number(colourBy.value || 0), inside = visible();
  canvas.width = Math.round(plot.clientWidth * ratio);
  canvas.height = Math.round(plot.clientHeight * ratio);
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  if (!head) return;
  const codes = points.colours[at] || [], colour = head.colours[at], most = colour.values.length ? 0 : codes.reduce((a, b) => Math.max(a, b), 0);
  const radius = Math.max(2, Math.min(6, 1.6 * Math.sqrt(view.scale) * Math.sqrt(4000 / Math.max(points.ids.length, 500))));
  for (const n of inside) {
    const [x, y] = screen(n);
    context.globalAlpha = chosen && !chosen.has(n) ? 0.18 : 0.85;
    context.fillStyle = hue(colour, codes[n], most);
    context.beginPath();
    if (points.texts[n]) context.rect(x - radius * 0.8, y - radius * 0.8, radius * 1.6, radius * 1.6);
    else context.arc(x, y, radius, 0, 7);
    context.fill();
  }
  context.globalAlpha = 1;
  const images = inside.filter((n) => !points.texts[n]);
  if (root.dataset.image && images.length <= NEAR) images.forEach((n) => thumbnail(n, hue(colour, codes[n], most)));
  if (box) {
    context.strokeStyle = style("--focus");
    context.lineWidth = 2;
    context.strokeRect(Math.min(box[0], box[2]), Math.min(box[1], box[3]), Math.abs(box[2] - box[0]), Math.abs(box[3] - box[1]));
  }
  plot.dataset.drawn = inside.length;
  plot.dataset.side = Math.round(thumb());
}

function thumbnail(n, edge) {
  const key = points.ids[n];
  if (!thumbs.has(key)) {
    const image = new Image();
    image.onload = soon;
    image.src = root.dataset.image + encodeURIComponent(key);
    thumbs.set(key, image);
  }
  const image = thumbs.get(key), [x, y] = screen(n);
  if (!image.complete || !image.naturalWidth) return;
  const share = thumb() / Math.max(image.naturalWidth, image.naturalHeight), wide = image.naturalWidth * share, high = image.naturalHeight * share;
  context.drawImage(image, x - wide / 2, y - high / 2, wide, high);
  context.strokeStyle = edge;
  context.lineWidth = 2;
  context.strokeRect(x - wide / 2, y - high / 2, wide, high);
}

function soon() {
  if (!waiting) { waiting = true; requestAnimationFrame(draw); }
}

function legend() {
  const at = Number(colourBy.value || 0), colour = head.colours[at], codes = points.colours[at] || [];
  const counts = new Map();
  codes.forEach((code) => counts.set(code, (counts.get(code) || 0) + 1));
  const most = codes.reduce((a, b) => Math.max(a, b), 0);
  const rows = colour.values.length
    ? colour.values.map((value, code) => [hue(colour, code, 0), `${value} (${number(counts.get(code) || 0)})`]).filter((_, code) => counts.get(code))
    : [0, Math.round(Math.expm1(Math.log1p(most) / 2)), most].map((value) => [hue(colour, value, most), `found by ${number(value)} ${value === 1 ? "query" : "queries"}`]);
  swatches.replaceChildren(...rows.map(([tint, words]) => {
    const row = document.createElement("li"), dot = document.createElement("i");
    dot.style.background = tint;
    row.append(dot, words);
    return row;
  }));
}

function described(n) {
  return head.colours.map((colour, at) => {
    const code = points.colours[at][n];
    if (code < 0) return "";
    return colour.values.length ? (colour.name === "kind" ? colour.values[code] : `${colour.name}: ${colour.values[code]}`) : `${colour.name}: ${code}`;
  }).filter(Boolean).join(", ");
}

function entry(n) {
  const row = document.createElement("li"), text = document.createElement("span"), what = document.createElement("span");
  const key = points.ids[n], name = points.labels[n] || key;
  if (root.dataset.image && !points.texts[n]) {
    const image = document.createElement("img");
    image.src = root.dataset.image + encodeURIComponent(key);
    image.alt = "";
    image.loading = "lazy";
    row.append(image);
  }
  if (root.dataset.item) {
    const link = document.createElement("a");
    link.href = `${root.dataset.item}&${points.texts[n] ? "text" : "id"}=${encodeURIComponent(key)}`;
    link.textContent = name;
    text.append(link);
  } else text.append(name);
  what.className = "what";
  what.textContent = `${key}; ${described(n)}`;
  text.append(what);
  row.append(text);
  return row;
}

function listed() {
  const found = chosen ? [...chosen] : visible(), failing = head.colours.findIndex((colour) => colour.name === "failure");
  const right = failing < 0 ? -1 : head.colours[failing].values.indexOf("right");
  const wrong = failing < 0 ? [] : found.filter((n) => points.colours[failing][n] !== right);
  const order = [...wrong, ...found.filter((n) => !wrong.includes(n))];
  const fails = failing < 0 ? "" : `, ${number(wrong.length)} of them fail as queries`;
  said.textContent = !found.length ? "Nothing here: zoom out, or show all." : `${number(found.length)} ${chosen ? "selected" : "in view"}${fails}${found.length > MOST_LISTED ? `; the first ${MOST_LISTED} are listed` : ""}`;
  list.replaceChildren(...order.slice(0, MOST_LISTED).map(entry));
  if (ids) {
    ids.value = order.slice(0, MOST_SENT).map((n) => `${points.texts[n] ? "t" : "i"}${points.ids[n]}`).join("\n");
    send.disabled = !chosen || !chosen.size;
  }
  root.dataset.chosen = chosen ? chosen.size : "";
}

let listing = 0;
function changed() { soon(); clearTimeout(listing); listing = setTimeout(listed, 120); }
function zoom(factor, x = plot.clientWidth / 2, y = plot.clientHeight / 2) {
  const [px, py] = place(x, y);
  view.scale = Math.min(400, Math.max(0.5, view.scale * factor));
  const [qx, qy] = place(x, y);
  view.x += px - qx;
  view.y += py - qy;
  changed();
}
function move(dx, dy) { view.x -= dx / side(); view.y -= dy / side(); changed(); }
function reset() { Object.assign(view, { scale: 1, x: 0.5, y: 0.5 }); changed(); }
function select(found) { chosen = found && found.length ? new Set(found) : null; listed(); soon(); }
function within([x1, y1, x2, y2]) {
  const [left, right] = [Math.min(x1, x2), Math.max(x1, x2)], [top, bottom] = [Math.min(y1, y2), Math.max(y1, y2)];
  return visible().filter((n) => { const [x, y] = screen(n); return x >= left && x <= right && y >= top && y <= bottom; });
}

const at = (event) => { const edge = canvas.getBoundingClientRect(); return [event.clientX - edge.left, event.clientY - edge.top]; };
plot.addEventListener("wheel", (event) => { event.preventDefault(); zoom(Math.exp(-event.deltaY / 300), ...at(event)); }, { passive: false });
plot.addEventListener("pointerdown", (event) => {
  plot.setPointerCapture(event.pointerId);
  touches.set(event.pointerId, at(event));
  box = touches.size === 1 && drag.value === "select" && event.button === 0 ? [...at(event), ...at(event)] : null;
});
plot.addEventListener("pointermove", (event) => {
  if (!touches.has(event.pointerId)) return;
  const before = touches.get(event.pointerId), now = at(event);
  if (touches.size === 2) {
    const [other] = [...touches].filter(([key]) => key !== event.pointerId).map(([, where]) => where);
    const was = Math.hypot(before[0] - other[0], before[1] - other[1]), is = Math.hypot(now[0] - other[0], now[1] - other[1]);
    if (was > 0) zoom(is / was, (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    move((now[0] - before[0]) / 2, (now[1] - before[1]) / 2);
  } else if (box) { box = [box[0], box[1], ...now]; soon(); }
  else move(now[0] - before[0], now[1] - before[1]);
  touches.set(event.pointerId, now);
});
const lift = (event) => {
  touches.delete(event.pointerId);
  if (!box) return;
  const area = box;
  box = null;
  if (event.type === "pointerup") select(Math.hypot(area[2] - area[0], area[3] - area[1]) > 4 ? within(area) : null);
  soon();
};
plot.addEventListener("pointerup", lift);
plot.addEventListener("pointercancel", lift);
plot.addEventListener("keydown", (event) => {
  const step = 60, keys = {
    ArrowLeft: () => move(step, 0), ArrowRight: () => move(-step, 0), ArrowUp: () => move(0, step), ArrowDown: () => move(0, -step),
    "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), 0: reset,
    Enter: () => select(visible().filter((n) => { const [x, y] = screen(n); return x >= 0 && y >= 0 && x <= plot.clientWidth && y <= plot.clientHeight; })),
    Escape: () => select(null),
  };
  if (event.ctrlKey || event.altKey || event.metaKey || !(event.key in keys)) return;
  event.preventDefault();
  keys[event.key]();
});
root.querySelector("[data-in]").addEventListener("click", () => zoom(1.5));
root.querySelector("[data-out]").addEventListener("click", () => zoom(1 / 1.5));
root.querySelector("[data-all]").addEventListener("click", () => { select(null); reset(); });
drag.addEventListener("change", () => plot.classList.toggle("moving", drag.value === "move"));
colourBy.addEventListener("change", () => { legend(); soon(); });
new ResizeObserver(soon).observe(plot);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", soon);

function take(line) {
  if (!line) return;
  const part = JSON.parse(line);
  if (!head) {
    head = part;
    points.colours = head.colours.map(() => []);
    colourBy.replaceChildren(...head.colours.map((colour, n) => new Option(colour.name, n)));
    const failing = head.colours.findIndex((colour) => colour.name === "failure");
    colourBy.value = failing < 0 ? 0 : failing;
    about.textContent = head.about;
    return;
  }
  for (const name of ["ids", "texts", "x", "y", "labels"]) points[name].push(...part[name]);
  part.colours.forEach((codes, n) => points.colours[n].push(...codes));
  soon();
}

async function read() {
  const inside = document.getElementById("map-data");
  if (inside) inside.textContent.split("\n").forEach(take);
  else {
    const reply = await fetch(root.dataset.points, { credentials: "same-origin" });
    if (!reply.ok) throw new Error(await reply.text());
    let rest = "";
    for (const reader = reply.body.pipeThrough(new TextDecoderStream()).getReader(); ;) {
      const { value, done } = await reader.read();
      const lines = (rest + (value || "")).split("\n");
      rest = lines.pop();
      lines.forEach(take);
      if (done) { take(rest); break; }
    }
  }
  legend();
  listed();
  soon();
  root.dataset.ready = points.ids.length;
}
read().catch((error) => { said.textContent = `The map could not be read: ${error.message.slice(0, 200)}`; });
