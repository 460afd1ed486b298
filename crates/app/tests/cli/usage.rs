use crate::support::Place;

#[test]
fn wrong_usage_is_code_2_and_says_what_to_do() {
    let place = Place::new();
    let cases = [
        ("jump", "unrecognized subcommand"),
        ("run", "--config"),
        ("run --policy basline --config c --requests r", "baseline"),
        ("run --policy baseline --gpus 0 --config c --requests r", "--gpus"),
        ("run --policy baseline --gpus -1 --config c --requests r", "--gpus"),
        ("run --policy baseline --gpus many --config c --requests r", "--gpus"),
        ("run --policy baseline --fail-rate 2 --config c --requests r", "from 0 to 1"),
        ("run --policy baseline --lose-gpu 3 --config c --requests r", "3@600"),
        ("run --policy baseline --lose-gpu -3@1 --config c --requests r", "3@600"),
        ("run --policy baseline --mode sideways --config c --requests r", "offline"),
        ("run --policy baseline --pcie-gb-per-s 0 --config c --requests r", "above zero"),
        ("run --policy baseline --alpha nan --config c --requests r", "zero or more"),
        ("run --policy baseline --json --quiet --config c --requests r", "cannot be used"),
        ("run --policy baseline --beta -1 --config c --requests r", "zero or more"),
        ("generate --preset huge --out x", "simple"),
        ("generate requests --config c --duration soon", "20min"),
        ("generate requests --config c --mix a", "a=2"),
        ("completions tcsh", "bash"),
        ("run --policy baseline --gpus 1 --config /dev/full/x --requests r", "/dev/full/x"),
    ];
    for (line, part) in cases {
        place.run(line).code(2).says(part);
        assert!(place.names().is_empty(), "{line} left {:?}", place.names());
    }
}

#[test]
fn missing_files_are_named() {
    let place = Place::new();
    place
        .run("run --policy baseline --gpus 1 --config none.yaml --requests r")
        .code(2)
        .says("none.yaml")
        .says("hint");
    place
        .run("run --policy baseline --gpus 1 --config a.yaml --requests b.yaml")
        .code(2)
        .says("a.yaml")
        .says("b.yaml");
    place.run("check none.json --config c --requests r").code(2).says("none.json").says("read r:");
    place.run("run --policy baseline --gpus 1 --config . --requests r").code(2).says("is a folder");
}

#[test]
fn live_runs_need_servers_or_models() {
    let place = Place::with_work("simple", 1);
    let line = "run --policy baseline @work".to_owned();
    for live in ["--live", "--simulate true"] {
        place.run(&format!("{line} {live}")).code(2).says("models come from a folder");
    }
    place.run("models init --dir models --name llm-small").code(0);
    place.run(&format!("{line} --simulate")).code(2).says("there is no model").says("--backends");
    // The hint is about the file that is missing, and about servers that can be emulated.
    place.run(&format!("{line} --live --backends none.yaml")).code(2).says("docs/backends.md");
    place.run(&format!("{line} --live --speed 50")).code(2).says("kind: emulated");
    assert_eq!(place.names(), ["models", "work"]);
    place.run(&format!("{line} --live --simulate false")).code(2).says("cannot be used with");
    assert!(!place.run("run --help").code(0).out.contains("--simulate"));
    place.run(&format!("{line} --simulate false --quiet")).code(0);
}

#[test]
fn help_has_examples_everywhere() {
    let place = Place::new();
    for command in [
        "",
        "run",
        "check",
        "generate",
        "generate config",
        "generate requests",
        "import",
        "models",
        "models init",
        "models list",
        "policies",
        "tasks",
        "tasks profile",
        "tasks generate",
        "tasks schedule",
        "tasks check",
        "tasks pipeline",
        "completions",
    ] {
        let done = place.run(&format!("{command} --help")).code(0);
        assert!(done.out.contains("Examples:"), "{command}");
    }
    assert!(place.run("--version").code(0).out.starts_with("gswarm "));
}

#[test]
fn policies_are_listed() {
    let place = Place::new();
    let text = place.run("policies").code(0).out;
    let json = place.run("policies --json").json(0);
    assert!(!json.as_array().unwrap().is_empty());
    for policy in json.as_array().unwrap() {
        assert!(text.contains(policy["name"].as_str().unwrap()));
        assert!(!policy["about"].as_str().unwrap().is_empty());
    }
    let online = place.run("policies --mode online").code(0).out;
    assert!(
        online.contains("baseline") && !online.lines().any(|line| line.starts_with("offline ")),
        "{online}"
    );
}

#[test]
fn completions_are_printed_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(place.run(&format!("completions {shell}")).code(0).out.contains("gswarm"));
    }
}

/// `gswarm ... | head -1`: the reader goes away in the middle.
#[test]
fn a_closed_pipe_is_no_error() {
    let place = Place::with_work("simple", 200);
    let lines = [
        "policies".to_string(),
        "completions bash".to_string(),
        "generate config --preset complex".to_string(),
        "generate requests --config work/config.yaml --requests 5000".to_string(),
        "run --policy baseline --verbose @work".to_owned(),
    ];
    for line in lines {
        let mut child = place
            .command(&line)
            .stdout(std::process::Stdio::piped())
            .stderr(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        drop(child.stdout.take());
        let done = child.wait_with_output().unwrap();
        let err = String::from_utf8(done.stderr).unwrap();
        assert_eq!(done.status.code(), Some(0), "{line}: {err}");
        assert!(!err.contains("panic") && !err.contains("internal"), "{line}: {err}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_standard_output_is_an_error() {
    let place = Place::new();
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    for line in ["policies", "--help", "--version", "run --help"] {
        let full = full.try_clone().unwrap();
        let done = place.command(line).stdout(full).output().unwrap();
        assert_eq!(done.status.code(), Some(2), "{line}");
        assert!(String::from_utf8(done.stderr).unwrap().contains("standard output"));
    }
}

#[test]
fn colour_only_where_it_is_wanted() {
    let place = Place::new();
    let line = "run --policy baseline --gpus 1 --config none --requests none";
    assert!(!place.run(line).err.contains('\u{1b}'));
    assert!(!place.run(&format!("{line} --color never")).err.contains('\u{1b}'));
    assert!(place.run(&format!("{line} --color always")).err.contains('\u{1b}'));
    assert!(place.run(&format!("--color always {line}")).err.contains('\u{1b}'));
    place.run("--color never policies").code(0);
    place.run("--out x policies").code(2).says("after the command");
}

#[test]
fn lists_and_help_fit_a_terminal() {
    let place = Place::new();
    let policies = place.run("policies").code(0).out;
    assert!(policies.lines().all(|line| line.chars().count() <= 80), "{policies}");
}
