// A segment whose boundaries and type a reviewer is changing, and the labels that it comes to.

import { isSame, segmentsOf, spell } from "./labels.js";

/** What a finding proposes (or what was decided), to start from. */
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

/** Move a boundary ("start" or "stop") by one token; the same draft where that is impossible. */
export function moved(draft, side, step, length) {
  const next = { ...draft, [side]: draft[side] + step, isMoved: true };
  return next.start >= 0 && next.stop <= length && next.start < next.stop ? next : draft;
}

/** The decision a draft is: labels for the tokens of the finding and of the segment; the finding's tokens outside it get O. */
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

/** What accepting means: the proposed labels, or those of the boundaries that the reviewer set. */
export function accepted(draft, finding, scheme) {
  if (!draft.isMoved) return { start: finding.start, stop: finding.stop, labels: finding.proposed, action: "accept" };
  const chosen = labelsOf(draft, finding, draft.type, scheme);
  return { ...chosen, action: isSame(chosen.labels, finding.proposed) ? "accept" : "relabel" };
}
