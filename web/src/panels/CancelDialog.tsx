// Asks before a request is taken back: what has been done for it cannot be had again.

import { useState } from "preact/hooks";
import { call, requestPath, wordsOf } from "../api/client";
import { Dialog } from "../parts/Dialog";
import { plainly } from "../parts/format";

export function CancelDialog({ id, close, cancelled }: { id: string; close: () => void; cancelled: (id: string) => void }) {
  const [busy, setBusy] = useState(false);
  const [fault, setFault] = useState<string | null>(null);
  const act = async (): Promise<void> => {
    setBusy(true);
    try {
      await call("DELETE", requestPath(id));
      cancelled(id);
      close();
    } catch (error) {
      setFault(wordsOf(error));
      setBusy(false);
    }
  };
  return (
    <Dialog title={`Cancel ${plainly(id)}?`} close={close} narrow>
      <p>Its running nodes are stopped and the rest is not started. This cannot be undone.</p>
      {fault && <p class="bad" role="alert">{fault}</p>}
      <div class="tools end">
        <button type="button" onClick={close} autofocus>Keep it</button>
        <button type="button" class="danger" disabled={busy} onClick={() => void act()}>Yes, cancel it</button>
      </div>
    </Dialog>
  );
}
