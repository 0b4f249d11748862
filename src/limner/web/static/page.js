// Shared by all pages: the current page's name stays visible on a narrow screen, an image dropped on the page is uploaded,
// and after Back or Forward the search form shows the query of its results, not what was typed last (it has autocomplete off, too).
addEventListener("pageshow", (event) => { if (event.persisted) document.getElementById("find")?.reset(); });
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
