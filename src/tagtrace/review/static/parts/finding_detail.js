// The details of one finding: its sentence, its given and proposed labels, and the buttons to decide on it.

import { get } from "../core/api.js";
import { byId, el, fill, kbd, later } from "../core/dom.js";
import * as store from "../core/finding_store.js";
import { clock, percent, shortNumber } from "../core/format.js";
import { isSame } from "../core/labels.js";
import { say } from "../core/messages.js";
import { project } from "../core/project.js";
import { accepted, draftOf, labelsOf, moved } from "../core/segment_draft.js";
import * as state from "../core/state.js";
import { badge, BOUNDARIES, diff, sentence, tag } from "./text.js";

const place = byId("detail-body");
let finding = null;
let draft = null;
let act = () => {};

/** `action(name, value)` is called when a button is pressed. */
export function follow(action) {
  act = action;
}

export const current = () => finding;

/** Show a finding, or none if `one` is null. */
export function show(one) {
  if (one !== finding) {
    finding = one;
    draft = one ? draftOf(one, project.scheme, project.types) : null;
    byId("detail").scrollTop = 0;
  }
  draw();
  if (finding && !finding.sentence_tokens) complete(finding);
}

/** The decision to accept the finding with the boundaries shown, or to give it another type. */
export const acceptance = () => accepted(draft, finding, project.scheme);
export const relabelled = (type) => ({ ...labelsOf(draft, finding, type, project.scheme), action: "relabel" });

/** Start again from the decided or proposed labels, unless the reviewer has moved a boundary. */
export function resetDraft() {
  if (finding && !draft.isMoved) draft = draftOf(finding, project.scheme, project.types);
}

const complete = later(60, async (one) => {
  await loadSentence(one);
  if (one === finding) draw();
});

/** Load the sentence of a finding, once. */
export async function loadSentence(one) {
  one.isRead ??= get(`findings/${one.rank}`);
  try {
    const read = await one.isRead;
    store.keep(read);
    one.sentence_tokens = read.sentence_tokens;
    one.sentence_labels = read.sentence_labels;
  } catch {
    one.isRead = undefined;
  }
}

let moves = null;

/** A promise while a move of a boundary waits for the sentence to load, otherwise null. */
export const settled = () => moves;

/** Move the start or the end of the segment by one token. This needs the whole sentence, which is loaded if necessary. */
export function moveBoundary(side, step) {
  const one = finding;
  if (!one) return;
  if (one.sentence_tokens) {
    moveNow(side, step);
    return;
  }
  const mine = Promise.resolve(moves ?? loadSentence(one)).then(() => {
    if (moves === mine) moves = null;
    if (one === finding && one.sentence_tokens) moveNow(side, step);
  });
  moves = mine;
}

function moveNow(side, step) {
  const next = moved(draft, side, step, finding.sentence_tokens.length);
  if (next === draft) return;
  draft = next;
  draw();
  const text = finding.sentence_tokens.slice(draft.start, draft.stop).join(" ");
  const place = `${draft.start}:${draft.stop}`;
  say(`Segment: ${text} (${place}), ${draft.type}. Press a to accept it, or choose another type.`);
}

function draw() {
  if (!finding) {
    fill(place, el("p", { class: "soft" }, "No finding is selected."));
    return;
  }
  const focused = place.contains(document.activeElement) ? document.activeElement.dataset.key : null;
  fill(place, head(), notices(), shownSentence(), changes(), buttons(), facts());
  if (focused) place.querySelector(`[data-key="${CSS.escape(focused)}"]`)?.focus();
}

function head() {
  const change = `${finding.change ?? ""}`.replace("->", "→");
  return el(
    "div",
    { class: "row" },
    el("h3", {}, `Finding ${finding.rank}`, change ? [": ", el("bdi", {}, change)] : ""),
    badge(finding.status, finding.conflict),
  );
}

function notices() {
  const { decided } = finding;
  const chosen = decided?.labels?.length ? el("bdi", {}, decided.labels.join(" ")) : null;
  return [
    finding.conflict
      ? el(
          "p",
          { class: "notice" },
          "⚠ Reviewers decided differently about these tokens. Both decisions are in the history. Your next decision resolves the conflict.",
        )
      : null,
    decided
      ? el(
          "p",
          { class: "soft" },
          `${finding.status} by `,
          el("bdi", {}, decided.reviewer ?? "?"),
          `, ${clock(decided.time)}`,
          chosen ? [finding.status === "rejected" ? ": given labels kept, " : " as ", chosen] : null,
        )
      : null,
    finding.note ? el("p", { class: "note", dir: "auto" }, el("strong", {}, "Note: "), finding.note) : null,
  ];
}

