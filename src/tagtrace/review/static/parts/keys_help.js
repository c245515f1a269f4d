// The dialog that lists the keys.

import { byId, el, fill, kbd } from "../core/dom.js";

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

export function showKeysHelp() {
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
