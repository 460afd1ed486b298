//! The parsed text of one file, JSON or YAML alike: a flat tree whose scalars are slices of the text, each with its place.
//!
//! Nodes lie in pre-order in one array, so a million of them cost one allocation, and neither building nor dropping
//! the tree recurses. What a scalar means is worked out only when a field asks for it.

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A scalar without quotes: its text decides what it is.
    Plain,
    /// A scalar that is text whatever it looks like.
    Quoted,
    /// A list.
    Seq,
    /// A mapping: its children are key, value, key, value, ...
    Map,
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// Where it starts in the source.
    at: u32,
    /// Where its text starts: in the source or, with `own`, in the tree's own text.
    text: u32,
    /// Length of its text; number of children of a container.
    len: u32,
    /// The node after its last descendant; 0 while a container is open.
    end: u32,
    kind: Kind,
    own: bool,
}

/// The tree of one file.
#[derive(Debug, Default)]
pub(super) struct Tree<'a> {
    source: &'a str,
    nodes: Vec<Node>,
    /// Scalars whose text is not a slice of the source, because of escapes or folded lines.
    own: String,
}

impl<'a> Tree<'a> {
    /// An empty tree over `source`, whose offsets have to fit into 32 bits.
    pub fn new(source: &'a str) -> Tree<'a> {
        debug_assert!(u32::try_from(source.len()).is_ok());
        // About as many as such texts have, so that a large array is not copied again and again while it grows.
        let expected = (source.len() / 8).min(1 << 24);
        Tree { source, nodes: Vec::with_capacity(expected), own: String::new() }
    }

    /// How many bytes its scalars have that are no slices of the source.
    pub fn own_text(&self) -> usize {
        self.own.len()
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    pub fn source(&self) -> &'a str {
        self.source
    }

    pub fn root(&self) -> Item<'_> {
        Item { tree: self, index: 0 }
    }

    pub fn item(&self, index: usize) -> Item<'_> {
        Item { tree: self, index }
    }

    /// Adds a scalar whose text is `source[text..text + len]`.
    pub fn scalar(&mut self, kind: Kind, at: usize, text: usize, len: usize) {
        self.push(kind, at, text, len, false);
    }

    /// Adds a scalar with a text of its own.
    pub fn own_scalar(&mut self, kind: Kind, at: usize, text: &str) {
        let start = self.own.len();
        self.own.push_str(text);
        self.push(kind, at, start, text.len(), true);
    }

    fn push(&mut self, kind: Kind, at: usize, text: usize, len: usize, own: bool) {
        let end = self.nodes.len() as u32 + 1;
        self.nodes.push(Node { at: at as u32, text: text as u32, len: len as u32, end, kind, own });
    }

    /// Starts a container; its children follow until [`Tree::close`].
    pub fn open(&mut self, kind: Kind, at: usize) -> usize {
        self.nodes.push(Node { at: at as u32, text: 0, len: 0, end: 0, kind, own: false });
        self.nodes.len() - 1
    }

    /// Ends the container at `index`, which has `children`.
    pub fn close(&mut self, index: usize, children: u32) {
        let end = self.nodes.len() as u32;
        let node = &mut self.nodes[index];
        (node.len, node.end) = (children, end);
    }

    /// Whether the container at `index` still gets children.
    pub fn is_open(&self, index: usize) -> bool {
        self.nodes[index].end == 0
    }

    /// Forgets the nodes from `index` on.
    pub fn truncate(&mut self, index: usize) {
        self.nodes.truncate(index);
    }

    /// Adds a copy of the node at `from` with all its descendants; the copy is said to be at `at`. Returns its size.
    pub fn copy(&mut self, from: usize, at: usize) -> usize {
        let (start, end) = (self.nodes.len(), self.nodes[from].end as usize);
        for index in from..end {
            let mut node = self.nodes[index];
            node.end = (node.end as usize - from + start) as u32;
            self.nodes.push(node);
        }
        self.nodes[start].at = at as u32;
        end - from
    }

    /// Puts the subtrees at `parts`, in that order, in place of the children of the open container at `index`.
    pub fn replace_children(&mut self, index: usize, parts: &[usize]) {
        let mut kept = Vec::new();
        for &from in parts {
            let start = index + 1 + kept.len();
            for node in &self.nodes[from..self.nodes[from].end as usize] {
                kept.push(Node { end: (node.end as usize - from + start) as u32, ..*node });
            }
        }
        self.nodes.truncate(index + 1);
        self.nodes.extend(kept);
    }
}

/// A node of a tree.
#[derive(Clone, Copy)]
pub struct Item<'t> {
    tree: &'t Tree<'t>,
    index: usize,
}

