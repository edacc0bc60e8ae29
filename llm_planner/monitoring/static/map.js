// SPDX-License-Identifier: Apache-2.0
// A tile per robot: where it is, the way it came, and what it knows of, seen from above and from its home, x up.
// Robots whose home is known share a map instead (fleetmap.js).

import { colour, fit, niceStep, prepare } from "./draw.js";
import { drawFleet } from "./fleetmap.js";
import { place } from "./labels.js";
import { robotNames, store } from "./store.js";
import { counted } from "./words.js";

const SILENT_S = 2, LEAST_M = 1.2, SMOOTH = 0.25;
const SMALL = "10px system-ui, sans-serif", STRONG = "600 12px system-ui, sans-serif";
const tiles = new Map(); // robot -> {figure, canvas, name, place, half_m, middle}

export function draw(box) {
  const names = robotNames().filter((name) => store.robots.has(name)), has_home = (name) => store.robots.get(name).view.home;
  drawFleet(box, names.filter(has_home));
  const alone = names.filter((name) => !has_home(name));
  for (const name of alone) drawTile(tileOf(box, name), store.robots.get(name));
  for (const [name, tile] of tiles) {
    if (!alone.includes(name)) { tile.figure.remove(); tiles.delete(name); }
  }
}

function tileOf(box, name) {
  if (tiles.has(name)) return tiles.get(name);
  const figure = document.createElement("figure"), canvas = document.createElement("canvas");
  const caption = document.createElement("figcaption"), title = document.createElement("b"), place = document.createElement("span");
  figure.className = "tile";
  canvas.setAttribute("role", "img");
  title.textContent = name;
  place.className = "dim";
  caption.append(title, place);
  figure.append(canvas, caption);
  const tile = { figure, canvas, place, half_m: LEAST_M, middle: { x: 0, y: 0 } };
  tiles.set(name, tile);
  const next = robotNames().slice(robotNames().indexOf(name) + 1).find((robot) => tiles.has(robot) && robot !== name);
  box.insertBefore(figure, next ? tiles.get(next).figure : null);
  return tile;
}

function drawTile(tile, robot) {
  const { view } = robot;
  tile.figure.classList.toggle("silent", view.silent_s > SILENT_S);
  const is_silent = view.silent_s > SILENT_S;
  const faults = view.num_faults ? `${counted(view.num_faults, "fault")}, ` : "";
  const place_text = `${faults}${view.held ? `holds ${view.held}, ` : ""}height ${view.pose.z_m.toFixed(2)} m`;
  tile.place.textContent = is_silent ? `silent for ${Math.round(view.silent_s)} s` : place_text;
  tile.canvas.setAttribute("aria-label", `${view.robot_id} from above, ${tile.place.textContent}`);
  tile.place.title = view.last_fault;
  glide(robot.shown, view.pose);
  const { context, width, height } = prepare(tile.canvas);
  frame(tile, robot);
  const scale = Math.min(width, height) / (2 * tile.half_m);
  const at = (x_m, y_m) => [width / 2 - (y_m - tile.middle.y) * scale, height / 2 - (x_m - tile.middle.x) * scale];
  drawGrid(context, width, height, scale, at(0, 0));
  drawLimits(context, view, at, scale);
  const labels = [];
  for (const role of ["area", "container", "thing"]) {
    for (const thing of robot.things.filter((each) => each.role === role)) {
      const [length, breadth] = thing.size_m; // along x, which is up, and along y
      labels.push(...drawThing(context, thing, at(...thing.position_m), breadth * scale, length * scale));
    }
  }
  drawTrail(context, robot.trail.map((pose) => at(pose.x_m, pose.y_m)));
  drawBody(context, view, at(robot.shown.x_m, robot.shown.y_m), at(0, 0), robot.shown.yaw_deg);
  drawLabels(context, width, height, labels, [bodyBox(at(robot.shown.x_m, robot.shown.y_m))]);
}

/** Draws the labels that have room: none lies on another, or on a robot. */
export function drawLabels(context, width, height, labels, taken) {
  const grid_text = { left: width - 60, right: width, top: height - 15, bottom: height };
  context.textAlign = "left";
  context.lineJoin = "round";
  for (const label of place(labels, width, height, [...taken, grid_text])) {
    context.font = label.font;
    context.strokeStyle = colour("bg"); // what a name stands on can be of any colour
    context.lineWidth = 3;
    context.strokeText(label.text, label.left, label.baseline);
    context.fillStyle = colour(label.ink);
    context.fillText(label.text, label.left, label.baseline);
  }
}

/** Returns the square that a robot's arrow takes. */
export function bodyBox([x, y]) {
  return { left: x - 9, right: x + 9, top: y - 11, bottom: y + 9 };
}

/** Returns a robot's name as a label. */
export function nameLabel(context, name, [x, y]) {
  context.font = STRONG;
  const text = fit(context, name, 120);
  const width = context.measureText(text).width;
  return { text, width, x, y, below: 22, above: 13, may_stand_next_to: true, font: STRONG, ink: "ink" };
}

/** Moves what is shown towards what was said last, the short way round. */
export function glide(shown, pose) {
  for (const axis of ["x_m", "y_m", "z_m"]) shown[axis] += (pose[axis] - shown[axis]) * SMOOTH;
  const turn = ((((pose.yaw_deg - shown.yaw_deg) % 360) + 540) % 360) - 180; // % keeps the sign
  shown.yaw_deg += turn * SMOOTH;
}

