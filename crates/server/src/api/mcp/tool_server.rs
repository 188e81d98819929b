//! The tools as rmcp's handler: their list, and calls of them.

use std::pin::pin;
use std::sync::Arc;

use cabana_agent::call::{Observer, Unobserved};
use cabana_agent::format::Format;
use cabana_agent::tools::Tool;
use cabana_types::SandboxId;
use cabana_types::tool::{ToolImage, ToolResult, ToolStatus};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation, ListToolsResult,
    PaginatedRequestParams, ServerCapabilities, ServerConfig,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use serde_json::Value;

use super::progress::{Newest, Progress};
use crate::api::App;
use crate::api::tools::SandboxComputers;
use crate::auth::Caller;
use crate::error::short;
use crate::tools::{CallError, NewCall};

const INSTRUCTIONS: &str = "The tools work in a sandbox: a private Linux computer that is made on first use, keeps its files between calls \
    and can be used freely. Give `sandbox` only to use another one than the default, by the id or name that sandbox_create or sandbox_list \
    returns.";

/// The tools for one request.
#[derive(Clone)]
pub(super) struct ToolServer {
    pub(super) app: Arc<App>,
    pub(super) caller: Caller,
    /// The tools that the client chose.
    pub(super) tools: Vec<&'static dyn Tool>,
    /// The sandbox that the client is bound to.
    pub(super) sandbox: Option<SandboxId>,
    /// The session that the client names.
    pub(super) session: Option<String>,
    pub(super) computers: Arc<SandboxComputers>,
}

impl ServerHandler for ToolServer {
    fn get_info(&self) -> ServerConfig {
        let mut server = Implementation::new("cabana", env!("CARGO_PKG_VERSION"));
        server.title = Some("Cabana".to_owned());
        let mut info = ServerConfig::new(ServerCapabilities::builder().enable_tools().build());
        info.server_info = server;
        info.with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _: Option<PaginatedRequestParams>,
        _: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = Format::Mcp.describe(&self.tools).into_iter().map(serde_json::from_value).collect::<Result<_, _>>();
        let tools = tools.map_err(|error| {
            tracing::error!(%error, "a tool cannot be described");
            ErrorData::internal_error("the tools cannot be described; the server's log has the details", None)
        })?;
        Ok(ListToolsResult::with_all_items(tools))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let Some(tool) = self.tools.iter().copied().find(|tool| tool.spec().name == request.name) else {
            let text = format!("Unknown tool: {}; tools/list names those of this connection", short(&request.name));
            return Err(ErrorData::invalid_params(text, None));
        };
        let newest = Arc::new(Newest::default());
        let mut progress = context
            .meta
            .get_progress_token()
            .map(|token| Progress::new(context.peer.clone(), token, Arc::clone(&newest)));
        let observer: Arc<dyn Observer> = if progress.is_some() { newest } else { Arc::new(Unobserved) };
        let request_id = serde_json::to_string(&context.id).unwrap_or_default();
        let session = self.session.as_deref();
        let running = session.map(|session| self.app.mcp_calls.begin(&self.caller.actor, session, request_id));
        let cancelled = async {
            match &running {
                Some((token, _)) => token.cancelled().await,
                None => std::future::pending().await,
            }
        };
        let new = NewCall {
            team: self.caller.team.clone(),
            sandbox: self.sandbox.clone(),
            tool,
            arguments: Value::Object(request.arguments.unwrap_or_default()),
            computers: Arc::clone(&self.computers) as _,
            observer,
            key: None,
            detach: false,
        };
        let handle = self.app.calls.start(new).await.map_err(not_started)?;
        let mut result = pin!(handle.result());
        let telling = async {
            if let Some(progress) = &mut progress {
                progress.tell().await;
            }
            std::future::pending().await
        };
        // Dropping the handle cancels the call, which ends its command.
        let result = tokio::select! {
            biased;
            result = &mut result => result,
            () = context.ct.cancelled() => return Ok(ended("the connection was closed").into()),
            () = cancelled => return Ok(ended("the call was cancelled; its command is being ended").into()),
            () = telling => None,
        };
        match result {
            Some(result) => Ok(content(&result).into()),
            None => Err(ErrorData::internal_error("the call failed; the server's log has the details", None)),
        }
    }
}

fn ended(text: &str) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(text)])
}

fn not_started(error: CallError) -> ErrorData {
    if let CallError::Store(error) = &error {
        tracing::error!(error = cabana_types::error::chain(error), "a tool could not be called");
    }
    ErrorData::internal_error("the call could not be started; the server's log has the details", None)
}

/// A result in MCP's form. Images are content of their own, so they are left out of the structured part.
fn content(result: &ToolResult) -> CallToolResult {
    let mut content = vec![ContentBlock::text(result.output.clone())];
    let image = |image: &ToolImage| ContentBlock::image(image.data.clone(), image.media_type.clone());
    content.extend(result.images.iter().map(image));
    let mut answer = match result.status {
        ToolStatus::Success => CallToolResult::success(content),
        ToolStatus::Error => CallToolResult::error(content),
    };
    let structured = ToolResult { images: Vec::new(), ..result.clone() };
    answer.structured_content = serde_json::to_value(structured).ok();
    answer
}
