import assert from "node:assert/strict";
import test, { afterEach } from "node:test";

import { answers, emit, json, lost, requests, settle, tick } from "./browser_stub.js";
import { actAs } from "../../../src/tagtrace/review/static/core/api.js";
import * as outbox from "../../../src/tagtrace/review/static/core/outbox.js";
import { project } from "../../../src/tagtrace/review/static/core/project.js";

const kept = () => JSON.parse(sessionStorage.getItem("tagtrace-outbox-match-reports"));
const sent = () => requests.map((one) => one.body.text);

afterEach(() => {
  assert.deepEqual(kept(), [], "nothing waits after a test");
  requests.length = 0;
  actAs(null);
  project.reviewer = "";
});

test("requests are sent one at a time, in order, each with a key of its own", async () => {
  const done = [];
  const release = [];
  const slow = () => new Promise((resolve) => release.push(() => resolve(json({ id: release.length })())));
  answers.push(slow, slow);
  const counts = [];
  outbox.watch((number) => counts.push(number));
  outbox.send("decisions", { text: "a" }, { done: (answer) => done.push(answer.id) });
  outbox.send("decisions", { text: "b" }, { done: (answer) => done.push(answer.id) });
  let isIdle = false;
  outbox.idle().then(() => (isIdle = true));
  await settle();
  assert.deepEqual(sent(), ["a"], "the second one waits for the first");
  assert.equal(isIdle, false);
  release[0]();
  await settle();
  assert.deepEqual(sent(), ["a", "b"]);
  release[1]();
  await settle();
  assert.deepEqual(done, [1, 2]);
  assert.equal(isIdle, true);
  assert.notEqual(requests[0].body.key, requests[1].body.key);
  assert.equal(Math.max(...counts), 2);
  assert.equal(counts.at(-1), 0);
});

test("a lost request is sent again with the same key, after longer and longer waits", async () => {
  answers.push(lost, json({ error: "busy" }, 503), json({ id: 1 }));
  const prepared = [];
  let answer = null;
  outbox.send("decisions", { text: "a" }, { prepare: (body) => prepared.push(body), done: (found) => (answer = found) });
  outbox.send("decisions", { text: "b" });
  await settle();
  tick(299);
  await settle();
  assert.deepEqual(sent(), ["a"]);
  tick(1);
  await settle();
  assert.deepEqual(sent(), ["a", "a"]);
  tick(999);
  await settle();
  assert.deepEqual(sent(), ["a", "a"]);
  answers.push(json({ id: 2 }));
  tick(1);
  await settle();
  assert.deepEqual(sent(), ["a", "a", "a", "b"], "what comes later does not overtake");
  assert.equal(new Set(requests.slice(0, 3).map((one) => one.body.key)).size, 1);
  assert.deepEqual(answer, { id: 1 });
  assert.equal(prepared.length, 1, "prepared once, before it was first sent");
});

test("when the server is back, what waits is sent at once", async () => {
  answers.push(lost, json({ id: 1 }));
  outbox.send("decisions", { text: "a" });
  await settle();
  outbox.hurry();
  await settle();
  assert.deepEqual(sent(), ["a", "a"]);
});

test("what the server of another project refuses is kept for its own", async () => {
  const other = () => new Response('{"error":"another project"}', { status: 409, headers: { "X-Tagtrace-Project": "another" } });
  answers.push(other, json({ id: 1 }));
  let isRefused = false;
  outbox.send("decisions", { text: "a" }, { refused: () => (isRefused = true) });
  await settle();
  assert.equal(isRefused, false);
  assert.equal(kept().length, 1);
  outbox.hurry();
  await settle();
  assert.deepEqual(sent(), ["a", "a"]);
});

test("a refusal is reported and does not stop the next request", async () => {
  answers.push(json({ error: "no such label" }, 400), json({ id: 2 }));
  let reason = "";
  outbox.send("decisions", { text: "a" }, { refused: (error) => (reason = error.message) });
  outbox.send("decisions", { text: "b" });
  await settle();
  assert.equal(reason, "no such label");
  assert.deepEqual(sent(), ["a", "b"]);
});

test("a mistake in what follows an answer loses no other request", async () => {
  answers.push(json({ id: 1 }), json({ id: 2 }));
  const failures = [];
  const usual = process.listeners("unhandledRejection");
  process.removeAllListeners("unhandledRejection");
  process.once("unhandledRejection", (error) => failures.push(error.message));
  let isRefused = false;
  const done = () => {
    throw new Error("a mistake");
  };
  outbox.send("decisions", { text: "a" }, { done, refused: () => (isRefused = true) });
  outbox.send("decisions", { text: "b" });
  await settle();
  process.removeAllListeners("unhandledRejection");
  usual.forEach((listener) => process.on("unhandledRejection", listener));
  assert.deepEqual(sent(), ["a", "b"]);
  assert.deepEqual(failures, ["a mistake"]);
  assert.equal(isRefused, false);
});

