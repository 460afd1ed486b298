// npm run mock [-- gpus=64 waiting=10000 state=finished port=8099 ...]

import { join } from "node:path";
import { Mock } from "./server";

const given = Object.fromEntries(process.argv.slice(2).map((pair) => pair.split("=")));
const { port, ...rest } = given;
const options = Object.fromEntries(Object.entries(rest).map(([name, value]) => [name, Number.isNaN(Number(value)) ? value : Number(value)]));
const mock = new Mock(join(process.cwd(), "../crates/serve/assets/dashboard"), options);
console.log(await mock.listen(Number(port ?? 0)));
