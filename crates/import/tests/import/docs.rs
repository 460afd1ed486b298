//! The codes of imports are documented, with examples that give them.

use crate::support::codes;
use gswarm_core::input::Code;
use gswarm_import::{ImportKind, ImportOptions};

#[test]
fn every_code_has_an_example_that_gives_it() {
    let page = include_str!("../../../../docs/errors.md");
    for &code in Code::ALL.iter().filter(|code| code.code().starts_with("E6")) {
        let heading = format!("\n## {} {}\n", code.code(), code.title());
        let (_, after) =
            page.split_once(&heading).unwrap_or_else(|| panic!("docs/errors.md lacks {heading}"));
        let section = format!("\n{}", after.split("\n## ").next().unwrap());
        let mut fences = section.split("\n```").skip(1).step_by(2);
        let (info, text) = fences.next().and_then(|fence| fence.split_once('\n')).expect("an example");
        let kind = ImportKind::ALL.iter().find(|kind| info.ends_with(kind.name())).expect("a kind");
        let mut options = ImportOptions::default();
        match code {
            Code::NoSuchPlace => options.choices.push(("Long".to_owned(), "true".to_owned())),
            Code::Expands => options.counts.push(("Each".to_owned(), 9_999)),
            _ => {}
        }
        assert_eq!(codes(*kind, text, &options), [code]);
    }
}
