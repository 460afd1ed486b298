// Recent bars as a table: the text that stands for the picture.

import { useState } from "preact/hooks";
import type { History } from "../state/history";
import { elapsed, ranges, span } from "../parts/format";
import { RequestLink } from "../parts/RequestLink";
import { ModelName } from "../parts/Swatch";

const ROWS = 50;

interface Given {
  history: History;
  now: number;
  /** The run was interrupted: what went on goes on no more. */
  cutOff: boolean;
  open: (request: string) => void;
}

export function BarTable(given: Given) {
  const [shown, setShown] = useState(false);
  return (
    <details class="as-table" onToggle={(event) => setShown(event.currentTarget.open)}>
      <summary>The last {ROWS} as a table</summary>
      {shown && <Rows {...given} />}
    </details>
  );
}

function Rows({ history, now, cutOff, open }: Given) {
  const going = history.ongoing.map((work) => ({ ...work, end: null, ok: true, why: null }));
  const rows = [...going, ...history.bars.slice(-ROWS).reverse()].slice(0, ROWS);
  if (rows.length === 0) return <p class="quiet">Nothing has run yet.</p>;
  return (
    <div class="scroll" role="region" aria-label="Recent bars" tabIndex={0}>
      <table class="bars">
        <caption class="unseen">Recent executions and loads on the GPUs, newest first</caption>
        <thead>
          <tr><th scope="col">GPU</th><th scope="col">What</th><th scope="col">Model</th><th scope="col">Request</th><th scope="col">Node</th>
            <th scope="col" class="number">Start</th><th scope="col" class="number">Took</th><th scope="col">Outcome</th></tr>
        </thead>
        <tbody>
          {rows.map((bar) => (
            <tr key={`${bar.start}/${bar.gpus[0]}/${bar.request}/${bar.node}/${bar.model}/${bar.kind}`}>
              <td>{ranges(bar.gpus)}</td>
              <td>{bar.kind === "load" ? "load" : "run"}</td>
              <td><ModelName model={bar.model} /></td>
              <td>{bar.request ? <RequestLink id={bar.request} open={open} /> : "–"}</td>
              <td>{bar.node ?? "–"}</td>
              <td class="number">{elapsed(bar.start, 0.01)}</td>
              <td class="number">{span((bar.end ?? now) - bar.start)}</td>
              <td class={bar.ok ? "" : "bad"}>{bar.end === null ? (cutOff ? "interrupted" : "under way") : bar.ok ? "done" : `failed: ${bar.why ?? ""}`}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
