// Unsent answers of an account: kept in this browser until the server has them, and sent again with the same key until then.
import { drop, keep, kept } from "./kept.js";

const PATIENCE = 30000; // milliseconds without a reply after which an answer is sent again

export class Outbox {
  constructor(account, changed) {
    this.account = account;
    this.name = `limner-outbox:${account}`;
    this.changed = changed;
    this.sending = false;
    this.stored = true; // if storage is full or not allowed, the answers are still in this page
    this.delay = 1000;
    this.kept = [];
    this.kept = this.read();
  }

  read() {
    const list = this.stored ? kept(this.name, []) : this.kept;
    return Array.isArray(list) ? list : [];
  }

  // Read first: another tab of the same account may have added answers, or sent them.
  change(how) {
    this.kept = how(this.read());
    this.stored = this.kept.length ? keep(this.name, this.kept) : drop(this.name);
  }

  add(path, body) {
    this.change((list) => [...list, { path, body }]);
    this.send();
  }

  // Sent one by one and in order: a later answer to the same pair must arrive later.
  async send() {
    if (this.sending) return;
    this.sending = true;
    while (this.kept.length) {
      const each = this.kept[0];
      const { reply, data } = await post(each.path, { ...each.body, account: this.account });
      const another = reply?.status === 409 && data?.reason === "account";
      if (reply === null || another || reply.status >= 500 || [401, 408, 429].includes(reply.status)) {
        this.changed({ failed: true, login: reply?.status === 401, another, left: this.kept.length, data });
        await new Promise((wake) => setTimeout(wake, this.delay));
        this.delay = Math.min(2 * this.delay, 15000);
        continue;
      }
      this.delay = 1000;
      this.change((list) => list.filter(({ body }) => body.key !== each.body.key));
      this.changed({ failed: false, left: this.kept.length, body: each.body, path: each.path, ok: reply.ok, data });
    }
    this.sending = false;
  }
}

async function post(path, body) {
  const gone = new AbortController();
  const late = setTimeout(() => gone.abort(), PATIENCE);
  try {
    const reply = await fetch(path, {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), credentials: "same-origin", signal: gone.signal,
    });
    return { reply, data: await reply.json() };
  } catch {
    return { reply: null, data: null }; // no network, no reply, or an incomplete one
  } finally {
    clearTimeout(late);
  }
}

// Not randomUUID: browsers provide it only on https pages.
export function newKey() {
  return Array.from(crypto.getRandomValues(new Uint8Array(16)), (byte) => byte.toString(16).padStart(2, "0")).join("");
}
