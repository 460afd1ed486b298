// How far a request is: a mark for each node. The shape says it, not the colour alone.

import type { QueueNode } from "../api/types";

const MARK: Record<QueueNode["state"], string> = { done: "✓", running: "▶", ready: "○", waiting: "·", "given up": "✕" };

/** Marks that still read as a row. */
const MOST = 12;

export function Nodes({ nodes }: { nodes: QueueNode[] }) {
  const done = nodes.filter((node) => node.state === "done").length;
  const said = `${done} of ${nodes.length} done`;
  if (nodes.length > MOST) return <span>{said}</span>;
  return (
    <span class="marks" title={nodes.map((node) => `${node.node}: ${node.state}`).join("\n")}>
      <span class="unseen">{said}</span>
      {nodes.map((node) => <span key={node.node} class={`mark ${node.state.replace(" ", "-")}`} aria-hidden="true">{MARK[node.state]}</span>)}
    </span>
  );
}
