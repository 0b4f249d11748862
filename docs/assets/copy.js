// The copy button of a console block copies its commands: no prompt, no output.
document.addEventListener("click", (event) => {
  const button = event.target.closest(".md-code__button[data-md-type=copy], .md-clipboard");
  const block = button && button.closest(".language-console");
  if (!block) return;
  const lines = block.querySelector("code").textContent.split("\n");
  const kept = [];
  let open = false; // the last command goes on with a backslash
  for (const line of lines) {
    if (line.startsWith("$ ")) kept.push(line.slice(2));
    else if (open) kept.push(line);
    else continue;
    open = line.endsWith("\\");
  }
  if (!kept.length) return; // a block without prompts is copied as it is
  button.setAttribute("data-clipboard-text", kept.join("\n"));
}, true);
