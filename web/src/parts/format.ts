// Numbers and times as people read them.

const number = new Intl.NumberFormat("en-GB");

export const count = (value: number): string => number.format(value);

export const plural = (many: number, one: string, more = `${one}s`): string => `${count(many)} ${many === 1 ? one : more}`;

const pad = (value: number): string => String(value).padStart(2, "0");

/** A length of time: three figures are enough, and one unit where one will do. */
export function span(seconds: number): string {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 0) return `−${span(-seconds)}`;
  if (seconds < 0.0005) return "0 s";
  if (seconds < 0.9995) return `${Math.round(seconds * 1000)} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 99.5) return `${Math.round(seconds)} s`;
  const whole = Math.round(seconds);
  if (whole < 3600) return `${Math.floor(whole / 60)} min${whole % 60 ? ` ${whole % 60} s` : ""}`;
  const minutes = Math.round(whole / 60);
  if (minutes < 48 * 60) return `${Math.floor(minutes / 60)} h${minutes % 60 ? ` ${minutes % 60} min` : ""}`;
  return `${Math.floor(minutes / 1440)} d ${Math.floor((minutes % 1440) / 60)} h`;
}

/** Time since the beginning, as on a stopwatch, with as many digits as a step between two labels needs. */
export function elapsed(seconds: number, step = 1): string {
  const sign = seconds < -1e-9 ? "−" : "";
  const digits = step >= 1 ? 0 : Math.min(6, Math.ceil(-Math.log10(step) - 1e-9));
  const total = Number(Math.abs(seconds).toFixed(digits));
  if (total < 60) return `${sign}${total.toFixed(digits)} s`;
  const [hours, minutes] = [Math.floor(total / 3600), Math.floor((total % 3600) / 60)];
  const rest = (total % 60).toFixed(digits).padStart(digits ? digits + 3 : 2, "0");
  return hours ? `${sign}${hours}:${pad(minutes)}:${rest}` : `${sign}${minutes}:${rest}`;
}

export function clock(unix: number, step = 1): string {
  const at = new Date(unix * 1000);
  const text = `${pad(at.getHours())}:${pad(at.getMinutes())}:${pad(at.getSeconds())}`;
  const digits = step >= 1 ? 0 : Math.min(3, Math.ceil(-Math.log10(step) - 1e-9));
  return digits ? `${text}.${String(at.getMilliseconds()).padStart(3, "0").slice(0, digits)}` : text;
}

export const day = (unix: number): string =>
  new Date(unix * 1000).toLocaleDateString("en-GB", { day: "numeric", month: "short", year: "numeric" });

export const gigabytes = (value: number): string => `${value < 10 ? Number(value.toFixed(2)) : Math.round(value)} GB`;

export const percent = (share: number): string => `${Math.round(share * 100)} %`;

/** `0-3, 6`: numbers of GPUs, runs of them together. */
export function ranges(numbers: number[]): string {
  const parts: string[] = [];
  const sorted = [...numbers].sort((a, b) => a - b);
  for (let at = 0; at < sorted.length; ) {
    let end = at;
    while (sorted[end + 1] === (sorted[end] as number) + 1) end++;
    parts.push(end > at + 1 ? `${sorted[at]}–${sorted[end]}` : sorted.slice(at, end + 1).join(", "));
    at = end + 1;
  }
  return parts.join(", ");
}

export const gpuNames = (gpus: number[]): string => `${gpus.length === 1 ? "GPU" : "GPUs"} ${ranges(gpus)}`;

/** Characters that are not seen but turn or hide their neighbours, or break lines: controls, marks of direction, empty ones. */
const UNSEEN = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

/** A name that somebody else gave, such that it is what it looks like: what is not seen in it is written out. */
export const plainly = (name: string): string =>
  name.replace(UNSEEN, (character) => `\\u${character.charCodeAt(0).toString(16).toUpperCase().padStart(4, "0")}`);
