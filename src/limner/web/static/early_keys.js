// Keys pressed before the page's scripts have run: held back, and pressed again in their order when all of them have.
// The only script that the page waits for. The others are modules: they have run when DOMContentLoaded comes.
(() => {
  const LONGEST = 30_000; // milliseconds after which a key is forgotten
  const TYPED = "textarea, select, [contenteditable], input:not([type=radio]):not([type=checkbox])";
  const held = [];

  // Not heard by the scripts that are already there: they would hear it twice, or before the keys that came earlier.
  function hold(event) {
    if (!event.isTrusted || event.repeat || event.isComposing || event.ctrlKey || event.altKey || event.metaKey) return;
    if (event.target.closest?.(TYPED)) return;
    event.stopImmediatePropagation();
    held.push(event);
  }

  const forget = () => { held.length = 0; };
  const hidden = () => { if (document.visibilityState === "hidden") forget(); };

  // One at a time, as a person presses them; where the focus is now, so that what belongs in a field is no shortcut.
  function press() {
    const event = held.shift();
    if (!event) {
      removeEventListener("keydown", hold, true);
      removeEventListener("pagehide", forget);
      document.removeEventListener("visibilitychange", hidden);
      return;
    }
    const place = document.activeElement ?? document.body;
    if (performance.now() - event.timeStamp < LONGEST) place.dispatchEvent(new KeyboardEvent(event.type, event));
    setTimeout(press);
  }

  addEventListener("keydown", hold, true);
  addEventListener("pagehide", forget);
  document.addEventListener("visibilitychange", hidden);
  addEventListener("DOMContentLoaded", press);
})();
