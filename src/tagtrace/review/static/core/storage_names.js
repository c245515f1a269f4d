// The names under which the page stores values in the browser.

import { project } from "./api.js";

/** Decisions that wait to be sent, so that they survive a reload of the tab; another project may be open then. */
export const OUTBOX = `tagtrace-outbox-${project}`;
/** The reviewer's name, if it is not the server's default. */
export const NAME = "tagtrace-reviewer";
/** Set if single-key shortcuts are switched off. */
export const KEYS_OFF = "tagtrace-keys-off";
