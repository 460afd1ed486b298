use crate::support::{Place, root};

/// The commands of the `sh` blocks of a page, in order.
fn commands(page: &str) -> Vec<String> {
    let text = std::fs::read_to_string(root().join(page)).unwrap();
    let blocks = text.split("```sh\n").skip(1).filter_map(|rest| rest.split("```").next());
    blocks.flat_map(str::lines).filter_map(|line| line.strip_prefix("gswarm ")).map(str::to_string).collect()
}

#[test]
fn the_commands_of_the_readme_work_in_their_order() {
    let (place, lines) = (Place::new(), commands("README.md"));
    assert!(lines.len() >= 4, "{lines:?}");
    for line in lines {
        place.run(&line).code(0);
    }
}

#[test]
fn the_readme_has_the_two_commands() {
    let text = std::fs::read_to_string(root().join("README.md")).unwrap();
    assert!(text.contains("```\ncargo run --release\n```") && text.contains("```\ncargo xtask test\n```"));
}
