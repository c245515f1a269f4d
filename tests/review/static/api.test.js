import assert from "node:assert/strict";
import test, { afterEach } from "node:test";

import { answers, json, lost, requests, text } from "./browser_stub.js";
import * as api from "../../../src/tagtrace/review/static/core/api.js";

const seen = [];
api.watch((problem) => seen.push(problem.split(" ", 1)[0]));

afterEach(() => {
  assert.deepEqual(answers, [], "every answer was asked for");
  requests.length = seen.length = 0;
  api.actAs(null);
});

test("a GET has its parameters in the address, and no header that names a reviewer", async () => {
  answers.push(json({ total: 3 }));
  assert.deepEqual(await api.get("findings", { text: "a&b", offset: 0 }), { total: 3 });
  assert.equal(requests[0].address, "/api/findings?text=a%26b&offset=0");
  assert.deepEqual(requests[0].headers, { "X-Tagtrace-Project": "match-reports" });
  assert.deepEqual(seen, [""]);
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
  assert.deepEqual(seen, [""]);
});

test("no answer, a broken answer and an error of the server may be tried again", async () => {
  const cut = text('{"total"');
  for (const answer of [lost, cut, json({ error: "busy" }, 503), json({ error: "no token" }, 401), text("<html>", 500)]) {
    answers.push(answer);
    await assert.rejects(api.get("project"), api.Gone);
  }
  assert.deepEqual(seen, ["The", "", "", "The", ""]);
});

test("a POST sends the token; a new one is read from the page after a restart", async () => {
  const page = text('<meta name="csrf" content="second-token">');
  answers.push(json({ error: "stale" }, 403), page, json({ id: 1 }, 201));
  assert.deepEqual(await api.post("decisions", { rank: 1 }), { id: 1 });
  const tokens = requests.filter((one) => one.body).map((one) => one.headers["X-Tagtrace"]);
  assert.deepEqual(tokens, ["first-token", "second-token"]);
  assert.deepEqual(requests.at(-1).body, { rank: 1 });
});

test("two POSTs that are refused together both use the new token", async () => {
  const page = text('<meta name="csrf" content="third-token">');
  const stale = json({ error: "stale" }, 403);
  answers.push(stale, stale, page, page, json({ id: 1 }, 201), json({ id: 2 }, 201));
  assert.deepEqual(await Promise.all([api.post("decisions", {}), api.post("decisions", {})]), [{ id: 1 }, { id: 2 }]);
  assert.equal(requests.at(-1).headers["X-Tagtrace"], "third-token");
});

test("a POST may be sent again if the server is gone before it tells its new token", async () => {
  for (const answer of [lost, json({ error: "no token" }, 401)]) {
    answers.push(json({ error: "stale" }, 403), answer);
    await assert.rejects(api.post("decisions", {}), api.Gone);
  }
});

test("a POST that is refused with the right token is not repeated", async () => {
  const page = text('<meta name="csrf" content="third-token">');
  answers.push(json({ error: "another page" }, 403), page);
  await assert.rejects(api.post("decisions", {}), api.Refused);
});

test("another project at this address is told from other conflicts, and its token is not taken", async () => {
  const other = (_address, { headers }) => {
    assert.equal(headers["X-Tagtrace-Project"], "match-reports");
    return new Response("{}", { status: 409, headers: { "X-Tagtrace-Project": "another" } });
  };
  answers.push(json({ error: "stale" }, 403), other, other, json({ error: "the key was used" }, 409));
  await assert.rejects(api.post("decisions", {}), api.Refused); // it came between the two requests
  await assert.rejects(api.post("decisions", {}), api.Gone);
  await assert.rejects(api.post("decisions", {}), (error) => error.status === 409);
  assert.deepEqual(seen, ["", "Another", ""]);
});

test("an answer without the project's name is that of another program, whatever it says", async () => {
  for (const [content, status] of [["{}", 200], ['{"id":1}', 201], ['{"detail":"Not Found"}', 404], ["no", 405], ["<html>", 500]]) {
    const stranger = () => new Response(content, { status });
    answers.push(stranger);
    await assert.rejects(api.post("decisions", {}), (error) => error instanceof api.Gone && /^Another program/.test(error.message));
    answers.push(json({ error: "stale" }, 403), stranger); // the same before the page learns the new token
    await assert.rejects(api.post("decisions", {}), api.Gone);
  }
  assert.deepEqual(new Set(seen), new Set(["Another", ""]));
});

test("a server that wants another access token says what to do", async () => {
  answers.push(() => new Response('{"error":"the access token is missing"}', { status: 401 }));
  await assert.rejects(api.get("project"), (error) => error instanceof api.Gone && /open the address/.test(error.message));
  assert.deepEqual(seen, ["The"]);
});

test("a POST can be sent under another name than the page's", async () => {
  api.actAs("bob");
  answers.push(json({ id: 1 }, 201), json({ id: 2 }, 201));
  await api.post("decisions", {}, "ada");
  await api.post("decisions", {});
  assert.deepEqual(requests.map((one) => one.headers["X-Reviewer"]), ["ada", "bob"]);
  assert.equal(api.acting(), "bob");
});
