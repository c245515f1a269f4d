import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { answers, element, json, requests, settle, tick } from "./browser_stub.js";

let teaching;
let heard;
let number = 0;

beforeEach(async () => {
  requests.length = 0;
  heard = [];
  teaching = await import(`../../../src/tagtrace/review/static/core/teaching.js?${number++}`);
  teaching.follow((found, isNew) => heard.push([found.line, isNew]));
});

test("what was learned before the page was opened is known, but not new", async () => {
  await teaching.seen(0);
  assert.equal(requests.length, 0);
  answers.push(json({ line: "ranked again", version: 10 }));
  await teaching.seen(10);
  await teaching.seen(10);
  assert.deepEqual(heard, [["ranked again", true]]);
});

test("the first lesson that a page sees is not new", async () => {
  answers.push(json({ line: "ranked again", version: 10 }));
  await teaching.seen(10);
  assert.deepEqual(heard, [["ranked again", false]]);
});

test("teaching is a job, and what it learned is told once", async () => {
  answers.push(json({ job: 3 }, 201), json({ state: "done", result: { line: "ranked", version: 12 } }));
  const result = teaching.teach();
  await settle();
  tick(400);
  assert.equal((await result).version, 12);
  await teaching.seen(12);
  assert.deepEqual(heard, [["ranked", true]]);
  assert.deepEqual(
    requests.map((one) => one.address),
    ["/api/teach", "/api/jobs/3"],
  );
});

test("a failure is told", async () => {
  answers.push(json({ error: "this project has no findings" }, 400));
  assert.equal(await teaching.teach(), null);
  assert.equal(element("message").textContent, "Nothing was learned: this project has no findings");
});
