// The findings that this page has loaded, by rank. List and detail share one object for each finding.

const seen = new Map();
const pending = new Map();
let listener = () => {};

export const known = (rank) => seen.get(rank);
export const inSentence = (number) => [...seen.values()].filter((one) => one.sentence_number === number);

/** The shared object for a finding, updated unless a decision on it is still being sent. */
export function keep(finding) {
  const old = seen.get(finding.rank);
  if (!old) {
    seen.set(finding.rank, finding);
    return finding;
  }
  if (!pending.get(finding.rank)) Object.assign(old, finding);
  return old;
}

export function follow(action) {
  listener = action;
}

export const changed = (rank) => listener(rank);

/** Count the decisions on a finding that are being sent. Until they arrive, the page is ahead of the server. */
export function isOnItsWay(rank, step) {
  pending.set(rank, Math.max(0, (pending.get(rank) ?? 0) + step));
}

export const isPending = (rank) => (pending.get(rank) ?? 0) > 0;
