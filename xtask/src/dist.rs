//! `cargo xtask dist`: what users install without building. An archive with the program, a wheel, and an OCI image, with checksums.
//!
//! The program is built in the profile `dist`; `--profile release` tries the packaging without the long build. It needs glibc and nothing else: SQLite, zstd and TLS are linked in, and CUDA is
//! loaded at run time where it is there, which a program that is linked statically could not do.

use crate::tools::{capture, cargo, root, succeed};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHELLS: [(&str, &str); 3] = [("bash", "gswarm.bash"), ("zsh", "_gswarm"), ("fish", "gswarm.fish")];

/// What is built, and where it goes.
struct Build {
    profile: String,
    out: PathBuf,
}

/// `cargo xtask dist [--only archive|wheel|image] [--profile NAME] [--out DIR]`.
pub fn dist(args: &[String]) -> Result<(), String> {
    let usage =
        || "usage: cargo xtask dist [--only archive|wheel|image] [--profile NAME] [--out DIR]".to_owned();
    let mut only = None;
    let mut build = Build { profile: "dist".to_owned(), out: root().join("target/shipped") };
    let mut rest = args.iter();
    while let Some(flag) = rest.next() {
        let value = rest.next().ok_or_else(usage)?;
        match flag.as_str() {
            "--only" if ["archive", "wheel", "image"].contains(&value.as_str()) => only = Some(value.clone()),
            "--profile" => build.profile.clone_from(value),
            "--out" => build.out = std::path::absolute(value).map_err(|error| error.to_string())?,
            _ => return Err(usage()),
        }
    }
    let wanted = |name: &str| only.as_deref().is_none_or(|only| only == name);
    fs::create_dir_all(&build.out).map_err(|error| error.to_string())?;
    if wanted("image") {
        has_image_tools()?;
    }
    let mut made = Vec::new();
    if wanted("archive") || wanted("image") {
        let program = build.program()?;
        if wanted("archive") {
            made.push(archive(&program, &build.out)?);
        }
        if wanted("image") {
            made.push(image(&program, &build.out)?);
        }
    }
    if wanted("wheel") {
        made.push(build.wheel()?);
    }
    checksums(&build.out)?;
    println!("\n==> In {}", build.out.display());
    for file in made {
        let bytes = fs::metadata(&file).map_err(|error| error.to_string())?.len();
        println!("  {:6.1} MB  {}", bytes as f64 / 1e6, name_of(&file));
    }
    println!("             SHA256SUMS");
    Ok(())
}

impl Build {
    /// Builds the program for shipping.
    fn program(&self) -> Result<PathBuf, String> {
        succeed(&mut cargo(&["build", "--profile", &self.profile, "--locked", "--package", "gswarm-cli"]))?;
        Ok(target().join(&self.profile).join("gswarm"))
    }

    /// The wheel for Python 3.10 and later (abi3).
    fn wheel(&self) -> Result<PathBuf, String> {
        let place = target().join("xtask/maturin");
        let maturin = place.join("bin/maturin");
        if !maturin.exists() {
            succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&place))?;
            let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "maturin>=1.10,<2"];
            succeed(Command::new(place.join("bin/python")).args(pip))?;
        }
        let stage = target().join("xtask/wheel");
        let _ = fs::remove_dir_all(&stage);
        let mut maturin = Command::new(maturin);
        maturin.args(["build", "--profile", &self.profile, "--locked", "--out"]).arg(&stage);
        succeed(maturin.current_dir(root()))?;
        let wheel = fs::read_dir(&stage).map_err(|error| error.to_string())?.flatten().next();
        let wheel = wheel.ok_or("maturin made no wheel")?.path();
        let place = self.out.join(name_of(&wheel));
        copy(&wheel, &place)?;
        Ok(place)
    }
}

/// The program with completions, manual pages and licences.
fn archive(program: &Path, out: &Path) -> Result<PathBuf, String> {
    let name = format!("gswarm-{}-{}", version(program)?, triple()?);
    let stage = target().join("xtask/archive");
    let folder = stage.join(&name);
    let _ = fs::remove_dir_all(&stage);
    fs::create_dir_all(folder.join("completions")).map_err(|error| error.to_string())?;
    copy(program, &folder.join("gswarm"))?;
    for file in ["README.md", "LICENSE-APACHE", "LICENSE-MIT", "CHANGELOG.md", "docs/install.md"] {
        copy(&root().join(file), &folder.join(name_of(Path::new(file))))?;
    }
    for (shell, file) in SHELLS {
        let script = Command::new(program).args(["completions", shell]).output();
        let script = script.map_err(|error| format!("cannot start {}: {error}", program.display()))?;
        if !script.status.success() {
            return Err(format!("there are no completions for {shell}"));
        }
        fs::write(folder.join("completions").join(file), script.stdout).map_err(|error| error.to_string())?;
    }
    succeed(Command::new(program).args(["man", "--out"]).arg(folder.join("man")))?;
    let archive = out.join(format!("{name}.tar.gz"));
    succeed(
        Command::new("tar").args(reproducible()).arg("-czf").arg(&archive).arg("-C").arg(&stage).arg(&name),
    )?;
    Ok(archive)
}

