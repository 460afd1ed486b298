// Who waits, for what, and why: by model, then request by request. A page of requests at a time, however many there are.

import { useRef, useState } from "preact/hooks";
import { get, wordsOf } from "../api/client";
import type { ModelStatus, Queue as Answer, QueuedRequest } from "../api/types";
import { count, plainly, ranges, span } from "../parts/format";
import { useAsked, useInSight } from "../parts/hooks";
import { Nodes } from "../parts/Nodes";
import { Pager } from "../parts/Pager";
import { RequestLink } from "../parts/RequestLink";
import { ModelName } from "../parts/Swatch";
import { type Live, wasCutOff } from "../state/live";

const PAGE = 12;

/** Why a request is not further: of the nodes that could run, what keeps them. */
export function reason(request: QueuedRequest, cutOff = false): string {
  const ready = request.nodes.find((node) => node.state === "ready");
  // What kept a node then no longer does.
  if (ready && cutOff) return `${ready.node} was ready to run`;
  if (ready) {
    const place = ready.position == null ? "" : ready.position === 0 ? "first in line" : `${count(ready.position)} before it`;
    return [`${ready.node}: ${ready.why ?? "waits"}`, place].filter(Boolean).join("; ");
  }
  const running = request.nodes.filter((node) => node.state === "running").map((node) => node.node);
  if (running.length) return `${running.join(", ")} ${cutOff ? (running.length > 1 ? "were running" : "was running") : running.length > 1 ? "run" : "runs"}`;
  const waiting = request.nodes.find((node) => node.state === "waiting");
  return waiting?.why ? `${waiting.node}: ${waiting.why}` : "";
}

interface Given {
  live: Live;
  open: (request: string) => void;
  cancel: (request: string) => void;
}

export function Queue({ live, open, cancel }: Given) {
  const element = useRef<HTMLElement>(null);
  const inSight = useInSight(element);
  const [from, setFrom] = useState(0);
  const overview = live.overview;
  const cutOff = wasCutOff(overview);
  const total = overview?.counts.open ?? 0;
  const { value, fault } = useAsked(`queue ${from}`, () => get<Answer>(`/v1/queue?from=${from}&limit=${PAGE}`), live.ticks, inSight && live.link.state === "up");
  const shown = value?.open ?? total;
  // The queue may have become shorter than the page that somebody looks at.
  if (value && from > 0 && from >= value.open) setFrom(Math.max(0, Math.floor((value.open - 1) / PAGE) * PAGE));
  return (
    <section id="queue" aria-labelledby="queue-title" ref={element}>
      <h2 id="queue-title">Queue <span class="quiet">{count(shown)} open</span></h2>
      <ByModel models={overview?.models ?? []} cutOff={cutOff} />
      {fault ? <p class="bad">{wordsOf(fault)}</p> : null}
      {shown === 0 && <p class="quiet">No request is open.</p>}
      {value && value.requests.length > 0 && (
        <>
          <table class="cardlike requests" aria-label="Open requests, oldest first">
            <thead><tr><th scope="col">Request</th><th scope="col">Workflow</th><th scope="col" class="number">Priority</th>
              <th scope="col">Nodes</th><th scope="col">Why it waits</th>{overview?.can.cancel && <th scope="col"><span class="unseen">Cancel</span></th>}</tr></thead>
            <tbody>
              {value.requests.map((request) => (
                <tr key={request.request_id} data-request={request.request_id}>
                  <td><RequestLink id={request.request_id} open={open} />{request.trouble ? <span class="bad" title={plainly(String(request.trouble))}> has had trouble</span> : null}</td>
                  <td data-name="Workflow">{request.kind === "call" ? <span class="quiet">a direct call</span> : request.workflow_id}</td>
                  <td data-name="Priority" class="number">{request.priority}</td>
                  <td data-name="Nodes"><Nodes nodes={request.nodes} cutOff={cutOff} /></td>
                  <td data-name="Why" class="why">{reason(request, cutOff)}</td>
                  {overview?.can.cancel && (
                    <td>{request.kind === "workflow" && <button type="button" class="small" onClick={() => cancel(request.request_id)} aria-label={`Cancel ${plainly(request.request_id)}`}>Cancel</button>}</td>
                  )}
                </tr>
              ))}
            </tbody>
          </table>
          <Pager from={from} page={PAGE} total={value.open} go={setFrom} of="open requests" />
        </>
      )}
    </section>
  );
}

function ByModel({ models, cutOff }: { models: ModelStatus[]; cutOff: boolean }) {
  const waited = models.filter((model) => model.waiting > 0).sort((a, b) => b.longest_wait - a.longest_wait);
  if (waited.length === 0) return <p class="quiet">Nothing is waiting for a model.</p>;
  return (
    <table class="cardlike models" aria-label="Waiting nodes by model">
      <thead><tr><th scope="col">Model</th><th scope="col" class="number">Waiting</th><th scope="col" class="number">Longest</th><th scope="col">On GPUs</th><th scope="col">Why</th></tr></thead>
      <tbody>
        {waited.map((model) => (
          <tr key={model.name} data-model={model.name}>
            <td><ModelName model={model.name} /></td>
            <td data-name="Waiting" class="number">{count(model.waiting)}</td>
            <td data-name="Longest" class="number">{span(model.longest_wait)}</td>
            <td data-name="On GPUs">{model.resident_on.length ? ranges(model.resident_on) : "none"}</td>
            <td data-name="Why" class="why">{cutOff ? "the run has ended" : model.why ?? ""}</td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}
