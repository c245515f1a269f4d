import assert from "node:assert/strict";
import test from "node:test";

import { clock, counted, percent, shortNumber } from "../../../src/tagtrace/review/static/core/format.js";

test("a noun is counted", () => {
  assert.equal(counted(1, "finding"), "1 finding");
  assert.equal(counted(0, "finding"), "0 findings");
  assert.equal(counted(12345, "place"), "12,345 places");
});

test("numbers have four significant digits and a real minus sign", () => {
  assert.equal(shortNumber(0.123456), "0.1235");
  assert.equal(shortNumber(-2.5), "\u22122.5");
  assert.equal(shortNumber(0), "0");
  assert.equal(shortNumber(-0.00012345), "\u22121.23e\u22124");
  assert.equal(shortNumber(12345678), "1.23e+7");
  assert.equal(shortNumber(null), "–");
  assert.equal(shortNumber(NaN), "–");
});

test("a percentage that is not zero does not look like zero", () => {
  assert.equal(percent(0.8149), "81.5 %");
  assert.equal(percent(0), "0.0 %");
  assert.equal(percent(0.0004), "<0.1 %");
});

test("a time of today has no date", () => {
  const now = new Date();
  assert.match(clock(now.toISOString()), /^\d\d:\d\d:\d\d$/);
  assert.match(clock(0), /^19(69|70)-\d\d-\d\d \d\d:\d\d:\d\d$/);
  assert.equal(clock("soon"), "soon");
});
