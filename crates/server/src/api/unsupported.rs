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

/// Method, path, id of the operation and feature.
const UNSUPPORTED: &[(&str, &str, &str, &str)] = &[
    ("POST", "/sandboxes/{sandboxID}/reset", "reset_sandbox", "Resetting a sandbox"),
    ("POST", "/sandboxes/{sandboxID}/volume-mounts", "mount_volume", "Mounting a volume"),
    ("DELETE", "/sandboxes/{sandboxID}/volume-mounts", "unmount_volume", "Unmounting a volume"),
    ("POST", "/templates/{templateID}/builds/{buildID}", "build_from_image", "Building a template from a pushed image"),
    ("GET", "/volumes", "list_volumes", "Keeping volumes"),
    ("POST", "/volumes", "create_volume", "Keeping volumes"),
    ("GET", "/volumes/{volumeID}", "get_volume", "Keeping volumes"),
    ("PATCH", "/volumes/{volumeID}", "update_volume", "Keeping volumes"),
    ("DELETE", "/volumes/{volumeID}", "delete_volume", "Keeping volumes"),
    ("GET", "/volumecontent/{volumeID}/dir", "list_volume", "Keeping volumes"),
    ("POST", "/volumecontent/{volumeID}/dir", "make_volume_directory", "Keeping volumes"),
    ("GET", "/volumecontent/{volumeID}/path", "stat_volume_path", "Keeping volumes"),
    ("PATCH", "/volumecontent/{volumeID}/path", "update_volume_path", "Keeping volumes"),
    ("DELETE", "/volumecontent/{volumeID}/path", "delete_volume_path", "Keeping volumes"),
    ("GET", "/volumecontent/{volumeID}/file", "read_volume_file", "Keeping volumes"),
    ("PUT", "/volumecontent/{volumeID}/file", "write_volume_file", "Keeping volumes"),
];

/// Adds the routes.
pub(super) fn routes(mut router: Router<Arc<App>>) -> Router<Arc<App>> {
    for (method, path, _, what) in UNSUPPORTED {
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
    for (method, path, id, what) in UNSUPPORTED {
        let method = match *method {
            "GET" => HttpMethod::Get,
            "PUT" => HttpMethod::Put,
            "PATCH" => HttpMethod::Patch,
            "DELETE" => HttpMethod::Delete,
            _ => HttpMethod::Post,
        };
        let mut operation = OperationBuilder::new()
            .operation_id(Some(*id))
            .tag("later")
            .summary(Some(format!("{what}. Not available yet.")));
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
