// Where the lanes of the GPUs lie.

export interface Row {
  gpu: number;
  server: number;
  y: number;
  height: number;
}

export interface Layout {
  gutter: number;
  head: number;
  rows: Row[];
  height: number;
  servers: number;
}

export interface Placed {
  gpu: number;
  server: number;
}

const GAP = 7;

/** Lanes one below the other, a gap between servers: as high as can be, and no higher than reads well. */
export function layoutOf(gpus: Placed[], wanted: number, highest = 26, gutter = 62, head = 26, lowest = 5): Layout {
  const servers = new Set(gpus.map((gpu) => gpu.server)).size;
  const room = wanted - head - Math.max(0, servers - 1) * GAP;
  const height = Math.max(lowest, Math.min(highest, Math.floor(room / Math.max(gpus.length, 1))));
  const rows: Row[] = [];
  let y = head;
  gpus.forEach((gpu, at) => {
    if (at > 0 && gpus[at - 1]?.server !== gpu.server) y += GAP;
    rows.push({ gpu: gpu.gpu, server: gpu.server, y, height });
    y += height;
  });
  return { gutter, head, rows, height: y + 4, servers };
}

/** The lane at a height. */
export const rowAt = (layout: Layout, y: number): Row | undefined =>
  layout.rows.find((row) => y >= row.y && y < row.y + row.height);
