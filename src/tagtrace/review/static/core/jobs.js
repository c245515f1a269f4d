// Long work on the server, asked about until it is done.

import { get, post } from "./api.js";

const POLL = 400;

/** Start a job and follow it: `told(progress)` hears [done, total] or null. Resolves to its result, or to null once nobody wants it. */
export async function follow(body, told, isWanted) {
  const { job } = await post("jobs", body);
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
