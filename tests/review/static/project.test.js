import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { answers, json, lost, requests, settle, tick } from "./browser_stub.js";
import * as core from "../../../src/tagtrace/review/static/core/project.js";
import { written } from "../../../src/tagtrace/review/static/parts/progress.js";

let changes = 0;
core.follow(() => changes++);

beforeEach(async () => {
  const progress = { open: 10, accepted: 0, rejected: 0, skipped: 0 };
  answers.push(json({ name: "news", progress, others: 0, conflicts: 0, has: { findings: true } }));
  await core.load();
  changes = requests.length = 0;
});

test("a decision is counted at once", () => {
  core.count("open", "accepted");
  core.count("accepted", "rejected");
  assert.deepEqual(core.project.progress, { open: 9, accepted: 0, rejected: 1, skipped: 0 });
  assert.equal(changes, 2);
});

test("what changes no count is not counted", () => {
  core.count("open", "open");
  core.count("open", "unheard of");
  core.count("unheard of", "open");
  assert.equal(core.project.progress.open, 10);
  assert.equal(changes, 0);
});

test("the counts are read again once after many decisions, and kept if that fails", async () => {
  answers.push(json({ progress: { open: 7 }, others: 2, conflicts: 1 }));
  core.refresh();
  core.refresh();
  core.refresh();
  tick(400);
  await settle();
  assert.equal(requests.length, 1);
  assert.equal(core.project.progress.open, 7);
  assert.equal(core.project.name, "news");
  answers.push(lost);
  core.refresh();
  tick(400);
  await settle();
  assert.equal(core.project.progress.open, 7);
});

test("the progress in words", () => {
  const progress = { open: 1295, accepted: 3, rejected: 1, skipped: 0 };
  const has = { findings: true };
  assert.equal(written({ progress, others: 0, has }), "1,295 open · 3 accepted · 1 rejected · 0 skipped");
  assert.match(written({ progress, others: 1, conflicts: 2, has }), /· \+1 other decision · 2 in conflict$/);
  assert.equal(written({ progress: {}, others: 2, has: { findings: false } }), "+2 other decisions");
});
