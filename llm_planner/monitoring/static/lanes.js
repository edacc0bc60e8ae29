// One lane per robot: generation and suspension above, execution, waiting and reflexes below; now is at the right.

import { colour, fit, niceStep, prepare } from "./draw.js";
import { now, robotNames, store } from "./store.js";

const ROW = 36, TOP = 20, LENGTHS_S = [30, 60, 120];
const PLACES = { // offset and height in a row
  suspension: [6, 9], generation: [4, 13], waiting: [19, 9], execution: [18, 13], reflex: [18, 13],
};
const LEGEND = [
  ["generation", "generation"], ["generation-urgent", "generation, urgent"], ["suspension", "suspended"],
  ["execution", "execution"], ["execution-urgent", "execution, urgent"], ["waiting", "robot waits"], ["reflex", "reflex"],
];
const WORDS = {
  generation: "generation", suspension: "suspended", waiting: "the robot waits", execution: "execution", reflex: "reflex",
};
let length_s = 60, drawn = []; // what lies where, for the tip

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
  const show = (event) => showTip(canvas, tip, event.offsetX, event.offsetY);
  canvas.addEventListener("pointermove", show);
  canvas.addEventListener("pointerdown", show);
  canvas.addEventListener("pointerleave", () => { tip.hidden = true; });
}

function mark(windows) {
  for (const button of windows.children) button.setAttribute("aria-pressed", button.dataset.seconds == length_s);
}

export function draw(canvas) {
  const names = robotNames(), height = TOP + Math.max(1, names.length) * ROW;
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
  const from = Math.max(left, x(span.start)), until = span.end === null ? width : Math.min(width, x(span.end));
  if (row < 0 || until < left || span.end === span.start) return;
  const [offset, high] = PLACES[span.kind], top = TOP + row * ROW + offset;
  const wide = Math.max(span.kind === "generation" ? 2 : 0.7, until - from);
  const is_urgent = span.urgent && (span.kind === "generation" || span.kind === "execution");
  context.fillStyle = colour(is_urgent ? `${span.kind}-urgent` : span.kind);
  context.fillRect(from, top, wide, high);
  if (span.interrupted && span.kind === "execution") hatch(context, from, top, wide, high);
  drawn.push({ span, from, until: from + wide, top, bottom: top + high });
  if (!span.label || span.kind === "suspension" || wide < 26) return;
  context.font = "10px ui-monospace, monospace";
  const text = fit(context, span.label, wide - 6);
  context.fillStyle = "#fff";
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
  if (!hit) return;
  const { span } = hit, seconds = ((span.end ?? now()) - span.start).toFixed(2);
  const first = document.createElement("div"), second = document.createElement("div");
  first.textContent = span.label || WORDS[span.kind];
  second.textContent = `${span.robot}: ${WORDS[span.kind]}, ${seconds} s${span.end === null ? " so far" : ""}`
    + (span.urgent ? ", urgent" : "") + (span.interrupted ? ", interrupted" : "");
  tip.replaceChildren(first, second);
  tip.style.left = `${Math.max(0, Math.min(x + 12, canvas.clientWidth - 290))}px`;
  tip.style.top = `${hit.bottom + 6}px`;
}
