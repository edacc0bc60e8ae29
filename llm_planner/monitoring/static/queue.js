// SPDX-License-Identifier: Apache-2.0
// The goals of the planner, those first that lose something next.

import { robotNames, store } from "./store.js";
import { dialogueOf, isSilent, progressText, silence, stateText } from "./words.js";

const COLUMNS = [ // title, class, whether it holds numbers
  ["robot", "", false], ["instruction", "text", false], ["answer", "wide text", false], ["goal", "wide", false],
  ["plan", "", false], ["age", "wide", true], ["tokens", "wide", true], ["KV", "wide", true], ["robot's progress", "", false], ["utility", "wide", true], ["falls in", "", true], ["ends in", "", true],
];
const COLOURS = { running: "generation", ready: "warn", waiting: "warn", suspended: "suspension", planned: "dim" };

export function setUp(table) {
  const row = document.createElement("tr");
  for (const [title, name, is_number] of COLUMNS) {
    const cell = document.createElement("th");
    cell.scope = "col";
    cell.textContent = title;
    cell.className = `${name} ${is_number ? "number" : ""}`;
    row.append(cell);
  }
  table.tHead.replaceChildren(row);
}

export function render(table, more) {
  const loop = store.document?.loop, goals = [...(loop?.goals ?? [])].sort((a, b) => nextLoss(a) - nextLoss(b));
  table.tBodies[0].replaceChildren(...goals.map(rowOf));
  const hidden = (loop?.status.num_goals ?? 0) - goals.length;
  more.textContent = goals.length ? (hidden > 0 ? `and ${hidden} more` : "") : emptyText();
  table.hidden = !goals.length;
  table.classList.toggle("stale", isSilent());
}

function emptyText() {
  if (!store.document?.planner) return "No planner yet. Start one: llm-planner up";
  if (isSilent()) return `Unknown: ${silence()}.`;
  const [robot] = robotNames();
  return robot ? `No goals. Tell a robot something: llm-planner send ${robot} "..."` : "No goals.";
}

function nextLoss(goal) {
  return Math.min(goal.falls_in_s ?? Infinity, goal.ends_in_s ?? Infinity);
}

function rowOf(goal) {
  const row = document.createElement("tr");
  const texts = [
    goal.robot_id, dialogueOf(goal)?.instruction ?? "", dialogueOf(goal)?.answer ?? "", goal.urgency, stateText(goal),
    goal.age_s.toFixed(1), goal.num_output_tokens, goal.is_offloaded ? "off" : goal.num_kv_blocks, progressText(goal),
    goal.utility === null ? "" : goal.utility.toFixed(2), left(goal.falls_in_s), left(goal.ends_in_s),
  ];
  texts.forEach((text, number) => {
    const cell = document.createElement("td"), [, name, is_number] = COLUMNS[number];
    cell.textContent = text;
    cell.className = `${name} ${is_number ? "number" : ""}`;
    if (name.includes("text")) cell.title = text;
    row.append(cell);
  });
  if (goal.urgency === "urgent") { row.cells[0].classList.add("urgent"); row.cells[3].classList.add("urgent"); }
  row.cells[4].classList.add("dot");
  row.cells[4].style.setProperty("--c", `var(--${isSilent() ? "dim" : COLOURS[goal.state] ?? "dim"})`);
  warn(row.cells[10], goal.falls_in_s);
  warn(row.cells[11], goal.ends_in_s);
  return row;
}

function left(seconds) {
  return seconds === null ? "–" : seconds.toFixed(1);
}

function warn(cell, seconds) {
  if (seconds !== null && seconds < 1) cell.classList.add(seconds <= 0 ? "late" : "soon");
}
