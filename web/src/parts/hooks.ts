// Small things that several panels need.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import type { RefObject } from "preact";
import type { Live } from "../state/live";

/** Draws a component anew with every answer of the server. */
export function useLive(live: Live): void {
  const [, redraw] = useState(0);
  useEffect(() => live.listen(() => redraw((times) => times + 1)), [live]);
}

/** Whether an element is in sight, or nearly: what nobody sees need not be asked for. */
export function useInSight(element: RefObject<Element | null>): boolean {
  const [seen, setSeen] = useState(false);
  useEffect(() => {
    if (!element.current) return;
    const observer = new IntersectionObserver((entries) => setSeen(entries.some((entry) => entry.isIntersecting)), { rootMargin: "300px" });
    observer.observe(element.current);
    return () => observer.disconnect();
  }, [element]);
  return seen;
}

/**
 * Keeps an answer up to date: asks when `key` changes and with each tick while `wanted`; one question at a time, and an answer
 * to an old question is dropped.
 */
export function useAsked<T>(key: string, ask: () => Promise<T>, tick: number, wanted: boolean): { value: T | null; fault: unknown; again: () => void } {
  const [state, setState] = useState<{ key: string; value: T | null; fault: unknown }>({ key, value: null, fault: null });
  const asked = useRef<{ key: string; under: boolean }>({ key: "", under: false });
  const [extra, setExtra] = useState(0);
  useEffect(() => {
    if (!wanted || (asked.current.under && asked.current.key === key)) return;
    const mine = { key, under: true };
    asked.current = mine;
    const done = (value: T | null, fault: unknown): void => {
      mine.under = false;
      if (asked.current === mine) setState((old) => ({ key, value: fault && old.key === key ? old.value : value, fault }));
    };
    ask().then((value) => done(value, null), (fault: unknown) => done(null, fault));
    // `ask` is made anew each time and says nothing that `key` does not.
  }, [key, tick, wanted, extra]);
  const again = useCallback(() => setExtra((times) => times + 1), []);
  return state.key === key ? { value: state.value, fault: state.fault, again } : { value: null, fault: null, again };
}
