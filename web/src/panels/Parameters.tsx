// The parameters of a policy, as fields of a form: which there are, and what each takes, the server says.

import type { PolicyParameter } from "../api/types";

/** What was given, by name. What is empty is not given. */
export type Values = Record<string, string>;

/** The values as the server takes them: numbers as numbers, and nothing for what is empty. */
export function given(parameters: PolicyParameter[], values: Values): Record<string, string | number> {
  const filled = parameters.filter(({ name }) => values[name]);
  return Object.fromEntries(filled.map(({ name, value }) => [name, value.type === "choice" ? values[name] as string : Number(values[name])]));
}

interface Given {
  parameters: PolicyParameter[];
  /** Whether it is the policy that runs: what is left empty keeps its value. Others have their defaults. */
  present: boolean;
  values: Values;
  change: (values: Values) => void;
}

export function Parameters({ parameters, present, values, change }: Given) {
  if (parameters.length === 0) return null;
  return (
    <fieldset class="parameters">
      <legend class="quiet">Parameters of the policy</legend>
      {parameters.map((parameter) => (
        <label key={parameter.name} title={parameter.help}>
          <span>{parameter.name.replaceAll("_", " ")}</span>
          <Field parameter={parameter} unchanged={present ? "unchanged" : String(parameter.default ?? "none")} value={values[parameter.name] ?? ""} change={(value) => change({ ...values, [parameter.name]: value })} />
        </label>
      ))}
    </fieldset>
  );
}

interface FieldGiven {
  parameter: PolicyParameter;
  unchanged: string;
  value: string;
  change: (value: string) => void;
}

function Field({ parameter: { name, value: takes }, unchanged, value, change }: FieldGiven) {
  if (takes.type === "choice") {
    return (
      <select name={name} value={value} onChange={(event) => change(event.currentTarget.value)}>
        <option value="">{unchanged}</option>
        {(takes.names ?? []).map((one) => <option key={one} value={one}>{one}</option>)}
      </select>
    );
  }
  const most = takes.max !== undefined && takes.max !== null && takes.max < Number.MAX_SAFE_INTEGER ? { max: takes.max } : {};
  return (
    <input type="number" name={name} min={takes.min ?? 0} {...most} step={takes.type === "integer" ? 1 : "any"} value={value} placeholder={unchanged}
      onInput={(event) => change(event.currentTarget.value)} />
  );
}
