
// Columns of numbers from the page: base64 of deflated bytes, seven bits of a number in each, the lowest first.

/** @param {string} text @returns {Promise<Uint8Array>} */
async function inflate(text) {
  const binary = atob(text);
  const packed = new Uint8Array(binary.length);
  for (let at = 0; at < binary.length; at++) packed[at] = binary.charCodeAt(at);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

/** @param {Uint8Array} bytes @param {number} count @returns {Float64Array} */
function numbers(bytes, count) {
  const values = new Float64Array(count);
  let at = 0;
  for (let row = 0; row < count; row++) {
    let value = 0;
    let factor = 1;
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * factor;
      if (byte < 128) break;
      factor *= 128;
    }
    values[row] = value;
  }
  return values;
}

/** The names of requests; each leaves out what it shares with the one before. @returns {string[]} */
function sharedNames(bytes, count) {
  const decoder = new TextDecoder();
  const names = [];
  let before = new Uint8Array(0);
  let at = 0;
  for (let row = 0; row < count; row++) {
    const shared = bytes[at++];
    let length = 0;
    let factor = 1;
    for (;;) {
      const byte = bytes[at++];
      length += (byte & 127) * factor;
      if (byte < 128) break;
      factor *= 128;
    }
    const name = new Uint8Array(shared + length);
    name.set(before.subarray(0, shared));
    name.set(bytes.subarray(at, at + length), shared);
    at += length;
    names.push(decoder.decode(name));
    before = name;
  }
  return names;
}

/** A run as columns: times in seconds, a row a bar, by the moment its GPUs were taken. */
async function readRun(data) {
  const { columns, count, tick } = data;
  const column = async (name) => numbers(await inflate(columns[name]), count);
  const [begin, load, length, wait, gpu, task, batch] = await Promise.all(
    ["begin", "switch", "length", "wait", "gpu", "task", "batch"].map(column));
  const workflow = numbers(await inflate(data.requests.workflow), data.requests.count);
  const firstTask = new Float64Array(data.requests.count + 1);
  for (let request = 0; request < data.requests.count; request++) {
    firstTask[request + 1] = firstTask[request] + data.workflows[workflow[request]][1].length;
  }
  const model = new Uint16Array(count);
  const start = new Float64Array(count);
  const end = new Float64Array(count);
  let moment = 0;
  let number = 0;
  let ahead = 0;
  for (let row = 0; row < count; row++) {
    moment += begin[row];
    const step = task[row];
    number += step % 2 ? -(step + 1) / 2 : step / 2;
    task[row] = number - 1;
    begin[row] = moment * tick;
    start[row] = (moment + load[row]) * tick;
    end[row] = (moment + load[row] + length[row]) * tick;
    wait[row] *= tick;
    if (number === 0) model[row] = columns.loads[ahead++];
  }
  // Which request each task is of: asked for every bar.
  const request = new Uint32Array(firstTask[data.requests.count]);
  for (let at = 0; at < data.requests.count; at++) request.fill(at, firstTask[at], firstTask[at + 1]);
  const run = { ...data, begin, start, end, wait, gpu, task, batch, model, workflow, firstTask, request,
    status: new Map(columns.unusual), names: null };
  for (let row = 0; row < count; row++) {
    if (task[row] >= 0) {
      const of = request[task[row]];
      model[row] = data.workflows[workflow[of]][2][task[row] - firstTask[of]];
    }
  }
  const packedNames = await inflate(data.requests.names);
  // Names are many, and few are ever looked at.
  run.name = (request) => (run.names ??= sharedNames(packedNames, data.requests.count))[request];
  return run;
}

/** The request of a bar; -1 for a load ahead of any. */
function requestOf(run, row) {
  return run.task[row] < 0 ? -1 : run.request[run.task[row]];
}

/** `request/node`, or the load. */
function barName(run, row) {
  const request = requestOf(run, row);
  if (request < 0) return `load of ${run.models[run.model[row]][0]} ahead of any execution`;
  const [, nodes] = run.workflows[run.workflow[request]];
  return `${run.name(request)}/${nodes[run.task[row] - run.firstTask[request]]}`;
}
