import { hidden } from "./account.js";

// Votes by key: 1 left, 2 neither, 3 right. Keys are ignored while another key is held or a key repeats.
const form = document.getElementById("vote");
const buttons = { 1: "left", 2: "tie", 3: "right" };
document.addEventListener("keydown", (event) => {
  if (hidden() || event.ctrlKey || event.altKey || event.metaKey || event.repeat || event.isComposing) return;
  const button = buttons[event.key] && form.querySelector(`button[value=${buttons[event.key]}]`);
  if (!button || button.disabled) return;
  event.preventDefault();
  button.click();
});
form.addEventListener("submit", () => setTimeout(() => { for (const button of form.querySelectorAll("button")) button.disabled = true; }));
