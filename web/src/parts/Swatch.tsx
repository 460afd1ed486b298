// A patch in the colour of a model. Its name always stands beside it: colour alone says nothing to some.

import { colours } from "./colours";

export const Swatch = ({ model }: { model: string }) => <span class="patch" style={{ background: colours.of(model) }} aria-hidden="true" />;

export const ModelName = ({ model }: { model: string }) => <span class="model"><Swatch model={model} />{model}</span>;
