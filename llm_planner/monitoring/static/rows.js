// SPDX-License-Identifier: Apache-2.0
// One row per robot: what it was told; generation and suspension; execution, waiting and reflexes. Now is at the right.

import { colour, fit, niceStep, prepare } from "./draw.js";
import { now, robotNames, store } from "./store.js";
import { dialogueText, isSilent, silence } from "./words.js";

const ROW = 52, TEXT = 15, TOP = 20, LENGTHS_S = [30, 60, 120];
const PLACES = { // offset and height in a row
  suspension: [TEXT + 6, 9], generation: [TEXT + 4, 13], waiting: [TEXT + 19, 9], execution: [TEXT + 18, 13], reflex: [TEXT + 18, 13],
};
const LEGEND = [
  ["generation", "generation"], ["generation-urgent", "generation, urgent"], ["suspension", "suspended"],
  ["execution", "execution"], ["execution-urgent", "execution, urgent"], ["waiting", "robot waits"], ["reflex", "reflex"],
];
const WORDS = {
  generation: "generation", suspension: "suspended", waiting: "the robot waits", execution: "execution", reflex: "reflex",
};
let length_s = 60, drawn = [], chosen = null; // what lies where, for the tip; the number of the span that is chosen by key

export function setUp(canvas, windows, legend, tip) {
  for (const seconds of LENGTHS_S) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = `${seconds} s`;
    button.addEventListener("click", () => { length_s = seconds; mark(windows); });
    button.dataset.seconds = seconds;
    windows.append(button);
  }
  mark(windows);
  for (const [name, text] of LEGEND) {
    const item = document.createElement("li"), box = document.createElement("i");
    box.style.background = `var(--${name})`;
    item.append(box, text);
    legend.append(item);
  }
  const point = (event) => showTip(canvas, tip, event.offsetX, event.offsetY);
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
  canvas.addEventListener("blur", () => { tip.hidden = true; chosen = null; });
  canvas.addEventListener("keydown", (event) => {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (event.key === "Escape") { tip.hidden = true; chosen = null; }
    if (!step) return;
    event.preventDefault();
    choose(canvas, tip, step);
  });
}

/** Shows the tip of the bar before or behind the chosen one, row by row; at first of the newest bar of the first row. */
function choose(canvas, tip, step) {
  const bars = [...drawn].sort((a, b) => a.row - b.row || a.from - b.from || a.top - b.top);
  if (!bars.length) return;
  const at = bars.findIndex((bar) => bar.span === chosen), first = bars.findLastIndex((bar) => bar.row === bars[0].row);
  const bar = bars[at < 0 ? first : Math.max(0, Math.min(bars.length - 1, at + step))];
  chosen = bar.span;
  show(canvas, tip, bar, (bar.from + bar.until) / 2);
}

function mark(windows) {
  for (const button of windows.children) button.setAttribute("aria-pressed", button.dataset.seconds == length_s);
}

export function draw(canvas) {
  const names = robotNames();
  canvas.parentElement.hidden = !names.length;
  if (!names.length) return;
  const height = TOP + Math.max(1, names.length) * ROW;
  if (canvas.style.height !== `${height}px`) canvas.style.height = `${height}px`;
  const { context, width } = prepare(canvas, height);
  const left = Math.min(110, Math.max(62, width * 0.16)), end_s = now();
  const scale = (width - left) / length_s, x = (time_s) => width - (end_s - time_s) * scale;
  drawAxis(context, left, width, height, end_s, x);
  drawNames(context, names, left, width);
  context.save();
  context.beginPath();
  context.rect(left, 0, width - left, height);
  context.clip();
  drawn = [];
  for (const kind of Object.keys(PLACES)) {
    for (const span of store.spans.values()) {
      if (span.kind === kind) drawSpan(context, span, names.indexOf(span.robot), x, left, width);
    }
  }
  context.restore();
  names.forEach((name, row) => drawDialogue(context, name, row, left, width));
  canvas.setAttribute("aria-label", `What robots did in the last ${length_s} s; arrow keys tell what each bar is. `
    + names.map((name) => [name, dialogueText(name)].filter(Boolean).join(": ")).join("; "));
}

