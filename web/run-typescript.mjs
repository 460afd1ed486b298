// Runs TypeScript under Node: files are bundled without their packages, then run, or given to Node's own test runner.
// Usage: node run-typescript.mjs FILE.ts [ARGUMENT...]
//        node run-typescript.mjs --test FILE.ts...

import { build } from "esbuild";
import { spawn } from "node:child_process";
import { rmSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const testing = process.argv[2] === "--test";
const given = process.argv.slice(testing ? 3 : 2);
const sources = testing ? given : given.slice(0, 1);
const folder = join(here, ".out", testing ? "test" : "run");

// What an earlier run left must not be tested in place of what is there now.
rmSync(folder, { recursive: true, force: true });
await build({
  absWorkingDir: here,
  entryPoints: sources,
  outdir: folder,
  entryNames: "[name]",
  outExtension: { ".js": ".mjs" },
  bundle: true,
  packages: "external",
  platform: "node",
  format: "esm",
  target: "node20",
  jsx: "automatic",
  jsxImportSource: "preact",
  sourcemap: "inline",
  logLevel: "warning",
});
const built = sources.map((source) => join(folder, basename(source).replace(/\.tsx?$/, ".mjs")));
// One file at a time: each starts servers and browsers, and timing matters to some.
const options = testing ? ["--test", "--test-concurrency=1"] : [];
const child = spawn(process.execPath, ["--enable-source-maps", ...options, ...built, ...(testing ? [] : given.slice(1))], {
  stdio: "inherit",
  cwd: here,
});
for (const signal of ["SIGINT", "SIGTERM"]) process.on(signal, () => child.kill(signal));
child.on("exit", (code) => process.exit(code ?? 1));
