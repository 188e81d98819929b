//! Templates, their builds and their tags, one method for each call.

use bytes::Bytes;
use cabana_types::wire::{
    AssignTags, AssignedTags, BuildInfo, BuildLogPage, BuildStart, CuratedTemplate, FileUpload, NewTemplate,
    RemoveTags, RequestedBuild, Template, TemplateAlias, TemplateNames, TemplateTag, TemplateUpdate,
    TemplateWithBuilds,
};
use cabana_types::{BuildId, TemplateId};
use futures_util::{Stream, TryStreamExt};
use http::{HeaderValue, Method, Request, Uri, header};
use http_body::Frame;
use http_body_util::{BodyExt, StreamBody};

use crate::api::{Client, USER_AGENT, to_json, within};
use crate::error::{Cause, Error, Result};
use crate::http::{SendBody, SourceFailed, collect};
use crate::query::{self, quote};

/// Largest response to an upload that is read.
const MAX_ANSWER_BYTES: u64 = 64 * 1024;

impl Client {
    /// All templates.
    pub async fn templates(&self) -> Result<Vec<Template>> {
        self.fetch("list templates", "/templates").await
    }

    /// A template with its builds, newest first. Named by its id or name.
    pub async fn template(&self, name: &str) -> Result<TemplateWithBuilds> {
        self.fetch("get the template", &format!("/templates/{}", quote(name))).await
    }

    /// The template of this name, or `None`.
    pub async fn find_template(&self, name: &str) -> Result<Option<TemplateAlias>> {
        match self.fetch("find the template", &format!("/templates/aliases/{}", quote(name))).await {
            Err(e) if e.is_not_found() => Ok(None),
            found => found.map(Some),
        }
    }

    /// The templates that the server can build.
    pub async fn curated_templates(&self) -> Result<Vec<CuratedTemplate>> {
        self.fetch("list curated templates", "/templates/gallery").await
    }

    /// One of them.
    pub async fn curated_template(&self, name: &str) -> Result<CuratedTemplate> {
        self.fetch("get the curated template", &format!("/templates/gallery/{}", quote(name))).await
    }

    /// Builds one, unless it is ready or being built.
    pub async fn build_curated(&self, name: &str) -> Result<CuratedTemplate> {
        let request = self.request(Method::POST, &format!("/templates/gallery/{}", quote(name)), None)?;
        self.call("build the curated template", request).await
    }

