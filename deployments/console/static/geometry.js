/* Where lanes are drawn. Lanes of 3 m would be hairlines in a network of 1.5 km, so what lies across
   a road is drawn wider, and roads begin and end as much farther from their junctions. */

export const LANE_M = 3.2;
const STAND_BACK_M = 6; // of stop lines, for each time that lanes are drawn wider
const SHORTEST_M = 20; // that a lane is drawn, for each time that it is drawn wider
const ARM_M = 190; // of a road that leads out of the network, which is cut there

function towards([x, y], [toX, toY], distance) {
  const length = Math.hypot(toX - x, toY - y);
  return [x + ((toX - x) * distance) / length, y + ((toY - y) * distance) / length];
}

/* A road's ends, with those outside moved closer. */
function ends(road, isJunction) {
  const start = isJunction(road.start) ? road.start : towards(road.end, road.start, ARM_M);
  const end = isJunction(road.end) ? road.end : towards(road.start, road.end, ARM_M);
  return [start, end];
}

function widenedPoint([x, y], road, [start, end], wider) {
  const length = Math.hypot(road.end[0] - road.start[0], road.end[1] - road.start[1]);
  const [ux, uy] = [(road.end[0] - road.start[0]) / length, (road.end[1] - road.start[1]) / length];
  const along = (x - road.start[0]) * ux + (y - road.start[1]) * uy;
  const across = wider * ((x - road.start[0]) * -uy + (y - road.start[1]) * ux);
  const room = Math.hypot(end[0] - start[0], end[1] - start[1]);
  const place = along < length / 2
    ? Math.min(along * wider, room / 2) : room - Math.min((length - along) * wider, room / 2);
  return [start[0] + ux * place - uy * across, start[1] + uy * place + ux * across];
}

/* The lanes as they are drawn: id to points, y growing downwards. */
export function drawnLanes(network, wider) {
  return network.as_they_lie ? lanesAsTheyLie(network.roads, wider) : straightLanes(network, wider);
}

function straightLanes({ roads, junctions }, wider) {
  const isJunction = ([x, y]) => junctions.some(({ place }) => place[0] === x && place[1] === y);
  const drawn = new Map();
  for (const road of roads) {
    const outer = ends(road, isJunction);
    for (const lane of road.lanes) {
      drawn.set(lane.id, lane.shape.map((point) => {
        const [x, y] = widenedPoint(point, road, outer, wider);
        return [x, -y];
      }));
    }
  }
  return drawn;
}

/* Lanes of roads that may bend: moved to the right of the road's left edge, and shortened before the junction. */
function lanesAsTheyLie(roads, wider) {
  const drawn = new Map();
  for (const { lanes } of roads) {
    lanes.forEach(({ id, shape }, fromKerb) => {
      const right = (wider - 1) * LANE_M * (lanes.length - fromKerb - 0.5);
      const points = shape.map((point, n) => {
        const [before, after] = [shape[Math.max(0, n - 1)], shape[Math.min(shape.length - 1, n + 1)]];
        const length = Math.hypot(after[0] - before[0], after[1] - before[1]) || 1;
        return [point[0] + (right * (after[1] - before[1])) / length, -point[1] + (right * (after[0] - before[0])) / length];
      });
      const long = stretched(points, SHORTEST_M * wider);
      const kept = 1 - Math.min(0.5, (STAND_BACK_M * (wider - 1)) / length(long));
      drawn.set(id, tail([...long].reverse(), kept).reverse());
    });
  }
  return drawn;
}

/* A line, begun earlier if it is too short for a queue to be seen on it. */
function stretched(points, shortest) {
  const missing = shortest - length(points);
  if (missing <= 0) return points;
  const [start, next] = points;
  return [towards(start, [2 * start[0] - next[0], 2 * start[1] - next[1]], missing), ...points.slice(1)];
}

/* The part of a line before its end, as long as the share of it. */
export function tail(points, share) {
  const kept = [points.at(-1)];
  let left = share * length(points);
  for (let n = points.length - 2; n >= 0 && left > 0; n--) {
    const step = Math.hypot(points[n][0] - kept[0][0], points[n][1] - kept[0][1]);
    kept.unshift(step <= left ? points[n] : towards(kept[0], points[n], left));
    left -= step;
  }
  return kept;
}

export function length(points) {
  return points.slice(1).reduce((sum, [x, y], n) => sum + Math.hypot(x - points[n][0], y - points[n][1]), 0);
}

export const path = (points) => "M" + points.map((point) => point.map((value) => value.toFixed(1)).join(" ")).join("L");
