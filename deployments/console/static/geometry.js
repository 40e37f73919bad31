/* Where lanes are drawn. Lanes of 3 m would be hairlines in a network of 1.5 km, so what lies across
   a road is drawn wider, and roads begin and end as much farther from their junctions. */

export const LANE_M = 3.2;
const STAND_BACK_M = 6; // of stop lines, for each time that lanes are drawn wider
const SHORTEST_M = 20; // that a lane is drawn, for each time that it is drawn wider

function towards([x, y], [toX, toY], distance) {
  const length = Math.hypot(toX - x, toY - y);
  return [x + ((toX - x) * distance) / length, y + ((toY - y) * distance) / length];
}

/* The lanes as they are drawn: id to points, y growing downwards. They are moved to the right of the road's left edge,
   and shortened before the junction. */
export function drawnLanes(roads, wider) {
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
