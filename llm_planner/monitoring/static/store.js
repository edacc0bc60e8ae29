// SPDX-License-Identifier: Apache-2.0
// What the page knows: the last document, and what earlier ones said that has not changed since.

const TRAIL_LENGTH = 150; // poses, five a second
const JUMP_M = 1.5; // in a fifth of a second
const HISTORY_LENGTH = 240; // documents, four a second
const KEPT_S = 180;

export const store = {
  document: null,
  spans: new Map(), // number -> {robot, kind, start, end, label, urgent, interrupted}
  robots: new Map(), // name -> {view, things, trail}
  dialogues: new Map(), // robot -> {request_id, instruction, answer, ending}
  measured: [],
  log: [],
  history: [], // {tokens, busy}
  offset: null, // of this page's clock from the planner's, in seconds
};

/** Returns the planner's time now: between two documents it goes on by this page's clock. */
export function now() {
  return store.offset === null ? 0 : performance.now() / 1000 - store.offset;
}

/** Takes a document; a whole one replaces everything that was known. */
export function take(document) {
  if (document.is_whole) {
    store.spans.clear(); store.robots.clear(); store.dialogues.clear();
    store.measured = []; store.log = []; store.offset = null;
  }
  store.document = document;
  keepTime(document.now_s);
  for (const [number, robot, kind, start, end, label, urgent, interrupted] of document.spans) {
    store.spans.set(number, { robot, kind, start, end, label, urgent, interrupted });
  }
  for (const [number, span] of store.spans) {
    if (span.end !== null && span.end < document.now_s - KEPT_S) store.spans.delete(number);
  }
  document.robots.forEach(takeRobot);
  for (const [name, dialogue] of Object.entries(document.dialogues)) store.dialogues.set(name, dialogue);
  const present = new Set(document.robots.map((view) => view.robot_id));
  for (const name of store.robots.keys()) if (!present.has(name)) store.robots.delete(name);
  store.measured = added(store.measured, document.measured).slice(-500);
  store.log = added(store.log, document.log.map((entry) => ({ ...entry, at: document.now_s - entry.age_s }))).slice(-200);
  if (document.rates) {
    store.history.push({ tokens: document.rates.tokens_per_s, busy: document.rates.busy_share });
    store.history = store.history.slice(-HISTORY_LENGTH);
  }
}

/** Returns a list with what is new: what came just before a whole document is in it, and in the one behind it too. */
function added(known, more) {
  const last = known.at(-1)?.number ?? -1;
  return [...known, ...more.filter((entry) => entry.number > last)];
}

/** Documents come late by different amounts: the earliest is nearest to the truth, but clocks drift. */
function keepTime(planner_s) {
  const offset = performance.now() / 1000 - planner_s;
  const is_far = store.offset === null || Math.abs(offset - store.offset) > 2;
  store.offset = is_far ? offset : Math.min(offset, store.offset + 0.002);
}

function takeRobot(view) {
  const known = store.robots.get(view.robot_id) ?? { things: [], trail: [], shown: { ...view.pose } };
  known.view = view;
  if (view.things) known.things = view.things;
  const last = known.trail.at(-1), step_m = last ? Math.hypot(last.x_m - view.pose.x_m, last.y_m - view.pose.y_m) : 1;
  if (step_m > JUMP_M) { known.trail = []; known.shown = { ...view.pose }; } // it was put into another world
  if (step_m > 0.01) known.trail = [...known.trail, view.pose].slice(-TRAIL_LENGTH);
  store.robots.set(view.robot_id, known);
}

/** Returns the names of all robots, drone_10 behind drone_9. */
export function robotNames() {
  const names = new Set(store.robots.keys());
  for (const span of store.spans.values()) names.add(span.robot);
  return [...names].sort((a, b) => a.localeCompare(b, undefined, { numeric: true }));
}
