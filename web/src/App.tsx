// The page: its panels, and the windows above it.

import { useCallback, useEffect, useRef, useState } from "preact/hooks";
import { Attention } from "./panels/Attention";
import { CancelDialog } from "./panels/CancelDialog";
import { Cards } from "./panels/Cards";
import { Gpus } from "./panels/Gpus";
import { Happenings } from "./panels/Happenings";
import { Header } from "./panels/Header";
import { Queue } from "./panels/Queue";
import { RequestDialog } from "./panels/RequestDialog";
import { Requests } from "./panels/Requests";
import { Slowest } from "./panels/Slowest";
import { TokenDialog } from "./panels/TokenDialog";
import { Trends } from "./panels/Trends";
import { WhatIf } from "./panels/WhatIf";
import { colours } from "./parts/colours";
import { plainly } from "./parts/format";
import { useLive } from "./parts/hooks";
import { type Said, changes, standing } from "./state/announce";
import { type Live, hasEnded } from "./state/live";
import { Timeline } from "./timeline/Timeline";

export function App({ live }: { live: Live }) {
  useLive(live);
  const [shown, setShown] = useState<string | null>(null);
  const [doomed, setDoomed] = useState<string | null>(null);
  const [changed, setChanged] = useState(0);
  const [said, say] = useAnnouncements(live);
  const { overview, link } = live;
  const open = useCallback((request: string) => setShown(request), []);
  // Colours go by the order of the configuration, before anything is drawn in them.
  for (const model of overview?.models ?? []) colours.of(model.name);
  useEffect(() => {
    if (overview?.title) document.title = `${hasEnded(overview) ? `${overview.state}: ` : ""}${overview.title} – gswarm`;
  }, [overview?.title, overview?.state]);
  const touched = (text: string): void => {
    say(text);
    setChanged((times) => times + 1);
    live.again();
  };
  const real = overview?.started_at != null && overview.speed === 1 && !hasEnded(overview) && Math.abs(overview.started_at + overview.now - Date.now() / 1000) < 5;
  return (
    <>
      <a class="skip" href="#main">To the content</a>
      <Header live={live} />
      <main id="main" tabIndex={-1}>
        <Attention live={live} />
        {!overview && link.state !== "locked" && <p class="starting">{link.state === "down" ? "" : "Asking the server …"}</p>}
        {overview && (
          <>
            <Cards overview={overview} />
            <Timeline live={live} chosen={shown} open={open} />
            <Gpus overview={overview} />
            <Trends overview={overview} />
            <Slowest overview={overview} open={open} />
            {overview.state === "finished" ? <Happenings live={live} real={real} open={open} /> : (
              <div class="beside">
                <Queue live={live} open={open} cancel={setDoomed} />
                <Happenings live={live} real={real} open={open} />
              </div>
            )}
            <Requests live={live} open={open} cancel={setDoomed} changed={changed} submitted={(id) => { touched(`Request ${plainly(id)} is accepted.`); }} />
            {overview.can.what_if && overview.state !== "finished" && <WhatIf overview={overview} />}
          </>
        )}
      </main>
      <footer><p>gswarm {overview?.version ?? ""}. All of it is available as JSON under <code>/v1</code>.</p></footer>
      <p class="unseen" role="status" id="said">{said}</p>
      {shown !== null && <RequestDialog key={shown} id={shown} live={live} close={() => setShown(null)} cancel={setDoomed} />}
      {doomed !== null && <CancelDialog id={doomed} close={() => setDoomed(null)} cancelled={(id) => touched(`Request ${plainly(id)} is cancelled.`)} />}
      {link.state === "locked" && <TokenDialog refused={link.refused} given={() => live.again()} />}
    </>
  );
}

/** One sentence at a time, for screen readers. */
function useAnnouncements(live: Live): [string, (text: string) => void] {
  const [said, say] = useState("");
  const before = useRef<Said | null>(null);
  const now = standing(live.overview, live.link);
  const key = JSON.stringify(now);
  useEffect(() => {
    const text = changes(before.current, now);
    before.current = now;
    if (text) say(text);
  }, [key]);
  return [said, say];
}
