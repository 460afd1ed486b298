// How long requests of each workflow take, and which took longest and why.

import type { Overview } from "../api/types";
import { count, span } from "../parts/format";
import { RequestLink } from "../parts/RequestLink";
import { hasEnded } from "../state/live";

export function Slowest({ overview, open }: { overview: Overview; open: (request: string) => void }) {
  const { workflow_latency: workflows, slowest } = overview;
  const known = workflows.reduce((sum, one) => sum + one.completed, 0);
  const of = hasEnded(overview) && known >= overview.counts.completed ? "all" : `the last ${count(known)}`;
  return (
    <section id="slowest" aria-labelledby="slowest-title">
      <h2 id="slowest-title">Latency {known > 0 && <span class="quiet">of {of} completed requests</span>}</h2>
      {known === 0 ? <p class="quiet">No request has completed yet.</p> : (
        <div class="two">
          <div>
            <h3>By workflow</h3>
            <table class="cardlike workflows" aria-label="Latency by workflow">
              <thead><tr><th scope="col">Workflow</th><th scope="col" class="number">Completed</th><th scope="col" class="number">Mean</th><th scope="col" class="number">P50</th><th scope="col" class="number">P99</th></tr></thead>
              <tbody>
                {workflows.map((one) => (
                  <tr key={one.workflow} data-workflow={one.workflow}>
                    <td>{one.workflow}</td>
                    <td data-name="Completed" class="number">{count(one.completed)}</td>
                    <td data-name="Mean" class="number">{span(one.mean)}</td>
                    <td data-name="P50" class="number">{span(one.p50)}</td>
                    <td data-name="P99" class="number">{span(one.p99)}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
          <div>
            <h3>Slowest requests</h3>
            <table class="cardlike slow" aria-label="Slowest requests">
              <thead><tr><th scope="col">Request</th><th scope="col" class="number">Latency</th><th scope="col" class="number">Waiting</th><th scope="col" class="number">Loading</th><th scope="col" class="number">Executing</th><th scope="col">Main cause</th></tr></thead>
              <tbody>
                {slowest.map((one) => (
                  <tr key={one.request} data-request={one.request}>
                    <td><RequestLink id={one.request} open={open} /></td>
                    <td data-name="Latency" class="number">{span(one.latency)}</td>
                    <td data-name="Waiting" class="number">{span(one.waiting)}</td>
                    <td data-name="Loading" class="number">{span(one.loading)}</td>
                    <td data-name="Executing" class="number">{span(one.executing)}</td>
                    <td data-name="Main cause" class="why">{one.why}</td>
                  </tr>
                ))}
              </tbody>
            </table>
          </div>
        </div>
      )}
    </section>
  );
}
