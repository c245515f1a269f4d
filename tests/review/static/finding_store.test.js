import assert from "node:assert/strict";
import test from "node:test";

import * as store from "../../../src/tagtrace/review/static/core/finding_store.js";

test("there is one object for each finding, brought up to date", () => {
  const first = store.keep({ rank: 1, status: "open" });
  assert.equal(store.keep({ rank: 1, status: "accepted" }), first);
  assert.equal(first.status, "accepted");
  assert.equal(store.known(1), first);
  assert.equal(store.known(2), undefined);
});

test("a finding keeps what the page shows while decisions on it are being sent", () => {
  const one = store.keep({ rank: 3, status: "open" });
  store.isOnItsWay(3, 1);
  store.isOnItsWay(3, 1);
  store.isOnItsWay(3, -1);
  one.status = "rejected";
  store.keep({ rank: 3, status: "open" });
  assert.equal(one.status, "rejected");
  assert.ok(store.isPending(3));
  store.isOnItsWay(3, -1);
  assert.ok(!store.isPending(3));
  store.keep({ rank: 3, status: "skipped" });
  assert.equal(one.status, "skipped");
});

test("the listener hears which finding changed", () => {
  const heard = [];
  store.follow((rank) => heard.push(rank));
  store.changed(7);
  assert.deepEqual(heard, [7]);
});
