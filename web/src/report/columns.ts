// A run from the columns of a report: base64 of deflated bytes, seven bits of a number in each, the lowest first.

/** What the report's page holds of a run. */
export interface Packed {
  tick: number;
  count: number;
  gpus: number;
  perServer: number | null;
  first: number;
  last: number;
  bound: number | null;
  /** Name and GPUs. */
  models: [string, number][];
  /** Name, nodes and their models. */
  workflows: [string, string[], number[]][];
  columns: Record<"begin" | "switch" | "length" | "wait" | "gpu" | "task" | "batch", string> & {
    loads: number[];
    unusual: [number, string][];
  };
  requests: { count: number; workflow: string; names: string };
}

/** A run as columns: times in seconds, a row a bar, by the moment its GPUs were taken. */
export interface Run extends Packed {
  begin: Float64Array;
  start: Float64Array;
  end: Float64Array;
  wait: Float64Array;
  gpu: Float64Array;
  /** -1 of a load before any execution needs it. */
  task: Float64Array;
  batch: Float64Array;
  model: Uint16Array;
  workflow: Float64Array;
  /** The first task of each request. */
  firstTask: Float64Array;
  /** The request of each task. */
  request: Uint32Array;
  status: Map<number, string>;
  name(request: number): string;
}

async function inflate(text: string): Promise<Uint8Array> {
  const binary = atob(text);
  const packed = new Uint8Array(binary.length);
  for (let place = 0; place < binary.length; place++) packed[place] = binary.charCodeAt(place);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** Reads numbers one after the other. */
class Reader {
  at = 0;
  constructor(readonly bytes: Uint8Array) {}

  next(): number {
    let [value, factor] = [0, 1];
    for (;;) {
      const byte = this.bytes[this.at++] ?? 0;
      value += (byte & 127) * factor;
      if (byte < 128) return value;
      factor *= 128;
    }
  }
}

function numbers(bytes: Uint8Array, count: number): Float64Array {
  const [reader, values] = [new Reader(bytes), new Float64Array(count)];
  for (let row = 0; row < count; row++) values[row] = reader.next();
  return values;
}

/** The names of requests; each leaves out what it shares with the one before. */
function sharedNames(bytes: Uint8Array, count: number): string[] {
  const [decoder, reader] = [new TextDecoder(), new Reader(bytes)];
  let before = new Uint8Array(0);
  return Array.from({ length: count }, () => {
    const shared = bytes[reader.at++] ?? 0;
    const length = reader.next();
    const name = new Uint8Array(shared + length);
    name.set(before.subarray(0, shared));
    name.set(bytes.subarray(reader.at, reader.at + length), shared);
    reader.at += length;
    before = name;
    return decoder.decode(name);
  });
}

const at = (values: ArrayLike<number>, place: number): number => values[place] as number;

export async function readRun(data: Packed): Promise<Run> {
  const { columns, count, tick, requests, workflows } = data;
  const column = async (name: keyof Packed["columns"] & string): Promise<Float64Array> => numbers(await inflate(columns[name] as string), count);
  const [begin, load, length, wait, gpu, task, batch] = (await Promise.all(
    (["begin", "switch", "length", "wait", "gpu", "task", "batch"] as const).map(column))) as [
    Float64Array, Float64Array, Float64Array, Float64Array, Float64Array, Float64Array, Float64Array];
  const workflow = numbers(await inflate(requests.workflow), requests.count);
  const of = (request: number): [string, string[], number[]] => workflows[at(workflow, request)] as [string, string[], number[]];
  const firstTask = new Float64Array(requests.count + 1);
  for (let one = 0; one < requests.count; one++) firstTask[one + 1] = at(firstTask, one) + of(one)[1].length;
  const request = new Uint32Array(at(firstTask, requests.count));
  for (let one = 0; one < requests.count; one++) request.fill(one, at(firstTask, one), at(firstTask, one + 1));
  const [model, start, end] = [new Uint16Array(count), new Float64Array(count), new Float64Array(count)];
  let [moment, number, ahead] = [0, 0, 0];
  for (let row = 0; row < count; row++) {
    moment += at(begin, row);
    const step = at(task, row);
    number += step % 2 ? -(step + 1) / 2 : step / 2;
    task[row] = number - 1;
    begin[row] = moment * tick;
    start[row] = (moment + at(load, row)) * tick;
    end[row] = (moment + at(load, row) + at(length, row)) * tick;
    wait[row] = at(wait, row) * tick;
    const whose = at(request, number - 1);
    model[row] = number === 0 ? at(columns.loads, ahead++) : at(of(whose)[2], number - 1 - at(firstTask, whose));
  }
  const packedNames = await inflate(requests.names);
  let names: string[] | null = null;
  // Names are many, and few are ever looked at.
  const name = (one: number): string => (names ??= sharedNames(packedNames, requests.count))[one] as string;
  return { ...data, begin, start, end, wait, gpu, task, batch, model, workflow, firstTask, request, status: new Map(columns.unusual), name };
}
