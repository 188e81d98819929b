//! The answers of errors in the OpenAPI document.

use utoipa::openapi::schema::Type;
use utoipa::openapi::{ContentBuilder, HeaderBuilder, ObjectBuilder, OpenApi, Ref, ResponseBuilder};

/// Adds the error response, which is the same for every operation.
pub(super) fn describe(document: &mut OpenApi) {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("ErrorBody"))).build();
    let response = ResponseBuilder::new()
        .description("An error: `code` is the status, `message` says what to do")
        .content("application/json", content.clone())
        .build();
    let seconds = ObjectBuilder::new().schema_type(Type::Integer).minimum(Some(1)).build();
    let retry_after = HeaderBuilder::new()
        .schema(Some(seconds))
        .description(Some("Seconds to wait, if the cause is a rate limit"))
        .build();
    let too_many = ResponseBuilder::new()
        .description(
            "Too many requests with this key or from this address, or a limit of the team or server is reached",
        )
        .header("Retry-After", retry_after)
        .content("application/json", content)
        .build();
    for item in document.paths.paths.values_mut() {
        for operation in
            [&mut item.get, &mut item.put, &mut item.post, &mut item.delete, &mut item.patch].into_iter().flatten()
        {
            operation.responses.responses.insert("default".into(), response.clone().into());
            operation.responses.responses.insert("429".into(), too_many.clone().into());
        }
    }
}