/** Chooses what part of the world the tile shows: home, the robot, its way, and all things. */
function frame(tile, robot) {
  const points = [[0, 0], [robot.shown.x_m, robot.shown.y_m], ...robot.trail.map((pose) => [pose.x_m, pose.y_m])];
  for (const thing of robot.things) {
    const [x, y] = thing.position_m, [length, width] = thing.size_m;
    points.push([x - length / 2, y - width / 2], [x + length / 2, y + width / 2]);
  }
  const reach = robot.view.reach_m?.[1];
  if (reach) points.push([-reach, -reach], [reach, reach]);
  const xs = points.map(([x]) => x), ys = points.map(([, y]) => y);
  const least = { x: Math.min(...xs), y: Math.min(...ys) }, most = { x: Math.max(...xs), y: Math.max(...ys) };
  const half = Math.max(reach ? 0.5 : LEAST_M, (most.x - least.x) / 2, (most.y - least.y) / 2) * 1.3;
  tile.half_m += (half - tile.half_m) * SMOOTH;
  tile.middle.x += ((least.x + most.x) / 2 - tile.middle.x) * SMOOTH;
  tile.middle.y += ((least.y + most.y) / 2 - tile.middle.y) * SMOOTH;
}

/** Draws lines a round number of metres apart; `origin` is where (0, 0) lies. */
export function drawGrid(context, width, height, scale, [origin_x, origin_y]) {
  const step_m = niceStep(Math.min(width, height) / scale, 5), step = step_m * scale;
  context.strokeStyle = colour("line");
  context.fillStyle = colour("dim");
  context.lineWidth = 1;
  for (let x = origin_x - Math.ceil(origin_x / step) * step; x < width; x += step) {
    context.beginPath(); context.moveTo(Math.round(x) + 0.5, 0); context.lineTo(Math.round(x) + 0.5, height); context.stroke();
  }
  for (let y = origin_y - Math.ceil(origin_y / step) * step; y < height; y += step) {
    context.beginPath(); context.moveTo(0, Math.round(y) + 0.5); context.lineTo(width, Math.round(y) + 0.5); context.stroke();
  }
  context.textAlign = "right";
  context.font = "10px system-ui, sans-serif";
  context.fillText(`grid ${Number(step_m.toPrecision(2))} m`, width - 5, height - 5);
}

function drawLimits(context, view, at, scale) {
  context.strokeStyle = colour("fence");
  context.setLineDash([4, 4]);
  if (view.fence_m) {
    const [x0, x1, y0, y1] = view.fence_m, [left, top] = at(x1, y1), [right, bottom] = at(x0, y0);
    context.strokeRect(left, top, right - left, bottom - top);
  }
  if (view.reach_m) {
    context.beginPath(); context.arc(...at(0, 0), view.reach_m[1] * scale, 0, 2 * Math.PI); context.stroke();
  }
  context.setLineDash([]);
}

/** Draws a thing at a place of the canvas; returns its name as a label, none for a wall. */
export function drawThing(context, thing, [x, y], wide, high) {
  wide = Math.max(3, wide); high = Math.max(3, high);
  context.fillStyle = colour(thing.role === "area" ? "area" : "thing");
  context.strokeStyle = colour("thing");
  context.lineWidth = 1;
  const corner = [x - wide / 2, y - high / 2, wide, high];
  if (thing.role === "container") context.strokeRect(...corner); else context.fillRect(...corner);
  if (thing.kind === "wall") return [];
  context.font = SMALL;
  const text = fit(context, thing.name, 90), below = thing.role === "area" ? 12 - high / 2 : high / 2 + 11;
  return [{ text, width: context.measureText(text).width, x, y, below, above: high / 2 + 3, font: SMALL, ink: "dim" }];
}

/** Draws the way that a robot came, fading towards its beginning. */
export function drawTrail(context, points) {
  context.strokeStyle = colour("generation");
  context.lineWidth = 1.5;
  points.forEach((point, number) => {
    if (!number) return;
    context.globalAlpha = 0.1 + 0.6 * number / points.length;
    context.beginPath(); context.moveTo(...points[number - 1]); context.lineTo(...point); context.stroke();
  });
  context.globalAlpha = 1;
}

/** Draws a robot: an arrow, or an arm from its base to its tool. */
export function drawBody(context, view, [x, y], [home_x, home_y], up_deg) {
  context.fillStyle = colour("dim");
  context.fillRect(home_x - 3, home_y - 3, 6, 6);
  context.globalAlpha = view.silent_s > SILENT_S ? 0.4 : 1;
  context.fillStyle = colour(view.is_in_reflex ? "reflex" : view.is_busy ? "execution" : "generation");
  context.strokeStyle = context.fillStyle;
  if (view.kind === "arm") {
    context.lineWidth = 4;
    context.beginPath(); context.moveTo(home_x, home_y); context.lineTo(x, y); context.stroke();
    context.beginPath(); context.arc(x, y, 5, 0, 2 * Math.PI); context.fill();
  } else {
    context.save();
    context.translate(x, y);
    context.rotate(-up_deg * Math.PI / 180);
    context.beginPath(); context.moveTo(0, -10); context.lineTo(7, 8); context.lineTo(0, 4); context.lineTo(-7, 8); context.closePath();
    context.fill();
    context.restore();
  }
  context.globalAlpha = 1;
}
