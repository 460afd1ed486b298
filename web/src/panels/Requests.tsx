// Recently submitted requests, and the way to submit one.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, wordsOf } from "../api/client";
import type { RequestList } from "../api/types";
import { plainly } from "../parts/format";
import { useAsked, useInSight } from "../parts/hooks";
import { Pager } from "../parts/Pager";
import { came, isOpen, took } from "../parts/record";
import { RequestLink } from "../parts/RequestLink";
import type { Live } from "../state/live";
import { Submit } from "./Submit";

const SHOWN = 15;

interface Given {
  live: Live;
  open: (request: string) => void;
  cancel: (request: string) => void;
  submitted: (request: string) => void;
  /** Grows when something was submitted or cancelled here. */
  changed: number;
}

const LOOK: Record<string, string> = { completed: "good", failed: "bad", cancelled: "done", open: "warn", accepted: "warn" };

export const StatusPill = ({ status }: { status: string }) => <span class={`pill ${LOOK[status] ?? "done"}`}>{status}</span>;

export function Requests({ live, open, cancel, submitted, changed }: Given) {
  const element = useRef<HTMLElement>(null);
  const inSight = useInSight(element);
  const can = live.overview?.can;
  const [from, setFrom] = useState(0);
  const pace = live.overview ?? { speed: 1, started_at: null };
  const ask = () => get<RequestList>(`/v1/requests?from=${from}&limit=${SHOWN}`);
  const { value, fault, again } = useAsked(`requests ${from}`, ask, live.ticks, inSight && live.link.state === "up");
  useEffect(again, [changed]);
  return (
    <section id="requests" aria-labelledby="requests-title" ref={element}>
      <h2 id="requests-title">Requests</h2>
      <div class="two">
        {can?.submit && live.overview && <Submit workflows={live.overview.workflows} submitted={submitted} />}
        <div>
          <h3>{can?.submit ? "Recently submitted" : "All requests, latest first"}</h3>
          {fault ? <p class="bad">{wordsOf(fault)}</p> : null}
          {value && value.requests.length === 0 && <p class="quiet">None yet.</p>}
          {value && value.requests.length > 0 && (
            <table class="cardlike latest" aria-label={can?.submit ? "Recently submitted requests" : "All requests"}>
              <thead><tr><th scope="col">Request</th><th scope="col">Workflow</th><th scope="col">Status</th><th scope="col">{can?.submit ? "Accepted" : "Arrived"}</th><th scope="col" class="number">Took</th>
                {can?.cancel && <th scope="col"><span class="unseen">Cancel</span></th>}</tr></thead>
              <tbody>
                {value.requests.map((request) => (
                  <tr key={request.request_id} data-request={request.request_id} data-status={request.status}>
                    <td><RequestLink id={request.request_id} open={open} /></td>
                    <td data-name="Workflow">{request.workflow_id}</td>
                    <td data-name="Status"><StatusPill status={request.status} /></td>
                    <td data-name={can?.submit ? "Accepted" : "Arrived"}>{came(request, pace)}</td>
                    <td data-name="Took" class="number">{took(request, pace)}{request.deadline_missed ? <b class="bad"> late</b> : null}</td>
                    {can?.cancel && <td>{isOpen(request) && <button type="button" class="small" aria-label={`Cancel ${plainly(request.request_id)}`} onClick={() => cancel(request.request_id)}>Cancel</button>}</td>}
                  </tr>
                ))}
              </tbody>
            </table>
          )}
          {value?.total != null && <Pager from={from} page={SHOWN} total={value.total} go={setFrom} of="requests" />}
        </div>
      </div>
    </section>
  );
}
