// The page header: the name of the project, the reviewer, and the progress of the review.

import { byId } from "../core/dom.js";
import { counted } from "../core/format.js";
import { project } from "../core/project.js";

const STATUSES = ["open", "accepted", "rejected", "skipped"];

export function show() {
  byId("reviewer-name").textContent = project.reviewer;
  byId("project-name").textContent = project.name;
  byId("count-errors").textContent = project.counts.errors?.toLocaleString("en") ?? "";
  byId("count-findings").textContent = project.counts.findings?.toLocaleString("en") ?? "";
  const bar = byId("progress");
  for (const status of STATUSES) {
    bar.querySelector(`.${status}`).style.flexGrow = String(project.progress[status] ?? 0);
  }
  byId("progress-text").textContent = written(project);
}

/** The progress in words. "Other decisions" are about labels that are not findings. */
export function written({ progress, others, conflicts, has }) {
  const decidedElsewhere = others ? `+${counted(others, "other decision")}` : "";
  if (has.findings === false) return decidedElsewhere;
  return [
    ...STATUSES.map((status) => `${(progress[status] ?? 0).toLocaleString("en")} ${status}`),
    decidedElsewhere,
    conflicts ? `${conflicts} in conflict` : "",
  ]
    .filter(Boolean)
    .join(" · ");
}
