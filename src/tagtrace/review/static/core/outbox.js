// Decisions that wait to be sent. They are sent in order, one at a time, and repeated with the same key until the server
// answers. They survive a reload of the tab, and are sent under the name of whoever made them.

import { acting, Gone, post } from "./api.js";
import { project } from "./project.js";
import { OUTBOX } from "./storage_names.js";

const WAITS = [300, 1000, 2000, 4000];
const FAILED = 500; // the server has a mistake, which repeating will not mend; other statuses say that it is busy
const MOST_FAILURES = 4;
const waiting = [];
let isSending = false;
const idlers = [];
let watcher = () => {};

export const newKey = () =>
  crypto.randomUUID?.() ?? Array.from(crypto.getRandomValues(new Uint32Array(4)), (n) => n.toString(36)).join("-");

/**
 * Add a request, of `reviewer` or whoever the reviewer is now. `prepare(body)` runs just before it is first sent, then
 * either `done(answer)` or `refused(error)`.
 */
export function send(path, body, { prepare, done, refused, reviewer = acting() ?? project.reviewer } = {}) {
  const keyed = { ...body, key: body.key ?? newKey() };
  waiting.push({ path, body: keyed, reviewer, prepare, done, refused, tries: 0, failures: 0 });
  keep();
  pump();
}

/** `action(number)` is called with the number of waiting requests whenever it changes. */
export function watch(action) {
  watcher = action;
}

/** Resolves when no request is waiting. */
export const idle = () => (waiting.length ? new Promise((resolve) => idlers.push(resolve)) : Promise.resolve());

/** Send the requests that were waiting when the page was reloaded. */
export function resume(done, refused) {
  let kept = [];
  try {
    kept = JSON.parse(sessionStorage.getItem(OUTBOX) ?? "[]");
  } catch {
    sessionStorage.removeItem(OUTBOX);
  }
  for (const [path, body, reviewer] of kept) send(path, body, { done, refused, reviewer });
}

/** Try again now, for example because the server is back. */
export function hurry() {
  if (!isSending) pump();
}

async function pump() {
  if (isSending || !waiting.length) return;
  isSending = true;
  const first = waiting[0];
  if (first.tries++ === 0) first.prepare?.(first.body);
  keep();
  let answer;
  try {
    answer = await post(first.path, first.body, first.reviewer);
  } catch (error) {
    const isHopeless = error.status === FAILED && ++first.failures === MOST_FAILURES;
    if (error instanceof Gone && !isHopeless) {
      isSending = false;
      setTimeout(hurry, WAITS[Math.min(first.tries - 1, WAITS.length - 1)]);
    } else leave(() => first.refused?.(error));
    return;
  }
  leave(() => first.done?.(answer));
}

function leave(action) {
  waiting.shift();
  isSending = false;
  keep();
  try {
    action();
  } finally {
    if (waiting.length) pump();
    else idlers.splice(0).forEach((resolve) => resolve());
  }
}

function keep() {
  try {
    sessionStorage.setItem(OUTBOX, JSON.stringify(waiting.map(({ path, body, reviewer }) => [path, body, reviewer])));
  } catch {
    // the storage is full; the decisions are still in memory
  }
  watcher(waiting.length);
}

addEventListener("beforeunload", (event) => {
  if (waiting.length > 0 && waiting[0].tries > 1) event.preventDefault();
});
