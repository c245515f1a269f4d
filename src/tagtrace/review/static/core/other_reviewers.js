// Checks every two seconds whether other reviewers made decisions.

import { get } from "./api.js";
import { reread } from "./decisions.js";
import * as store from "./finding_store.js";
import { project, refresh } from "./project.js";
import * as teaching from "./teaching.js";

const EVERY = 2000;
const HIDDEN = 15_000;
const MANY = 40;
let told = () => {};
let timer = 0;

/** `action(isMany)` runs after new decisions. `isMany`: too many findings changed to load each of them again. */
export function follow(action) {
  told = action;
  schedule();
}

function schedule() {
  clearTimeout(timer);
  timer = setTimeout(check, document.hidden ? HIDDEN : EVERY);
}

/** Check now. */
export async function check() {
  try {
    const answer = await get("changes", { since: project.version });
    if (answer.version !== project.version) {
      project.version = answer.version;
      const ranks = [...new Set(answer.ranks)].filter((rank) => rank !== null);
      const isMany = ranks.length > MANY;
      if (!isMany) await reread(ranks.filter((rank) => store.known(rank)));
      refresh();
      told(isMany);
    }
    teaching.seen(answer.taught);
  } catch {
    // the banner shows that the server does not answer
  }
  schedule();
}

document.addEventListener("visibilitychange", () => document.hidden || check());