    /// Deletes a template with all its builds.
    pub async fn delete_template(&self, name: &str) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/templates/{}", quote(name)), None)?;
        self.call_empty("delete the template", request).await
    }

    /// Lets every team use a template, or only its own; returns its names.
    pub async fn set_public(&self, name: &str, public: bool) -> Result<Vec<String>> {
        self.update_template(name, &TemplateUpdate { public: Some(public), ..TemplateUpdate::default() }).await
    }

    /// Sets where sandboxes of a template may connect that ask for nothing: a preset, or the server's default with `None`.
    /// Returns its names.
    pub async fn set_template_network(&self, name: &str, preset: Option<&str>) -> Result<Vec<String>> {
        let network = Some(preset.unwrap_or_default().to_owned());
        self.update_template(name, &TemplateUpdate { network, ..TemplateUpdate::default() }).await
    }

    /// Sets whether set-uid programs gain nothing in new sandboxes of a template; returns its names.
    pub async fn set_template_no_new_privileges(&self, name: &str, on: bool) -> Result<Vec<String>> {
        let update = TemplateUpdate { no_new_privileges: Some(on), ..TemplateUpdate::default() };
        self.update_template(name, &update).await
    }

    async fn update_template(&self, name: &str, update: &TemplateUpdate) -> Result<Vec<String>> {
        let action = "change the template";
        let body = to_json(action, update)?;
        let request = self.request(Method::PATCH, &format!("/v2/templates/{}", quote(name)), Some(body))?;
        Ok(self.call::<TemplateNames>(action, request).await?.names)
    }

    /// Creates a build, which then waits for its files and to be started.
    pub async fn request_build(&self, new: &NewTemplate) -> Result<RequestedBuild> {
        let action = "request a build";
        let body = to_json(action, new)?;
        self.call(action, self.request(Method::POST, "/v3/templates", Some(body))?).await
    }

    /// Where to upload an archive of files, and whether the server has it already. `hash` identifies its contents.
    pub async fn upload_link(&self, template: &TemplateId, hash: &str) -> Result<FileUpload> {
        self.fetch("get the upload link", &format!("/templates/{template}/files/{}", quote(hash))).await
    }

    /// Uploads an archive of files to a signed link. The API key is not sent. Has no timeout.
    pub async fn upload<S>(&self, url: &str, contents: S, length: u64) -> Result<()>
    where
        S: Stream<Item = std::io::Result<Bytes>> + Send + 'static,
    {
        let action = "upload the files";
        let uri: Uri = url.parse().map_err(|_| Error::Answer { action, reason: "the link is not a URL".to_owned() })?;
        let frames = contents.map_ok(Frame::data).map_err(|e| Cause::from(SourceFailed(e)));
        let body: SendBody = StreamBody::new(frames).boxed_unsync();
        let mut request = Request::builder()
            .method(Method::PUT)
            .uri(uri)
            .body(body)
            .map_err(|e| Error::InvalidInput(e.to_string()))?;
        let headers = request.headers_mut();
        headers.insert(header::USER_AGENT, HeaderValue::from_static(USER_AGENT));
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/octet-stream"));
        headers.insert(header::CONTENT_LENGTH, length.into());
        let response = self.http().send(action, request).await?;
        within(action, collect(action, response, MAX_ANSWER_BYTES)).await.map(drop)
    }

    /// Starts a waiting build.
    pub async fn start_build(&self, template: &TemplateId, build: &BuildId, start: &BuildStart) -> Result<()> {
        let action = "start the build";
        let body = to_json(action, start)?;
        let request = self.request(Method::POST, &format!("/v2/templates/{template}/builds/{build}"), Some(body))?;
        self.call_empty(action, request).await
    }

    /// Cancels a waiting or running build.
    pub async fn cancel_build(&self, template: &TemplateId, build: &BuildId) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/v2/templates/{template}/builds/{build}"), None)?;
        self.call_empty("cancel the build", request).await
    }

    /// Status of a build, with at most `limit` lines of its log from `offset` on.
    pub async fn build_status(
        &self,
        template: &TemplateId,
        build: &BuildId,
        offset: u32,
        limit: u32,
    ) -> Result<BuildInfo> {
        let pairs = [("logsOffset", offset.to_string()), ("limit", limit.to_string())];
        let path = format!("/templates/{template}/builds/{build}/status{}", query::encode(&pairs));
        self.fetch("get the build's status", &path).await
    }

    /// Lines of a build's log from `cursor` (milliseconds since 1970) on.
    pub async fn build_logs(
        &self,
        template: &TemplateId,
        build: &BuildId,
        cursor: Option<i64>,
        limit: Option<u32>,
    ) -> Result<BuildLogPage> {
        let mut pairs = vec![("direction", "forward".to_owned())];
        pairs.extend(cursor.map(|n| ("cursor", n.to_string())));
        pairs.extend(limit.map(|n| ("limit", n.to_string())));
        let path = format!("/templates/{template}/builds/{build}/logs{}", query::encode(&pairs));
        self.fetch("read the build's log", &path).await
    }

    /// The tags of a template, by name.
    pub async fn tags(&self, name: &str) -> Result<Vec<TemplateTag>> {
        self.fetch("list the template's tags", &format!("/templates/{}/tags", quote(name))).await
    }

    /// Adds tags to the build that `target` names: `name`, `name:tag` or `name:<build id>`.
    pub async fn assign_tags(&self, target: &str, tags: &[String]) -> Result<AssignedTags> {
        let action = "tag the build";
        let body = to_json(action, &AssignTags { target: target.to_owned(), tags: tags.to_vec() })?;
        self.call(action, self.request(Method::POST, "/templates/tags", Some(body))?).await
    }

    /// Removes tags from a template.
    pub async fn remove_tags(&self, name: &str, tags: &[String]) -> Result<()> {
        let action = "remove the tags";
        let body = to_json(action, &RemoveTags { name: name.to_owned(), tags: tags.to_vec() })?;
        self.call_empty(action, self.request(Method::DELETE, "/templates/tags", Some(body))?).await
    }
}
