// A segment whose boundaries or type a reviewer is editing, and the labels that result.

import { isSame, segmentsOf, spell } from "./labels.js";

/** The draft to start from: the decided segment if there is one, else the proposed segment. */
export function draftOf(finding, scheme, types) {
  const decided = finding.decided?.labels?.length ? finding.decided : null;
  const labels = decided?.labels ?? finding.proposed;
  const origin = decided?.start ?? finding.start;
  const found = segmentsOf(labels, scheme)[0];
  const given = segmentsOf(finding.given, scheme)[0];
  return {
    start: found ? origin + found.start : finding.start,
    stop: found ? origin + found.stop : finding.stop,
    type: found?.type ?? given?.type ?? types[0],
    isMoved: false,
  };
}

/** Move a boundary ("start" or "stop") by one token. Returns the same draft if the move is impossible. */
export function moved(draft, side, step, length) {
  const next = { ...draft, [side]: draft[side] + step, isMoved: true };
  return next.start >= 0 && next.stop <= length && next.start < next.stop ? next : draft;
}

/** The labels that a draft gives to the tokens of the finding and of the segment. Tokens of the finding outside of the segment get O. */
export function labelsOf(draft, finding, type, scheme) {
  const start = Math.min(draft.start, finding.start);
  const stop = Math.max(draft.stop, finding.stop);
  const inside = spell(type, draft.stop - draft.start, scheme);
  const labels = Array.from({ length: stop - start }, (_, t) => {
    const token = start + t;
    if (token >= draft.start && token < draft.stop) return inside[token - draft.start];
    return scheme === "plain" ? finding.given[token - finding.start] : "O";
  });
  return { start, stop, labels };
}

/** The decision that accepts a draft: the proposed labels, or the reviewer's own boundaries if they were moved. */
export function accepted(draft, finding, scheme) {
  if (!draft.isMoved) return { start: finding.start, stop: finding.stop, labels: finding.proposed, action: "accept" };
  const chosen = labelsOf(draft, finding, draft.type, scheme);
  return { ...chosen, action: isSame(chosen.labels, finding.proposed) ? "accept" : "relabel" };
}
