// The project under review: its name, label types and counts, and the progress of the review.

import { get } from "./api.js";
import { later } from "./dom.js";

export const project = {
  name: "",
  reviewer: "",
  labels: [],
  types: [],
  scheme: "iob2",
  counts: {},
  has: {},
  progress: {},
  others: 0, // decided places that are not findings
  version: 0,
};
let changed = () => {};

/** `action` runs whenever the project was read or a decision was counted. */
export function follow(action) {
  changed = action;
}

export async function load() {
  Object.assign(project, await get("project"));
  changed();
}

/** Read the counts again, a moment after the last call. */
export const refresh = later(400, async () => {
  const { progress, others, undo, redo, conflicts } = await get("project").catch(() => project);
  Object.assign(project, { progress, others, undo, redo, conflicts });
  changed();
});

/** Count a decision before the server has counted it. */
export function count(from, to) {
  if (from === to || !(from in project.progress) || !(to in project.progress)) return;
  project.progress[from]--;
  project.progress[to]++;
  changed();
}
