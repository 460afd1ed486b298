//! Limits of the prose in README.md and docs: 140 columns, 40 words.

use crate::support::root;

const COLUMNS: usize = 140;
const WORDS: usize = 40;

/// The pages, by name.
fn pages() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let pages =
        pages.chain([root().join("README.md"), root().join("CONTRIBUTING.md"), root().join("CHANGELOG.md")]);
    pages.map(|path| (path.display().to_string(), std::fs::read_to_string(&path).unwrap())).collect()
}

/// The paragraphs, items of lists and cells of tables outside code, each as one line, with the number of its first line.
fn paragraphs(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut open: Option<(usize, String)> = None;
    let mut is_code = false;
    for (number, line) in page.lines().enumerate() {
        let text = line.trim();
        let begins_item =
            text.starts_with("- ") || text.split_once(". ").is_some_and(|(n, _)| n.parse::<u32>().is_ok());
        let stands_alone =
            text.is_empty() || text.starts_with(['#', '|', '<', '!']) || text.starts_with("```");
        if stands_alone || is_code || begins_item {
            found.extend(open.take());
        }
        if text.starts_with("```") {
            is_code = !is_code;
        } else if text.starts_with('|') && !is_code {
            found.extend(text.split('|').map(|cell| (number + 1, cell.trim().to_owned())));
        } else if !is_code && !stands_alone {
            let (_, paragraph) = open.get_or_insert((number + 1, String::new()));
            paragraph.push(' ');
            paragraph.push_str(text.strip_prefix("- ").unwrap_or(text));
        }
    }
    found.extend(open);
    found
}

/// A paragraph with each piece of code as one word.
fn without_code(paragraph: &str) -> String {
    let parts = paragraph.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { "code" } else { part }).collect()
}

/// Ends after `.`, `!`, `?`, `:` or `;` with a space behind it.
fn sentences(paragraph: &str) -> Vec<String> {
    let text = without_code(paragraph);
    let ends = text.match_indices(['.', '!', '?', ':', ';']).map(|(at, _)| at + 1);
    let ends = ends.filter(|&end| text[end..].is_empty() || text[end..].starts_with(' '));
    let (mut found, mut start) = (Vec::new(), 0);
    for end in ends.chain([text.len()]) {
        found.push(text[start..end].trim().to_owned());
        start = end;
    }
    found
}

#[test]
fn lines_are_within_140_columns() {
    for (name, page) in pages() {
        let long = page.lines().enumerate().filter(|(_, line)| line.chars().count() > COLUMNS);
        let long: Vec<String> = long.map(|(at, line)| format!("{name}:{}: {line}", at + 1)).collect();
        assert!(long.is_empty(), "{}", long.join("\n"));
    }
}

#[test]
fn sentences_have_40_words_at_most() {
    for (name, page) in pages() {
        for (line, paragraph) in paragraphs(&page) {
            for sentence in sentences(&paragraph) {
                let words = sentence.split_whitespace().count();
                assert!(words <= WORDS, "{name}:{line}: {words} words: {sentence}");
            }
        }
    }
}

#[test]
fn long_sentences_are_found() {
    let long = "word ".repeat(41);
    let page =
        format!("# Title\n\nShort. {long}\nends here.\n\n- item\n\n```\n{long}\n```\n\n| a | {long} |\n");
    let count =
        |text: &str| sentences(text).iter().map(|one| one.split_whitespace().count()).max().unwrap_or(0);
    let worst: Vec<usize> =
        paragraphs(&page).iter().map(|(_, text)| count(text)).filter(|&n| n > WORDS).collect();
    assert_eq!(worst, [43, 41], "a paragraph over two lines and a cell; code is not prose");
    assert_eq!(sentences("Run `a. b` now. Then stop.").len(), 3, "two sentences and the empty end");
}
