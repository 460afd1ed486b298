// What would be, with other GPUs or another policy: two simulations from the present state, side by side.

import { useEffect, useRef, useState } from "preact/hooks";
import { get, wordsOf } from "../api/client";
import type { PolicyList, WhatIfOutcome, Overview, WhatIf as Answer } from "../api/types";
import { count, percent, plural, span } from "../parts/format";
import { SmallGantt } from "../timeline/SmallGantt";
import { whatWouldBe } from "./ask";
import { compared, verdict } from "./compare";
import { Parameters, type Values, given } from "./Parameters";

export function WhatIf({ overview }: { overview: Overview }) {
  const present = overview.gpus.length;
  const [gpus, setGpus] = useState(present);
  const [policy, setPolicy] = useState(overview.policy);
  const [values, setValues] = useState<Values>({});
  const [known, setKnown] = useState<PolicyList["policies"]>([]);
  const [busy, setBusy] = useState<"" | "simulating" | "queued">("");
  const [answer, setAnswer] = useState<Answer | null>(null);
  const [fault, setFault] = useState<string | null>(null);
  const leaving = useRef(new AbortController());
  useEffect(() => () => leaving.current.abort(), []);
  // Without the list the form still names policies, and their parameters stay as they are.
  useEffect(() => void get<PolicyList>("/v1/policies").then((list) => setKnown(list.policies), () => undefined), []);
  const parameters = known.find((one) => one.name === policy)?.parameters ?? [];
  const step = (by: number): void => setGpus((now) => Math.max(1, now + by));
  // The form may be changed meanwhile: the answer says itself what it was asked.
  const ask = async (event: SubmitEvent): Promise<void> => {
    event.preventDefault();
    if (busy) return;
    setBusy("simulating");
    setFault(null);
    try {
      setAnswer(await whatWouldBe({ cluster: { gpus }, policy: { name: policy, ...given(parameters, values) } }, () => setBusy("queued"), leaving.current.signal));
    } catch (error) {
      setAnswer(null);
      setFault(wordsOf(error));
    }
    setBusy("");
  };
  const waits = busy === "queued" ? "Another what-if is being computed. Yours is next …" : "";
  // While requests keep coming, a policy that plans batches is no answer.
  const suits = (name: string): boolean => overview.source !== "serve" || (known.find((one) => one.name === name)?.modes.includes("online") ?? true);
  const policies = overview.policies.includes(overview.policy) ? overview.policies : [overview.policy, ...overview.policies];
  return (
    <section id="what-if" aria-labelledby="what-if-title">
      <h2 id="what-if-title">What if</h2>
      <form class="tools" onSubmit={(event) => void ask(event)}>
        <span class="stepper" role="group" aria-label="Number of GPUs">
          <button type="button" aria-label="One GPU fewer" onClick={() => step(-1)} disabled={gpus <= 1}>−</button>
          <label><input type="number" name="gpus" min={1} max={4096} step={1} required value={gpus} onInput={(event) => setGpus(event.currentTarget.valueAsNumber || 1)} /> GPUs</label>
          <button type="button" aria-label="One GPU more" onClick={() => step(1)}>+</button>
        </span>
        <label>Policy <select name="policy" value={policy} onChange={(event) => { setPolicy(event.currentTarget.value); setValues({}); }}>
          {policies.filter(suits).map((name) => <option key={name} value={name}>{name}{name === overview.policy ? " (present)" : ""}</option>)}
        </select></label>
        <button type="submit" class="primary" disabled={busy !== ""}>{busy === "queued" ? "Waiting …" : busy ? "Simulating …" : "Simulate"}</button>
        <Parameters parameters={parameters} present={policy === overview.policy} values={values} change={setValues} />
        <span class="quiet">From the current state: {present} GPUs, {overview.policy}, {plural(overview.counts.open, "open request")}{overview.source === "serve" ? ", and the traffic of the last minutes continuing" : ""}.</span>
      </form>
      <p role="status" class={fault ? "bad" : "verdict"}>{fault ?? (waits || (answer ? verdict(answer) : ""))}</p>
      {answer && answer.as_it_is.requests > 0 && <Outcomes answer={answer} />}
    </section>
  );
}

function Outcomes({ answer }: { answer: Answer }) {
  const { as_it_is: now, what_if: then } = answer;
  const longest = Math.max(now.ends_in, then.ends_in, 0.001);
  return (
    <>
      <div class="two">
        <div class="scroll" role="region" aria-label="Outcomes" tabIndex={0}>
          <table class="outcomes">
            <thead><tr><th scope="col"><span class="unseen">Measure</span></th><th scope="col" class="number">As it is</th><th scope="col" class="number">What if</th><th scope="col">Difference</th></tr></thead>
            <tbody>
              <tr><th scope="row">GPUs</th><td class="number">{now.gpus}</td><td class="number">{then.gpus}</td><td>{then.gpus === now.gpus ? "the same" : `${Math.abs(then.gpus - now.gpus)} ${then.gpus > now.gpus ? "more" : "fewer"}`}</td></tr>
              <tr><th scope="row">Policy</th><td class="number">{now.policy}</td><td class="number">{then.policy}</td><td>{then.policy === now.policy ? "the same" : "another"}</td></tr>
              {compared(now, then).map((row) => (
                <tr key={row.name} data-row={row.name}><th scope="row">{row.name}</th><td class="number">{row.now}</td><td class="number">{row.then}</td><td class={row.better === null ? "" : row.better ? "good" : "bad"}>{row.words}</td></tr>
              ))}
            </tbody>
          </table>
        </div>
        {answer.assumed.length > 0 && <div><h3>Assumptions</h3><ul class="assumed">{answer.assumed.map((text) => <li key={text}>{text}</li>)}</ul></div>}
      </div>
      <div class="two">
        {([["As it is", now], ["What if", then]] as [string, WhatIfOutcome][]).map(([name, outcome]) => (
          <figure key={name} class="small-gantt">
            <figcaption><strong>{name}</strong> <span class="quiet">{outcome.gpus} GPUs, {outcome.policy}: all done in {span(outcome.ends_in)}</span></figcaption>
            <SmallGantt outcome={outcome} until={longest}
              label={`${name}: ${plural(outcome.requests, "request")} done in ${span(outcome.ends_in)} with ${plural(outcome.loads, "load")}, GPUs busy ${percent(outcome.utilisation)} of the time`} />
          </figure>
        ))}
      </div>
      <p class="quiet">{count(now.bars.length)} and {count(then.bars.length)} bars are drawn, on the same time scale.</p>
    </>
  );
}
