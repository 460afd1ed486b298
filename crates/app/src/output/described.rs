//! Files that name their schema, with the schema beside them, so that editors complete and check them.

use super::files::Batch;
use crate::failure::Failure;
use gswarm_core::generate::Format;
use gswarm_core::schema::SchemaKind;
use std::io::{self, Write};
use std::path::Path;

/// Adds a file that names its schema. [`beside`] writes the schema once the batch has its names.
pub fn add(
    batch: &mut Batch,
    name: &str,
    kind: SchemaKind,
    format: Format,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> Result<(), Failure> {
    batch.add(name, |out| {
        let reference = kind.file_name();
        match format {
            Format::Yaml => {
                writeln!(out, "# yaml-language-server: $schema={reference}")?;
                write(out)
            }
            Format::Json => write(&mut Keyed { out, reference: Some(reference) }),
        }
    })
}

/// Writes the schemas of these kinds into a folder, where they are missing or of another version.
pub fn beside(folder: &Path, kinds: &[SchemaKind]) -> Result<(), Failure> {
    let is_there = |kind: &SchemaKind| {
        std::fs::read(folder.join(kind.file_name())).is_ok_and(|bytes| bytes == kind.text().as_bytes())
    };
    let mut batch = Batch::new(folder)?;
    for kind in kinds.iter().filter(|kind| !is_there(kind)) {
        batch.add(&kind.file_name(), |out| out.write_all(kind.text().as_bytes()))?;
    }
    batch.commit().map(drop)
}

/// Puts the key `$schema` first into a JSON object that is written through it.
struct Keyed<'o, W> {
    out: &'o mut W,
    /// Until the object has begun.
    reference: Option<String>,
}

impl<W: Write> Write for Keyed<'_, W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match (bytes.split_first(), self.reference.take()) {
            (Some((b'{', _)), Some(reference)) => {
                write!(self.out, "{{\n  \"$schema\": \"{reference}\",")?;
                Ok(1)
            }
            _ => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_schema_is_the_first_key_of_an_object() {
        for (text, expected) in [
            ("{\n  \"a\": {}\n}\n", "{\n  \"$schema\": \"x\",\n  \"a\": {}\n}\n"),
            ("{\"a\": 1}", "{\n  \"$schema\": \"x\",\"a\": 1}"),
            ("[{}]", "[{}]"),
        ] {
            let mut out = Vec::new();
            Keyed { out: &mut out, reference: Some("x".to_owned()) }.write_all(text.as_bytes()).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), expected);
        }
    }
}
