// Asks what would be, for as long as it takes: simulations may, and the server works out one at a time.

import { Fault, call } from "../api/client";
import type { WhatIf, WhatIfRequest } from "../api/types";

/** Longer than the server's own patience, so that its answer is heard, whichever it is; in milliseconds. */
const PATIENCE = 90_000;
const PAUSE = 1_000;
const FULL = 429;

/** The answer. While another simulation has the server's turn, it is asked again until it is free, and `queued` is told so. */
export async function whatWouldBe(question: WhatIfRequest, queued: () => void, given: AbortSignal, pause = PAUSE): Promise<WhatIf> {
  for (;;) {
    try {
      return await call<WhatIf>("POST", "/v1/what-if", question, PATIENCE);
    } catch (error) {
      if (!(error instanceof Fault && error.status === FULL) || given.aborted) throw error;
    }
    queued();
    await new Promise((wake) => setTimeout(wake, pause));
    given.throwIfAborted();
  }
}
