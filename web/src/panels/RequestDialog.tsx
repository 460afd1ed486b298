// All that is known of one request: how far it is and why, what its nodes wrote, what went wrong.

import { Fault, get, requestPath, wordsOf } from "../api/client";
import type { QueuedRequest, RequestRecord, RequestStatus } from "../api/types";
import { Dialog } from "../parts/Dialog";
import { clock, plainly, span } from "../parts/format";
import { useAsked } from "../parts/hooks";
import { stateOf } from "../parts/Nodes";
import { type Pace, came, isOpen, took } from "../parts/record";
import { ModelName } from "../parts/Swatch";
import { type Live, wasCutOff } from "../state/live";
import { StatusPill } from "./Requests";

interface Known {
  record: RequestRecord | null;
  standing: QueuedRequest | null;
}

/** A direct call is in the queue, but in no book: then there is no result to ask for. */
async function ask(id: string): Promise<Known> {
  const standing = await get<RequestStatus>(requestPath(id));
  const record = await get<RequestRecord>(`${requestPath(id)}/result`).catch((error: unknown) => {
    if (error instanceof Fault && error.status === 404) return null;
    throw error;
  });
  return { record, standing: "nodes" in standing ? standing : null };
}

interface Given {
  id: string;
  live: Live;
  close: () => void;
  cancel: (request: string) => void;
}

export function RequestDialog({ id, live, close, cancel }: Given) {
  const bars = live.history.bars.filter((bar) => bar.request === id);
  const { value, fault } = useAsked(`request ${id}`, () => ask(id), live.ticks, live.link.state === "up");
  const record = value?.record ?? null;
  const standing = value?.standing ?? null;
  const ended = record !== null && !isOpen(record);
  const missing = fault instanceof Fault && fault.status === 404;
  return (
    <Dialog title={`Request ${plainly(id)}`} close={close}>
      {missing && !value && <p class="quiet">The server keeps no record of it{bars.length ? ", only its executions" : ""}. Direct calls are not recorded.</p>}
      {fault && !missing ? <p class="bad">{wordsOf(fault)}</p> : null}
      {!value && !fault && <p class="quiet">Asking …</p>}
      {record && <Facts record={record} pace={live.overview ?? { speed: 1, started_at: null }} />}
      {standing && !ended && <Standing standing={standing} cutOff={wasCutOff(live.overview)} />}
      {record?.failures && record.failures.length > 0 && (
        <><h3>What went wrong</h3><ul>{record.failures.map((one, at) => <li key={at} class="bad">{clock(one.at)} {one.node}: {plainly(one.why)}</li>)}</ul></>
      )}
      {record?.outputs && <Outputs outputs={record.outputs} />}
      {bars.length > 0 && (
        <p class="quiet">{bars.filter((bar) => bar.kind === "run").length} of its executions are in the timeline, {span(bars.reduce((sum, bar) => sum + bar.end - bar.start, 0))} of GPU time.</p>
      )}
      <div class="tools end">
        {live.overview?.can.cancel && (record ? !ended : false) && <button type="button" class="danger" onClick={() => cancel(id)}>Cancel this request</button>}
        <button type="button" onClick={close}>Close</button>
      </div>
    </Dialog>
  );
}

function Facts({ record, pace }: { record: RequestRecord; pace: Pace }) {
  return (
    <dl class="facts-list">
      <dt>Status</dt><dd><StatusPill status={record.status} /> {plainly(record.why ?? "")}</dd>
      <dt>Workflow</dt><dd>{record.workflow_id}</dd>
      <dt>Accepted</dt><dd>{came(record, pace, true)}</dd>
      {!isOpen(record) && <><dt>Took</dt><dd>{took(record, pace)}</dd></>}
      {record.priority !== undefined && <><dt>Priority</dt><dd>{record.priority}</dd></>}
      {record.deadline_seconds != null && (
        <><dt>Deadline</dt><dd>{span(record.deadline_seconds)}{record.deadline_missed === undefined ? "" : record.deadline_missed ? <b class="bad"> missed</b> : " kept"}</dd></>
      )}
    </dl>
  );
}

function Standing({ standing, cutOff }: { standing: QueuedRequest; cutOff: boolean }) {
  return (
    <>
      <h3>Nodes</h3>
      <ul class="nodes">
        {standing.nodes.map((node) => (
          <li key={node.node}>
            <b>{node.node}</b> <ModelName model={node.model} /> <span class="quiet">{stateOf(node, cutOff)}{node.waited ? ` for ${span(node.waited)}` : ""}</span>
            {node.why && !cutOff && <div class="why">{node.why}</div>}
          </li>
        ))}
      </ul>
    </>
  );
}

/** Text as it is; other things as JSON, lists of numbers on one line. */
const asText = (value: unknown): string =>
  typeof value === "string" ? value : JSON.stringify(value, null, 2).replace(/\[[\s\d.,eE+-]+\]/g, (list) => list.replace(/\s+/g, " "));

function Outputs({ outputs }: { outputs: Record<string, unknown> }) {
  const nodes = Object.entries(outputs);
  if (nodes.length === 0) return null;
  return (
    <>
      <h3>Outputs of its nodes</h3>
      {nodes.map(([node, value]) => (
        <div key={node} class="output">
          <h4>{node}</h4>
          {typeof value === "object" && value !== null && !Array.isArray(value)
            ? Object.entries(value).map(([name, part]) => <Part key={name} name={name} text={asText(part)} />)
            : <Part name="" text={asText(value)} />}
        </div>
      ))}
    </>
  );
}

/** Long texts, such as an embedding, would push everything else away. */
const LONG = 4000;

function Part({ name, text }: { name: string; text: string }) {
  const shown = text.length > LONG ? `${text.slice(0, LONG)}\n… ${text.length - LONG} more characters` : text;
  return <>{name && <div class="quiet">{name}</div>}<pre tabIndex={0} aria-label={name || "output"}>{shown}</pre></>;
}
