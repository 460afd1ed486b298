//! JSON Schemas of gswarm's files, for editors and other programs. Tests hold each against the reader of its file.

/// A kind of file that has a schema.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SchemaKind {
    /// Models, workflows and the cluster.
    Config,
    /// Requests.
    Requests,
    /// A plan.
    Plan,
    /// An execution log.
    Log,
}

impl SchemaKind {
    /// Every kind.
    pub const ALL: [SchemaKind; 4] =
        [SchemaKind::Config, SchemaKind::Requests, SchemaKind::Plan, SchemaKind::Log];

    /// As the command line spells it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            SchemaKind::Config => "config",
            SchemaKind::Requests => "requests",
            SchemaKind::Plan => "plan",
            SchemaKind::Log => "log",
        }
    }

    /// The schema, as JSON.
    #[must_use]
    pub fn text(self) -> &'static str {
        match self {
            SchemaKind::Config => include_str!("../schemas/config.json"),
            SchemaKind::Requests => include_str!("../schemas/requests.json"),
            SchemaKind::Plan => include_str!("../schemas/plan.json"),
            SchemaKind::Log => include_str!("../schemas/log.json"),
        }
    }

    /// The name of the schema's file, beside the files that refer to it.
    #[must_use]
    pub fn file_name(self) -> String {
        format!("{}.schema.json", self.name())
    }
}
