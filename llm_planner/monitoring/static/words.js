// SPDX-License-Identifier: Apache-2.0
// What is shown of goals and robots, in plain words.

import { store } from "./store.js";

const STATES = { // a goal's state -> what its generation does
  running: "generating", ready: "due, waits for a slot", waiting: "waits in the queue", suspended: "suspended", planned: "planned",
};

/** Returns whether the planner has stopped: what is known of it is old. */
export function isSilent() {
  return Boolean(store.document?.planner?.is_silent);
}

export function silence() {
  return `planner silent for ${Math.round(store.document.planner.silent_s)} s`;
}

export function stateText(goal) {
  return isSilent() ? "unknown" : STATES[goal.state] ?? goal.state;
}

/** Returns how far a robot is with a goal: "segment 1 of 2, 3.9 s left". */
export function progressText(goal) {
  if (isSilent()) return `unknown: ${silence()}`;
  if (goal.num_executed >= goal.num_segments) return `waits for the planner, ${Math.max(0, -goal.robot_busy_s).toFixed(1)} s`;
  const known = `${goal.num_segments}${goal.state === "planned" ? "" : " so far"}`;
  const left = goal.robot_busy_s > 0 ? `${goal.robot_busy_s.toFixed(1)} s left` : "longer than expected";
  return `segment ${goal.num_executed + 1} of ${known}, ${left}`;
}

/** Returns what a robot was told last, and what became of it. */
export function dialogueText(name) {
  const dialogue = store.dialogues.get(name);
  if (!dialogue) return "";
  const ending = dialogue.ending || (isSilent() ? silence() : "");
  return [`“${dialogue.instruction}”`, dialogue.answer && `answer: ${dialogue.answer}`, ending].filter(Boolean).join(" – ");
}

/** Returns the dialogue of a goal, if it is its robot's last. */
export function dialogueOf(goal) {
  const dialogue = store.dialogues.get(goal.robot_id);
  return dialogue?.request_id === goal.request_id ? dialogue : null;
}

/** Returns a number with its noun: 1 segment, 2 segments. */
export function counted(number, noun) {
  return `${number} ${noun}${number === 1 ? "" : "s"}`;
}
