//! One call of a tool, from arguments to result: validation, time limit, cancellation, and one form for results and errors.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use cabana_types::CallId;
use cabana_types::tool::{ToolError, ToolErrorCode, ToolImage, ToolResult, ToolStatus};
use serde_json::{Map, Value, json};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::computer::{Computer, ComputerError, Computers, OutputStream};
use crate::hint::{hint, retryable};
use crate::schema;
use crate::tools::Tool;

/// Time limit of tools other than commands.
pub const FILE_TIME: Duration = Duration::from_secs(60);

/// Gets the output of a command while it runs. It may wait: the command then waits too.
#[async_trait]
pub trait Observer: Send + Sync {
    /// More output, as the command wrote it.
    async fn output(&self, stream: OutputStream, chunk: Bytes);
}

/// An observer that does nothing.
#[derive(Debug, Clone, Copy)]
pub struct Unobserved;

#[async_trait]
impl Observer for Unobserved {
    async fn output(&self, _: OutputStream, _: Bytes) {}
}

/// Settings of tools.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Bytes of output that a model sees.
    pub max_output: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_output: 32 << 10 }
    }
}

/// The circumstances of one call.
pub struct Call {
    pub id: CallId,
    /// The sandboxes that it may use.
    pub computers: Arc<dyn Computers>,
    /// Cancelled when the caller gives up.
    pub cancel: CancellationToken,
    /// Gets live output.
    pub observer: Arc<dyn Observer>,
    pub limits: Limits,
}

/// A call that succeeded.
#[derive(Debug, Clone, Default)]
pub struct Success {
    /// Text for the model.
    pub output: String,
    /// The result for programs.
    pub data: Value,
    pub images: Vec<ToolImage>,
    /// Whether something was left out of `output`.
    pub truncated: bool,
}

/// A call that failed.
#[derive(Debug, Clone)]
pub struct Failure {
    pub code: ToolErrorCode,
    /// What happened, in words for a model.
    pub message: String,
    /// What to try next; empty for the usual hint of the code.
    pub hint: String,
    pub retryable: Option<bool>,
    /// What there is to see all the same, such as the output of a command.
    pub partial: Box<Success>,
}

impl Failure {
    /// A failure with the usual hint of its code.
    pub fn new(code: ToolErrorCode, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), hint: String::new(), retryable: None, partial: Box::default() }
    }

    /// Replaces the hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = hint.into();
        self
    }

    /// Adds what there is to see all the same.
    #[must_use]
    pub fn partial(mut self, partial: Success) -> Self {
        self.partial = Box::new(partial);
        self
    }
}

impl From<ComputerError> for Failure {
    fn from(error: ComputerError) -> Self {
        match error {
            ComputerError::Refused(refusal) => {
                let mut data = Map::new();
                if let Some(size) = refusal.size {
                    data.insert("size".into(), size.into());
                }
                if let Some(media_type) = refusal.media_type {
                    data.insert("mediaType".into(), media_type.into());
                }
                let partial = match data.is_empty() {
                    true => Success::default(),
                    false => Success { data: Value::Object(data), ..Success::default() },
                };
                Self::new(refusal.code, refusal.message).partial(partial)
            }
            ComputerError::Unavailable { message, retryable } => {
                let failure = Self::new(ToolErrorCode::SandboxUnavailable, message);
                Self { retryable: Some(retryable), ..failure }
            }
            ComputerError::Failed { code, message, hint } => Self::new(code, message).hint(hint),
        }
    }
}

/// What a running tool uses: the call, and the sandbox it is for.
pub struct Context<'a> {
    pub call: &'a Call,
    /// The sandbox; tools of the lifecycle have none.
    pub computer: Option<Arc<dyn Computer>>,
}

impl Context<'_> {
    /// The sandbox.
    pub fn computer(&self) -> Result<&dyn Computer, Failure> {
        self.computer
            .as_deref()
            .ok_or_else(|| Failure::new(ToolErrorCode::SandboxUnavailable, "this call has no sandbox"))
    }
}

/// Checks arguments against the tool's schema and fills in defaults. The error is one sentence for each problem.
pub fn check(tool: &dyn Tool, arguments: &Value) -> Result<Value, String> {
    schema::check(&tool.spec().schema(), arguments)
}

/// Carries out a call. Its arguments may be anything: what does not fit is an error in the result.
pub async fn execute(tool: &dyn Tool, arguments: &Value, call: &Call) -> ToolResult {
    carry_out(tool, arguments, call, Begin::Run).await
}

/// Gives the result of a call that ran when the server ended: what only reads runs again, a command is followed to its end, the result of
/// an edit is looked up. What became of others is not known, which the result says. Nothing is done twice.
pub async fn resume(tool: &dyn Tool, arguments: &Value, call: &Call) -> ToolResult {
    carry_out(tool, arguments, call, Begin::Resume).await
}

