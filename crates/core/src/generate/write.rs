//! Configurations and requests as text. Requests are written one by one, so that a file of any size takes no memory.

use super::GeneratedRequests;
use std::io::{self, Write};

/// How a file is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// JSON.
    Json,
    /// YAML.
    Yaml,
}

impl Format {
    /// The format that a file's extension asks for.
    #[must_use]
    pub fn of_extension(extension: &str) -> Option<Format> {
        match extension.to_ascii_lowercase().as_str() {
            "json" => Some(Format::Json),
            "yaml" | "yml" => Some(Format::Yaml),
            _ => None,
        }
    }
}

/// Writes any number of requests, with one in memory at a time.
pub fn write_requests(
    requests: GeneratedRequests<'_>,
    format: Format,
    out: &mut dyn Write,
) -> io::Result<()> {
    write_list(requests, format, out)
}

/// The list of a file of requests, whoever made them.
pub(super) fn write_list<R: serde::Serialize>(
    requests: impl ExactSizeIterator<Item = R>,
    format: Format,
    out: &mut dyn Write,
) -> io::Result<()> {
    match format {
        Format::Json => {
            out.write_all(b"{\"requests\": [")?;
            for (place, request) in requests.enumerate() {
                out.write_all(if place == 0 { b"\n" } else { b",\n" })?;
                serde_json::to_writer(&mut *out, &request)?;
            }
            out.write_all(b"\n]}\n")
        }
        Format::Yaml => {
            if requests.len() == 0 {
                return out.write_all(b"requests: []\n");
            }
            out.write_all(b"requests:\n")?;
            for request in requests {
                for (place, line) in yaml(&request)?.lines().enumerate() {
                    out.write_all(if place == 0 { b"  - " } else { b"    " })?;
                    out.write_all(line.as_bytes())?;
                    out.write_all(b"\n")?;
                }
            }
            Ok(())
        }
    }
}

pub(super) fn yaml(value: &impl serde::Serialize) -> io::Result<String> {
    serde_saphyr::to_string(value).map_err(io::Error::other)
}
