//! Export of spans: to a collector over HTTP, as OTLP JSON, or to a file, one export per line.
//!
//! Nothing waits for them. If a collector does not answer or is too slow, spans are lost, counted and reported.

use gswarm_core::spans::export;
use reqwest::header::CONTENT_TYPE;
use serde_json::Value;
use std::io::Write;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// Spans that may wait to be sent.
const WAITING: usize = 20_000;
/// Spans that are sent together, and how long the first of them waits for the others.
const TOGETHER: usize = 512;
const GATHERED: Duration = Duration::from_secs(1);
/// How long a collector has to take some spans.
const LIMIT: Duration = Duration::from_secs(10);

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SpanTarget {
    /// The end of a file.
    File(PathBuf),
    /// A collector's address for traces.
    Http(String),
}

impl SpanTarget {
    /// A file, or an address. One without a path is that of a collector, which takes traces at `/v1/traces`.
    #[must_use]
    pub fn of(text: &str) -> SpanTarget {
        let Some(rest) = text.strip_prefix("http://").or_else(|| text.strip_prefix("https://")) else {
            return SpanTarget::File(PathBuf::from(text));
        };
        let has_path = rest.split_once('/').is_some_and(|(_, path)| !path.is_empty());
        let base = text.trim_end_matches('/');
        SpanTarget::Http(if has_path { text.to_owned() } else { format!("{base}/v1/traces") })
    }
}

/// Takes spans, and never waits.
#[derive(Clone, Debug)]
pub struct SpanSender(mpsc::Sender<Value>);

impl SpanSender {
    /// Sends a span, or counts it as lost.
    pub fn send(&self, span: Value) {
        if self.0.try_send(span).is_err() {
            metrics::counter!("gswarm_spans_lost_total").increment(1);
        }
    }
}

/// Sends spans from now on. The task ends once nobody holds the sender, and all is sent.
///
/// # Errors
/// Why the file cannot be written, or the address cannot be asked.
pub fn sending(target: SpanTarget) -> Result<(SpanSender, JoinHandle<()>), String> {
    let mut way = Way::open(target)?;
    let (sender, mut spans) = mpsc::channel(WAITING);
    let task = tokio::spawn(async move {
        let mut told = false;
        let mut batch = Vec::new();
        while spans.recv_many(&mut batch, TOGETHER).await > 0 {
            let more =
                async { while batch.len() < TOGETHER && spans.recv_many(&mut batch, TOGETHER).await > 0 {} };
            // What has come by then is sent, however little it is.
            let _ = tokio::time::timeout(GATHERED, more).await;
            let sent = std::mem::take(&mut batch);
            let count = sent.len() as u64;
            match way.send(sent).await {
                Ok(()) => told = false,
                Err(why) => {
                    metrics::counter!("gswarm_spans_lost_total").increment(count);
                    if !std::mem::replace(&mut told, true) {
                        tracing::warn!("spans are lost: {why}");
                    }
                }
            }
        }
    });
    Ok((SpanSender(sender), task))
}

/// Sends the lines of a file of spans to a collector, one after the other.
///
/// # Errors
/// Why one was not taken.
pub async fn post(url: &str, lines: &[u8]) -> Result<(), String> {
    let mut way = Way::open(SpanTarget::Http(url.to_owned()))?;
    for line in lines.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        way.put(String::from_utf8_lossy(line).into_owned()).await?;
    }
    Ok(())
}

enum Way {
    File(std::fs::File),
    Http(reqwest::Client, String),
}

impl Way {
    fn open(target: SpanTarget) -> Result<Way, String> {
        match target {
            SpanTarget::File(path) => {
                let file = std::fs::OpenOptions::new().create(true).append(true).open(&path);
                Ok(Way::File(file.map_err(|error| format!("{}: {error}", path.display()))?))
            }
            SpanTarget::Http(url) => {
                let http = crate::backend::Http::client(LIMIT)?;
                http.get(&url).build().map_err(|error| format!("{url}: {error}"))?;
                Ok(Way::Http(http, url))
            }
        }
    }

    async fn send(&mut self, spans: Vec<Value>) -> Result<(), String> {
        self.put(export(spans).to_string()).await
    }

    async fn put(&mut self, body: String) -> Result<(), String> {
        match self {
            Way::File(file) => {
                file.write_all(format!("{body}\n").as_bytes()).map_err(|error| error.to_string())
            }
            Way::Http(http, url) => {
                let request = http.post(url.as_str()).header(CONTENT_TYPE, "application/json").body(body);
                let answer = request.timeout(LIMIT).send().await.map_err(|error| error.to_string())?;
                match answer.status() {
                    status if status.is_success() => Ok(()),
                    status => Err(format!("{url} answers {status}")),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_are_files_or_collectors() {
        let http = |url: &str| SpanTarget::Http(url.to_owned());
        for (text, target) in [
            ("spans.jsonl", SpanTarget::File("spans.jsonl".into())),
            ("http://localhost:4318", http("http://localhost:4318/v1/traces")),
            ("http://localhost:4318/", http("http://localhost:4318/v1/traces")),
            ("https://cloud.example/api/otel/v1/traces", http("https://cloud.example/api/otel/v1/traces")),
        ] {
            assert_eq!(SpanTarget::of(text), target);
        }
    }
}
