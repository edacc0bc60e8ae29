// SPDX-License-Identifier: Apache-2.0
// Small pictures of numbers: a line of the last minute, and predictions against measurements.

import { colour, prepare } from "./draw.js";
import { counted } from "./words.js";

/** Draws the last values as a line over a filled area, from 0 to the greatest one (or to `most`). */
export function spark(canvas, values, most = Math.max(1e-9, ...values)) {
  const { context, width, height } = prepare(canvas);
  if (values.length < 2) return;
  const x = (number) => width - (values.length - 1 - number) * width / 239, y = (value) => height - 1 - (height - 3) * value / most;
  context.beginPath();
  values.forEach((value, number) => context.lineTo(x(number), y(value)));
  context.strokeStyle = colour("generation");
  context.lineWidth = 1.5;
  context.stroke();
  context.lineTo(width, height); context.lineTo(x(0), height);
  context.globalAlpha = 0.15;
  context.fillStyle = colour("generation");
  context.fill();
  context.globalAlpha = 1;
}

/** Draws how long segments took over how long they should have taken; returns what to say of it. */
export function scatter(canvas, measured) {
  const { context, width, height } = prepare(canvas);
  const points = measured.filter((point) => point.expected_s > 0 && point.measured_s > 0);
  if (!points.length) return "No segment has ended yet.";
  const all = points.flatMap((point) => [point.expected_s, point.measured_s]);
  const low = Math.log10(Math.min(...all)) - 0.1, high = Math.log10(Math.max(...all)) + 0.1;
  const left = 44, bottom = 34, share = (value) => (Math.log10(value) - low) / Math.max(0.2, high - low);
  const x = (value) => left + share(value) * (width - left - 8), y = (value) => height - bottom - share(value) * (height - bottom - 8);
  drawAxes(context, width, height, left, bottom, low, high, x, y);
  context.fillStyle = colour("generation");
  context.globalAlpha = 0.55;
  for (const point of points) {
    context.beginPath(); context.arc(x(point.expected_s), y(point.measured_s), 3, 0, 2 * Math.PI); context.fill();
  }
  context.globalAlpha = 1;
  return inWords(points);
}

function drawAxes(context, width, height, left, bottom, low, high, x, y) {
  context.save();
  context.beginPath(); context.rect(left, 0, width - left, height - bottom); context.clip();
  const [least, most] = [10 ** low, 10 ** high];
  context.fillStyle = colour("track");
  context.beginPath(); context.moveTo(x(least), y(least * 0.8)); context.lineTo(x(most), y(most * 0.8));
  context.lineTo(x(most), y(most * 1.2)); context.lineTo(x(least), y(least * 1.2)); context.fill();
  context.strokeStyle = colour("dim");
  context.beginPath(); context.moveTo(x(least), y(least)); context.lineTo(x(most), y(most)); context.stroke();
  context.restore();
  context.fillStyle = colour("dim");
  context.strokeStyle = colour("line");
  for (const tick of [0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100, 300].filter((value) => value > least && value < most)) {
    context.beginPath(); context.moveTo(x(tick), 0); context.lineTo(x(tick), height - bottom); context.stroke();
    context.beginPath(); context.moveTo(left, y(tick)); context.lineTo(width, y(tick)); context.stroke();
    context.textAlign = "center"; context.fillText(tick, x(tick), height - bottom + 14);
    context.textAlign = "right"; context.fillText(tick, left - 5, y(tick) + 4);
  }
  context.textAlign = "right"; context.fillText("predicted [s]", width - 8, height - 4);
  context.save(); context.translate(11, 8); context.rotate(-Math.PI / 2); context.fillText("measured [s]", 0, 0); context.restore();
}

function inWords(points) {
  const errors = points.map((point) => Math.abs(point.measured_s / point.expected_s - 1)).sort((a, b) => a - b);
  const within = points.filter((point) => point.measured_s <= point.expected_p90_s).length / points.length;
  const median = errors[Math.floor(errors.length / 2)];
  return `${counted(points.length, "segment")}: median error ${(100 * median).toFixed(1)} %, ${Math.round(100 * within)} % within p90`;
}
