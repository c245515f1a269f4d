import assert from "node:assert/strict";
import test, { beforeEach } from "node:test";

import { element, emit } from "./browser_stub.js";
import * as keys from "../../../src/tagtrace/review/static/core/keys.js";

const pressed = [];
let time = 0;
const record = (name) => () => pressed.push(name);
const view = { j: record("next"), a: record("accept"), Escape: record("back"), "Shift+ArrowLeft": record("shorter") };
const page = { a: record("page a"), e: record("export"), U: record("redo"), "g e": record("errors"), "[": record("[") };
keys.listen(() => [view, page]);

/** Press a key with the focus on an element that matches some selectors. */
function press(key, { focus = "", ...more } = {}) {
  const target = {
    matches: (selector) => selector.split(", ").includes(focus),
    closest: (selector) => (selector.split(", ").includes(focus) ? {} : null),
  };
  let isDefaultPrevented = false;
  const preventDefault = () => (isDefaultPrevented = true);
  time += more.after ?? 100;
  emit("keydown", { key, code: "", shiftKey: false, timeStamp: time, target, preventDefault, ...more });
  return isDefaultPrevented;
}

beforeEach(() => {
  pressed.length = 0;
  element("use-keys").checked = true;
  time += 10_000;
});

test("the nearest map that has the key decides", () => {
  press("j");
  press("a");
  press("e");
  assert.ok(!press("z"), "an unknown key is left to the browser");
  assert.deepEqual(pressed, ["next", "accept", "export"]);
});

test("g and a key go somewhere, unless too much time passes", () => {
  press("g");
  press("e");
  press("g");
  press("e", { after: 2000 });
  assert.deepEqual(pressed, ["errors", "export"]);
});

test("keys are left alone with Ctrl and in fields, but for Escape", () => {
  press("a", { ctrlKey: true });
  press("a", { isComposing: true });
  press("a", { focus: "input" });
  press("Escape", { focus: "textarea" });
  assert.deepEqual(pressed, ["back"]);
});

test("a button keeps the keys that press it", () => {
  const withEnter = { ...view, Enter: record("why") };
  keys.listen(() => [withEnter]);
  press("Enter", { focus: "button" });
  press("a", { focus: "button" });
  assert.equal(pressed.filter((name) => name === "why").length, 0);
  assert.ok(pressed.includes("accept"));
});

test("single keys can be switched off; arrows stay", () => {
  element("use-keys").checked = false;
  press("a");
  press("ArrowLeft", { shiftKey: true });
  assert.ok(!pressed.includes("accept"));
  assert.ok(pressed.includes("shorter"));
});

test("letters are named by shift alone", () => {
  const name = (key, code, shiftKey = false) => keys.nameOf({ key, code, shiftKey });
  assert.equal(name("U", "KeyU", true), "U");
  assert.equal(name("U", "KeyU"), "u", "with caps lock");
  assert.equal(name("u", "KeyU", true), "U", "with caps lock and shift");
  assert.equal(name("ф", "KeyA"), "a", "on a Cyrillic keyboard");
  assert.equal(name("z", "KeyY"), "z", "on a German keyboard");
  assert.equal(name("?", "Slash", true), "?");
  assert.equal(name("ArrowLeft", "ArrowLeft", true), "Shift+ArrowLeft");
  assert.equal(name("[", "BracketLeft"), "[");
});
