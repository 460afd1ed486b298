//! Answers that are long in coming: a stream begins before its model is there, and says how long that will take.
//!
//! What is said in the meantime are comments of server-sent events, which clients of the API pass over: no proxy takes the
//! connection for dead.

use super::calls::Line;
use crate::fault::Fault;
use axum::body::{Body, Bytes};
use axum::http::{HeaderMap, HeaderValue, header};
use axum::response::{IntoResponse, Response};
use futures_util::stream::unfold;
use gswarm_exec::forward::{Answering, Head, Piece};
use gswarm_exec::service::Client;
use gswarm_exec::wire::CallStanding;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::{mpsc, oneshot};
use tokio::time::timeout;

/// The header that says after how many seconds a stream begins without its model, and how often it is spoken of; 0 for never.
pub const KEEP_ALIVE: &str = "x-gswarm-keep-alive";
/// Where nobody says.
const USUAL: Duration = Duration::from_secs(15);
/// The headers of such a stream: its place among those that wait for the model, and the seconds until it is expected to start.
const POSITION: &str = "x-gswarm-position";
const EXPECTED: &str = "x-gswarm-expected-start";

/// How long a stream waits for its model in silence; `None` for ever.
pub(super) fn silence(headers: &HeaderMap) -> Result<Option<Duration>, Fault> {
    let Some(given) = headers.get(KEEP_ALIVE) else { return Ok(Some(USUAL)) };
    let seconds = given.to_str().ok().and_then(|text| text.trim().parse::<f64>().ok());
    let seconds = seconds.filter(|seconds| (0.0..=86_400.0).contains(seconds));
    let seconds = seconds.ok_or_else(|| {
        Fault::param(KEEP_ALIVE, format!("{KEEP_ALIVE} must be a number of seconds, 0 or more"))
    })?;
    Ok((seconds > 0.0).then(|| Duration::from_secs_f64(seconds.max(0.01))))
}

type Coming = oneshot::Receiver<Result<Head, String>>;

enum Stage {
    Waiting(Coming, mpsc::Receiver<Piece>),
    Answering(mpsc::Receiver<Piece>),
    Failing(Bytes),
    Over,
}

/// A stream whose model is not there yet.
pub(super) async fn stream(client: Client, line: Line, answering: Answering, silence: Duration) -> Response {
    let number = line.ticket;
    let standing = ask(&client, number).await;
    let first = said(standing.as_ref());
    let stage = Stage::Waiting(answering.head, answering.pieces);
    let pieces = unfold((Some(first), stage, line), move |(first, stage, mut line)| {
        let client = client.clone();
        async move {
            if let Some(first) = first {
                return Some((Ok::<_, Infallible>(first), (None, stage, line)));
            }
            let (piece, stage) = next(&client, number, stage, silence).await?;
            if matches!(stage, Stage::Over) {
                line.hung_up();
            }
            Some((Ok(piece), (None, stage, line)))
        }
    });
    let kind = HeaderValue::from_static("text/event-stream");
    let mut response = Body::from_stream(pieces).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, kind);
    if let Some(standing) = standing {
        let expected = standing.expected_start_seconds.map(|seconds| format!("{seconds:.1}"));
        for (name, value) in [(POSITION, standing.position.map(|at| at.to_string())), (EXPECTED, expected)] {
            let value = value.and_then(|value| HeaderValue::from_str(&value).ok());
            value.into_iter().for_each(|value| drop(headers.insert(name, value)));
        }
    }
    response
}

/// What is sent next, and what comes after it.
async fn next(client: &Client, number: u64, stage: Stage, silence: Duration) -> Option<(Bytes, Stage)> {
    match stage {
        Stage::Waiting(mut head, mut pieces) => match timeout(silence, &mut head).await {
            Err(_) => {
                let words = said(ask(client, number).await.as_ref());
                Some((words, Stage::Waiting(head, pieces)))
            }
            Ok(Ok(Ok(begun))) if begun.content_type.starts_with("text/event-stream") => {
                Some((Bytes::new(), Stage::Answering(pieces)))
            }
            // It is no stream: an error, which is one event.
            Ok(Ok(Ok(_))) => {
                let mut text = Vec::new();
                while let Some(Piece::Data(data)) = pieces.recv().await {
                    text.extend_from_slice(&data);
                }
                Some((Bytes::new(), Stage::Failing(event(&String::from_utf8_lossy(&text)))))
            }
            Ok(Ok(Err(why))) => Some((Bytes::new(), Stage::Failing(failed("backend_failed", &why)))),
            Ok(Err(_)) => Some((
                Bytes::new(),
                Stage::Failing(failed("stopping", "the service ended before the call did")),
            )),
        },
        Stage::Answering(mut pieces) => match pieces.recv().await {
            Some(Piece::Data(data)) => Some((data, Stage::Answering(pieces))),
            Some(Piece::End) => Some((Bytes::new(), Stage::Over)),
            None => Some((failed("broken_off", "the answer was cut off"), Stage::Over)),
        },
        Stage::Failing(words) => Some((words, Stage::Over)),
        Stage::Over => None,
    }
}

async fn ask(client: &Client, number: u64) -> Option<CallStanding> {
    client.ask(move |view| view.call(number)).await.flatten()
}

/// Where a call stands, as a comment.
fn said(standing: Option<&CallStanding>) -> Bytes {
    let words = standing.and_then(|standing| serde_json::to_string(standing).ok()).unwrap_or_default();
    format!(": {words}\n\n").into()
}

fn event(text: &str) -> Bytes {
    let line: String = text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect();
    format!("data: {line}\n\n").into()
}

fn failed(code: &str, message: &str) -> Bytes {
    let error = serde_json::json!({"error": {"message": message, "type": "server_error", "param": null, "code": code}});
    event(&error.to_string())
}
