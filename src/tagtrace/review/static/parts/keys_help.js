// The dialog that lists the keyboard shortcuts.

import { byId, el, fill, kbd } from "../core/dom.js";

const HELP = {
  Navigation: {
    "j k ↓ ↑": "next, previous item",
    "Home End": "first, last item",
    "⏎": "ask why",
    "g e, g w, g f": "go to Errors, Why, Findings",
    "g p": "go to the patterns",
    "/": "go to the filter",
    Escape: "return to the list",
  },
  Decisions: {
    a: "accept the proposed labels",
    r: "reject: keep the given labels",
    s: "skip",
    "1 – 9": "choose another label type",
    0: "no label (O)",
    "Shift ← →": "move the end of the segment",
    "[ ]": "move the start of the segment",
    o: "apply to all occurrences, with a preview",
    n: "write a note",
    c: "the sentence is all right as it stands",
    x: "reopen the finding",
  },
  Teaching: {
    t: "learn from the decisions now",
    S: "begin or end a short session",
    "← →": "in a session: previous, next segment of a sentence",
  },
  Why: {
    "← →": "go to the supporters, opposers",
    m: "mark for a what-if",
    x: "what if the label is removed",
    t: "what if the label is changed",
    v: "verify by retraining the head",
    w: "train the whole tagger again",
  },
  Review: { "u U": "undo, redo", h: "show or hide the history", e: "export", "?": "show these shortcuts" },
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
