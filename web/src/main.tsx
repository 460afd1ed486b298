import { render } from "preact";
import { App } from "./App";
import { Live } from "./state/live";

const place = document.getElementById("app");
if (place) {
  const live = new Live();
  place.replaceChildren();
  render(<App live={live} />, place);
  live.start();
}
