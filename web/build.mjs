// Builds the dashboard's page, and the script of reports, into the folders from which the binary takes them. With --compare nothing is written: it says whether the
// committed files are what the sources give, and fails where they are not.

import { build } from "esbuild";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, "../crates/serve/assets/dashboard");
const report = join(here, "../crates/show/assets/gantt.js");
const common = {
  absWorkingDir: here, outdir: "/", entryNames: "[name]", bundle: true, write: false, minify: true, target: ["es2022"],
  legalComments: "none", charset: "utf8", logLevel: "warning",
};

/** Every file of the dashboard by its path. The same sources always give the same bytes. */
async function bundle() {
  const result = await build({
    ...common,
    entryPoints: { app: "src/main.tsx", "app.css": "src/style/app.css" },
    format: "esm",
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
    // The one library that is in it wants to be named.
    banner: { js: "/* Contains Preact, The MIT License (MIT), Copyright (c) 2015-present Jason Miller */" },
  });
  const named = (path) => path.replace(/^.*[\\/]/, "").replace("app.css.css", "app.css");
  const files = new Map(result.outputFiles.map((file) => [join(folder, named(file.path)), file.text]));
  files.set(join(folder, "index.html"), await readFile(join(here, "src/index.html"), "utf8"));
  files.set(report, await reportScript());
  return files;
}

/** The script of reports stands inside a page, which ends it at the first closing tag. */
async function reportScript() {
  const contents = 'import { draw } from "./src/report/main"; void draw();';
  const result = await build({ ...common, stdin: { contents, resolveDir: here, loader: "ts" }, format: "iife" });
  const text = result.outputFiles[0].text;
  if (/<\/script|<!--/i.test(text)) throw new Error("the script of reports would end itself");
  return `// Built from web/src/report: do not edit.\n${text}`;
}

async function differences(files) {
  const there = await readdir(folder).catch(() => []);
  const found = there.filter((name) => !files.has(join(folder, name))).map((name) => `${name} is not of this build`);
  for (const [path, text] of files) {
    const old = await readFile(path, "utf8").catch(() => null);
    if (old !== text) found.push(`${basename(path)} ${old === null ? "is missing" : "differs"}`);
  }
  return found;
}

const files = await bundle();
if (process.argv.includes("--compare")) {
  const found = await differences(files);
  if (found.length > 0) {
    console.error(`What was built is not up to date: ${found.join("; ")}. Run: npm run build`);
    process.exit(1);
  }
  console.log("What was built is up to date.");
} else {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const [path, text] of files) {
    await writeFile(path, text);
    console.log(`${basename(path)}: ${(Buffer.byteLength(text) / 1024).toFixed(1)} KiB`);
  }
}
