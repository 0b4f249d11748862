// The account that a page was opened for. All tabs of a browser have one session: that of whoever logged in last.
import { kept, keep } from "./kept.js";

const LATEST = "limner-account"; // the account of the page that was opened last in this browser
const banner = document.getElementById("banner");
export const account = document.body.dataset.account;

export function warn(words) {
  banner.textContent = words;
  banner.hidden = !words;
}

// While another account is logged in, a page is hidden: nobody else sees it or answers in it.
export const hidden = () => document.body.hasAttribute("data-hidden");
export const hide = (on) => document.body.toggleAttribute("data-hidden", on);

// Called with whether another account is logged in now, when another tab opens a page.
export function watch(changed) {
  keep(LATEST, account);
  addEventListener("storage", ({ key }) => {
    if (key !== LATEST) return;
    const another = kept(LATEST, account) !== account;
    if (another === hidden()) return;
    hide(another);
    changed(another);
  });
}

// What the banner says about answers in the outbox; nothing if the server has them.
export function warning({ failed, login, another, left, ok, data }) {
  if (!failed) return ok === false ? `NOT SAVED: ${data?.error || "the server refused the answer"}` : "";
  if (another && !left) return "Another account is logged in in this browser now: this page is hidden. The menu above opens your own.";
  const answers = `NOT SAVED: ${left} ${left === 1 ? "answer is" : "answers are"} kept in this browser`;
  if (another) return `${answers}, for the account of this page alone. Another account is logged in now. Log in with this page's account again, and they are sent.`;
  if (login) return `${answers}. You are logged out: log in again in another tab. Trying again.`;
  return `${answers}. ${data?.error ? `The server replies: ${data.error}.` : "The server does not answer."} Trying again until they are saved.`;
}
