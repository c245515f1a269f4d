import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { emit, entries, tick, visit } from "./browser_stub.js";

let state;
let number = 0;

/** The module as a page that is opened at an address loads it. */
async function opened(address) {
  visit(address);
  entries.length = 0;
  state = await import(`../../../src/tagtrace/review/static/core/state.js?${number++}`);
}

beforeEach(() => opened("/findings?status=all&rank=3&evil=1"));

test("the address is read: the view, and parameters that are known", () => {
  assert.equal(state.view(), "findings");
  assert.equal(state.value("status"), "all");
  assert.equal(state.value("rank"), "3");
  assert.equal(state.value("evil"), "");
  assert.equal(state.value("sort"), "loss");
});

test("a view asks the server for its own parameters only", async () => {
  assert.deepEqual(state.query(), { status: "all", sort: "taught" });
  await opened("/errors?text=a&pattern=2");
  assert.deepEqual(state.query(), { text: "a", sort: "loss" });
  assert.deepEqual(state.query("findings"), { pattern: "2", status: "open", text: "a", sort: "taught" });
});

test("another path is no view", async () => {
  await opened("/elsewhere?text=a");
  assert.equal(state.view(), "");
});

test("an address leaves out what is empty or the default", () => {
  assert.equal(state.address("findings", { rank: "", text: "a b" }), "/findings?status=all&text=a+b");
  assert.equal(state.address("findings", { status: "open", rank: null }), "/findings");
  assert.equal(state.address("why", { sentence: "x&y", start: 0 }), "/why?status=all&rank=3&sentence=x%26y&start=0");
});

test("other defaults stay out of the address too", () => {
  state.setDefaults({ curvature: "kronecker" });
  assert.equal(state.value("curvature"), "kronecker");
  assert.equal(state.address("errors", { curvature: "kronecker", rank: "", status: "" }), "/errors");
});

test("going somewhere adds an entry to the history, unless it replaces one or changes nothing", async () => {
  await opened("/findings?status=all&rank=3");
  const seen = [];
  state.follow(() => seen.push(state.view()));
  state.go("errors");
  state.go("errors");
  state.go("errors", { text: "a" }, { replace: true });
  assert.deepEqual(entries, [
    ["push", "/errors?status=all&rank=3"],
    ["replace", "/errors?status=all&rank=3&text=a"],
  ]);
  assert.deepEqual(seen, ["errors", "errors", "errors"]);
});

test("what is remembered is in the address a moment later, written once", async () => {
  await opened("/findings?status=all&rank=3");
  for (const rank of [4, 5, 6]) state.remember({ rank });
  assert.equal(state.value("rank"), "6");
  assert.deepEqual(entries, []);
  tick(250);
  assert.deepEqual(entries, [["replace", "/findings?status=all&rank=6"]]);
  state.remember({ rank: "" });
  state.go("why");
  assert.deepEqual(entries.at(-1), ["push", "/why?status=all"]);
});

test("the back button is followed", () => {
  let calls = 0;
  state.follow(() => calls++);
  visit("/errors?text=b");
  emit("popstate");
  assert.equal(state.view(), "errors");
  assert.equal(state.value("text"), "b");
  assert.ok(calls >= 1);
});
