//! Routes of E2B's and Novita's API that this server does not support yet: the error names the feature, instead of `404`.

use std::sync::Arc;

use axum::extract::{RawPathParams, State};
use axum::routing::{MethodFilter, on};
use axum::{Extension, Router};
use cabana_types::ErrorCode;
use cabana_types::routing::parse_sandbox_ref;
use utoipa::openapi::path::{HttpMethod, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::{ObjectBuilder, OpenApi, Required, Type};

use super::App;
use crate::auth::Caller;
use crate::error::ApiError;

/// Method, path and feature.
const UNSUPPORTED: &[(&str, &str, &str)] = &[
    ("POST", "/sandboxes/{sandboxID}/reset", "Resetting a sandbox"),
    ("POST", "/sandboxes/{sandboxID}/volume-mounts", "Mounting a volume"),
    ("DELETE", "/sandboxes/{sandboxID}/volume-mounts", "Unmounting a volume"),
    ("POST", "/templates/{templateID}/builds/{buildID}", "Building a template from a pushed image"),
    ("GET", "/volumes", "Keeping volumes"),
    ("POST", "/volumes", "Keeping volumes"),
    ("GET", "/volumes/{volumeID}", "Keeping volumes"),
    ("PATCH", "/volumes/{volumeID}", "Keeping volumes"),
    ("DELETE", "/volumes/{volumeID}", "Keeping volumes"),
    ("GET", "/volumecontent/{volumeID}/dir", "Keeping volumes"),
    ("POST", "/volumecontent/{volumeID}/dir", "Keeping volumes"),
    ("GET", "/volumecontent/{volumeID}/path", "Keeping volumes"),
    ("PATCH", "/volumecontent/{volumeID}/path", "Keeping volumes"),
    ("DELETE", "/volumecontent/{volumeID}/path", "Keeping volumes"),
    ("GET", "/volumecontent/{volumeID}/file", "Keeping volumes"),
    ("PUT", "/volumecontent/{volumeID}/file", "Keeping volumes"),
];

/// Adds the routes.
pub(super) fn routes(mut router: Router<Arc<App>>) -> Router<Arc<App>> {
    for (method, path, what) in UNSUPPORTED {
        let filter = match *method {
            "GET" => MethodFilter::GET,
            "PUT" => MethodFilter::PUT,
            "PATCH" => MethodFilter::PATCH,
            "DELETE" => MethodFilter::DELETE,
            _ => MethodFilter::POST,
        };
        let handler = move |app: State<Arc<App>>, caller: Extension<Caller>, path: RawPathParams| async move {
            unsupported_error(&app, &caller, &path, what).await
        };
        router = router.route(path, on(filter, handler));
    }
    router
}

/// Adds the routes to the OpenAPI document.
pub(super) fn describe(document: &mut OpenApi) {
    for (method, path, what) in UNSUPPORTED {
        let method = match *method {
            "GET" => HttpMethod::Get,
            "PUT" => HttpMethod::Put,
            "PATCH" => HttpMethod::Patch,
            "DELETE" => HttpMethod::Delete,
            _ => HttpMethod::Post,
        };
        let mut operation = OperationBuilder::new().tag("later").summary(Some(format!("{what}. Not available yet.")));
        for name in path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')) {
            let parameter = ParameterBuilder::new()
                .name(name)
                .parameter_in(ParameterIn::Path)
                .required(Required::True)
                .schema(Some(ObjectBuilder::new().schema_type(Type::String)));
            operation = operation.parameter(parameter);
        }
        document.paths.add_path_operation(*path, vec![method], operation.build());
    }
}

/// The error. If the path names a sandbox or template that does not exist, it says so instead.
async fn unsupported_error(app: &App, caller: &Caller, path: &RawPathParams, what: &str) -> ApiError {
    for (name, value) in path {
        let found = match name {
            "sandboxID" => match parse_sandbox_ref(value) {
                Some(id) => app.find_usable(&caller.reach, &id).await.map(drop),
                None => Err(ApiError::no_sandbox(value)),
            },
            "templateID" => app.find_template(&caller.reach, value).await.map(drop),
            _ => Ok(()),
        };
        if let Err(error) = found {
            return error;
        }
    }
    ApiError::new(ErrorCode::NotSupported, format!("{what} is not available on this server yet"))
}
