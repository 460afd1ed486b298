//! The routes of the model server, and the document that describes them.

mod body;
mod call;
mod estimate;
mod general;
mod lifecycle;
mod openai;
mod stream;
mod tools;
mod types;

pub(super) use call::answer;
pub(super) use lifecycle::to_the_end;
pub(super) use types::CallRequest;

use super::ModelServer;
use axum::{Json, Router};
use utoipa::OpenApi;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

#[derive(OpenApi)]
#[openapi(info(
    title = "gswarm model server",
    description = "Models on disk, in host memory and serving; and the OpenAI-compatible endpoints over them."
))]
struct Document;

fn routes() -> OpenApiRouter<ModelServer> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(general::root))
        .routes(routes!(general::health))
        .routes(routes!(general::status))
        .routes(routes!(lifecycle::download))
        .routes(routes!(lifecycle::load))
        .routes(routes!(lifecycle::serve))
        .routes(routes!(lifecycle::offload))
        .routes(routes!(lifecycle::delete))
        .routes(routes!(call::call))
        .routes(routes!(estimate::by_model))
        .routes(routes!(estimate::by_instance))
        .routes(routes!(openai::models))
        .routes(routes!(openai::model))
        .routes(routes!(openai::completions))
        .routes(routes!(openai::chat))
        .routes(routes!(openai::embeddings))
        .routes(routes!(openai::rerank))
        .routes(routes!(openai::tokenize))
}

/// The document that describes the routes.
#[must_use]
pub fn openapi() -> utoipa::openapi::OpenApi {
    let (_, mut document) = routes().split_for_parts();
    let bearer = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
    let components = document.components.get_or_insert_with(Default::default);
    components.add_security_scheme("token", bearer);
    document
}

/// All routes of a server; `/openapi.json` describes the others.
pub fn router(server: ModelServer) -> Router {
    let (router, _) = routes().split_for_parts();
    let document = openapi();
    router
        .route("/openapi.json", axum::routing::get(move || std::future::ready(Json(document.clone()))))
        .with_state(server)
}