/// Whether a call is new.
#[derive(Clone, Copy)]
enum Begin {
    Run,
    Resume,
}

impl Begin {
    async fn run(self, tool: &dyn Tool, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        match self {
            Self::Run => tool.run(arguments, context).await,
            Self::Resume => tool.resume(arguments, context).await,
        }
    }
}

async fn carry_out(tool: &dyn Tool, arguments: &Value, call: &Call, how: Begin) -> ToolResult {
    let begin = Instant::now();
    let mut sandbox_id = None;
    let done = match check(tool, arguments) {
        Err(problem) => Err(Failure::new(ToolErrorCode::InvalidArguments, problem)),
        Ok(arguments) => run(tool, arguments, call, &mut sandbox_id, begin, how).await,
    };
    let spec = tool.spec();
    let duration_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
    let result = ToolResult {
        call_id: call.id.clone(),
        tool: spec.name.to_owned(),
        sandbox_id,
        status: ToolStatus::Success,
        output: String::new(),
        data: Value::Null,
        images: Vec::new(),
        error: None,
        truncated: false,
        duration_ms,
    };
    match done {
        Ok(success) => filled(result, success),
        Err(failure) => failed(result, failure),
    }
}

async fn run(
    tool: &dyn Tool,
    mut arguments: Value,
    call: &Call,
    sandbox_id: &mut Option<String>,
    begin: Instant,
    how: Begin,
) -> Result<Success, Failure> {
    let spec = tool.spec();
    let sandbox = match spec.opens {
        true => arguments.as_object_mut().and_then(|fields| fields.remove("sandbox")),
        false => None,
    };
    if !spec.opens {
        let context = Context { call, computer: None };
        let done = limited(FILE_TIME, call, how.run(tool, arguments, &context)).await?;
        *sandbox_id = done.data.get("sandboxId").and_then(Value::as_str).map(str::to_owned);
        return Ok(done);
    }
    let opening = call.computers.open(sandbox.as_ref().and_then(Value::as_str));
    let computer = tokio::select! {
        biased;
        () = call.cancel.cancelled() => return Err(cancelled()),
        opened = opening => opened?,
    };
    *sandbox_id = Some(computer.sandbox_id().to_owned());
    let limit = (FILE_TIME + computer.extra_time()).saturating_sub(begin.elapsed());
    let context = Context { call, computer: Some(computer) };
    match spec.own_time {
        // It ends what it has started, and then itself.
        true => how.run(tool, arguments, &context).await,
        false => limited(limit, call, how.run(tool, arguments, &context)).await,
    }
}

/// Ends an operation at its time limit, or when the caller gives up.
async fn limited<T>(
    limit: Duration,
    call: &Call,
    running: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    tokio::select! {
        biased;
        done = running => done,
        () = call.cancel.cancelled() => Err(cancelled()),
        () = tokio::time::sleep(limit) => {
            let text = format!("the operation did not end within {} s", FILE_TIME.as_secs());
            Err(Failure::new(ToolErrorCode::Timeout, text))
        }
    }
}

pub(crate) fn cancelled() -> Failure {
    Failure::new(ToolErrorCode::Cancelled, "the call was cancelled")
}

fn filled(result: ToolResult, success: Success) -> ToolResult {
    let data = if success.data.is_null() { json!({}) } else { success.data };
    ToolResult { output: success.output, data, images: success.images, truncated: success.truncated, ..result }
}

fn failed(result: ToolResult, failure: Failure) -> ToolResult {
    let Failure { code, message, hint: given, retryable: may_retry, partial } = failure;
    let given = if given.is_empty() { hint(code).to_owned() } else { given };
    // Errors stand at the end: that is where models look, and what survives a cut.
    let said = format!("error {code}: {message}\nhint: {given}");
    let output = match partial.output.is_empty() {
        true => said,
        false => format!("{}\n{said}", partial.output.trim_end_matches('\n')),
    };
    let result = filled(result, Success { output, ..*partial });
    let retryable = may_retry.unwrap_or_else(|| retryable(code));
    ToolResult { status: ToolStatus::Error, error: Some(ToolError { code, message, hint: given, retryable }), ..result }
}

/// The result of a call whose server stopped before it ended.
pub fn interrupted(call_id: CallId, tool: String, sandbox_id: Option<String>) -> ToolResult {
    let result = ToolResult {
        call_id,
        tool,
        sandbox_id,
        status: ToolStatus::Error,
        output: String::new(),
        data: json!({}),
        images: Vec::new(),
        error: None,
        truncated: false,
        duration_ms: 0,
    };
    failed(result, Failure::new(ToolErrorCode::Interrupted, "the server was restarted while the call ran"))
}

#[cfg(test)]
mod tests;
