//! The Connect service `process.Process`.

use std::sync::Arc;

use cabana_proto::process::__buffa::oneof::process_input::Input as WireInput;
use cabana_proto::process::__buffa::oneof::stream_input_request::Event as InputEvent;
use cabana_proto::process::{
    CloseStdinRequest, CloseStdinResponse, ConnectRequest, ConnectResponse, ListRequest, ListResponse, Process,
    ProcessInfo, ProcessInput, SendInputRequest, SendInputResponse, SendSignalRequest, SendSignalResponse, Signal,
    StartRequest, StartResponse, StreamInputRequest, StreamInputResponse, UpdateRequest, UpdateResponse,
};
use cabana_types::guest::{DROPPED_HEADER, TERMINAL_HEADER};
use connectrpc::{
    ConnectError, Encodable, InboundStream, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use futures_util::StreamExt as _;
use tokio::time::Instant;

use crate::command::Command;
use crate::events::{self, keepalive_interval};
use crate::guest::Guest;
use crate::input::{InputError, Kind};
use crate::services::MAX_TAG;
use crate::spawn::Launch;
use crate::tools::output_file::OutputFile;
use crate::{auth, blocking, pty};

pub(crate) struct ProcessService {
    guest: Arc<Guest>,
    /// Whether callers are the host itself, which may have output written to a file.
    for_host: bool,
}

impl ProcessService {
    pub(crate) fn new(guest: Arc<Guest>) -> Self {
        Self { guest, for_host: false }
    }

    /// The service on the control socket.
    pub(crate) fn for_host(guest: Arc<Guest>) -> Self {
        Self { guest, for_host: true }
    }

    /// Starts a command, and kills it when its deadline passes.
    fn launch(&self, ctx: &RequestContext, request: StartRequest) -> Result<Arc<Command>, ConnectError> {
        if request.tag.as_ref().is_some_and(|t| t.len() > MAX_TAG) {
            return Err(ConnectError::invalid_argument(format!("a tag has at most {MAX_TAG} bytes")));
        }
        let config = request.process.into_option().unwrap_or_default();
        let account = auth::account(&self.guest, ctx.headers())?;
        let output = if self.for_host { OutputFile::asked_for(ctx.headers(), &account)? } else { None };
        let settings = self.guest.settings().clone();
        let launch = Launch {
            config: &config,
            account: &account,
            settings: &settings,
            pty: request.pty.as_option(),
            stdin: request.stdin.unwrap_or(true),
        };
        let command = self.guest.commands.start(&launch, request.tag, false, output)?;
        if let Some(deadline) = ctx.deadline() {
            let command = Arc::clone(&command);
            tokio::spawn(async move {
                if tokio::time::timeout_at(Instant::from_std(deadline), command.completed()).await.is_err() {
                    command.time_out();
                }
            });
        }
        Ok(command)
    }
}

impl Process for ProcessService {
    async fn list<'a>(
        &'a self,
        _ctx: RequestContext,
        _request: ServiceRequest<'_, ListRequest>,
    ) -> ServiceResult<impl Encodable<ListResponse> + Send + use<'a>> {
        let info = |command: Arc<Command>| ProcessInfo {
            config: command.config.clone().into(),
            pid: command.number(),
            tag: command.tag.clone(),
            ..Default::default()
        };
        let processes = self.guest.commands.running().into_iter().map(info).collect();
        Response::ok(ListResponse { processes, ..Default::default() })
    }

    async fn start(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, StartRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<StartResponse> + Send + use<>>> {
        let command = self.launch(&ctx, request.to_owned_message())?;
        let deadline = ctx.deadline().map(Instant::from_std);
        Response::ok(events::subscribe(command, keepalive_interval(ctx.headers()), deadline, true))
    }

    async fn connect(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, ConnectRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<ConnectResponse> + Send + use<>>> {
        let request = request.to_owned_message();
        let command = self.guest.commands.find(request.process.as_option())?;
        let keepalive = keepalive_interval(ctx.headers());
        if self.for_host && ctx.header(TERMINAL_HEADER).is_some() {
            if !command.is_persons_terminal() {
                return Err(ConnectError::not_found("the process is not a terminal"));
            }
            let (dropped, events) = events::subscribe_to_terminal(command, keepalive);
            return Ok(Response::new(events).with_header(DROPPED_HEADER, dropped));
        }
        let deadline = ctx.deadline().map(Instant::from_std);
        Response::ok(events::subscribe(command, keepalive, deadline, false))
    }

    async fn update<'a>(
        &'a self,
        _ctx: RequestContext,
        request: ServiceRequest<'_, UpdateRequest>,
    ) -> ServiceResult<impl Encodable<UpdateResponse> + Send + use<'a>> {
        let request = request.to_owned_message();
        let command = self.guest.commands.find_running(request.process.as_option())?;
        if let Some(size) = request.pty.as_option() {
            let terminal =
                command.input.terminal().ok_or_else(|| ConnectError::internal(InputError::NotPty.to_string()))?;
            pty::resize(terminal.get_ref(), size)
                .map_err(|e| ConnectError::internal(format!("cannot resize the terminal: {e}")))?;
        }
        Response::ok(UpdateResponse::default())
    }

    async fn send_input<'a>(
        &'a self,
        _ctx: RequestContext,
        request: ServiceRequest<'_, SendInputRequest>,
    ) -> ServiceResult<impl Encodable<SendInputResponse> + Send + use<'a>> {
        let request = request.to_owned_message();
        let command = self.guest.commands.find_running(request.process.as_option())?;
        write(&command, request.input.as_option()).await?;
        Response::ok(SendInputResponse::default())
    }

    async fn stream_input<'a>(
        &'a self,
        _ctx: RequestContext,
        mut requests: InboundStream<StreamInputRequest>,
    ) -> ServiceResult<impl Encodable<StreamInputResponse> + Send + use<'a>> {
        let mut command: Option<Arc<Command>> = None;
        while let Some(request) = requests.next().await {
            match request?.to_owned_message().event {
                Some(InputEvent::Start(start)) => {
                    command = Some(self.guest.commands.find_running(start.process.as_option())?);
                }
                Some(InputEvent::Data(data)) => {
                    let command = command
                        .as_ref()
                        .ok_or_else(|| ConnectError::invalid_argument("the first message must be a start event"))?;
                    write(command, data.input.as_option()).await?;
                }
                Some(InputEvent::Keepalive(_)) | None => {}
            }
        }
        Response::ok(StreamInputResponse::default())
    }

    async fn send_signal<'a>(
        &'a self,
        _ctx: RequestContext,
        request: ServiceRequest<'_, SendSignalRequest>,
    ) -> ServiceResult<impl Encodable<SendSignalResponse> + Send + use<'a>> {
        let request = request.to_owned_message();
        let running = self.guest.commands.find_running(request.process.as_option());
        let signal = match request.signal.as_known() {
            Some(Signal::SIGNAL_SIGKILL) => rustix::process::Signal::KILL,
            Some(Signal::SIGNAL_SIGTERM) => rustix::process::Signal::TERM,
            _ => return Err(ConnectError::invalid_argument("signal must be SIGNAL_SIGTERM or SIGNAL_SIGKILL")),
        };
        let signalled = match running {
            Ok(command) => command.signal(signal),
            // For clients what has ended is not found. The host may also end what it has left behind.
            Err(refusal) if !self.for_host => return Err(refusal),
            Err(refusal) => {
                let Ok(ended) = self.guest.commands.find(request.process.as_option()) else { return Err(refusal) };
                let signalled = blocking::run(move || Ok::<_, ConnectError>(ended.signal_survivors(signal))).await?;
                if signalled == Err(rustix::io::Errno::SRCH) {
                    return Err(refusal);
                }
                signalled
            }
        };
        match signalled {
            Err(rustix::io::Errno::SRCH) => Err(ConnectError::not_found("the process has ended")),
            Err(cause) => Err(ConnectError::internal(format!("cannot signal the process: {cause}"))),
            Ok(()) => Response::ok(SendSignalResponse::default()),
        }
    }

    async fn close_stdin<'a>(
        &'a self,
        _ctx: RequestContext,
        request: ServiceRequest<'_, CloseStdinRequest>,
    ) -> ServiceResult<impl Encodable<CloseStdinResponse> + Send + use<'a>> {
        let request = request.to_owned_message();
        let command = self.guest.commands.find_running(request.process.as_option())?;
        command.input.close().await.map_err(|e| ConnectError::failed_precondition(e.to_string()))?;
        Response::ok(CloseStdinResponse::default())
    }
}

async fn write(command: &Command, input: Option<&ProcessInput>) -> Result<(), ConnectError> {
    let (kind, data) = match input.and_then(|i| i.input.as_ref()) {
        Some(WireInput::Stdin(data)) => (Kind::Stdin, data),
        Some(WireInput::Pty(data)) => (Kind::Pty, data),
        None => return Err(ConnectError::invalid_argument("input must be stdin or pty")),
    };
    command.input.write(kind, data).await.map_err(|e| match e {
        InputError::Io(cause) => ConnectError::internal(format!("cannot write to the process: {cause}")),
        refused => ConnectError::internal(refused.to_string()),
    })
}
