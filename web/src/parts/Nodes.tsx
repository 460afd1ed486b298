// How far a request is: a mark for each node. The shape says it, not the colour alone.

import type { QueuedNode } from "../api/types";

const MARK: Record<QueuedNode["state"], string> = { done: "✓", running: "▶", ready: "○", waiting: "·", paused: "‖", "given up": "✕" };

/** Marks that still read as a row. */
const MOST = 12;

/** The state of a node; of a run that was interrupted, what it was then. */
export const stateOf = (node: QueuedNode, cutOff: boolean): string => (cutOff && node.state === "running" ? "was running" : node.state);

export function Nodes({ nodes, cutOff }: { nodes: QueuedNode[]; cutOff: boolean }) {
  const done = nodes.filter((node) => node.state === "done").length;
  const said = `${done} of ${nodes.length} done`;
  if (nodes.length > MOST) return <span>{said}</span>;
  return (
    <span class="marks" title={nodes.map((node) => `${node.node}: ${stateOf(node, cutOff)}`).join("\n")}>
      <span class="unseen">{said}</span>
      {nodes.map((node) => <span key={node.node} class={`mark ${stateOf(node, cutOff).replace(" ", "-")}`} aria-hidden="true">{MARK[node.state]}</span>)}
    </span>
  );
}
