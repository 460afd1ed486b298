//! A server of its own for each test, and small models for it.

use axum::Router;
use gswarm_infer::ModelKind;
use gswarm_infer::init::{ModelSize, model_files};
use gswarm_serve::guard::{BoundServer, GuardSettings, ServerEnd, bind, install_crypto};
use gswarm_serve::model_server::{ModelServer, ModelServerOptions, router};
use reqwest::{Client, Method, Response, StatusCode};
use serde_json::{Value, json};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

pub use gswarm_testing::LIMIT;

/// A server that ends with the test.
pub struct Server {
    pub url: String,
    pub port: u16,
    pub client: Client,
    /// The folder of models, where there is one.
    pub folder: Option<TempDir>,
    stop: Option<oneshot::Sender<()>>,
    task: JoinHandle<ServerEnd>,
}

/// An answer: its status, and its body as JSON.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Answer {
    /// Fails the test unless the status is this one.
    #[track_caller]
    pub fn is(self, status: u16) -> Value {
        assert_eq!(self.status, status, "{:#}", self.body);
        self.body
    }
}

impl Server {
    /// Serves a router.
    pub async fn of(settings: GuardSettings, make: impl FnOnce(&BoundServer) -> Router) -> Server {
        install_crypto();
        let bound = bind(settings).await.unwrap();
        let (url, port) = (bound.url(), bound.address().port());
        let routes = make(&bound);
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(bound.serve(routes, async { drop(stopped.await) }));
        let client = Client::builder().timeout(LIMIT).build().unwrap();
        Server { url, port, client, folder: None, stop: Some(stop), task }
    }

    /// A model server with options that a test changes.
    pub async fn with(change: impl FnOnce(&mut ModelServerOptions)) -> Server {
        let folder = tempfile::tempdir().unwrap();
        let mut options = ModelServerOptions::new(folder.path());
        options.engine.max_context = 512;
        change(&mut options);
        let make = |bound: &BoundServer| router(ModelServer::open(options, bound).unwrap());
        Server { folder: Some(folder), ..Server::of(GuardSettings::local(0), make).await }
    }

    /// A model server with `tiny-llm` and `tiny-embedding`.
    pub async fn with_models() -> Server {
        Server::with(|options| {
            write_model(&options.models, "tiny-llm", ModelKind::Language);
            write_model(&options.models, "tiny-embedding", ModelKind::Embedding);
        })
        .await
    }

    pub fn path(&self) -> &Path {
        self.folder.as_ref().unwrap().path()
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Answer {
        let request = self.client.request(method, format!("{}{path}", self.url));
        let request = match &body {
            Some(body) => request.json(body),
            None => request,
        };
        answer(request.send().await.unwrap()).await
    }

    pub async fn get(&self, path: &str) -> Answer {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(Method::POST, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Answer {
        self.send(Method::DELETE, path, None).await
    }

    /// Starts an instance; its id.
    pub async fn serve(&self, model: &str, device: &str) -> String {
        let body =
            self.post("/standalone/serve", json!({"model_name": model, "device": device})).await.is(200);
        body["data"]["instance_id"].as_str().unwrap().to_string()
    }

    /// Tells the server to end, and waits until it has.
    pub async fn end(mut self) -> ServerEnd {
        self.stop.take();
        tokio::time::timeout(LIMIT, self.task).await.expect("the server does not end").unwrap()
    }

    /// Tells the server to end.
    pub fn tell_to_end(&mut self) {
        self.stop.take();
    }
}

/// Status and JSON of an answer. Every answer has to be JSON, whatever its status.
pub async fn answer(response: Response) -> Answer {
    let status = response.status();
    let kind = response.headers().get("content-type").map(|value| value.to_str().unwrap().to_string());
    let text = response.text().await.unwrap();
    assert_eq!(kind.as_deref(), Some("application/json"), "{status}: {text}");
    assert_ne!(status, StatusCode::NOT_EXTENDED);
    Answer { status: status.as_u16(), body: serde_json::from_str(&text).unwrap() }
}

pub fn write_model(folder: &Path, name: &str, kind: ModelKind) {
    let place = folder.join(name);
    std::fs::create_dir_all(&place).unwrap();
    for (file, bytes) in model_files(kind, ModelSize::Tiny, 7).unwrap() {
        std::fs::write(place.join(file), bytes).unwrap();
    }
}

/// Waits until something holds.
pub async fn until<F: Future<Output = bool>>(what: &str, mut holds: impl FnMut() -> F) {
    let waited = tokio::time::timeout(LIMIT, async {
        while !holds().await {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    });
    assert!(waited.await.is_ok(), "it never happened: {what}");
}
