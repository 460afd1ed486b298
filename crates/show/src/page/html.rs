//! A page as one HTML file that asks nobody for anything.

use super::{Block, Page, PageTable};
use crate::chart::inline_svg;
use askama::Template;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use sha2::{Digest, Sha256};

const STYLE: &str = include_str!("../../assets/page.css");
/// `gantt.js` is built from `web/src/report` by `npm run build` in `web`.
const SCRIPT: &str = concat!(include_str!("../../assets/table.js"), include_str!("../../assets/gantt.js"));

/// Escaping is the template's; what is marked safe there is made by this crate and has been escaped before.
#[derive(Template)]
#[template(path = "page.html")]
struct PageTemplate<'a> {
    page: &'a Page,
    lead: String,
    style: &'static str,
    script: &'static str,
    /// The script, and nothing else, may run.
    script_hash: String,
    sections: Vec<SectionView<'a>>,
}

struct SectionView<'a> {
    title: &'a str,
    id: usize,
    blocks: Vec<BlockView<'a>>,
}

enum BlockView<'a> {
    Text(String),
    Chart { name: &'a str, svg: String, about: String },
    Table(&'a PageTable),
    Gantt { id: usize, title: &'a str, note: &'a str, data: String },
}

/// The page as HTML.
#[must_use]
pub fn html(page: &Page) -> String {
    let sections = page
        .sections
        .iter()
        .enumerate()
        .map(|(id, section)| SectionView { title: &section.title, id, blocks: blocks(id, section) })
        .collect();
    let script_hash = BASE64_STANDARD.encode(Sha256::digest(SCRIPT.as_bytes()));
    let template = PageTemplate {
        page,
        lead: unmarked(&page.lead),
        style: STYLE,
        script: SCRIPT,
        script_hash,
        sections,
    };
    // Writing into memory cannot fail, and nothing in the template does.
    template.render().unwrap_or_default()
}

fn blocks(section_id: usize, section: &super::Section) -> Vec<BlockView<'_>> {
    let numbered = section.blocks.iter().enumerate();
    numbered.filter_map(|(number, block)| view(section_id * 1000 + number, block)).collect()
}

/// Text whose names are marked for Markdown, without the marks.
fn unmarked(text: &str) -> String {
    text.replace('`', "")
}

fn view(id: usize, block: &Block) -> Option<BlockView<'_>> {
    Some(match block {
        Block::Text(text) => BlockView::Text(unmarked(text)),
        Block::Chart(chart) if chart.is_empty() => return None,
        Block::Chart(chart) => {
            BlockView::Chart { name: &chart.name, svg: inline_svg(chart), about: unmarked(&chart.about) }
        }
        Block::Table(table) => BlockView::Table(table),
        Block::Gantt(gantt) => {
            BlockView::Gantt { id, title: &gantt.title, note: &gantt.note, data: gantt.json() }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::page::{Card, Cell, Section};

    #[test]
    fn names_from_files_stay_text_and_nothing_is_fetched() {
        let evil = "<script>alert(1)</script>";
        let table =
            PageTable { head: vec![evil.into()], rows: vec![vec![Cell::text(evil)]], ..PageTable::default() };
        let page = Page {
            title: evil.into(),
            lead: evil.into(),
            cards: vec![Card::new(evil, evil, evil)],
            sections: vec![Section {
                title: evil.into(),
                blocks: vec![Block::Text(evil.into()), Block::Table(table)],
            }],
        };
        let text = html(&page);
        assert!(!text.contains(evil) && text.contains("&#60;script&#62;"), "{text}");
        assert!(text.contains("default-src 'none'") && text.contains("script-src 'sha256-"));
        for fetches in ["src=\"", "href=\"http", "@import", "url("] {
            assert!(!text.contains(fetches), "{fetches}");
        }
        // The one script that may run is the one whose hash is in the head.
        assert_eq!(text.matches("<script>").count(), 1);
        let script = text.split("<script>").nth(1).unwrap().split("</script>").next().unwrap();
        let hash = BASE64_STANDARD.encode(Sha256::digest(script.as_bytes()));
        assert!(text.contains(&hash));
    }
}
