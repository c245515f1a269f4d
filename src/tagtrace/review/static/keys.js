// The keyboard: single keys, and g followed by a key. They rest in fields and dialogs, and can be turned off.

import { byId, el, fill, kbd } from "./dom.js";
import { KEYS_OFF } from "./names.js";

const TWO_KEYS = 1500;
let maps = () => [];
let isGoing = 0;

/** `current()` gives the maps in force, the nearest first: {key: action or null}. */
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

/** The key as the maps name it: letters by shift alone, whatever caps lock or a non-Latin layout makes of them. */
function nameOf(event) {
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

const HELP = {
  Move: {
    "j k ↓ ↑": "next, previous",
    "Home End": "first, last",
    "⏎": "ask why",
    "g e, g w, g f": "errors, why, findings",
    "g p": "patterns",
    "/": "filter",
    Escape: "back to the list",
  },
  Decide: {
    a: "accept what is proposed",
    r: "reject: the given label is right",
    s: "skip for now",
    "1 – 9": "another type",
    0: "no label (O)",
    "Shift ← →": "move the end of the segment",
    "[ ]": "move its start",
    o: "all occurrences, with a preview",
    n: "note",
    c: "reopen",
  },
  Why: {
    "← →": "supporters, opposers",
    m: "mark for what-if",
    x: "what if its label is removed",
    t: "what if it is relabelled",
    v: "verify by retraining",
  },
  Review: { "u U": "undo, redo", h: "history", e: "export", "?": "this help" },
};

export function showHelp() {
  const groups = Object.entries(HELP).map(([title, keys]) =>
    el(
      "section",
      {},
      el("h3", {}, title),
      el(
        "dl",
        {},
        Object.entries(keys).map(([key, text]) => el("div", {}, el("dt", {}, kbd(key)), el("dd", {}, text))),
      ),
    ),
  );
  fill(byId("help-keys"), groups);
  byId("help").showModal();
}
