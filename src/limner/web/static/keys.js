// Keyboard shortcuts: what each does, when they are inactive, and how to change them.
import { hidden } from "./account.js";
import { kept, keep } from "./kept.js";

const ACTIONS = {
  save: ["Enter"], back: ["ArrowLeft", "Backspace"], next: ["ArrowRight"], reasons: ["r"], zoom: ["z"], skip: ["s"], undo: ["u"],
  comment: ["k"], help: ["?"], guideline: ["h"],
};
const NAMES = {
  save: "Save and go on", back: "Back", next: "Next", reasons: "Reasons", zoom: "Zoom", skip: "Skip", undo: "Undo", comment: "Comment", help: "This help",
  guideline: "Guideline",
};
const capital = (words) => words[0].toUpperCase() + words.slice(1);
const STORE = "limner-keys";
const SHOWN = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "Space" };
const shown = (key) => SHOWN[key] || (key.length === 1 ? key.toUpperCase() : key);

// The keys of the actions, and of the grades and reasons of this store.
function usual(scale) {
  const grades = [...scale.grades].reverse().map(({ value, key }) => [`grade${value}`, [key]]);
  return { ...Object.fromEntries(grades), ...ACTIONS, ...Object.fromEntries(scale.reasons.map(({ name, key }) => [name, [key]])) };
}

function names(scale) {
  const why = ({ name, label, group }) => (scale.own ? `${group ? `${group}: ` : ""}${label}` : name.replace("wrong-", "wrong ").replaceAll("-", " "));
  const reasons = scale.reasons.map((each) => [each.name, `Reason: ${why(each)}`]);
  return { ...NAMES, ...Object.fromEntries(scale.grades.map(({ value, label }) => [`grade${value}`, capital(label)])), ...Object.fromEntries(reasons) };
}

export const keysOn = () => kept(STORE, {}).on !== false;
export const keepKeysOn = (on) => keep(STORE, { ...kept(STORE, {}), on });

// Whether a key belongs to the browser or to a field: held with another, repeated, composed, typed, or with its own meaning there.
export function rests(event) {
  const target = event.target;
  if (hidden() || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return true;
  if (event.isComposing || event.keyCode === 229 || document.querySelector("dialog[open]")) return true;
  if (target.closest("textarea, select, [contenteditable], input:not([type=radio]):not([type=checkbox])")) return true;
  // On a button, a link or a choice, these keys already have a meaning.
  const own = target.closest("button, a, summary") ? ["Enter", " "] : target.closest("input") ? ["Enter", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", " "] : [];
  return own.includes(event.key);
}

// The name of a key: letters without their case.
export const plain = (event) => (event.key.length === 1 ? event.key.toLowerCase() : event.key);

export class Keys {
  constructor(actions, scale) {
    this.actions = actions;
    this.usual = usual(scale);
    this.names = names(scale);
    // Own grades and reasons have their own keys, so what somebody changed for others does not apply to them.
    this.store = scale.own ? `${STORE}:${Object.values(this.usual).join("")}` : STORE;
    const own = kept(this.store, {});
    this.on = own.on !== false;
    this.map = { ...this.usual };
    for (const name of Object.keys(this.usual)) {
      const list = own.map?.[name];
      if (Array.isArray(list) && list.length && list.every((key) => typeof key === "string" && key.length < 20)) this.map[name] = list;
    }
    document.addEventListener("keydown", (event) => this.press(event));
  }

  write() {
    keep(this.store, { on: this.on, map: this.map });
    this.label();
  }

  press(event) {
    if (!this.on || rests(event)) return;
    const key = plain(event);
    const name = Object.keys(this.map).find((each) => this.map[each].includes(key));
    if (!name || !this.actions[name]) return;
    event.preventDefault();
    this.actions[name]();
  }

  label() {
    for (const mark of document.querySelectorAll("kbd[data-key]")) {
      mark.hidden = !this.on;
      mark.textContent = shown(this.map[mark.dataset.key][0]);
    }
  }

  // The table of keys in the help: each field records the next key pressed in it.
  table(body, toggle, reset) {
    const fill = () => {
      toggle.checked = this.on;
      body.replaceChildren(...Object.keys(this.usual).map((name) => this.row(name, fill)));
      this.label();
    };
    toggle.addEventListener("change", () => { this.on = toggle.checked; this.write(); });
    reset.addEventListener("click", () => { this.map = { ...this.usual }; this.on = true; this.write(); fill(); });
    fill();
  }

  row(name, fill) {
    const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
    const label = document.createElement("label"), input = document.createElement("input");
    input.type = "text"; input.id = `key-${name}`; input.readOnly = true; input.value = this.map[name].map(shown).join(" ");
    label.htmlFor = input.id; label.textContent = this.names[name]; head.scope = "row";
    input.addEventListener("keydown", (event) => {
      if (["Tab", "Escape", "Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
      event.preventDefault();
      const key = plain(event);
      for (const other of Object.keys(this.map)) if (other !== name && this.map[other].includes(key)) return;
      this.map = { ...this.map, [name]: [key] };
      this.write();
      fill();
      document.getElementById(input.id).focus();
    });
    head.append(label); cell.append(input); row.append(head, cell);
    return row;
  }
}
