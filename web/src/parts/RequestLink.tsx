// A request's id, which opens what is known of it. Ids may be written from right to left: none turns what stands around it.

import { plainly } from "./format";

export const RequestLink = ({ id, open }: { id: string; open: (request: string) => void }) => (
  <button type="button" class="link" title={plainly(id)} onClick={() => open(id)}><bdi>{plainly(id)}</bdi></button>
);
