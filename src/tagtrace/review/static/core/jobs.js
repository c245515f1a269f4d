// Long computations on the server.

import { get, post } from "./api.js";

const POLL = 400;

/**
 * Start a job and poll it until it is done. `told(progress)` is called with [done, total] or null. Resolves to the result
 * of the job, or to null once `isWanted()` is false.
 */
export async function follow(body, told, isWanted) {
  const { job } = await post("jobs", body);
  return ended(job, told, isWanted);
}

/** Poll a job that was started, as `follow` does. */
export async function ended(job, told = () => {}, isWanted = () => true) {
  for (;;) {
    await new Promise((resolve) => setTimeout(resolve, POLL));
    if (!isWanted()) return null;
    const found = await get(`jobs/${job}`);
    if (!isWanted()) return null;
    if (found.state === "failed") throw new Error(found.error);
    if (found.state === "done") return found.result ?? {};
    told(found.progress);
  }
}
