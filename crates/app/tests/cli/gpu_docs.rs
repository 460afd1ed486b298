//! The runs that docs/gpu.md tells of: anybody can make their requests, and their logs pass the check.

use crate::support::{Place, root};
use std::path::Path;
use std::process::Command;

/// What Python prints, or nothing where there is none.
fn python(arguments: &[&str], to: &Path) -> bool {
    let output = std::fs::File::create(to).unwrap();
    match Command::new("python3").args(arguments).stdout(output).status() {
        Ok(status) => {
            assert!(status.success(), "python3 {arguments:?}");
            true
        }
        Err(_) => false,
    }
}

#[test]
fn the_runs_of_the_documentation_pass_the_check() {
    let (place, docs) = (Place::new(), root().join("docs/gpu"));
    let generator = root().join("examples/gpu/requests.py");
    let config = root().join("examples/gpu/config.yaml");
    let mut checked = 0;
    let measured = docs.join("calibration.json");
    // `--profile` is what `--calibration` was called before.
    for (name, seed, pictures, flag) in
        [("mixed", "7", "0.3333333333333333", "--calibration"), ("texts", "11", "0.1", "--profile")]
    {
        let inputs =
            format!("--config {} --requests requests.json {flag} {}", config.display(), measured.display());
        let made = [generator.to_str().unwrap(), "300", seed, pictures];
        if !python(&made, &place.path("requests.json")) {
            gswarm_testing::skip("there is no python3");
            return;
        }
        let logs = std::fs::read_dir(docs.join(name)).unwrap().map(|entry| entry.unwrap().path());
        for log in logs.filter(|path| path.extension().is_some_and(|end| end == "gz")) {
            let unpack = "import gzip, sys; sys.stdout.buffer.write(gzip.open(sys.argv[1]).read())";
            python(&["-c", unpack, log.to_str().unwrap()], &place.path("log.json"));
            let batching = if log.ends_with("planned-batching.json.gz") { "" } else { "--no-batching" };
            let told = place.run(&format!("check log.json {inputs} {batching}"));
            assert_eq!(told.code, 0, "{}: {}", log.display(), told.out);
            checked += 1;
        }
    }
    assert_eq!(checked, 7);
}
