// Keys of a study's form: each choice, button or link names the key that clicks it; all can be switched off.
import { keepKeysOn, keysOn, plain, rests } from "./keys.js";

const form = document.getElementById("form");
const toggle = document.getElementById("use-keys");
const buttons = (on) => { for (const each of form.querySelectorAll("button")) each.disabled = !on; };

function label() { form.toggleAttribute("data-keys", toggle.checked); }

toggle.checked = keysOn();
toggle.closest("label").hidden = false;
toggle.addEventListener("change", () => { keepKeysOn(toggle.checked); label(); });
label();
document.addEventListener("keydown", (event) => {
  if (!toggle.checked || rests(event)) return;
  const target = form.querySelector(`[data-key="${CSS.escape(plain(event))}"]`);
  if (!target || target.disabled) return;
  event.preventDefault();
  target.click();
});
form.addEventListener("submit", () => setTimeout(buttons, 0, false)); // later: the pressed button belongs to what is sent
addEventListener("pageshow", () => buttons(true));
form.dataset.ready = "";
