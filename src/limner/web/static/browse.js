// Keyboard navigation of failures: J next, K previous; in a list they move between the cards, and past its end to the next page.
const cards = [...document.querySelectorAll("[data-card]")];
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.target.closest("input, textarea, select")) return;
  const step = { j: 1, k: -1 }[event.key.toLowerCase()];
  if (!step) return;
  event.preventDefault();
  const card = cards[cards.indexOf(document.activeElement) + step];
  if (card && (step > 0 || cards.includes(document.activeElement))) card.focus();
  else document.querySelector(`a[rel=${step > 0 ? "next" : "prev"}]`)?.click();
});
