//! Servers that behave as the real ones are documented to: loads and unloads take their time after the answer, and on
//! request they lie, hang, talk rubbish, die and come back.

mod kinds;
mod world;

pub use world::{Manners, World};

use axum::body::{Body, Bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use gswarm_testing::until;
use serde_json::{Value, json};
use std::net::SocketAddr;
use std::sync::Arc;
use tokio::net::TcpSocket;
use tokio::runtime::Runtime;

/// A server that can be ended with all its connections, and started again at the same address.
pub struct Mock {
    pub world: Arc<World>,
    /// The model of a server that holds only one; several such servers share a world, which then is a GPU.
    own: &'static str,
    address: SocketAddr,
    /// Keeps the address of a server that died from others, who listen on any that is free.
    reserved: Option<TcpSocket>,
    runtime: Option<Runtime>,
}

impl Mock {
    pub fn start(world: Arc<World>, own: &'static str) -> Mock {
        let address = ([127, 0, 0, 1], 0).into();
        let mut mock = Mock { world, own, address, reserved: None, runtime: None };
        mock.listen();
        mock
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Ends it, as a crash would: everything that it held is gone.
    pub fn die(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
        self.world.loses(self.own);
        until("the server has let go of its address", || {
            self.reserved = bound(self.address).ok();
            self.reserved.is_some()
        });
    }

    /// Starts it again.
    pub fn revive(&mut self) {
        self.world.starts(self.own, true);
        self.listen();
    }

    fn listen(&mut self) {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        let socket = self.reserved.take().unwrap_or_else(|| bound(self.address).unwrap());
        let entered = runtime.enter();
        let listener = socket.listen(1024).unwrap();
        drop(entered);
        self.address = listener.local_addr().unwrap();
        let app = axum::Router::new().fallback(answer).with_state((Arc::clone(&self.world), self.own));
        runtime.spawn(async move { axum::serve(listener, app).await.unwrap() });
        self.runtime = Some(runtime);
    }
}

/// A socket that has an address, and does not listen yet.
fn bound(address: SocketAddr) -> std::io::Result<TcpSocket> {
    let socket = TcpSocket::new_v4()?;
    // Connections of the one that died may linger.
    socket.set_reuseaddr(true)?;
    socket.bind(address)?;
    Ok(socket)
}

impl Drop for Mock {
    fn drop(&mut self) {
        self.runtime.take().into_iter().for_each(Runtime::shutdown_background);
    }
}

/// What is asked.
pub struct Asked {
    pub own: &'static str,
    pub method: String,
    pub path: String,
    pub query: String,
    pub body: Value,
}

/// What is answered: a status, and JSON.
pub type Answer = (u16, Value);

async fn answer(State((world, own)): State<(Arc<World>, &'static str)>, request: Request) -> Response {
    let (head, body) = request.into_parts();
    let bytes = axum::body::to_bytes(body, 1 << 20).await.unwrap_or_default();
    let asked = Asked {
        own,
        method: head.method.to_string(),
        path: head.uri.path().to_owned(),
        query: head.uri.query().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&bytes).unwrap_or_default(),
    };
    let authorization = head.headers.get("authorization").and_then(|value| value.to_str().ok());
    if let Some(token) = &world.manners.token
        && authorization != Some(&format!("Bearer {token}"))
    {
        let said = format!("wrong token: {}", authorization.unwrap_or("none"));
        return plain(401, json!({"error": {"message": said}}).to_string());
    }
    match world.mischief(&asked) {
        None => {}
        Some(Mischief::Hang) => std::future::pending().await,
        Some(Mischief::Says(status, text)) => return plain(status, text.to_owned()),
        Some(Mischief::BreaksOff) => return Response::new(Body::from_stream(BreaksOff(false))),
    }
    let (status, value) = kinds::answer(&world, &asked).await;
    plain(status, value.to_string())
}

fn plain(status: u16, text: String) -> Response {
    Response::builder().status(status).body(Body::from(text)).unwrap()
}

/// What goes wrong with a request.
pub enum Mischief {
    Hang,
    Says(u16, &'static str),
    BreaksOff,
}

/// The beginning of an answer, and then the end of the connection.
struct BreaksOff(bool);

impl futures_core::Stream for BreaksOff {
    type Item = Result<Bytes, std::io::Error>;

    fn poll_next(
        mut self: std::pin::Pin<&mut Self>,
        _: &mut std::task::Context<'_>,
    ) -> std::task::Poll<Option<Self::Item>> {
        let begun = std::mem::replace(&mut self.0, true);
        let next = if begun { Err(std::io::Error::other("gone")) } else { Ok(Bytes::from("{\"choi")) };
        std::task::Poll::Ready(Some(next))
    }
}
