// Unsent answers: kept in this browser until the server has them, and sent again with the same key until then.
import { drop, keep, kept } from "./kept.js";

const PATIENCE = 30000; // milliseconds without a reply after which an answer is sent again

export class Outbox {
  constructor(name, changed) {
    this.name = name;
    this.changed = changed;
    this.sending = false;
    this.delay = 1000;
    this.kept = this.read();
  }

  read() {
    const found = kept(this.name, []);
    return Array.isArray(found) ? found : [];
  }

  // If storage is full or not allowed, the answer is still in this page.
  write() { if (this.kept.length) keep(this.name, this.kept); else drop(this.name); }

  add(path, body) {
    this.kept.push({ path, body });
    this.write();
    this.send();
  }

  // Sent one by one and in order: a later answer to the same pair must arrive later.
  async send() {
    if (this.sending) return;
    this.sending = true;
    while (this.kept.length) {
      const each = this.kept[0];
      const { reply, data } = await post(each.path, each.body);
      if (reply === null || reply.status >= 500 || [401, 408, 429].includes(reply.status)) {
        this.changed({ failed: true, login: reply?.status === 401, left: this.kept.length });
        await new Promise((wake) => setTimeout(wake, this.delay));
        this.delay = Math.min(2 * this.delay, 15000);
        continue;
      }
      this.delay = 1000;
      this.kept.shift();
      this.write();
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
