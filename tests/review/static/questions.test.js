import assert from "node:assert/strict";
import test from "node:test";

import { PART, Questions } from "../../../src/tagtrace/review/static/core/questions.js";

const finding = (rank) => ({ reason: "likely", finding: { rank }, sentence: { sentence_number: rank } });
const sentence = (number) => ({ reason: "sample", finding: null, sentence: { sentence_number: number } });
const named = (one) => one && (one.finding ? `f${one.finding.rank}` : `s${one.sentence.sentence_number}`);

/** A server with a list of questions, and the counts that it was asked for. */
function server(items) {
  const counts = [];
  const fetch = async (count) => {
    counts.push(count);
    return { items: items.slice(0, count) };
  };
  return { counts, fetch, items };
}

test("each question is asked once, and the server is asked when there is no other", async () => {
  const { fetch, counts } = server([finding(4), sentence(4), finding(9), finding(4)]);
  const questions = new Questions(fetch);
  const seen = [];
  for (let i = 0; i < 4; i++) seen.push(named(await questions.next()));
  assert.deepEqual(seen, ["f4", "s4", "f9", null]);
  assert.deepEqual(counts, [PART, PART + 3]);
  assert.equal(questions.number, 3);
});

test("a session has an end", async () => {
  const questions = new Questions(server(Array.from({ length: 90 }, (_, i) => finding(i))).fetch, () => true, 25);
  for (let i = 0; i < 25; i++) assert.equal(named(await questions.next()), `f${i}`);
  assert.equal(await questions.next(), null);
});

test("what was decided since is not asked", async () => {
  const decided = new Set([2]);
  const questions = new Questions(server([finding(1), finding(2), finding(3)]).fetch, (one) => !decided.has(one.finding.rank));
  assert.equal(named(await questions.next()), "f1");
  assert.equal(named(await questions.next()), "f3");
});

test("a question that was put back is asked again, and new ones are loaded after the findings were ranked again", async () => {
  const { fetch, items } = server([finding(1), finding(2)]);
  const questions = new Questions(fetch);
  await questions.next();
  await questions.next();
  questions.putBack();
  questions.putBack();
  assert.equal(questions.number, 1);
  assert.equal(named(await questions.next()), "f2");
  items.unshift(finding(7));
  questions.refresh();
  assert.equal(named(await questions.next()), "f7");
});