test("what waits is kept for a reload and sent then, with its keys", async () => {
  const never = () => new Promise(() => {});
  answers.push(never);
  const other = await import("../../../src/tagtrace/review/static/core/outbox.js?before-the-reload");
  other.send("decisions", { text: "a", key: "k1" });
  other.send("undo", { text: "b", key: "k2" });
  await settle();
  assert.deepEqual(kept(), [["decisions", { text: "a", key: "k1" }, ""], ["undo", { text: "b", key: "k2" }, ""]]);
  requests.length = 0;
  answers.push(json({ id: 1 }), json({ undone: 1 }));
  let number = 0;
  outbox.resume(() => number++);
  await settle();
  assert.deepEqual(
    requests.map((one) => [one.address, one.body.key]),
    [["/api/decisions", "k1"], ["/api/undo", "k2"]],
  );
  assert.equal(number, 2);
});

test("damaged notes of what waited are thrown away", () => {
  sessionStorage.setItem("tagtrace-outbox-match-reports", "{");
  outbox.resume();
  assert.equal(sessionStorage.getItem("tagtrace-outbox-match-reports"), null);
  sessionStorage.setItem("tagtrace-outbox-match-reports", "[]");
});

test("closing the page is questioned only while a request fails", async () => {
  let isQuestioned = false;
  const leave = () => emit("beforeunload", { preventDefault: () => (isQuestioned = true) });
  answers.push(lost, lost, json({ id: 1 }));
  outbox.send("decisions", { text: "a" });
  await settle();
  leave();
  assert.equal(isQuestioned, false, "one try is usual");
  tick(300);
  await settle();
  leave();
  assert.equal(isQuestioned, true);
  outbox.hurry();
  await settle();
});

test("what another program says about a decision does not count", async () => {
  for (const [content, status] of [["{}", 200], ['{"id":1}', 201], ["{}", 404], ["no", 405], ["oh", 500]]) {
    requests.length = 0;
    const said = [];
    answers.push(() => new Response(content, { status }), json({ id: 1 }, 201));
    outbox.send("decisions", { text: "a" }, { done: () => said.push("saved"), refused: () => said.push("refused") });
    await settle();
    assert.deepEqual(said, []);
    assert.equal(kept().length, 1);
    outbox.hurry();
    await settle();
    assert.deepEqual(said, ["saved"]);
    assert.deepEqual(sent(), ["a", "a"]);
    tick(300);
  }
});

test("what waits is sent under the name of whoever decided", async () => {
  const names = () => requests.map((one) => one.headers["X-Reviewer"]);
  project.reviewer = "ada"; // the server's default, which may be another one when it is started again
  answers.push(lost);
  outbox.send("decisions", { text: "a" });
  actAs("Böb");
  outbox.send("undo", { text: "b" });
  await settle();
  assert.deepEqual(kept().map((one) => one[2]), ["ada", "Böb"]);
  actAs("cleo");
  answers.push(json({ id: 1 }, 201), json({ undone: 1 }), json({ id: 2 }, 201), json({ id: 3 }, 201));
  outbox.hurry();
  await settle();
  assert.deepEqual(names(), ["ada", "ada", "B%C3%B6b"]);
  sessionStorage.setItem("tagtrace-outbox-match-reports", '[["decisions",{"key":"1"},"ada"],["decisions",{"key":"2"}]]');
  outbox.resume();
  await settle();
  assert.deepEqual(names().slice(3), ["ada", "cleo"], "an outbox of an earlier version has no names");
});

test("a mistake of the server is not repeated for ever, and what comes later is sent", async () => {
  const broken = json({ error: "unexpected OverflowError" }, 500);
  answers.push(broken, lost, broken, json({ error: "busy" }, 503), broken, broken, json({ id: 2 }, 201));
  let reason = "";
  let isDone = false;
  outbox.send("decisions", { text: "a" }, { refused: (error) => (reason = error.message) });
  outbox.send("decisions", { text: "b" }, { done: () => (isDone = true) });
  for (let i = 0; i < 6; i++) {
    await settle();
    assert.equal(reason, i < 5 ? "" : "unexpected OverflowError");
    tick(4000);
  }
  await settle();
  assert.deepEqual(sent(), ["a", "a", "a", "a", "a", "a", "b"]);
  assert.equal(isDone, true);
});
