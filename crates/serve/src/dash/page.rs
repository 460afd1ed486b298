//! The page itself: files built into the program, and security headers.

use axum::Router;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use sha2::{Digest, Sha256};

/// Where each file is, its type, and what is in it.
const FILES: &[(&str, &str, &[u8])] = &[
    ("/", "text/html; charset=utf-8", include_bytes!("../../assets/dashboard/index.html")),
    ("/dashboard/app.js", "text/javascript; charset=utf-8", include_bytes!("../../assets/dashboard/app.js")),
    ("/dashboard/app.css", "text/css; charset=utf-8", include_bytes!("../../assets/dashboard/app.css")),
];

/// What the page may do: run its own script, use its own style, and ask this server. Nothing of it comes from elsewhere, nothing
/// goes elsewhere, and no other page shows it as a part of itself.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; \
                      font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

/// The routes of the files.
pub(super) fn routes() -> Router {
    FILES.iter().fold(Router::new(), |router, &(path, kind, bytes)| {
        let digest = Sha256::digest(bytes);
        let tag: String = digest[..12].iter().map(|byte| format!("{byte:02x}")).collect();
        let tag = format!("\"{tag}\"");
        router.route(
            path,
            get(move |headers: HeaderMap| std::future::ready(answer(kind, bytes, &tag, &headers))),
        )
    })
}

fn answer(kind: &'static str, bytes: &'static [u8], tag: &str, headers: &HeaderMap) -> Response {
    let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|value| value.split(',')).any(|value| {
        let value = value.trim();
        value == "*" || value.trim_start_matches("W/") == tag
    });
    let mut response = if is_known {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        ([(header::CONTENT_TYPE, kind)], bytes).into_response()
    };
    let fixed: [(HeaderName, &'static str); 4] = [
        (header::CONTENT_SECURITY_POLICY, POLICY),
        // A browser asks each time whether it has what there is: after an update nobody sees an old page.
        (header::CACHE_CONTROL, "no-cache"),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
    ];
    for (name, value) in fixed {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    if let Ok(tag) = HeaderValue::from_str(tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}
