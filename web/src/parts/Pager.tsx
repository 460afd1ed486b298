// Goes through a long list a page at a time.

import { count } from "./format";

export function Pager({ from, page, total, go, of }: { from: number; page: number; total: number; go: (from: number) => void; of: string }) {
  if (total <= page) return null;
  const last = Math.floor((total - 1) / page) * page;
  const button = (name: string, label: string, to: number, off: boolean) => (
    <button type="button" aria-label={label} disabled={off} onClick={() => go(to)}>{name}</button>
  );
  return (
    <div class="tools pager" role="group" aria-label={`Pages of ${of}`}>
      {button("«", "First page", 0, from === 0)}
      {button("‹", "Previous page", Math.max(0, from - page), from === 0)}
      <span class="quiet">{count(from + 1)}–{count(Math.min(from + page, total))} of {count(total)}</span>
      {button("›", "Next page", from + page, from + page >= total)}
      {button("»", "Last page", last, from >= last)}
    </div>
  );
}
