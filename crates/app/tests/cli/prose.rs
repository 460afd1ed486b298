//! Limits of the prose in README.md, docs, help and messages: 140 columns, 40 words a sentence, no word twice in a row.

use crate::support::{Place, root};
use std::path::Path;

const COLUMNS: usize = 140;
const WORDS: usize = 40;

/// The pages, by name.
fn pages() -> Vec<(String, String)> {
    let docs = std::fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let pages = docs.filter(|path| path.extension().is_some_and(|end| end == "md"));
    let others = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "CHANGELOG.md"];
    let pages = pages.chain(others.map(|name| root().join(name)));
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

/// The sources of a folder: no tests, no tables of data.
fn sources(folder: &Path, found: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() && name != "tests" {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs")
            && !(name.ends_with("tests") || ["words", "kernels", "process", "testing"].contains(&&*name))
        {
            let text = std::fs::read_to_string(&path).unwrap();
            let text = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default().to_owned();
            found.push((path.display().to_string(), text));
        }
    }
}

fn all_sources() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("crates")).unwrap() {
        sources(&entry.unwrap().path().join("src"), &mut found);
    }
    found
}

/// What stands in quotes in a source, each with the number of its line.
fn quoted(source: &str) -> Vec<(usize, String)> {
    let (mut found, mut line, mut open) = (Vec::new(), 1, None::<(usize, String)>);
    let mut letters = source.chars().peekable();
    while let Some(letter) = letters.next() {
        line += usize::from(letter == '\n');
        match (&mut open, letter) {
            (Some((_, text)), '\\') => match letters.next() {
                Some('\n') => {
                    line += 1;
                    while letters.peek().is_some_and(|next| *next == ' ') {
                        letters.next();
                    }
                }
                Some('n') => text.push('\n'),
                Some(other) => text.push(other),
                None => {}
            },
            (Some(_), '"') => found.extend(open.take()),
            (Some((_, text)), other) => text.push(other),
            (None, '"') => open = Some((line, String::new())),
            (None, '/') if letters.peek() == Some(&'/') => {
                letters.by_ref().find(|next| *next == '\n');
                line += 1;
            }
            // A letter in single quotes may be a double one.
            (None, '\'') => {
                let mut ahead = letters.clone();
                let (first, second) = (ahead.next(), ahead.next());
                if first == Some('\\') || second == Some('\'') {
                    letters.next();
                    letters.next();
                }
            }
            (None, _) => {}
        }
    }
    found
}

/// The messages, hints and texts of help in a source: what is in quotes and reads like text, and the comments of flags.
fn spoken(name: &str, source: &str) -> Vec<(usize, String)> {
    let is_statement =
        |text: &str| ["SELECT ", "UPDATE ", "DELETE ", "CREATE "].iter().any(|at| text.contains(at));
    let is_example = |line: &&str| !line.starts_with([' ', '#', '<', '|']);
    let quoted =
        quoted(source).into_iter().filter(|(_, text)| !is_statement(text)).flat_map(|(line, text)| {
            let text = text.lines().filter(is_example).collect::<Vec<_>>().join("\n");
            text.split("\n\n").map(|part| (line, part.replace('\n', " "))).collect::<Vec<_>>()
        });
    let mut found: Vec<(usize, String)> = quoted.collect();
    if name.contains("/app/") {
        let mut comment = String::new();
        for (at, line) in source.lines().enumerate() {
            match line.trim().strip_prefix("///") {
                Some("") | None if !comment.is_empty() => found.push((at, std::mem::take(&mut comment))),
                Some(text) => comment.push_str(text),
                None => {}
            }
        }
    }
    found
}

/// A word that stands twice in a row.
fn repeated(text: &str) -> Option<&str> {
    let words: Vec<&str> = text.split(' ').collect();
    let pairs = words.windows(2).filter(|pair| pair[0] == pair[1] && pair[0].len() > 1);
    pairs.map(|pair| pair[0]).find(|word| word.chars().all(|letter| letter.is_ascii_lowercase()))
}

#[test]
fn messages_and_help_are_short() {
    let (mut seen, mut faults) = (0, Vec::new());
    for (name, source) in all_sources() {
        for (line, text) in spoken(&name, &source) {
            seen += 1;
            for sentence in sentences(&text) {
                let words = sentence.split_whitespace().count();
                faults.extend((words > WORDS).then(|| format!("{name}:{line}: {words} words: {sentence}")));
            }
            faults.extend(repeated(&text).map(|word| format!("{name}:{line}: `{word}` twice: {text}")));
        }
    }
    assert!(seen > 3000, "only {seen} texts were found");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn no_word_of_the_pages_stands_twice_in_a_row() {
    for (name, page) in pages() {
        for (line, paragraph) in paragraphs(&page) {
            assert_eq!(repeated(&without_code(&paragraph)), None, "{name}:{line}: {paragraph}");
        }
    }
}

#[test]
fn help_is_within_140_columns() {
    let place = Place::new();
    let help = |command: &str| place.run(&format!("help {command}")).code(0).out;
    let top = place.run("--help").code(0).out;
    let commands = top.split("Commands:").nth(1).unwrap().split("\n\n").next().unwrap();
    let commands: Vec<&str> = commands
        .lines()
        .filter_map(|line| line.strip_prefix("  ")?.split(' ').next().filter(|name| !name.is_empty()))
        .collect();
    assert!(commands.len() > 20 && commands.contains(&"run"), "{commands:?}");
    for (command, text) in commands.iter().map(|one| (*one, help(one))).chain([("", top.clone())]) {
        assert!(!text.is_empty(), "{command}");
        for line in text.lines() {
            assert!(line.chars().count() <= COLUMNS, "gswarm help {command}: {line}");
        }
    }
}

#[test]
fn quotes_and_repeats_are_found() {
    let source = "let a = \"one \\\n   two\"; // \"not this\"\nlet b = '\"'; let c = \"say \\\"x\\\"\";";
    let found = quoted(source);
    assert_eq!(found, [(1, "one two".to_owned()), (3, "say \"x\"".to_owned())]);
    assert_eq!(repeated("allows more attempts attempts"), Some("attempts"));
    assert_eq!(repeated("so it is, it is"), None);
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
