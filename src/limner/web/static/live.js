// A page that looks again by itself: parts that changed are replaced, so that focus and what is read aloud stay.
const root = document.querySelector("[data-live]");
const parts = (where) => [...where.querySelectorAll("[data-part]")];

async function look() {
  if (document.hidden) return;
  let fresh;
  try {
    const reply = await fetch(location.href, { credentials: "same-origin", headers: { Accept: "text/html" } });
    if (!reply.ok || reply.redirected) return;
    fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  } catch {
    return; // the server is away: what is shown stays, and the next look may succeed
  }
  const now = parts(document);
  const coming = parts(fresh).length;
  const waits = fresh.querySelector("[data-live]");
  const waiting = root.id === "waiting"; // the whole page is still to come
  if (!coming && !waiting) return; // a server that has just started is still estimating: what is shown stays
  if (coming !== now.length || (waits ? waits.id !== root.id : waiting)) { location.reload(); return; }
  for (const part of now) {
    const newer = fresh.getElementById(part.id);
    if (newer && newer.innerHTML !== part.innerHTML) part.replaceChildren(...newer.childNodes);
  }
  if (!waits) clearInterval(looking); // nothing more will change
}

const looking = setInterval(look, 1000 * Number(root.dataset.live));
