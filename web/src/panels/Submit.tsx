// Submits a request of a workflow: a field for each of the workflow's inputs.

import { useState } from "preact/hooks";
import { call, wordsOf } from "../api/client";
import type { AcceptedRequest, Submission, WorkflowOutline } from "../api/types";
import { plainly } from "../parts/format";

/** What is sent: only what was filled in. */
export function submissionOf(inputs: string[], form: FormData): Submission {
  const text = (name: string): string => String(form.get(name) ?? "").trim();
  const number = (name: string): number | undefined => (text(name) ? Number(text(name)) : undefined);
  const submission: Submission = { input_data: Object.fromEntries(inputs.map((input) => [input, text(`input ${input}`)])) };
  const [id, priority, deadline] = [text("request_id"), number("priority"), number("deadline_seconds")];
  if (id) submission.request_id = id;
  if (priority !== undefined) submission.priority = priority;
  if (deadline !== undefined) submission.deadline_seconds = deadline;
  return submission;
}

export function Submit({ workflows, submitted }: { workflows: WorkflowOutline[]; submitted: (request: string) => void }) {
  const [chosen, setChosen] = useState<string | null>(null);
  const [busy, setBusy] = useState(false);
  const [said, setSaid] = useState<{ text: string; bad: boolean } | null>(null);
  const workflow = workflows.find((one) => one.id === chosen) ?? workflows[0];
  if (!workflow) return <p class="quiet">The configuration has no workflow to submit.</p>;
  const send = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    const form = new FormData(event.currentTarget as HTMLFormElement);
    setBusy(true);
    setSaid(null);
    try {
      const path = `/v1/workflows/${encodeURIComponent(workflow.id)}/requests`;
      const answer = await call<AcceptedRequest>("POST", path, submissionOf(workflow.inputs, form));
      setSaid({ text: [`${plainly(answer.request_id)} is accepted.`, ...answer.warnings].join(" "), bad: false });
      submitted(answer.request_id);
    } catch (error) {
      setSaid({ text: wordsOf(error), bad: true });
    }
    setBusy(false);
  };
  return (
    <form id="submit" class="panel" onSubmit={(event) => void send(event)} aria-labelledby="submit-title">
      <h3 id="submit-title">Submit a request</h3>
      <label>Workflow
        <select name="workflow" value={workflow.id} onChange={(event) => setChosen(event.currentTarget.value)}>
          {workflows.map((one) => <option key={one.id} value={one.id}>{one.name && one.name !== one.id ? `${one.id}: ${one.name}` : one.id}</option>)}
        </select>
      </label>
      <p class="quiet steps">{workflow.nodes.map((node) => `${node.node} (${node.model})`).join(", ")}</p>
      {workflow.inputs.map((input) => (
        <label key={`${workflow.id} ${input}`}>{input}<textarea name={`input ${input}`} rows={2} required /></label>
      ))}
      <div class="fields">
        <label>Priority <input name="priority" type="number" step="1" placeholder="0" aria-describedby="priority-note" /></label>
        <label>Deadline, s <input name="deadline_seconds" type="number" min="0.001" step="any" placeholder="none" /></label>
        <label>Name <input name="request_id" placeholder="chosen for you" maxLength={256} autocomplete="off" spellcheck={false} /></label>
      </div>
      <p class="quiet" id="priority-note">Higher priorities go first.</p>
      <button type="submit" class="primary" disabled={busy}>{busy ? "Submitting …" : "Submit"}</button>
      <p role="status" class={said?.bad ? "bad said" : "said"}>{said?.text ?? ""}</p>
    </form>
  );
}
