// A request's id, which opens what is known of it.

export const RequestLink = ({ id, open }: { id: string; open: (request: string) => void }) => (
  <button type="button" class="link" title={id} onClick={() => open(id)}>{id}</button>
);
