// The findings this page has seen, by rank: one object each, shared by the list and the detail.

const seen = new Map();
const pending = new Map();
let listener = () => {};

export const known = (rank) => seen.get(rank);

/** The one object for a finding, brought up to date (unless a decision on it is on its way). */
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

/** Count decisions on their way: meanwhile the page knows better than the server. */
export function isOnItsWay(rank, step) {
  pending.set(rank, Math.max(0, (pending.get(rank) ?? 0) + step));
}

export const isPending = (rank) => (pending.get(rank) ?? 0) > 0;
