// Decisions: shown at once, sent in order, taken back where the server refuses.

import { get } from "./api.js";
import * as store from "./finding_store.js";
import { isSame } from "./labels.js";
import { say } from "./messages.js";
import { send } from "./outbox.js";
import { count, project, refresh } from "./project.js";

const STATUS = { accept: "accepted", relabel: "accepted", reject: "rejected", skip: "skipped", reopen: "open" };
let afterwards = () => {};

/** Whether a decision chooses the labels that are there: it counts as rejecting. */
export function isKept({ labels }, given) {
  return Boolean(labels?.length && given && isSame(labels, given));
}

/** The given labels of the tokens that a change of a finding is about; unknown where its sentence was not read. */
export function givenOf(finding, { start = finding.start, stop = finding.stop }) {
  const isOwn = start === finding.start && stop === finding.stop;
  return isOwn ? finding.given : finding.sentence_labels?.slice(start, stop);
}

/** `action` runs after each decision that the server has. */
export function follow(action) {
  afterwards = action;
}

/** Decide about a finding: {action, start, stop, labels, note}. */
export function decide(finding, change) {
  const { rank } = finding;
  const old = { status: finding.status, decided: finding.decided, conflict: finding.conflict, note: finding.note };
  const status = isKept(change, givenOf(finding, change)) ? "rejected" : (STATUS[change.action] ?? finding.status);
  const labels = change.labels ?? null;
  const place = { start: change.start ?? finding.start, stop: change.stop ?? finding.stop };
  if (change.action === "note") finding.note = change.note;
  else {
    const decided = { ...place, labels, reviewer: project.reviewer, time: new Date().toISOString() };
    Object.assign(finding, { status, conflict: false, decided: change.action === "reopen" ? null : decided });
  }
  count(old.status, status);
  store.isOnItsWay(rank, 1);
  store.changed(rank);
  const body = {
    rank,
    sentence_number: finding.sentence_number,
    ...place,
    action: change.action,
    labels,
    note: change.note ?? "",
    base: finding.base ?? null,
  };
  send("decisions", body, {
    prepare: (sent) => (sent.base = finding.base ?? null), // by now earlier decisions of this page are answered
    done: (answer) => {
      store.isOnItsWay(rank, -1);
      finding.base = answer.base ?? answer.id;
      finding.conflict = Boolean(answer.conflict);
      if (answer.conflict)
        say(`Finding ${rank}: another reviewer decided otherwise. Both decisions are kept; decide again to settle it.`);
      store.changed(rank);
      finish();
    },
    refused: (error) => {
      store.isOnItsWay(rank, -1);
      count(finding.status, old.status);
      Object.assign(finding, old);
      store.changed(rank);
      say(`Finding ${rank} was not decided: ${error.message}`);
      reread([rank]);
    },
  });
}

/** Decide about a training segment that is no finding. */
export function decideSegment(segment, change, shown) {
  const old = segment.decision;
  const status = isKept(change, segment.labels) ? "rejected" : STATUS[change.action];
  segment.decision = { status, labels: change.labels ?? null };
  shown();
  const { sentence_number, start, stop } = segment;
  const body = {
    rank: segment.rank ?? null,
    sentence_number,
    start,
    stop,
    action: change.action,
    labels: change.labels ?? null,
    note: change.note ?? "",
    base: segment.base ?? null,
  };
  send("decisions", body, {
    prepare: (sent) => (sent.base = segment.base ?? null),
    done: (answer) => {
      segment.base = answer.base ?? answer.id;
      finish();
    },
    refused: (error) => {
      segment.decision = old;
      shown();
      say(`Not decided: ${error.message}`);
    },
  });
}

/** Many decisions in one transaction. */
export function decideAll(decisions, done) {
  send(
    "decisions/bulk",
    { decisions },
    {
      done: (answer) => {
        done(answer);
        finish();
      },
      refused: (error) => say(`Nothing was decided: ${error.message}`),
    },
  );
}

/** Undo or redo one's own last step. */
export function undoOrRedo(which) {
  send(
    which,
    {},
    {
      done: (answer) => {
        const number = answer.undone ?? answer.redone ?? 0;
        const done = which === "undo" ? "undone" : "redone";
        say(number ? `${number === 1 ? "One decision" : `${number} decisions`} ${done}.` : `Nothing left to ${which}.`);
        finish({ isStep: true, ranks: answer.ranks ?? [] });
      },
      refused: (error) => say(`Cannot ${which}: ${error.message}`),
    },
  );
}

function finish(how = {}) {
  refresh();
  afterwards(how);
}

/** Read findings from the server again. */
export async function reread(ranks) {
  await Promise.all(
    ranks.map(async (rank) => {
      if (store.isPending(rank)) return;
      const fresh = await get(`findings/${rank}`).catch(() => null);
      if (!fresh) return;
      store.keep(fresh);
      store.changed(rank);
    }),
  );
}
