// Judging pairs one after the other. Without this script the page works as a plain form; with it, pages are not reloaded.
import { account, hidden, hide, warn, warning, watch } from "./account.js";
import { Keys } from "./keys.js";
import { Outbox, newKey } from "./outbox.js";
import { Picture, pointOf } from "./picture.js";
import { kept, keep } from "./kept.js";

const at = (id) => document.getElementById(id);
const root = at("judge");
const form = at("answer");
const task = JSON.parse(root.dataset.task);
const scale = JSON.parse(root.dataset.scale);
const asks = (grade) => scale.grades.some((each) => each.value === grade && each.reasons);
const items = task.items;
const grades = [...form.querySelectorAll("input[name=grade]")];
const reasons = [...form.querySelectorAll("input[name=reason]")];
const picture = new Picture(at("shown"));
const SKIPS = `limner-skips:${root.dataset.who}`;
const guide = at("guide");
const READ = `limner-guideline:${root.dataset.who}`;
const LAST = 999999; // the last pair of a task, whatever its position
let place = Number(root.dataset.at);
let since = 0;
let locked = true; // until the image of this caption is visible
let ending = false; // every pair is answered: the task is finished when the server has the answers
const skipped = new Set(kept(SKIPS, {})[task.assignment] || []);
// Answered pairs in the order of their answers, for undo.
const given = [...task.order];

const outbox = new Outbox(account, report);
// Unsent answers of an earlier visit count here too.
for (const { path, body } of outbox.kept) {
  const item = items.find((each) => each.id === body.item);
  if (item) answered(item, path.endsWith("undo") ? null : body.grade, body.reasons || [], body.comment);
}

function answered(item, grade, why, comment = "") {
  Object.assign(item, { grade, reasons: why, comment });
  if (given.includes(item.id)) given.splice(given.indexOf(item.id), 1);
  if (grade !== null) given.push(item.id);
}

function say(words) { at("state").textContent = words; }

function report(sent) {
  const { failed, another, left, body, path, ok } = sent;
  hide(Boolean(another));
  warn(warning(sent));
  if (failed) { say("Not saved yet."); return; }
  if (!ok) {
    const item = items.find((each) => each.id === body.item);
    if (item) { answered(item, null, []); item.refused = true; }
    say("Not saved.");
    progress();
    return;
  }
  say(path.endsWith("undo") ? "Undone." : left ? "Saving …" : "Saved.");
  if (ending) finish();
}

function progress() {
  at("bar").value = items.filter((item) => item.grade !== null).length;
  at("place").textContent = `Pair ${place + 1} of ${items.length}`;
}

// A pair cannot be graded before its image is visible; the clock starts then.
function lock(on) {
  locked = on;
  root.toggleAttribute("data-locked", on);
  root.setAttribute("aria-busy", String(on));
  for (const id of ["grades", "reasons"]) at(id).disabled = on;
  form.querySelector("button[value=save]").disabled = on;
}

async function show(to, { focus = true } = {}) {
  place = to;
  ending = false;
  const item = items[place];
  at("finished").hidden = true;
  root.hidden = false;
  at("words").textContent = item.text;
  for (const radio of grades) radio.checked = Number(radio.value) === item.grade;
  for (const box of reasons) box.checked = item.reasons.includes(box.value);
  at("comment").value = item.comment;
  commenting(item.comment !== "");
  zoomed(false);
  middle();
  progress();
  history.replaceState(null, "", `/judge?assignment=${task.assignment}&at=${place}`);
  if (focus) at("words").focus({ preventScroll: true });
  await look(item);
}

async function look(item) {
  lock(true);
  loading("Loading the image …");
  const there = await picture.show(item.picture);
  if (there === null) return;
  if (!there) { loading("The image could not be loaded: this pair cannot be judged yet.", true); return; }
  at("loading").hidden = true;
  lock(false);
  since = performance.now();
  for (const next of items.slice(place + 1, place + 3)) picture.fetch(next.picture).catch(() => {});
}

function loading(words, again = false) {
  at("loading").hidden = false;
  at("loading-words").textContent = words;
  at("reload").hidden = !again;
}

