//! Middleware of every route: request ids, errors and panics in one form, and CORS.

use std::panic::AssertUnwindSafe;

use axum::Router;
use axum::extract::Request;
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use cabana_types::ErrorCode;
use futures_util::FutureExt;
use http::{HeaderName, HeaderValue, Method, Uri};
use tower_http::cors::{Any, CorsLayer};
use tracing::Instrument;

use crate::error::{ApiError, short};

const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Adds the middleware to the routes.
pub(super) fn wrap(router: Router) -> Router {
    // E2B's API allows every origin: the key is in a header that a browser never adds by itself.
    let cors = CorsLayer::new().allow_origin(Any).allow_methods(Any).allow_headers(Any).expose_headers(Any);
    router
        .fallback(no_route)
        .method_not_allowed_fallback(no_method)
        .layer(cors)
        .layer(axum::middleware::from_fn(with_request_id))
}

async fn no_route(method: Method, uri: Uri) -> ApiError {
    let text = format!("There is no route {method} {}; GET /openapi.json lists them", short(uri.path()));
    ApiError::new(ErrorCode::RouteNotFound, text)
}

async fn no_method(method: Method, uri: Uri) -> ApiError {
    let text = format!("{} does not take {method}; GET /openapi.json says what it takes", short(uri.path()));
    ApiError::new(ErrorCode::MethodNotAllowed, text)
}

/// Gives the request an id that appears in the log and in the response, and turns a panic into a response.
async fn with_request_id(request: Request, next: Next) -> Response {
    let id = uuid::Uuid::new_v4().to_string();
    let span = tracing::info_span!("request", id, method = %request.method(), path = short(request.uri().path()));
    let mut response = async {
        match AssertUnwindSafe(next.run(request)).catch_unwind().await {
            Ok(response) => response,
            Err(panic) => {
                let text = panic.downcast_ref::<String>().map(String::as_str);
                let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
                tracing::error!(panic = text, "handler panicked");
                ApiError::new(
                    ErrorCode::Internal,
                    "The server failed; find the details in its log by the id in the header x-request-id",
                )
                .into_response()
            }
        }
    }
    .instrument(span)
    .await;
    if let Ok(value) = HeaderValue::from_str(&id) {
        response.headers_mut().insert(REQUEST_ID, value);
    }
    response
}

#[cfg(test)]
mod tests {
    use axum::body::Body;
    use tower::ServiceExt;

    use super::*;

    #[tokio::test]
    async fn a_panic_is_a_response() {
        async fn broken() {
            panic!("on purpose");
        }
        let router = wrap(Router::new().route("/x", axum::routing::get(broken)));
        let request = Request::get("/x").body(Body::empty()).expect("request");
        let response = router.oneshot(request).await.expect("answer");
        assert_eq!(response.status(), 500);
        assert!(response.headers().contains_key(REQUEST_ID));
        let body = axum::body::to_bytes(response.into_body(), 1000).await.expect("body");
        let body: serde_json::Value = serde_json::from_slice(&body).expect("json");
        assert_eq!((body["code"].as_u64(), body["error_code"].as_str()), (Some(500), Some("internal_server_error")));
    }
}
