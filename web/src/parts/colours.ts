// The colours of models: those of the reports, so that a model looks the same in both.

/** Of Okabe and Ito: people who cannot tell red from green can tell these apart. */
const PALETTE = ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9"];

/** Six colours, then the same darker and lighter. */
export function colour(number: number): string {
  const base = PALETTE[number % PALETTE.length] as string;
  const round = Math.floor(number / PALETTE.length);
  if (round === 0) return base;
  const target = round % 2 ? 0 : 255;
  const share = Math.min(0.3 + 0.12 * round, 0.7);
  const part = (at: number): number => Math.round(parseInt(base.slice(at, at + 2), 16) * (1 - share) + target * share);
  return `rgb(${part(1)} ${part(3)} ${part(5)})`;
}

/** Black or white, whichever reads better on a colour as a canvas gives it (`#rrggbb`). */
export function inkOn(colour: string): string {
  const part = (at: number): number => {
    const share = parseInt(colour.slice(at, at + 2), 16) / 255;
    return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
  };
  const light = 0.2126 * part(1) + 0.7152 * part(3) + 0.0722 * part(5);
  return light > 0.179 ? "#000000" : "#ffffff";
}

/** Which colour a model has: by its place in the configuration; others, of old logs, come after. */
export class Colours {
  private readonly numbers = new Map<string, number>();

  of(model: string): string {
    let number = this.numbers.get(model);
    if (number === undefined) this.numbers.set(model, (number = this.numbers.size));
    return colour(number);
  }
}

/** One for the whole page. */
export const colours = new Colours();