function shownSentence() {
  const range = { start: draft.start, stop: draft.stop };
  if (finding.sentence_tokens) return sentence(finding.sentence_tokens, finding.sentence_labels, range);
  const tokens = [...finding.before, ...finding.tokens, ...finding.after];
  const origin = finding.start - finding.before.length;
  const labels = tokens.map((_, t) => finding.given[t - finding.before.length] ?? "O");
  return sentence(tokens, labels, { start: range.start - origin, stop: range.stop - origin });
}

function changes() {
  const shown = draft.isMoved ? acceptance() : { start: finding.start, stop: finding.stop, labels: finding.proposed };
  const given = (t) => finding.sentence_labels?.[t] ?? finding.given[t - finding.start] ?? "O";
  const token = (t) => finding.sentence_tokens?.[t] ?? finding.tokens[t - finding.start] ?? "…";
  const places = Array.from({ length: shown.stop - shown.start }, (_, t) => shown.start + t);
  const table = (labels, heading) =>
    diff(
      places.map(token),
      places.map(
        (t, i) => (t >= finding.start && t < finding.stop ? finding.given[t - finding.start] : given(t)) ?? labels[i],
      ),
      labels,
      { caption: `Labels of finding ${finding.rank}: given and ${heading}`, heading },
    );
  const { decided } = finding;
  const isOther =
    decided?.labels?.length && !(decided.start === finding.start && isSame(decided.labels, finding.proposed));
  return el(
    "div",
    { class: "diffs" },
    table(shown.labels, draft.isMoved ? "your change" : "proposed"),
    isOther && !draft.isMoved
      ? el("p", { class: "soft" }, `Decided: tokens ${decided.start}:${decided.stop} have the labels `, el("bdi", {}, decided.labels.join(" ")))
      : null,
  );
}

function buttons() {
  const button = (key, text, name, value, isOn = true) =>
    isOn
      ? el(
          "button",
          { type: "button", "data-key": `${name}-${value ?? ""}`, onclick: () => act(name, value) },
          text,
          " ",
          key ? kbd(key) : null,
        )
      : null;
  return [
    el(
      "div",
      { class: "row decisions", role: "group", "aria-label": "Decision" },
      button("a", "Accept", "accept"),
      button("r", "Reject", "reject"),
      button("s", "Skip", "skip"),
      button("c", "Sentence all right", "confirm"),
      button("x", "Reopen", "reopen", undefined, finding.status !== "open"),
    ),
    el(
      "div",
      { class: "row types", role: "group", "aria-label": "Other label types" },
      project.types
        .slice(0, 9)
        .map((type, i) =>
          el(
            "button",
            { type: "button", "data-key": `type-${type}`, onclick: () => act("relabel", type) },
            tag(type),
            " ",
            kbd(String(i + 1)),
          ),
        ),
      project.scheme === "plain"
        ? null
        : el(
            "button",
            { type: "button", "data-key": "type-O", onclick: () => act("relabel", "O") },
            tag("O"),
            " ",
            kbd("0"),
          ),
      project.types.length > 9
        ? el(
            "label",
            {},
            "More types ",
            el(
              "select",
              {
                "data-key": "more-types",
                onchange: (event) => event.target.value && act("relabel", event.target.value),
              },
              el("option", { value: "" }, "…"),
              project.types.slice(9).map((type) => el("option", {}, type)),
            ),
          )
        : null,
    ),
    el(
      "div",
      { class: "row boundaries", role: "group", "aria-label": "Segment boundaries" },
      el("span", { class: "soft" }, `tokens ${draft.start}:${draft.stop}`),
      BOUNDARIES.map(([key, side, step, text]) =>
        el(
          "button",
          { type: "button", "data-key": `${side}${step}`, onclick: () => moveBoundary(side, step) },
          text,
          " ",
          kbd(key),
        ),
      ),
    ),
    el(
      "div",
      { class: "row", role: "group", "aria-label": "More actions" },
      button("o", "All occurrences…", "occurrences"),
      button("n", "Note…", "note"),
      button("⏎", "Ask why", "why"),
    ),
  ];
}

function facts() {
  const pairs = {
    score: shortNumber(finding.score),
    confidence: percent(finding.confidence),
    line: finding.line || null,
    document: finding.document ? el("bdi", {}, finding.document) : null,
    sentence: el("bdi", {}, `${finding.sentence} ${finding.start}:${finding.stop}`),
    pattern: finding.pattern
      ? el(
          "a",
          {
            href: state.address("findings", { pattern: finding.pattern }),
            "data-pattern": finding.pattern,
            "data-key": "pattern",
          },
          String(finding.pattern),
        )
      : null,
    ...Object.fromEntries(Object.entries(finding.scores ?? {}).map(([name, value]) => [name, shortNumber(value)])),
  };
  return el(
    "dl",
    { class: "facts" },
    Object.entries(pairs)
      .filter(([, text]) => text !== null)
      .map(([name, text]) => el("div", {}, el("dt", {}, name), el("dd", {}, text))),
  );
}
