// What the decisions have taught: the server ranks the findings again after some decisions, or when it is asked to.

import { get, post } from "./api.js";
import { ended } from "./jobs.js";
import { say } from "./messages.js";
import { idle } from "./outbox.js";

let version = null;
let told = () => {};

/** `action(found, isNew)` runs when it is known what was learned, and whether the findings were ranked again just now. */
export function follow(action) {
  told = action;
}

/** Record the version of the decisions that was last learned from; 0 if nothing was. */
export async function seen(now) {
  const before = version;
  version = Math.max(now, before ?? 0);
  if (now <= (before ?? 0)) return;
  const found = await get("teaching").catch(() => null);
  if (found) told(found, before !== null);
}

/** Learn from all decisions now. Resolves to what was learned, or to null if that failed. */
export async function teach() {
  say("Learning from the decisions…");
  try {
    await idle();
    const { job } = await post("teach", {});
    const found = await ended(job);
    version = found.version;
    told(found, true);
    return found;
  } catch (error) {
    say(`Nothing was learned: ${error.message}`);
    return null;
  }
}
