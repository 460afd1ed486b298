//! JSON Schemas of gswarm's files, for editors and other programs. Tests hold each against the reader of its file.

named! {
    /// A kind of file that has a schema.
    pub enum SchemaKind {
        /// Models, workflows and the cluster.
        Config = "config",
        /// Requests.
        Requests = "requests",
        /// A plan.
        Plan = "plan",
        /// An execution log.
        Log = "log",
    }
}

impl SchemaKind {
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
