import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { answers, element, json, lost, requests, settle } from "./browser_stub.js";
import * as decisions from "../../../src/tagtrace/review/static/core/decisions.js";
import * as store from "../../../src/tagtrace/review/static/core/finding_store.js";
import { project } from "../../../src/tagtrace/review/static/core/project.js";

const message = () => element("message").textContent;
let finding;
let rank = 0;

beforeEach(() => {
  rank++;
  requests.length = 0;
  project.reviewer = "ada";
  project.progress = { open: 5, accepted: 0, rejected: 0, skipped: 0 };
  finding = store.keep({
    rank,
    sentence_number: 7,
    start: 5,
    stop: 7,
    given: ["B-LOC", "I-LOC"],
    proposed: ["B-ORG", "I-ORG"],
    status: "open",
    decided: null,
    conflict: false,
    note: "",
    base: null,
  });
});

const accept = (one) => ({ action: "accept", start: one.start, stop: one.stop, labels: one.proposed });

test("a decision is shown before the server has it", async () => {
  answers.push(json({ id: 4, base: 4, conflict: false }, 201));
  decisions.decide(finding, accept(finding));
  assert.equal(finding.status, "accepted");
  assert.equal(finding.decided.reviewer, "ada");
  assert.deepEqual(project.progress, { open: 4, accepted: 1, rejected: 0, skipped: 0 });
  assert.ok(store.isPending(rank));
  await settle();
  assert.ok(!store.isPending(rank));
  assert.equal(finding.base, 4);
  const { key, ...body } = requests[0].body;
  assert.ok(key);
  const place = { rank, sentence_number: 7, start: 5, stop: 7 };
  assert.deepEqual(body, { ...place, action: "accept", labels: ["B-ORG", "I-ORG"], note: "", base: null });
});

test("the second decision on a finding says that it has seen the first", async () => {
  answers.push(json({ id: 8, base: 8 }, 201), json({ id: 9, base: 9 }, 201));
  decisions.decide(finding, accept(finding));
  decisions.decide(finding, { action: "skip" });
  await settle();
  assert.deepEqual(
    requests.map((one) => one.body.base),
    [null, 8],
  );
  assert.equal(finding.status, "skipped");
});

test("choosing the labels that are given is rejecting", async () => {
  answers.push(json({ id: 1 }, 201));
  decisions.decide(finding, { action: "relabel", start: 5, stop: 7, labels: ["B-LOC", "I-LOC"] });
  assert.equal(finding.status, "rejected");
  assert.equal(project.progress.rejected, 1);
  await settle();
});

test("given labels of other boundaries are those of the sentence, where it was read", () => {
  const moved = { start: 5, stop: 8 };
  assert.equal(decisions.givenOf(finding, moved), undefined);
  const sentence_labels = ["O", "O", "O", "O", "O", "B-LOC", "I-LOC", "O"];
  assert.deepEqual(decisions.givenOf({ ...finding, sentence_labels }, moved), ["B-LOC", "I-LOC", "O"]);
  assert.deepEqual(decisions.givenOf(finding, {}), finding.given);
});

test("a refused decision is taken back, even where the finding cannot be read again", async () => {
  answers.push(json({ error: "unknown label" }, 400), lost);
  decisions.decide(finding, accept(finding));
  await settle();
  assert.equal(finding.status, "open");
  assert.equal(finding.decided, null);
  assert.deepEqual(project.progress, { open: 5, accepted: 0, rejected: 0, skipped: 0 });
  assert.match(message(), new RegExp(`finding ${rank}\\b.*unknown label`));
});

test("a conflict is shown and told", async () => {
  answers.push(json({ id: 3, conflict: true }, 201));
  decisions.decide(finding, accept(finding));
  await settle();
  assert.equal(finding.conflict, true);
  assert.match(message(), new RegExp(`Finding ${rank}\\b`));
});

test("a note changes neither status nor counts; reopening takes the decision away", async () => {
  answers.push(json({ id: 1 }, 201), json({ id: 2 }, 201), json({ id: 3 }, 201));
  decisions.decide(finding, { action: "note", note: "look" });
  assert.equal(finding.note, "look");
  assert.equal(finding.status, "open");
  decisions.decide(finding, accept(finding));
  decisions.decide(finding, { action: "reopen" });
  assert.equal(finding.status, "open");
  assert.equal(finding.decided, null);
  assert.equal(project.progress.open, 5);
  await settle();
  assert.deepEqual(
    requests.map((one) => one.body.action),
    ["note", "accept", "reopen"],
  );
});

test("a decision on a segment that is refused is taken back", async () => {
  answers.push(json({ error: "no" }, 400));
  const segment = { sentence_number: 1, start: 0, stop: 1, labels: ["O"], decision: null, rank: null };
  let draws = 0;
  decisions.decideSegment(segment, { action: "relabel", labels: ["B-ORG"] }, () => draws++);
  assert.equal(segment.decision.status, "accepted");
  await settle();
  assert.equal(segment.decision, null);
  assert.equal(draws, 2);
});

test("undo says how many decisions were undone", async () => {
  answers.push(json({ undone: 3, ranks: [] }), json({ redone: 1, ranks: [2] }), json({ undone: 0, ranks: [] }));
  const heard = [];
  decisions.follow((how) => heard.push(how));
  decisions.undoOrRedo("undo");
  await settle();
  assert.match(message(), /3 decisions/);
  decisions.undoOrRedo("redo");
  await settle();
  assert.match(message(), /redone/);
  assert.deepEqual(heard.at(-1), { isStep: true, ranks: [2] });
  decisions.undoOrRedo("undo");
  await settle();
  assert.match(message(), /undo\.$/);
  decisions.follow(() => {});
});

test("a sentence that is all right decides its findings, except the accepted ones", async () => {
  const number = 1000 + rank;
  const made = (more) => store.keep({ ...finding, rank: ++rank, sentence_number: number, ...more });
  const [open, skipped, accepted] = [made({ base: 3 }), made({ status: "skipped" }), made({ status: "accepted", base: 7 })];
  project.progress = { open: 4, accepted: 1, rejected: 0, skipped: 1 };
  answers.push(json({ id: 9, base: 9, conflict: false }, 201));
  decisions.confirmSentence({ ...open, sentence_length: 12 });
  assert.deepEqual([open.status, skipped.status, accepted.status], ["rejected", "rejected", "accepted"]);
  assert.deepEqual(open.decided.labels, open.given);
  assert.equal(finding.status, "open");
  assert.deepEqual(project.progress, { open: 3, accepted: 1, rejected: 2, skipped: 0 });
  await settle();
  const { key, ...body } = requests[0].body;
  assert.ok(key);
  const place = { rank: null, sentence_number: number, start: 0, stop: 12 };
  assert.deepEqual(body, { ...place, action: "relabel", labels: null, note: "", base: 7 });
  assert.deepEqual([open.base, store.isPending(open.rank)], [9, false]);
});

test("a sentence whose mark is refused is as it was", async () => {
  const number = 1000 + rank;
  const one = store.keep({ ...finding, rank: ++rank, sentence_number: number });
  answers.push(json({ error: "no" }, 400), json({ ...one, status: "open", decided: null }));
  decisions.confirmSentence({ ...one, sentence_length: 12 });
  await settle();
  assert.deepEqual([one.status, one.decided], ["open", null]);
  assert.deepEqual(project.progress, { open: 5, accepted: 0, rejected: 0, skipped: 0 });
  assert.match(message(), /not marked as correct: no/);
});
