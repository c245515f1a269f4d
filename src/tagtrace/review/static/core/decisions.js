// Decisions are shown at once, sent in order, and reverted if the server refuses them.

import { get } from "./api.js";
import * as store from "./finding_store.js";
import { counted } from "./format.js";
import { isSame } from "./labels.js";
import { say } from "./messages.js";
import { send } from "./outbox.js";
import { count, project, refresh } from "./project.js";

const STATUS = { accept: "accepted", relabel: "accepted", reject: "rejected", skip: "skipped", reopen: "open" };
let afterwards = () => {};

/** Whether a decision keeps the given labels, which counts as rejecting. */
export function isKept({ labels }, given) {
  return Boolean(labels?.length && given && isSame(labels, given));
}

/** The given labels of the tokens that a decision is about, or undefined if the sentence is not loaded yet. */
export function givenOf(finding, { start = finding.start, stop = finding.stop }) {
  const isOwn = start === finding.start && stop === finding.stop;
  return isOwn ? finding.given : finding.sentence_labels?.slice(start, stop);
}

/** `action` runs after the server saved a decision. */
export function follow(action) {
  afterwards = action;
}

/** Make a decision on a finding: {action, start, stop, labels, note}. */
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
    prepare: (sent) => (sent.base = finding.base ?? null), // earlier decisions of this page are saved by now
    done: (answer) => {
      store.isOnItsWay(rank, -1);
      finding.base = answer.base ?? answer.id;
      finding.conflict = Boolean(answer.conflict);
      if (answer.conflict)
        say(`Finding ${rank}: another reviewer decided differently. Both decisions are kept. Decide again to resolve the conflict.`);
      store.changed(rank);
      finish();
    },
    refused: (error) => {
      store.isOnItsWay(rank, -1);
      count(finding.status, old.status);
      Object.assign(finding, old);
      store.changed(rank);
      say(`The decision on finding ${rank} was not saved: ${error.message}`);
      reread([rank]);
    },
  });
}

/** Make a decision on a training segment that is not a finding. */
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
      say(`The decision was not saved: ${error.message}`);
    },
  });
}

/**
 * Mark a sentence as correct as it stands: {sentence_number, sentence_length, base}. Its findings that are not accepted
 * keep their given labels.
 */
export function confirmSentence({ sentence_number, sentence_length, base }) {
  const found = store.inSentence(sentence_number);
  const old = found.map(({ status, decided, conflict }) => ({ status, decided, conflict }));
  for (const one of found) {
    store.isOnItsWay(one.rank, 1);
    if (one.status === "accepted") continue;
    count(one.status, "rejected");
    const decided = { start: one.start, stop: one.stop, labels: one.given };
    Object.assign(one, { status: "rejected", decided: { ...decided, reviewer: project.reviewer, time: new Date().toISOString() } });
    store.changed(one.rank);
  }
  const body = { rank: null, sentence_number, start: 0, stop: sentence_length, action: "relabel", labels: null, note: "", base: null };
  send("decisions", body, {
    prepare: (sent) => (sent.base = Math.max(base ?? 0, ...found.map((one) => one.base ?? 0)) || null),
    done: (answer) => {
      for (const one of found) {
        store.isOnItsWay(one.rank, -1);
        one.base = answer.base ?? answer.id;
      }
      finish();
    },
    refused: (error) => {
      found.forEach((one, i) => {
        store.isOnItsWay(one.rank, -1);
        count(one.status, old[i].status);
        Object.assign(one, old[i]);
        store.changed(one.rank);
      });
      say(`The sentence was not marked as correct: ${error.message}`);
      reread(found.map((one) => one.rank));
    },
  });
}

/** Make many decisions in one transaction. */
export function decideAll(decisions, done) {
  send(
    "decisions/bulk",
    { decisions },
    {
      done: (answer) => {
        done(answer);
        finish();
      },
      refused: (error) => say(`The decisions were not saved: ${error.message}`),
    },
  );
}

/** Undo or redo the reviewer's own last decision. `which` is "undo" or "redo". */
export function undoOrRedo(which) {
  send(
    which,
    {},
    {
      done: (answer) => {
        const number = answer.undone ?? answer.redone ?? 0;
        const done = which === "undo" ? "undone" : "redone";
        say(number ? `${counted(number, "decision")} ${done}.` : `There is nothing to ${which}.`);
        finish({ isStep: true, ranks: answer.ranks ?? [] });
      },
      refused: (error) => say(`${which === "undo" ? "Undo" : "Redo"} failed: ${error.message}`),
    },
  );
}

function finish(how = {}) {
  refresh();
  afterwards(how);
}

/** Load findings from the server again. */
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