impl<'t> Item<'t> {
    fn node(self) -> &'t Node {
        &self.tree.nodes[self.index]
    }

    /// Its number in the tree.
    #[must_use]
    pub fn index(self) -> usize {
        self.index
    }

    /// What it is.
    #[must_use]
    pub fn kind(self) -> Kind {
        self.node().kind
    }

    /// Where it starts in the source.
    pub fn at(self) -> u32 {
        self.node().at
    }

    /// The text of a scalar; nothing for a container.
    pub fn text(self) -> &'t str {
        let node = self.node();
        match node.kind {
            Kind::Seq | Kind::Map => "",
            _ => {
                let text = if node.own { self.tree.own.as_str() } else { self.tree.source };
                &text[node.text as usize..(node.text + node.len) as usize]
            }
        }
    }

    /// What a scalar means; `None` for a container.
    pub fn scalar(self) -> Option<Scalar> {
        match self.kind() {
            Kind::Plain => Some(meaning(self.text())),
            Kind::Quoted => Some(Scalar::Text),
            Kind::Seq | Kind::Map => None,
        }
    }

    /// Whether it is written as nothing.
    pub fn is_null(self) -> bool {
        self.kind() == Kind::Plain && is_null(self.text())
    }

    /// Number of items of a list, or of entries of a mapping.
    pub fn count(self) -> usize {
        match self.kind() {
            Kind::Seq => self.node().len as usize,
            Kind::Map => self.node().len as usize / 2,
            _ => 0,
        }
    }

    /// The children of a container, one after the other.
    pub fn items(self) -> impl Iterator<Item = Item<'t>> + Clone {
        let count = if matches!(self.kind(), Kind::Seq | Kind::Map) { self.node().len } else { 0 };
        let (tree, mut next) = (self.tree, self.index + 1);
        (0..count).map(move |_| {
            let item = Item { tree, index: next };
            next = item.node().end as usize;
            item
        })
    }

    /// The entries of a mapping.
    pub fn entries(self) -> impl Iterator<Item = (Item<'t>, Item<'t>)> + Clone {
        let mut items = self.items();
        std::iter::from_fn(move || Some((items.next()?, items.next()?)))
    }

    /// The value of the first entry with this key; nothing where it is null, or this is no mapping.
    pub fn get(self, name: &str) -> Option<Item<'t>> {
        let maps = self.kind() == Kind::Map;
        let found = maps.then(|| self.entries().find(|(key, _)| key.text() == name)).flatten();
        found.map(|(_, value)| value).filter(|value| !value.is_null())
    }

    /// What the node is, in words.
    pub fn described(self) -> &'static str {
        match (self.kind(), self.scalar()) {
            (Kind::Seq, _) => "a list",
            (Kind::Map, _) => "a mapping",
            (_, Some(Scalar::Null)) => "null",
            (_, Some(Scalar::Bool(_))) => "true or false",
            (_, Some(Scalar::Number(_))) => "a number",
            _ => "text",
        }
    }
}

/// What a scalar means under the core schema of YAML, of which JSON's rules are a part.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Scalar {
    /// Nothing.
    Null,
    /// `true` or `false`.
    Bool(bool),
    /// Any number, also an infinite one.
    Number(f64),
    /// Everything else.
    Text,
}

fn meaning(text: &str) -> Scalar {
    if is_null(text) {
        return Scalar::Null;
    }
    match text {
        "true" | "True" | "TRUE" => Scalar::Bool(true),
        "false" | "False" | "FALSE" => Scalar::Bool(false),
        _ => number(text).map_or(Scalar::Text, Scalar::Number),
    }
}

fn is_null(text: &str) -> bool {
    matches!(text, "" | "~" | "null" | "Null" | "NULL")
}

/// The number that `text` is, if it is one; too large a number is infinite. `NaN` and `Infinity` are what some JSON
/// writers produce: they are numbers too, so that they are refused as such and not as text.
pub(super) fn number(text: &str) -> Option<f64> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let sign = if text.starts_with('-') { -1.0 } else { 1.0 };
    match unsigned.as_bytes().first()? {
        b'0'..=b'9' | b'.' => {}
        b'I' | b'N' => {
            return match unsigned {
                "Infinity" => Some(sign * f64::INFINITY),
                "NaN" => Some(f64::NAN),
                _ => None,
            };
        }
        _ => return None,
    }
    match unsigned {
        ".inf" | ".Inf" | ".INF" => return Some(sign * f64::INFINITY),
        ".nan" | ".NaN" | ".NAN" => return Some(f64::NAN),
        _ => {}
    }
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix) {
            return u64::from_str_radix(digits, radix).ok().map(|whole| whole as f64);
        }
    }
    let decimal = |byte: u8| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-');
    if text.bytes().all(decimal) { text.parse().ok() } else { None }
}
