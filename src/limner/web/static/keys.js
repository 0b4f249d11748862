// Keyboard shortcuts: what each does, when they are inactive, and how to change them.
import { kept, keep } from "./kept.js";

const USUAL = {
  grade1: ["1"], grade2: ["2"], grade3: ["3"], grade4: ["4"], save: ["Enter"], back: ["ArrowLeft", "Backspace"],
  next: ["ArrowRight"], reasons: ["r"], zoom: ["z"], skip: ["s"], undo: ["u"], help: ["?"], guideline: ["h"],
  "not-in-image": ["i"], "not-in-caption": ["n"], grammar: ["m"], "wrong-quantity": ["q"], "wrong-colour": ["c"],
  "wrong-size": ["d"], "wrong-species": ["p"], "wrong-gender": ["g"], "wrong-age": ["a"], "wrong-action": ["t"],
  "wrong-emotion": ["e"], "wrong-location": ["l"], "wrong-orientation": ["o"], "wrong-other": ["w"],
};
const NAMES = {
  grade1: "100% no", grade2: "Mostly no", grade3: "Partially yes", grade4: "100% yes", save: "Save and go on", back: "Back",
  next: "Next", reasons: "Reasons", zoom: "Zoom", skip: "Skip", undo: "Undo", help: "This help", guideline: "Guideline",
};
const nameOf = (name) => NAMES[name] || `Reason: ${name.replace("wrong-", "wrong ").replaceAll("-", " ")}`;
const STORE = "limner-keys";
const SHOWN = { ArrowLeft: "←", ArrowRight: "→", ArrowUp: "↑", ArrowDown: "↓", " ": "Space" };
const shown = (key) => SHOWN[key] || (key.length === 1 ? key.toUpperCase() : key);

export class Keys {
  constructor(actions) {
    this.actions = actions;
    const own = kept(STORE, {});
    this.on = own.on !== false;
    this.map = { ...USUAL };
    for (const name of Object.keys(USUAL)) {
      const list = own.map?.[name];
      if (Array.isArray(list) && list.length && list.every((key) => typeof key === "string" && key.length < 20)) this.map[name] = list;
    }
    document.addEventListener("keydown", (event) => this.press(event));
  }

  write() {
    keep(STORE, { on: this.on, map: this.map });
    this.label();
  }

  rests(event) {
    const target = event.target;
    if (!this.on || event.ctrlKey || event.altKey || event.metaKey || event.repeat) return true;
    if (event.isComposing || event.keyCode === 229 || document.querySelector("dialog[open]")) return true;
    if (target.closest("textarea, select, [contenteditable], input:not([type=radio]):not([type=checkbox])")) return true;
    // On a button, a link or a choice, these keys already have a meaning.
    const own = target.closest("button, a, summary") ? ["Enter", " "] : target.closest("input") ? ["Enter", "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", " "] : [];
    return own.includes(event.key);
  }

  press(event) {
    if (this.rests(event)) return;
    const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
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
      body.replaceChildren(...Object.keys(USUAL).map((name) => this.row(name, fill)));
      this.label();
    };
    toggle.addEventListener("change", () => { this.on = toggle.checked; this.write(); });
    reset.addEventListener("click", () => { this.map = { ...USUAL }; this.on = true; this.write(); fill(); });
    fill();
  }

  row(name, fill) {
    const row = document.createElement("tr"), head = document.createElement("th"), cell = document.createElement("td");
    const label = document.createElement("label"), input = document.createElement("input");
    input.type = "text"; input.id = `key-${name}`; input.readOnly = true; input.value = this.map[name].map(shown).join(" ");
    label.htmlFor = input.id; label.textContent = nameOf(name); head.scope = "row";
    input.addEventListener("keydown", (event) => {
      if (["Tab", "Escape", "Shift", "Control", "Alt", "Meta"].includes(event.key)) return;
      event.preventDefault();
      const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
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
