// The server wants a token from everybody.

import { token } from "../api/client";
import { Dialog } from "../parts/Dialog";

export function TokenDialog({ refused, given }: { refused: boolean; given: () => void }) {
  const save = (event: SubmitEvent): void => {
    event.preventDefault();
    token.set(String(new FormData(event.currentTarget as HTMLFormElement).get("token") ?? "").trim());
    given();
  };
  return (
    <Dialog title="This server wants a token" close={() => undefined} narrow must>
      <form onSubmit={save}>
        <p class="quiet">It is in the file given to <code>--token-file</code>. The page keeps it until this tab is closed.</p>
        {refused && token.get() !== null && <p class="bad" role="alert">The server did not accept this token.</p>}
        <label>Token <input name="token" type="password" required autocomplete="off" autofocus /></label>
        <div class="tools end"><button type="submit" class="primary">Go on</button></div>
      </form>
    </Dialog>
  );
}