function chosen() {
  const radio = grades.find((each) => each.checked);
  return radio ? Number(radio.value) : null;
}

// Reasons are only for some grades; in one-key mode they are chosen before the grade.
function middle() { at("reasons").hidden = task.reasons === "off" || !reasons.length || (!asks(chosen()) && !at("one-key").checked); }

function choose(grade) {
  if (root.hidden || locked) return;
  for (const radio of grades) radio.checked = Number(radio.value) === grade;
  middle();
  if (at("one-key").checked) { save(); return; }
  say(`Chosen: ${grades.find((radio) => radio.checked).closest("label").textContent.trim().replace(/\s+/g, " ")}`);
}

function open(after) {
  const order = [...items.keys()].map((step) => (after + step) % items.length);
  const left = order.filter((index) => items[index].grade === null);
  return left.find((index) => !skipped.has(items[index].id)) ?? left[0];
}

function save() {
  if (root.hidden) { if (!at("finished").hidden) at("further").click(); return; }
  if (locked) return;
  const grade = chosen();
  if (grade === null) { say(`Choose one of the ${["two", "three", "four"][grades.length - 2]} answers first.`); grades[0].focus(); return; }
  const item = items[place];
  const why = asks(grade) && task.reasons !== "off" ? reasons.filter((box) => box.checked).map((box) => box.value) : [];
  if (task.reasons === "required" && asks(grade) && !why.length) { say("Choose at least one reason first."); reasons[0].focus(); return; }
  const changed = item.grade !== null;
  const comment = at("comment").value.trim();
  answered(item, grade, why, comment);
  skip.forget(item);
  say("Saving …");
  const milliseconds = Math.min(86400000, Math.round(performance.now() - since));
  outbox.add("/api/answers", { item: item.id, assignment: task.assignment, key: newKey(), grade, reasons: why, comment, milliseconds, guideline: guide.dataset.version });
  const next = open(place + 1) ?? (changed && place + 1 < items.length ? place + 1 : undefined);
  if (next === undefined) { progress(); finish(); } else show(next);
}

function finish() {
  ending = true;
  if (items.some((item) => item.grade === null) || outbox.kept.length) return;
  root.hidden = true;
  at("finished").hidden = false;
  at("finished-title").focus();
  history.replaceState(null, "", "/judge");
}

function back() {
  if (root.hidden) return;
  if (place > 0) { show(place - 1); say("Back."); } else if (task.earlier) location.assign(`/judge?assignment=${task.earlier}&at=${LAST}`);
  else say("This is the first pair.");
}

function next() {
  if (root.hidden) return;
  if (place + 1 < items.length) { show(place + 1); say("Next."); } else if (task.later) location.assign(`/judge?assignment=${task.later}&at=0`);
  else if (open(0) !== undefined && open(0) !== place) { show(open(0)); say("Back to the pairs without an answer."); } else say("This is the last pair.");
}

function skip() {
  if (root.hidden) return;
  skipped.add(items[place].id);
  skip.keep();
  const next = open(place + 1);
  if (next === undefined || next === place) { say("This is the only one left."); return; }
  show(next);
  say("Skipped: it comes again at the end.");
}
skip.keep = () => keep(SKIPS, { [task.assignment]: [...skipped] });
skip.forget = (item) => { if (skipped.delete(item.id)) skip.keep(); };

function undo({ last = false } = {}) {
  const here = !root.hidden && items[place].grade !== null;
  const which = here && !last ? place : items.findIndex((item) => item.id === given.at(-1));
  if (which < 0) {
    if (task.earlier) location.assign(`/judge?assignment=${task.earlier}#undo`); else say("There is nothing to undo.");
    return;
  }
  answered(items[which], null, []);
  outbox.add("/api/answers/undo", { item: items[which].id, assignment: task.assignment, key: newKey() });
  show(which);
  say("Undoing …");
}

function zoomed(on) {
  root.classList.toggle("zoomed", on);
  at("zoom").setAttribute("aria-pressed", String(on));
}

function zoom(point) {
  if (locked) return;
  zoomed(!picture.zoomed);
  picture.zoom(!picture.zoomed, point);
}

