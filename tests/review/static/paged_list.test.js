import assert from "node:assert/strict";
import test from "node:test";

import { PagedList, SIZE } from "../../../src/tagtrace/review/static/core/paged_list.js";

/** A server that lists ranks 1 to `number`, those in `gone` left out. */
function server(number, gone = new Set()) {
  const asked = [];
  const listed = () => Array.from({ length: number }, (_, i) => i + 1).filter((rank) => !gone.has(rank));
  const fetch = async (offset, limit, { rank } = {}) => {
    const place = rank ? listed().findIndex((one) => one >= rank) : null;
    const first = rank ? place - (place % limit) : offset();
    asked.push(first);
    const items = listed().slice(first, first + limit);
    return { total: listed().length, offset: first, place, items: items.map((one) => ({ rank: one })) };
  };
  return { asked, fetch, gone };
}

test("pages are asked for when they are needed, once each", async () => {
  const { asked, fetch } = server(1000);
  const list = await new PagedList(fetch).start();
  assert.equal(list.total, 1000);
  list.ensure(0, 10);
  list.ensure(SIZE - 1, SIZE + 1);
  list.ensure(SIZE, 2 * SIZE);
  assert.equal((await list.fetched(999)).rank, 1000);
  assert.equal(list.at(SIZE).rank, SIZE + 1);
  assert.equal(list.at(500), undefined);
  assert.deepEqual(asked, [0, SIZE, 9 * SIZE]);
});

test("a list can start at the page of a rank", async () => {
  const { asked, fetch } = server(1000);
  const list = await new PagedList(fetch).start({ rank: 342 });
  assert.equal(list.first.place, 341);
  assert.equal(list.at(341).rank, 342);
  assert.deepEqual(asked, [300]);
});

test("items that left the server's list move the places of later pages there, not here", async () => {
  const { asked, fetch, gone } = server(300);
  let isStale = false;
  const remains = (one) => !gone.has(one.rank);
  const list = await new PagedList(fetch, { remains, stale: () => (isStale = true) }).start();
  [1, 2, 3, 50, 99].forEach((rank) => gone.add(rank));
  assert.equal((await list.fetched(250)).rank, 251);
  assert.deepEqual(asked, [0, 195]);
  assert.equal(list.at(0).rank, 1);
  assert.equal(list.total, 300);
  assert.equal(isStale, false);
});

test("changes that the page does not know of make the list stale", async () => {
  const { fetch, gone } = server(300);
  let isStale = false;
  const list = await new PagedList(fetch, { stale: () => (isStale = true) }).start();
  gone.add(7);
  await list.fetched(250);
  assert.equal(isStale, true);
});

test("a list that was ranked again since its first page is stale", async () => {
  const { fetch } = server(300);
  let taught = 10;
  let isStale = false;
  const ranked = async (...values) => ({ ...(await fetch(...values)), taught });
  const list = await new PagedList(ranked, { stale: () => (isStale = true) }).start();
  await list.fetched(150);
  assert.equal(isStale, false);
  taught = 20;
  await list.fetched(250);
  assert.equal(isStale, true);
});

test("a page that could not be read is asked for again", async () => {
  const { fetch } = server(300);
  let isBroken = false;
  const failures = [];
  const flaky = (...values) => (isBroken ? Promise.reject(new Error("gone")) : fetch(...values));
  const list = await new PagedList(flaky, { failed: (error) => failures.push(error.message) }).start();
  isBroken = true;
  assert.equal(await list.fetched(250), undefined);
  isBroken = false;
  assert.equal((await list.fetched(250)).rank, 251);
  assert.deepEqual(failures, ["gone"]);
});
