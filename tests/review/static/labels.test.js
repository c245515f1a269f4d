import assert from "node:assert/strict";
import test from "node:test";

import { isSame, segmentsOf, spell, spelled, typeOf, unitsOf } from "../../../src/tagtrace/review/static/core/labels.js";

test("the type of a label depends on the scheme", () => {
  assert.equal(typeOf("B-ORG", "iob2"), "ORG");
  assert.equal(typeOf("I-B-1", "iob2"), "B-1");
  assert.equal(typeOf("O", "iob2"), null);
  assert.equal(typeOf("B-ORG", "io"), "B-ORG");
  assert.equal(typeOf("O", "plain"), "O");
});

test("a segment starts at B or at another type", () => {
  const labels = ["B-LOC", "I-LOC", "B-LOC", "O", "B-ORG", "I-ORG"];
  assert.deepEqual(segmentsOf(labels, "iob2"), [
    { start: 0, stop: 2, type: "LOC" },
    { start: 2, stop: 3, type: "LOC" },
    { start: 4, stop: 6, type: "ORG" },
  ]);
  assert.deepEqual(segmentsOf(["LOC", "LOC", "O", "LOC", "ORG"], "io"), [
    { start: 0, stop: 2, type: "LOC" },
    { start: 3, stop: 4, type: "LOC" },
    { start: 4, stop: 5, type: "ORG" },
  ]);
});

test("without segments every token stands for itself", () => {
  assert.equal(segmentsOf(["NOUN", "NOUN"], "plain").length, 2);
});

test("the types of labels are written once each, in order", () => {
  assert.equal(spelled(["B-ORG", "I-ORG", "O", "B-LOC", "B-ORG"], "iob2"), "ORG+LOC");
  assert.equal(spelled(["O", "O"], "iob2"), "O");
});

test("labels for a segment of a type", () => {
  assert.deepEqual(spell("ORG", 3, "iob2"), ["B-ORG", "I-ORG", "I-ORG"]);
  assert.deepEqual(spell("ORG", 2, "io"), ["ORG", "ORG"]);
  assert.deepEqual(spell("O", 2, "iob2"), ["O", "O"]);
  for (const scheme of ["iob2", "io"]) {
    assert.deepEqual(segmentsOf(spell("LOC", 4, scheme), scheme), [{ start: 0, stop: 4, type: "LOC" }]);
  }
});

test("labels are the same when all are", () => {
  assert.ok(isSame(["O", "B-X"], ["O", "B-X"]));
  assert.ok(!isSame(["O"], ["O", "O"]));
  assert.ok(!isSame(["O", "B-X"], ["O", "B-Y"]));
});

test("units are segments and the tokens between them", () => {
  const units = unitsOf(["O", "B-LOC", "I-LOC", "B-LOC", "O"], "iob2").map(({ start, stop, type }) => [start, stop, type]);
  assert.deepEqual(units, [[0, 1, "O"], [1, 3, "LOC"], [3, 4, "LOC"], [4, 5, "O"]]);
  assert.equal(unitsOf(["N", "N"], "plain").length, 2);
});
