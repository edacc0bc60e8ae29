// The goals of the planner, those first that lose something next.

import { store } from "./store.js";

const COLUMNS = [ // title, class, whether it holds numbers
  ["robot", "", false], ["goal", "wide", false], ["state", "", false], ["age", "wide", true], ["tokens", "wide", true],
  ["KV", "wide", true], ["the robot", "", false], ["utility", "wide", true], ["falls in", "", true], ["ends in", "", true],
];
const COLOURS = { running: "generation", ready: "warn", waiting: "warn", sleeping: "suspension", planned: "dim" };

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
  more.textContent = goals.length ? (hidden > 0 ? `and ${hidden} more` : "") : "no goals";
}

function nextLoss(goal) {
  return Math.min(goal.falls_in_s ?? Infinity, goal.ends_in_s ?? Infinity);
}

function rowOf(goal) {
  const row = document.createElement("tr");
  const texts = [
    goal.robot_id, goal.urgency, goal.state, goal.age_s.toFixed(1), goal.num_output_tokens,
    goal.is_offloaded ? "off" : goal.num_kv_blocks, robotText(goal),
    goal.utility === null ? "" : goal.utility.toFixed(2), left(goal.falls_in_s), left(goal.ends_in_s),
  ];
  texts.forEach((text, number) => {
    const cell = document.createElement("td"), [, name, is_number] = COLUMNS[number];
    cell.textContent = text;
    cell.className = `${name} ${is_number ? "number" : ""}`;
    row.append(cell);
  });
  if (goal.urgency === "urgent") { row.cells[0].classList.add("urgent"); row.cells[1].classList.add("urgent"); }
  row.cells[2].classList.add("dot");
  row.cells[2].style.setProperty("--c", `var(--${COLOURS[goal.state] ?? "dim"})`);
  warn(row.cells[8], goal.falls_in_s);
  warn(row.cells[9], goal.ends_in_s);
  return row;
}

function robotText(goal) {
  if (goal.num_executed >= goal.num_segments) return `waits ${Math.max(0, -goal.robot_busy_s).toFixed(1)}`;
  const known = `${goal.num_segments}${goal.state === "planned" ? "" : "+"}`;
  return `runs ${goal.num_executed + 1}/${known}, ${goal.robot_busy_s > 0 ? goal.robot_busy_s.toFixed(1) : "late"}`;
}

function left(seconds) {
  return seconds === null ? "–" : seconds.toFixed(1);
}

function warn(cell, seconds) {
  if (seconds !== null && seconds < 1) cell.classList.add(seconds <= 0 ? "late" : "soon");
}
