import assert from "node:assert/strict";
import test, { afterEach } from "node:test";

import { answers, json, requests, settle, tick } from "./browser_stub.js";
import { follow } from "../../../src/tagtrace/review/static/core/jobs.js";

afterEach(() => {
  requests.length = 0;
});

async function wait() {
  await settle();
  tick(400);
  await settle();
}

test("a job is asked about until it is done", async () => {
  const told = [];
  answers.push(json({ job: 5 }, 201), json({ state: "running", progress: [1, 3] }), json({ state: "done", result: { a: 1 } }));
  const result = follow({ kind: "verify" }, (progress) => told.push(progress), () => true);
  await wait();
  await wait();
  assert.deepEqual(await result, { a: 1 });
  assert.deepEqual(told, [[1, 3]]);
  assert.deepEqual(
    requests.map((one) => one.address),
    ["/api/jobs", "/api/jobs/5", "/api/jobs/5"],
  );
});

test("a job that failed tells why", async () => {
  answers.push(json({ job: 6 }, 201), json({ state: "failed", error: "too large" }));
  const result = assert.rejects(follow({}, () => {}, () => true), /too large/);
  await wait();
  await result;
});

test("nobody asks about a job that is not wanted any more", async () => {
  answers.push(json({ job: 7 }, 201));
  const result = follow({}, () => {}, () => false);
  await wait();
  assert.equal(await result, null);
  assert.equal(requests.length, 1);
});
