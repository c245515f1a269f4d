import assert from "node:assert/strict";
import test, { afterEach } from "node:test";

import { answers, json, lost, requests } from "./browser_stub.js";
import * as api from "../../../src/tagtrace/review/static/core/api.js";

const seen = [];
api.watch((isThere) => seen.push(isThere));

afterEach(() => {
  assert.deepEqual(answers, [], "every answer was asked for");
  requests.length = seen.length = 0;
  api.actAs(null);
});

test("a GET has its parameters in the address, and no header that names a reviewer", async () => {
  answers.push(json({ total: 3 }));
  assert.deepEqual(await api.get("findings", { text: "a&b", offset: 0 }), { total: 3 });
  assert.equal(requests[0].address, "/api/findings?text=a%26b&offset=0");
  assert.deepEqual(requests[0].headers, {});
  assert.deepEqual(seen, [true]);
});

test("another reviewer is named in a header, percent-encoded", async () => {
  api.actAs("Zoë");
  answers.push(json({}));
  await api.get("project");
  assert.equal(requests[0].headers["X-Reviewer"], "Zo%C3%AB");
});

test("a request that was begun early is not made twice, and its answer is used once", async () => {
  answers.push(json({ name: "early" }), json({ name: "late" }));
  api.begin("project");
  assert.equal((await api.get("project")).name, "early");
  assert.equal((await api.get("project")).name, "late");
  assert.equal(requests.length, 2);
});

test("a refusal tells the server's line", async () => {
  answers.push(json({ error: "there is no finding 9" }, 404));
  await assert.rejects(api.get("findings/9"), (error) => {
    assert.ok(error instanceof api.Refused);
    assert.equal(error.status, 404);
    assert.equal(error.message, "there is no finding 9");
    return true;
  });
  assert.deepEqual(seen, [true]);
});

test("no answer, a broken answer and an error of the server may be tried again", async () => {
  const cut = () => new Response('{"total"', { status: 200 });
  for (const answer of [lost, cut, json({ error: "busy" }, 503), () => new Response("<html>", { status: 500 })]) {
    answers.push(answer);
    await assert.rejects(api.get("project"), api.Gone);
  }
  assert.deepEqual(seen, [false, true, true, true]);
});

test("a POST sends the token; a new one is read from the page after a restart", async () => {
  const page = () => new Response('<meta name="csrf" content="second-token">');
  answers.push(json({ error: "stale" }, 403), page, json({ id: 1 }, 201));
  assert.deepEqual(await api.post("decisions", { rank: 1 }), { id: 1 });
  const tokens = requests.filter((one) => one.body).map((one) => one.headers["X-Tagtrace"]);
  assert.deepEqual(tokens, ["first-token", "second-token"]);
  assert.deepEqual(requests.at(-1).body, { rank: 1 });
});

test("a POST that is refused with the right token is not repeated", async () => {
  const page = () => new Response('<meta name="csrf" content="second-token">');
  answers.push(json({ error: "another page" }, 403), page);
  await assert.rejects(api.post("decisions", {}), api.Refused);
});
