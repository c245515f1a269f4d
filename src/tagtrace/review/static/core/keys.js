// Keyboard shortcuts: single keys, and g followed by a key. They are off in fields and dialogs, and can be switched off.

import { byId } from "./dom.js";
import { KEYS_OFF } from "./storage_names.js";

const TWO_KEYS = 1500;
let maps = () => [];
let isGoing = 0;

/** `current()` returns the active key maps {key: action}, the most specific one first. */
export function listen(current) {
  maps = current;
  document.addEventListener("keydown", onKey);
  const box = byId("use-keys");
  box.checked = localStorage.getItem(KEYS_OFF) === null;
  box.addEventListener("change", () => (box.checked ? localStorage.removeItem(KEYS_OFF) : localStorage.setItem(KEYS_OFF, "yes")));
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing || event.defaultPrevented) return;
  if (document.querySelector("dialog[open]")) return;
  const { target } = event;
  const key = nameOf(event);
  if (target.matches("input, textarea, select")) {
    if (event.key === "Escape") run(event, "Escape");
    return;
  }
  if (key.length === 1 && !byId("use-keys").checked) return;
  const isControl = target.closest("button, a, summary");
  if (isControl && ["Enter", " ", "ArrowUp", "ArrowDown", "Home", "End", "PageUp", "PageDown"].includes(key)) return;
  if (isGoing && event.timeStamp - isGoing < TWO_KEYS && !["Shift"].includes(event.key)) {
    isGoing = 0;
    if (run(event, `g ${key}`)) return;
  }
  if (key === "g") {
    isGoing = event.timeStamp;
    return;
  }
  run(event, key);
}

/** The name of a key in the maps. Letters depend on Shift alone, not on Caps Lock or a non-Latin keyboard layout. */
export function nameOf(event) {
  let { key } = event;
  if (/^Key[A-Z]$/.test(event.code) && !/^[a-zA-Z]$/.test(key)) key = event.code.slice(3);
  if (/^[a-zA-Z]$/.test(key)) return event.shiftKey ? key.toUpperCase() : key.toLowerCase();
  return event.shiftKey && key.startsWith("Arrow") ? `Shift+${key}` : key;
}

function run(event, key) {
  const action = maps()
    .map((map) => map[key])
    .find(Boolean);
  if (!action) return false;
  event.preventDefault();
  action(event);
  return true;
}
