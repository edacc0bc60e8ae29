// A tile per robot: where it is, the way it came, and what it knows of, seen from above and from its home.

import { colour, fit, niceStep, prepare } from "./draw.js";
import { robotNames, store } from "./store.js";

const SILENT_S = 2, LEAST_M = 1.2, SMOOTH = 0.25;
const tiles = new Map(); // robot -> {figure, canvas, name, place, half_m, middle}

export function draw(box) {
  for (const name of robotNames()) {
    const robot = store.robots.get(name);
    if (robot) drawTile(tileOf(box, name), robot);
  }
  for (const [name, tile] of tiles) {
    if (!store.robots.has(name)) { tile.figure.remove(); tiles.delete(name); }
  }
}

function tileOf(box, name) {
  if (tiles.has(name)) return tiles.get(name);
  const figure = document.createElement("figure"), canvas = document.createElement("canvas");
  const caption = document.createElement("figcaption"), title = document.createElement("b"), place = document.createElement("span");
  figure.className = "tile";
  title.textContent = name;
  place.className = "dim";
  caption.append(title, place);
  figure.append(canvas, caption);
  const tile = { figure, canvas, place, half_m: LEAST_M, middle: { x: 0, y: 0 } };
  tiles.set(name, tile);
  box.replaceChildren(...robotNames().filter((robot) => tiles.has(robot)).map((robot) => tiles.get(robot).figure));
  return tile;
}

function drawTile(tile, robot) {
  const { view } = robot;
  tile.figure.classList.toggle("silent", view.silent_s > SILENT_S);
  tile.place.textContent = `${view.held ? `holds ${view.held}, ` : ""}z ${view.pose.z_m.toFixed(2)}`;
  glide(robot.shown, view.pose);
  const { context, width, height } = prepare(tile.canvas);
  frame(tile, robot);
  const scale = Math.min(width, height) / (2 * tile.half_m);
  const at = (x_m, y_m) => [width / 2 - (y_m - tile.middle.y) * scale, height / 2 - (x_m - tile.middle.x) * scale];
  drawGrid(context, width, height, tile, at);
  drawLimits(context, view, at, scale);
  for (const role of ["area", "container", "thing"]) {
    robot.things.filter((thing) => thing.role === role).forEach((thing) => drawThing(context, thing, at, scale));
  }
  drawTrail(context, robot, at);
  drawRobot(context, robot, at);
}

/** Moves what is shown towards what was said last, the short way round. */
function glide(shown, pose) {
  for (const axis of ["x_m", "y_m", "z_m"]) shown[axis] += (pose[axis] - shown[axis]) * SMOOTH;
  const turn = ((pose.yaw_deg - shown.yaw_deg + 540) % 360) - 180;
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

function drawGrid(context, width, height, tile, at) {
  const step = niceStep(2 * tile.half_m, 5);
  context.strokeStyle = colour("line");
  context.fillStyle = colour("dim");
  context.lineWidth = 1;
  const first = (middle) => Math.ceil((middle - tile.half_m) / step) * step;
  for (let x_m = first(tile.middle.x); x_m <= tile.middle.x + tile.half_m; x_m += step) {
    const y = Math.round(at(x_m, 0)[1]) + 0.5;
    context.beginPath(); context.moveTo(0, y); context.lineTo(width, y); context.stroke();
  }
  for (let y_m = first(tile.middle.y); y_m <= tile.middle.y + tile.half_m; y_m += step) {
    const x = Math.round(at(0, y_m)[0]) + 0.5;
    context.beginPath(); context.moveTo(x, 0); context.lineTo(x, height); context.stroke();
  }
  context.textAlign = "right";
  context.font = "10px system-ui, sans-serif";
  context.fillText(`grid ${Number(step.toPrecision(2))} m`, width - 5, height - 5);
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

function drawThing(context, thing, at, scale) {
  const [x, y] = at(...thing.position_m), high = Math.max(4, thing.size_m[0] * scale), wide = Math.max(4, thing.size_m[1] * scale);
  context.fillStyle = colour(thing.role === "area" ? "area" : "thing");
  context.strokeStyle = colour("thing");
  const corner = [x - wide / 2, y - high / 2, wide, high];
  if (thing.role === "container") context.strokeRect(...corner); else context.fillRect(...corner);
  context.fillStyle = colour("dim");
  context.textAlign = "center";
  context.font = "10px system-ui, sans-serif";
  context.fillText(fit(context, thing.name, 90), x, thing.role === "area" ? y - high / 2 + 12 : y + high / 2 + 11);
}

function drawTrail(context, robot, at) {
  context.strokeStyle = colour("generation");
  context.lineWidth = 1.5;
  robot.trail.forEach((pose, number) => {
    if (!number) return;
    const before = robot.trail[number - 1];
    context.globalAlpha = 0.1 + 0.6 * number / robot.trail.length;
    context.beginPath(); context.moveTo(...at(before.x_m, before.y_m)); context.lineTo(...at(pose.x_m, pose.y_m)); context.stroke();
  });
  context.globalAlpha = 1;
}

function drawRobot(context, robot, at) {
  const { view, shown } = robot, [x, y] = at(shown.x_m, shown.y_m), [home_x, home_y] = at(0, 0);
  context.fillStyle = colour("dim");
  context.fillRect(home_x - 3, home_y - 3, 6, 6);
  context.fillStyle = colour(view.is_in_reflex ? "reflex" : view.is_busy ? "execution" : "generation");
  context.strokeStyle = context.fillStyle;
  if (view.kind === "arm") {
    context.lineWidth = 4;
    context.beginPath(); context.moveTo(home_x, home_y); context.lineTo(x, y); context.stroke();
    context.beginPath(); context.arc(x, y, 5, 0, 2 * Math.PI); context.fill();
    context.lineWidth = 1;
    return;
  }
  context.save();
  context.translate(x, y);
  context.rotate(-shown.yaw_deg * Math.PI / 180);
  context.beginPath(); context.moveTo(0, -10); context.lineTo(7, 8); context.lineTo(0, 4); context.lineTo(-7, 8); context.closePath();
  context.fill();
  context.restore();
}
