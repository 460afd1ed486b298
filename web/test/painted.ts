// Looks at the pixels of the timeline: whether each bar is where it has to be, in the colour of its model, and hatched if it
// is a load.

import type { Page } from "playwright-core";
import type { Bar } from "../src/api/types";
import { colour } from "../src/parts/colours";

const rgb = (text: string): [number, number, number] => {
  const numbers = text.startsWith("#") ? [1, 3, 5].map((at) => parseInt(text.slice(at, at + 2), 16)) : (text.match(/\d+/g) ?? []).map(Number);
  return [numbers[0] ?? 0, numbers[1] ?? 0, numbers[2] ?? 0];
};

type Seen = Pick<Bar, "kind" | "gpus" | "model" | "start" | "end">;

/** Bars of fewer than five pixels are left out: their edges are shared with their neighbours. */
export async function paintedAs(page: Page, bars: Seen[], models: string[]): Promise<{ looked: number; wrong: string[] }> {
  const wanted = bars.map((bar) => ({ ...bar, rgb: rgb(colour(models.indexOf(bar.model))) }));
  return page.evaluate((bars) => {
    const canvas = document.querySelector<HTMLCanvasElement>("#timeline canvas");
    const context = canvas?.getContext("2d");
    if (!canvas || !context) throw new Error("there is no timeline");
    const { from, to, gutter, rows } = canvas.dataset as Record<string, string>;
    const width = canvas.getBoundingClientRect().width;
    const ratio = canvas.width / width;
    const x = (time: number): number => Number(gutter) + ((time - Number(from)) / (Number(to) - Number(from))) * (width - Number(gutter));
    const lanes = new Map((rows ?? "").split(",").map((row) => [Number(row.split(":")[0]), row.split(":").map(Number)]));
    const image = context.getImageData(0, 0, canvas.width, canvas.height);
    const at = (x: number, y: number): Uint8ClampedArray => {
      const place = (Math.round(y * ratio) * canvas.width + Math.round(x * ratio)) * 4;
      return image.data.subarray(place, place + 3);
    };
    const near = (pixel: Uint8ClampedArray, rgb: number[]): boolean => rgb.every((value, part) => Math.abs(value - (pixel[part] ?? 0)) <= 3);
    let looked = 0;
    const wrong: string[] = [];
    for (const bar of bars) {
      const [left, right] = [Math.round(x(bar.start)), Math.round(x(bar.end)) - 1];
      if (right - left < 5) continue;
      for (const gpu of bar.gpus) {
        const [, y = 0, height = 0] = lanes.get(gpu) ?? [];
        const name = `${bar.kind} of ${bar.model} on GPU ${gpu} at ${bar.start}`;
        looked++;
        // Near the upper edge, where no text is; inside a load there is its colour and there are stripes that are not.
        const pixels = Array.from({ length: right - left - 2 }, (_, step) => at(left + 1 + step, y + 2));
        const own = pixels.filter((pixel) => near(pixel, bar.rgb)).length;
        if (bar.kind === "run" && own !== pixels.length) wrong.push(`${name}: ${own} of ${pixels.length} pixels have its colour`);
        if (bar.kind === "load" && (own === 0 || own === pixels.length)) wrong.push(`${name} is not hatched`);
        const below = at((left + right) / 2, y + height - 3);
        if (bar.kind === "run" && !near(below, bar.rgb)) wrong.push(`${name} is not as high as its lane`);
      }
    }
    return { looked, wrong };
  }, wanted);
}
