// Judging one pair after the other. The page works as a plain form without this; with it, nothing is loaded in between.
import { Keys } from "./keys.js";
import { Outbox, newKey } from "./outbox.js";

const at = (id) => document.getElementById(id);
const root = at("judge");
const form = at("answer");
const task = JSON.parse(root.dataset.task);
const items = task.items;
const grades = [...form.querySelectorAll("input[name=grade]")];
const reasons = [...form.querySelectorAll("input[name=reason]")];
let place = Number(root.dataset.at);
let since = performance.now();
let last = null; // the pair answered last, for undo
const skipped = new Set();

const outbox = new Outbox(`limner-outbox:${root.dataset.who}`, report);
// What is on its way from an earlier visit holds here too.
for (const { path, body } of outbox.kept) {
  const item = items.find((each) => each.id === body.item);
  if (item) Object.assign(item, { grade: path.endsWith("undo") ? null : body.grade, reasons: body.reasons || [] });
}

function say(words) { at("state").textContent = words; }

function report({ failed, login, left, body, path, ok, data }) {
  const banner = at("banner");
  banner.hidden = !failed && (ok || ok === undefined);
  if (failed) {
    const why = login ? "You are logged out: log in again in another tab." : "The server does not answer.";
    banner.textContent = `NOT SAVED: ${left} ${left === 1 ? "answer is" : "answers are"} kept in this browser. ${why} Trying again.`;
    say("Not saved yet.");
    return;
  }
  if (!ok) {
    const item = items.find((each) => each.id === body.item);
    if (item) { item.grade = null; item.reasons = []; item.refused = true; }
    banner.textContent = `NOT SAVED: ${data?.error || "the server refused the answer"}`;
    say("Not saved.");
    progress();
    return;
  }
  say(path.endsWith("undo") ? "Undone." : left ? "Saving …" : "Saved.");
  finish();
}

function progress() {
  at("bar").value = items.filter((item) => item.grade !== null).length;
  at("place").textContent = `Pair ${place + 1} of ${items.length}`;
}

function show(to, { focus = true } = {}) {
  place = to;
  const item = items[place];
  at("finished").hidden = true;
  root.hidden = false;
  at("words").textContent = item.text;
  for (const radio of grades) radio.checked = Number(radio.value) === item.grade;
  for (const box of reasons) box.checked = item.reasons.includes(box.value);
  zoom(false);
  middle();
  progress();
  since = performance.now();
  if (focus) at("words").focus({ preventScroll: true });
  for (const next of items.slice(place + 1, place + 3)) new Image().src = next.picture;
}

function chosen() {
  const radio = grades.find((each) => each.checked);
  return radio ? Number(radio.value) : null;
}

// Reasons are asked for the two middle answers only.
function middle() { at("reasons").hidden = task.reasons === "off" || ![2, 3].includes(chosen()); }

function choose(grade) {
  if (root.hidden) return;
  for (const radio of grades) radio.checked = Number(radio.value) === grade;
  middle();
  say(`Chosen: ${grades.find((radio) => radio.checked).closest("label").textContent.trim().replace(/\s+/g, " ")}`);
}

function open(after) {
  const order = [...items.keys()].map((step) => (after + step) % items.length);
  const left = order.filter((index) => items[index].grade === null);
  return left.find((index) => !skipped.has(items[index].id)) ?? left[0];
}

function save() {
  if (root.hidden) { if (!at("finished").hidden) at("further").click(); return; }
  const grade = chosen();
  if (grade === null) { say("Choose one of the four answers first."); grades[0].focus(); return; }
  const item = items[place];
  const why = [2, 3].includes(grade) && task.reasons !== "off" ? reasons.filter((box) => box.checked).map((box) => box.value) : [];
  if (task.reasons === "required" && [2, 3].includes(grade) && !why.length) { say("Choose at least one reason first."); reasons[0].focus(); return; }
  item.grade = grade;
  item.reasons = why;
  last = place;
  say("Saving …");
  const milliseconds = Math.min(86400000, Math.round(performance.now() - since));
  outbox.add("/api/answers", { item: item.id, key: newKey(), grade, reasons: why, milliseconds });
  const next = open(place + 1);
  if (next === undefined) { progress(); finish(); } else show(next);
}

function finish() {
  if (items.some((item) => item.grade === null) || outbox.kept.length) return;
  root.hidden = true;
  at("finished").hidden = false;
  at("finished-title").focus();
}

function back() { if (!root.hidden && place > 0) { show(place - 1); say("Back."); } }

function skip() {
  if (root.hidden) return;
  skipped.add(items[place].id);
  const next = open(place + 1);
  if (next === undefined || next === place) { say("This is the only one left."); return; }
  show(next);
  say("Skipped: it comes again at the end.");
}

function undo() {
  const which = !root.hidden && items[place].grade !== null ? place : last;
  if (which === null || items[which].grade === null) { say("There is nothing to undo."); return; }
  const item = items[which];
  item.grade = null;
  item.reasons = [];
  last = items.slice(0, which).findLastIndex((each) => each.grade !== null);
  if (last < 0) last = null;
  outbox.add("/api/answers/undo", { item: item.id, key: newKey() });
  show(which);
  say("Undoing …");
}

function zoom(on = !root.classList.contains("zoomed")) {
  root.classList.toggle("zoomed", on);
  const picture = items[place].picture;
  const wanted = on ? picture.replace("size=view", "size=full") : picture;
  if (at("picture").getAttribute("src") !== wanted) at("picture").src = wanted;
  at("zoom").setAttribute("aria-pressed", String(on));
}

function why() {
  if (at("reasons").hidden) { say("Reasons are asked for the two middle answers only."); return; }
  reasons[0].focus();
}

const keys = new Keys({
  grade1: () => choose(1), grade2: () => choose(2), grade3: () => choose(3), grade4: () => choose(4),
  save, back, skip, undo, zoom: () => zoom(), reasons: why, help: () => at("help").showModal(),
});
keys.table(at("keymap"), at("use-keys"), at("usual-keys"));

const acts = { save, back, skip, undo };
form.addEventListener("submit", (event) => { event.preventDefault(); acts[event.submitter?.value || "save"](); });
form.addEventListener("change", middle);
at("picture").addEventListener("click", () => zoom());
at("zoom").addEventListener("click", () => zoom());
at("keys").addEventListener("click", () => at("help").showModal());
at("reopen").addEventListener("click", undo);
for (const id of ["zoom", "keys"]) at(id).hidden = false;
window.addEventListener("beforeunload", (event) => { if (outbox.kept.length) event.preventDefault(); });
show(open(place) ?? place, { focus: false });
root.dataset.ready = ""; // keys are heard from here on
finish();
outbox.send();