function drawDialogue(context, name, row, left, width) {
  const text = dialogueText(name) || (isSilent() ? silence() : "has not been told anything yet");
  context.fillStyle = colour(isSilent() ? "bad" : store.dialogues.has(name) ? "ink" : "dim");
  context.textAlign = "left";
  context.fillText(fit(context, text, width - left - 4), left + 2, TOP + row * ROW + 13);
}

/** Returns when a span ended, as far as is known: a silent planner's are open since it was received last. */
function endOf(span) {
  if (span.end !== null || !isSilent() || span.kind === "reflex") return span.end;
  return Math.max(span.start, now() - store.document.planner.silent_s);
}

function drawAxis(context, left, width, height, end_s, x) {
  const step = niceStep(length_s, Math.max(2, (width - left) / 90));
  context.fillStyle = colour("dim");
  context.strokeStyle = colour("line");
  for (let ago_s = 0; ago_s <= length_s; ago_s += step) {
    const at = Math.round(x(end_s - ago_s)) - 0.5;
    context.beginPath(); context.moveTo(at, TOP - 4); context.lineTo(at, height); context.stroke();
    context.textAlign = ago_s ? "center" : "right";
    if (at > left + 12) context.fillText(ago_s ? `−${ago_s} s` : "now", at, 11);
  }
}

function drawNames(context, names, left, width) {
  context.textAlign = "left";
  names.forEach((name, row) => {
    const middle = TOP + row * ROW + ROW / 2;
    context.strokeStyle = colour("line");
    context.beginPath(); context.moveTo(0, TOP + row * ROW); context.lineTo(width, TOP + row * ROW); context.stroke();
    context.fillStyle = colour("ink");
    context.fillText(fit(context, name, left - 8), 0, middle + 4);
  });
}

function drawSpan(context, span, row, x, left, width) {
  const end = endOf(span), from = Math.max(left, x(span.start)), until = end === null ? width : Math.min(width, x(end));
  if (row < 0 || until < left || end === span.start) return;
  const [offset, high] = PLACES[span.kind], top = TOP + row * ROW + offset;
  const wide = Math.max(span.kind === "generation" ? 2 : 0.7, until - from);
  const is_urgent = span.urgent && (span.kind === "generation" || span.kind === "execution");
  context.fillStyle = colour(is_urgent ? `${span.kind}-urgent` : span.kind);
  context.fillRect(from, top, wide, high);
  if (span.interrupted && span.kind === "execution") hatch(context, from, top, wide, high);
  drawn.push({ span, row, from, until: from + wide, top, bottom: top + high });
  if (!span.label || span.kind === "suspension" || wide < 26) return;
  context.font = "10px ui-monospace, monospace";
  const text = fit(context, span.label, wide - 6);
  context.fillStyle = colour(span.kind === "waiting" ? "ink" : "on-bar");
  context.textAlign = "left";
  context.fillText(text, from + 3, top + 10);
  context.font = "12px system-ui, sans-serif";
}

function hatch(context, left, top, width, height) {
  context.save();
  context.beginPath(); context.rect(left, top, width, height); context.clip();
  context.strokeStyle = colour("bad");
  for (let at = left - height; at < left + width; at += 5) {
    context.beginPath(); context.moveTo(at, top + height); context.lineTo(at + height, top); context.stroke();
  }
  context.strokeRect(left + 0.5, top + 0.5, width - 1, height - 1);
  context.restore();
}

function showTip(canvas, tip, x, y) {
  const hit = drawn.findLast((bar) => x >= bar.from - 3 && x <= bar.until + 3 && y >= bar.top - 2 && y <= bar.bottom + 2);
  tip.hidden = !hit;
  if (hit) show(canvas, tip, hit, x);
}

function show(canvas, tip, hit, x) {
  const { span } = hit, end = endOf(span), seconds = ((end ?? now()) - span.start).toFixed(2);
  tip.hidden = false;
  const first = document.createElement("div"), second = document.createElement("div");
  first.textContent = span.label || WORDS[span.kind];
  second.textContent = `${span.robot}: ${WORDS[span.kind]}, ${seconds} s${end === null ? " so far" : span.end === null ? `, then unknown: ${silence()}` : ""}`
    + (span.urgent ? ", urgent" : "") + (span.interrupted ? ", interrupted" : "");
  tip.replaceChildren(first, second);
  tip.style.left = `${Math.max(0, Math.min(x + 12, canvas.clientWidth - 290))}px`;
  tip.style.top = `${hit.bottom + 6}px`;
}
