// Builds the page into the folder from which the binary takes it. With --compare nothing is written: it says whether the
// committed files are what the sources give, and fails where they are not.

import { build } from "esbuild";
import { mkdir, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const here = dirname(fileURLToPath(import.meta.url));
const folder = join(here, "../crates/serve/assets/dashboard");

/** Every file of the page by its name. The same sources always give the same bytes. */
async function bundle() {
  const result = await build({
    absWorkingDir: here,
    entryPoints: { app: "src/main.tsx", "app.css": "src/style/app.css" },
    outdir: "/",
    entryNames: "[name]",
    bundle: true,
    write: false,
    minify: true,
    format: "esm",
    target: ["es2022"],
    jsx: "automatic",
    jsxImportSource: "preact",
    define: { "process.env.NODE_ENV": '"production"' },
    legalComments: "none",
    // The one library that is in it wants to be named.
    banner: { js: "/* Contains Preact, The MIT License (MIT), Copyright (c) 2015-present Jason Miller */" },
    charset: "utf8",
    logLevel: "warning",
  });
  const named = (path) => path.replace(/^.*[\\/]/, "").replace("app.css.css", "app.css");
  const files = new Map(result.outputFiles.map((file) => [named(file.path), file.text]));
  files.set("index.html", await readFile(join(here, "src/index.html"), "utf8"));
  return files;
}

async function differences(files) {
  const there = await readdir(folder).catch(() => []);
  const found = there.filter((name) => !files.has(name)).map((name) => `${name} is not of this build`);
  for (const [name, text] of files) {
    const old = await readFile(join(folder, name), "utf8").catch(() => null);
    if (old !== text) found.push(old === null ? `${name} is missing` : `${name} differs`);
  }
  return found;
}

const files = await bundle();
if (process.argv.includes("--compare")) {
  const found = await differences(files);
  if (found.length > 0) {
    console.error(`The built dashboard is not up to date: ${found.join("; ")}. Run: npm run build`);
    process.exit(1);
  }
  console.log("The built dashboard is up to date.");
} else {
  await rm(folder, { recursive: true, force: true });
  await mkdir(folder, { recursive: true });
  for (const [name, text] of files) {
    await writeFile(join(folder, name), text);
    console.log(`${name}: ${(Buffer.byteLength(text) / 1024).toFixed(1)} KiB`);
  }
}
