// Shared by all pages: answers left in the browser are sent, the current page's name stays visible on a narrow screen, an image
// dropped on the page is uploaded, and after Back or Forward the search form shows the query of its results, not what was typed last (it has autocomplete off, too).
import { account, hide, warn, warning, watch } from "./account.js";
import { Outbox } from "./outbox.js";

addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  document.getElementById("find")?.reset();
  document.getElementById("searching")?.remove();
  document.getElementById("results")?.classList.remove("earlier");
});
document.querySelector("nav [aria-current=page]")?.scrollIntoView({ block: "nearest", inline: "center" });
for (const form of document.querySelectorAll("form[data-drop]")) {
  const input = form.querySelector("input[type=file]");
  const over = (on) => (event) => { event.preventDefault(); form.classList.toggle("over", on); };
  document.addEventListener("dragenter", over(true));
  document.addEventListener("dragover", over(true));
  document.addEventListener("dragleave", over(false));
  document.addEventListener("drop", (event) => {
    over(false)(event);
    if (!event.dataTransfer.files.length) return;
    input.files = event.dataTransfer.files;
    form.requestSubmit();
  });
  input.addEventListener("change", () => { if (input.files.length) form.requestSubmit(); });
}
// Copied from its field, which works without https too.
for (const button of document.querySelectorAll("button[data-copy]")) {
  button.hidden = false;
  button.addEventListener("click", () => {
    document.getElementById(button.dataset.copy).select();
    document.getElementById("copied").textContent = document.execCommand("copy") ? "Copied." : "Not copied: press Ctrl C.";
  });
}
// A search that takes long, on a slow network or a busy server, says so; the query stays, earlier results are pale.
const PATIENCE = 400; // milliseconds
function searching(words) {
  const results = document.getElementById("results");
  if (!results || document.getElementById("searching")) return;
  const note = document.createElement("p");
  const bar = document.createElement("progress");
  note.id = "searching";
  note.className = "note";
  note.setAttribute("role", "status");
  bar.setAttribute("aria-label", "Searching");
  note.append(words ? `Searching for “${words}” … ` : "Searching … ", bar);
  results.classList.add("earlier");
  results.before(note);
}
document.getElementById("find")?.addEventListener("submit", () => {
  setTimeout(searching, PATIENCE, document.getElementById("q").value.trim());
});
document.querySelector("form[data-drop]")?.addEventListener("submit", () => { setTimeout(searching, PATIENCE, ""); });
document.getElementById("results")?.addEventListener("click", (event) => {
  const plain = !event.defaultPrevented && event.button === 0 && !event.ctrlKey && !event.metaKey && !event.shiftKey;
  if (plain && event.target.closest("a[href^='/search']")) setTimeout(searching, PATIENCE, "");
});
// The page for judging has an outbox of its own.
if (account && !document.getElementById("judge")) {
  const report = (sent) => { hide(Boolean(sent.another)); warn(warning(sent)); };
  const outbox = new Outbox(account, report);
  watch((another) => warn(another || outbox.kept.length ? warning({ failed: true, another, left: outbox.kept.length }) : ""));
  outbox.send();
}