/// Asked before anything is built, which takes minutes.
fn has_image_tools() -> Result<(), String> {
    for tool in ["buildah", "mmdebstrap"] {
        if !capture(Command::new(tool).arg("--version")).is_ok_and(|(works, _)| works) {
            return Err(format!("`{tool}` is needed for the image: install Debian's package of that name"));
        }
    }
    Ok(())
}

/// The image, from `xtask/image/Containerfile`. Its base is made from Debian's packages, so that no registry is needed.
fn image(program: &Path, out: &Path) -> Result<PathBuf, String> {
    let stage = target().join("xtask/image");
    let _ = fs::remove_dir_all(&stage);
    fs::create_dir_all(&stage).map_err(|error| error.to_string())?;
    copy(&root().join("xtask/image/Containerfile"), &stage.join("Containerfile"))?;
    copy(program, &stage.join("gswarm"))?;
    let base = stage.join("base.tar");
    let mut packages = Command::new("mmdebstrap");
    // Mirrors that lag behind have lists that are signed and out of date.
    packages.args(["--variant=extract", "--aptopt=Acquire::Check-Valid-Until \"false\""]);
    packages.arg("--include=base-files,libc6,libgcc-s1,ca-certificates,tzdata");
    succeed(packages.arg(codename()).arg(&base))?;
    // The packages are only extracted, so nothing has joined the certificates.
    let certificates = Command::new("tar")
        .arg("-xOf")
        .arg(&base)
        .args(["--wildcards", "./usr/share/ca-certificates/mozilla/*.crt"])
        .output()
        .map_err(|error| format!("cannot start tar: {error}"))?;
    fs::write(stage.join("ca-certificates.crt"), certificates.stdout).map_err(|error| error.to_string())?;
    let version = version(program)?;
    let tag = format!("gswarm:{version}");
    // Without namespaces of its own, so that it works inside a container too.
    let build = ["build", "--isolation=chroot", "--storage-driver=vfs", "--format=oci", "--tag", &tag];
    succeed(Command::new("buildah").args(build).arg(&stage))?;
    let archive = out.join(format!("gswarm-{version}-image.tar"));
    let _ = fs::remove_file(&archive);
    let push = Command::new("buildah")
        .args(["push", "--storage-driver=vfs", &tag])
        .arg(format!("oci-archive:{}:{tag}", archive.display()))
        .status();
    match push {
        Ok(status) if status.success() => Ok(archive),
        _ => Err("buildah could not write the image".to_owned()),
    }
}

/// The release of Debian that this machine runs, or the stable one.
fn codename() -> String {
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    let debian = release.lines().any(|line| line == "ID=debian");
    let name = release.lines().find_map(|line| line.strip_prefix("VERSION_CODENAME=")).filter(|_| debian);
    name.unwrap_or("stable").to_owned()
}

/// Of every file in the folder.
fn checksums(out: &Path) -> Result<(), String> {
    let entries = fs::read_dir(out).map_err(|error| error.to_string())?.flatten();
    let mut names: Vec<String> = entries.map(|entry| name_of(&entry.path())).collect();
    names.retain(|name| name != "SHA256SUMS");
    names.sort();
    let (works, told) = capture(Command::new("sha256sum").args(&names).current_dir(out))?;
    if !works {
        return Err(told);
    }
    fs::write(out.join("SHA256SUMS"), told).map_err(|error| error.to_string())
}

/// The same bytes from the same files.
fn reproducible() -> [&'static str; 5] {
    ["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "--mtime=UTC 2020-01-01"]
}

fn version(program: &Path) -> Result<String, String> {
    let (works, told) = capture(Command::new(program).arg("--version"))?;
    let version = told.trim().rsplit(' ').next().unwrap_or_default().to_owned();
    if works && !version.is_empty() { Ok(version) } else { Err(format!("{}: {told}", program.display())) }
}

/// The machine that this is built on, and for.
fn triple() -> Result<String, String> {
    let (_, told) = capture(Command::new("rustc").arg("-vV"))?;
    let host = told.lines().find_map(|line| line.strip_prefix("host: "));
    host.map(str::to_owned).ok_or_else(|| "rustc does not say what it builds for".to_owned())
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn name_of(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn copy(from: &Path, to: &Path) -> Result<(), String> {
    fs::copy(from, to).map(drop).map_err(|error| format!("{}: {error}", from.display()))
}
