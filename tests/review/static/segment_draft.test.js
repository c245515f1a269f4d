import assert from "node:assert/strict";
import test from "node:test";

import { accepted, draftOf, labelsOf, moved } from "../../../src/tagtrace/review/static/core/segment_draft.js";

const finding = { start: 5, stop: 7, given: ["B-LOC", "I-LOC"], proposed: ["B-ORG", "I-ORG"], decided: null };
const types = ["LOC", "MISC", "ORG", "PER"];
const start = () => draftOf(finding, "iob2", types);

test("a draft starts from the proposed segment", () => {
  assert.deepEqual(start(), { start: 5, stop: 7, type: "ORG", isMoved: false });
});

test("a draft starts from the decision if there is one", () => {
  const decided = { start: 4, stop: 8, labels: ["O", "B-PER", "I-PER", "I-PER"] };
  assert.deepEqual(draftOf({ ...finding, decided }, "iob2", types), { start: 5, stop: 8, type: "PER", isMoved: false });
});

test("where nothing is proposed the given type is kept for moves", () => {
  const none = { ...finding, proposed: ["O", "O"] };
  assert.deepEqual(draftOf(none, "iob2", types), { start: 5, stop: 7, type: "LOC", isMoved: false });
  assert.equal(draftOf({ ...none, given: ["O", "O"] }, "iob2", types).type, "LOC");
});

test("a boundary moves by one token and stays inside the sentence", () => {
  assert.deepEqual(moved(start(), "stop", 1, 13), { start: 5, stop: 8, type: "ORG", isMoved: true });
  assert.equal(moved(start(), "start", -1, 13).start, 4);
  const whole = { ...start(), start: 0, stop: 13 };
  assert.equal(moved(whole, "start", -1, 13), whole);
  assert.equal(moved(whole, "stop", 1, 13), whole);
  const single = { ...start(), start: 6, stop: 7 };
  assert.equal(moved(single, "start", 1, 13), single);
  assert.equal(moved(single, "stop", -1, 13), single);
});

test("accepting an unmoved draft is accepting the proposal", () => {
  assert.deepEqual(accepted(start(), finding, "iob2"), {
    start: 5,
    stop: 7,
    labels: ["B-ORG", "I-ORG"],
    action: "accept",
  });
});

test("a moved draft covers the finding, with O outside of the segment", () => {
  const draft = moved(moved(start(), "start", 1, 13), "stop", 1, 13);
  assert.deepEqual(accepted(draft, finding, "iob2"), {
    start: 5,
    stop: 8,
    labels: ["O", "B-ORG", "I-ORG"],
    action: "relabel",
  });
});

test("a draft that was moved back is the proposal again", () => {
  const draft = moved(moved(start(), "stop", 1, 13), "stop", -1, 13);
  assert.equal(draft.isMoved, true);
  assert.equal(accepted(draft, finding, "iob2").action, "accept");
});

test("labels of another type, and without segments", () => {
  assert.deepEqual(labelsOf(start(), finding, "PER", "iob2").labels, ["B-PER", "I-PER"]);
  const plain = { start: 2, stop: 4, given: ["NOUN", "VERB"], proposed: ["VERB", "VERB"] };
  const draft = { start: 2, stop: 3, type: "ADJ", isMoved: true };
  assert.deepEqual(labelsOf(draft, plain, "ADJ", "plain").labels, ["ADJ", "VERB"]);
});