// The field for a comment is opened by its key or button; Escape goes back to the pair.
function commenting(on) {
  at("comment-field").hidden = !on;
  at("comment-button").setAttribute("aria-expanded", String(on));
}

function comment() {
  if (locked || root.hidden) return;
  commenting(true);
  at("comment").focus();
}

function why() {
  if (at("reasons").hidden) { say(scale.own ? "Reasons are not asked for here." : "Reasons are asked for the two middle answers only."); return; }
  reasons[0].focus();
}

function reason(name) {
  if (locked || root.hidden) return;
  if (at("reasons").hidden) { why(); return; }
  const box = reasons.find((each) => each.value === name);
  box.checked = !box.checked;
  say(`${box.checked ? "Reason" : "Not a reason"}: ${box.closest("label").textContent.trim().replace(/\s+/g, " ")}`);
}

const keys = new Keys({
  ...Object.fromEntries(scale.grades.map(({ value }) => [`grade${value}`, () => choose(value)])),
  save, back, next, skip, undo: () => undo(), zoom: () => zoom(), reasons: why, comment, help: () => at("help").showModal(), guideline: () => guide.showModal(),
  ...Object.fromEntries(reasons.map((box) => [box.value, () => reason(box.value)])),
}, scale);
keys.table(at("keymap"), at("use-keys"), at("usual-keys"));

const acts = { save, back, next, skip, undo };
form.addEventListener("submit", (event) => { event.preventDefault(); acts[event.submitter?.value || "save"]({}); });
form.addEventListener("change", middle);
// In one-key mode a tap on a grade also saves; arrow keys between the grades only select.
at("grades").addEventListener("click", (event) => {
  const label = event.detail > 0 && at("one-key").checked ? event.target.closest("label") : null;
  if (!label) return;
  event.preventDefault();
  setTimeout(choose, 0, Number(label.querySelector("input").value)); // later: the browser first restores what was chosen before
});
at("shown").addEventListener("click", (event) => { if (event.target.id === "picture" && !picture.dragged) zoom(pointOf(event)); });
at("zoom").addEventListener("click", () => zoom());
at("comment-button").addEventListener("click", comment);
at("comment").addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  commenting(at("comment").value.trim() !== "");
  at("words").focus({ preventScroll: true });
});
at("keys").addEventListener("click", () => at("help").showModal());
at("reopen").addEventListener("click", () => undo({ last: true }));
at("reload").addEventListener("click", () => look(items[place]));
at("one-key").checked = kept("limner-one-key", false) === true;
at("one-key").closest("label").hidden = false;
at("one-key").addEventListener("change", () => { keep("limner-one-key", at("one-key").checked); middle(); });
at("guide-button").addEventListener("click", () => guide.showModal());
// Enter begins; on a button or a link it does what they do. A key that was pressed before it was shown does not close it.
guide.addEventListener("keydown", (event) => {
  if (event.key !== "Enter" || event.repeat || !event.isTrusted || event.target.closest("button, a")) return;
  event.preventDefault();
  event.stopPropagation(); // the page behind it would take it for its own
  guide.close();
});
// The time spent reading the guideline does not count.
guide.addEventListener("close", () => { keep(READ, guide.dataset.version); since = performance.now(); });
for (const id of ["zoom", "keys", "guide-button", "comment-button"]) at(id).hidden = false;
window.addEventListener("beforeunload", (event) => { if (outbox.kept.length && !(hidden() && outbox.stored)) event.preventDefault(); });
watch((another) => warn(another || outbox.kept.length ? warning({ failed: true, another, left: outbox.kept.length }) : ""));
const undoing = location.hash === "#undo"; // undo the last answer of an earlier task
show("exact" in root.dataset ? place : open(place) ?? place, { focus: false });
root.dataset.ready = ""; // keys are active from here on
if (undoing) undo({ last: true }); else if (!("exact" in root.dataset)) finish();
outbox.send();
// Before the first pair, and whenever there is a new version.
const read = kept(READ, "first" in guide.dataset ? "" : guide.dataset.version);
if (read !== guide.dataset.version) guide.showModal();
