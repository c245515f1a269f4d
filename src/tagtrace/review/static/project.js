// What is reviewed: its name, label types and counts, and how far the review is.

import { get } from "./api.js";
import { byId, counted, later } from "./dom.js";

export const STATUSES = ["accepted", "rejected", "skipped", "open"];
export const project = {
  name: "",
  reviewer: "",
  labels: [],
  types: [],
  scheme: "iob2",
  counts: {},
  has: {},
  progress: {},
  others: 0, // decided places that are no findings
  version: 0,
};

export async function load() {
  Object.assign(project, await get("project"));
  byId("reviewer-name").textContent = project.reviewer;
  byId("project-name").textContent = project.name;
  byId("count-errors").textContent = project.counts.errors?.toLocaleString("en") ?? "";
  byId("count-findings").textContent = project.counts.findings?.toLocaleString("en") ?? "";
  show();
}

/** The counts anew, a moment after the last decision. */
export const refresh = later(400, async () => {
  const { progress, others, undo, redo, conflicts } = await get("project").catch(() => project);
  Object.assign(project, { progress, others, undo, redo, conflicts });
  show();
});

/** Count a decision before the server has. */
export function count(from, to) {
  if (from === to || !(from in project.progress) || !(to in project.progress)) return;
  project.progress[from]--;
  project.progress[to]++;
  show();
}

function show() {
  const bar = byId("progress");
  for (const status of STATUSES) {
    bar.querySelector(`.${status}`).style.flexGrow = String(project.progress[status] ?? 0);
  }
  const written = ["open", "accepted", "rejected", "skipped"].map(
    (one) => `${(project.progress[one] ?? 0).toLocaleString("en")} ${one}`,
  );
  const others = project.others ? `+${counted(project.others, "other label")}` : "";
  if (others) written.push(others);
  if (project.conflicts) written.push(`${project.conflicts} in conflict`);
  byId("progress-text").textContent = project.has.findings === false ? others : written.join(" · ");
}
