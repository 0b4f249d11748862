// A page that updates itself: only changed parts are replaced, so that focus and screen readers are not disturbed.
const root = document.querySelector("[data-live]");
const parts = (where) => [...where.querySelectorAll("[data-part]")];

async function look() {
  if (document.hidden) return;
  let fresh;
  try {
    const reply = await fetch(root.dataset.address ?? location.href, { credentials: "same-origin", headers: { Accept: "text/html" } });
    if (!reply.ok || reply.redirected) return;
    fresh = new DOMParser().parseFromString(await reply.text(), "text/html");
  } catch {
    return; // the server does not respond: the page stays as it is, and the next update may succeed
  }
  const now = parts(document);
  const coming = parts(fresh).length;
  const waits = fresh.querySelector("[data-live]");
  const waiting = root.id === "waiting"; // the whole page is still to come
  if (!coming && !waiting) return; // a server that has just started is still estimating: the page stays as it is
  if (coming !== now.length || (waits ? waits.id !== root.id : waiting)) { location.reload(); return; }
  for (const part of now) {
    const newer = fresh.getElementById(part.id);
    if (newer && newer.innerHTML !== part.innerHTML) part.replaceChildren(...newer.childNodes);
  }
  if (!waits) clearInterval(looking); // nothing more will change
}

const looking = setInterval(look, 1000 * Number(root.dataset.live));
