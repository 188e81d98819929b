//! The fake's guest: commands that do what their name says, and a directory that acts as a disk.

use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use cabana_proto::filesystem as fs;
use cabana_proto::process as pb;
use cabana_proto::process::__buffa::oneof::process_event::Event;
use cabana_proto::process::__buffa::oneof::process_event::data_event::Output;
use cabana_proto::process::__buffa::oneof::process_input::Input;
use cabana_proto::process::__buffa::oneof::process_selector::Selector;
use cabana_proto::process::__buffa::oneof::stream_input_request::Event as InputEvent;
use connectrpc::{
    ConnectError, Encodable, InboundStream, RequestContext, Response, ServiceRequest, ServiceResult, ServiceStream,
};
use tokio::sync::mpsc;

use crate::fake::{Push, World};

pub(crate) struct Processes(pub(crate) Arc<World>);

type Sink = mpsc::UnboundedSender<Result<pb::StartResponse, ConnectError>>;

fn event(event: impl Into<Option<Event>>) -> Result<pb::StartResponse, ConnectError> {
    let event = pb::ProcessEvent { event: event.into(), ..Default::default() };
    Ok(pb::StartResponse { event: event.into(), ..Default::default() })
}

fn data(output: Output) -> Result<pb::StartResponse, ConnectError> {
    event(pb::process_event::DataEvent { output: Some(output), ..Default::default() })
}

fn stdout(text: impl Into<Vec<u8>>) -> Result<pb::StartResponse, ConnectError> {
    data(Output::Stdout(text.into()))
}

fn end(code: i32) -> Result<pb::StartResponse, ConnectError> {
    let (exited, status) = match code {
        -9 => (false, "signal: killed".to_owned()),
        -15 => (false, "signal: terminated".to_owned()),
        code => (true, format!("exit status {code}")),
    };
    let error = (code != 0).then(|| status.clone());
    event(pb::process_event::EndEvent { exit_code: code.max(-1), exited, status, error, ..Default::default() })
}

/// Runs a scripted command. `None` breaks the stream, as a killed sandbox does.
async fn play(
    world: &World,
    sandbox: &str,
    request: &pb::StartRequest,
    sink: &Sink,
    pushes: &mut mpsc::UnboundedReceiver<Push>,
) -> Option<i32> {
    let config = request.process.as_option().cloned().unwrap_or_default();
    let send = |message| drop(sink.send(message));
    match config.cmd.as_str() {
        "echo" => send(stdout(format!("{}\n", config.args.join(" ")))),
        "args" => send(stdout(serde_json::to_vec(&config.args).expect("json"))),
        "env" => send(stdout(format!("{}:{:?}\n", config.envs.get("A").cloned().unwrap_or_default(), config.cwd))),
        "both" => {
            send(stdout("out\n"));
            send(data(Output::Stderr(b"err\n".to_vec())));
            return Some(config.args[0].parse().expect("code"));
        }
        "pty" => {
            let size = request.pty.as_option().expect("pty").size.as_option().cloned().expect("size");
            send(data(Output::Pty(format!("{}x{}\r\n", size.cols, size.rows).into_bytes())));
        }
        "stdin?" => send(stdout(format!("{:?}\n", request.stdin))),
        "cat" => loop {
            match pushes.recv().await {
                Some(Push::Input(bytes)) => send(stdout(bytes)),
                Some(Push::Signal(number)) => return Some(-number),
                Some(Push::Resize(..)) => {}
                Some(Push::Closed) | None => break,
            }
        },
        "forever" => {
            send(stdout("ready\n"));
            loop {
                match pushes.recv().await {
                    Some(Push::Signal(number)) => return Some(-number),
                    None => break,
                    _ => {}
                }
            }
        }
        "yes" => {
            while send_is_open(sink) {
                send(stdout("y\n".repeat(1000)));
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
        }
        "vanish" => {
            send(stdout("partial\n"));
            world.end(sandbox, "the sandbox ran out of memory");
            return None;
        }
        "/bin/sh" if request.pty.is_set() => return Some(shell(request, sink, pushes).await),
        "chmod" | "/bin/sh" => {}
        other => panic!("no script for {other}"),
    }
    Some(0)
}

/// A shell that prints its size, echoes input, and exits with 3 on `q`.
async fn shell(request: &pb::StartRequest, sink: &Sink, pushes: &mut mpsc::UnboundedReceiver<Push>) -> i32 {
    let size = request.pty.as_option().expect("pty").size.as_option().cloned().expect("size");
    let show = |text: String| drop(sink.send(data(Output::Pty(text.into_bytes()))));
    show(format!("{}x{} ready\r\n", size.cols, size.rows));
    loop {
        match pushes.recv().await {
            Some(Push::Input(bytes)) if bytes == b"q" => return 3,
            Some(Push::Input(bytes)) => show(format!("typed {bytes:?}\r\n")),
            Some(Push::Resize(cols, rows)) => show(format!("now {cols}x{rows}\r\n")),
            Some(Push::Signal(number)) => return -number,
            Some(Push::Closed) => {}
            None => return 1,
        }
    }
}

fn send_is_open(sink: &Sink) -> bool {
    !sink.is_closed()
}

impl Processes {
    fn push(&self, selector: Option<&pb::ProcessSelector>, push: Push) -> Result<(), ConnectError> {
        let Some(Selector::Pid(pid)) = selector.and_then(|s| s.selector.clone()) else {
            return Err(ConnectError::invalid_argument("pid"));
        };
        let commands = self.0.commands.lock().expect("lock");
        let command = commands.get(&pid).ok_or_else(|| ConnectError::not_found("no such process"))?;
        command.send(push).map_err(|_| ConnectError::not_found("no such process"))
    }
}

fn bytes_of(input: Option<&pb::ProcessInput>) -> Vec<u8> {
    match input.and_then(|i| i.input.clone()) {
        Some(Input::Stdin(bytes) | Input::Pty(bytes)) => bytes,
        None => Vec::new(),
    }
}

impl pb::Process for Processes {
    async fn list<'a>(
        &'a self,
        _: RequestContext,
        _: ServiceRequest<'_, pb::ListRequest>,
    ) -> ServiceResult<impl Encodable<pb::ListResponse> + Send + use<'a>> {
        Response::ok(pb::ListResponse::default())
    }

    async fn start(
        &self,
        ctx: RequestContext,
        request: ServiceRequest<'_, pb::StartRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<pb::StartResponse> + Send + use<>>> {
        let request = request.to_owned_message();
        let program = request.process.as_option().map(|p| p.cmd.clone()).unwrap_or_default();
        if program == "missing" {
            return Err(ConnectError::invalid_argument(
                "cannot start 'missing': No such file or directory (os error 2)",
            ));
        }
        let sandbox = ctx.headers()["e2b-sandbox-id"].to_str().expect("id").to_owned();
        let user = ctx.headers().get("authorization").map(|v| v.to_str().expect("user").to_owned());
        let world = Arc::clone(&self.0);
        let pid = 100 + world.next.fetch_add(1, Ordering::Relaxed);
        let (commands, mut pushes) = mpsc::unbounded_channel();
        world.commands.lock().expect("lock").insert(pid, commands);
        let (sink, source) = mpsc::unbounded_channel();
        let _ = sink.send(event(pb::process_event::StartEvent { pid, ..Default::default() }));
        if let Some(user) = user {
            let _ = sink.send(stdout(format!("{user}\n")));
        }
        tokio::spawn(async move {
            let last = match play(&world, &sandbox, &request, &sink, &mut pushes).await {
                Some(code) => end(code),
                None => Err(ConnectError::unavailable("cut off")),
            };
            let _ = sink.send(last);
            world.commands.lock().expect("lock").remove(&pid);
        });
        let stream =
            futures_util::stream::unfold(
                source,
                |mut source| async move { source.recv().await.map(|item| (item, source)) },
            );
        Response::ok(Box::pin(stream) as ServiceStream<pb::StartResponse>)
    }

    async fn connect(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, pb::ConnectRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<pb::ConnectResponse> + Send + use<>>> {
        Err::<Response<ServiceStream<pb::ConnectResponse>>, _>(ConnectError::unimplemented("connect"))
    }

    async fn update<'a>(
        &'a self,
        _: RequestContext,
        request: ServiceRequest<'_, pb::UpdateRequest>,
    ) -> ServiceResult<impl Encodable<pb::UpdateResponse> + Send + use<'a>> {
        let request = request.to_owned_message();
        let size = request.pty.as_option().and_then(|p| p.size.as_option()).cloned().unwrap_or_default();
        self.push(request.process.as_option(), Push::Resize(size.cols, size.rows))?;
        Response::ok(pb::UpdateResponse::default())
    }

    async fn send_input<'a>(
        &'a self,
        _: RequestContext,
        request: ServiceRequest<'_, pb::SendInputRequest>,
    ) -> ServiceResult<impl Encodable<pb::SendInputResponse> + Send + use<'a>> {
        let request = request.to_owned_message();
        self.push(request.process.as_option(), Push::Input(bytes_of(request.input.as_option())))?;
        Response::ok(pb::SendInputResponse::default())
    }

    async fn stream_input<'a>(
        &'a self,
        _: RequestContext,
        mut requests: InboundStream<pb::StreamInputRequest>,
    ) -> ServiceResult<impl Encodable<pb::StreamInputResponse> + Send + use<'a>> {
        use futures_util::StreamExt;
        let mut process = None;
        while let Some(request) = requests.next().await {
            match request?.to_owned_message().event {
                Some(InputEvent::Start(start)) => process = start.process.as_option().cloned(),
                Some(InputEvent::Data(data)) => {
                    self.push(process.as_ref(), Push::Input(bytes_of(data.input.as_option())))?;
                }
                _ => {}
            }
        }
        Response::ok(pb::StreamInputResponse::default())
    }

    async fn send_signal<'a>(
        &'a self,
        _: RequestContext,
        request: ServiceRequest<'_, pb::SendSignalRequest>,
    ) -> ServiceResult<impl Encodable<pb::SendSignalResponse> + Send + use<'a>> {
        let request = request.to_owned_message();
        self.push(request.process.as_option(), Push::Signal(request.signal.to_i32()))?;
        Response::ok(pb::SendSignalResponse::default())
    }

    async fn close_stdin<'a>(
        &'a self,
        _: RequestContext,
        request: ServiceRequest<'_, pb::CloseStdinRequest>,
    ) -> ServiceResult<impl Encodable<pb::CloseStdinResponse> + Send + use<'a>> {
        self.push(request.to_owned_message().process.as_option(), Push::Closed)?;
        Response::ok(pb::CloseStdinResponse::default())
    }
}

pub(crate) struct Files(pub(crate) Arc<World>);

impl Files {
    fn entry(&self, path: &str) -> Result<fs::EntryInfo, ConnectError> {
        let real = self.0.disk.join(path.trim_start_matches('/'));
        let metadata =
            std::fs::metadata(&real).map_err(|_| ConnectError::not_found(format!("path '{path}' does not exist")))?;
        let kind = if metadata.is_dir() { fs::FileType::FILE_TYPE_DIRECTORY } else { fs::FileType::FILE_TYPE_FILE };
        Ok(fs::EntryInfo {
            name: path.trim_end_matches('/').rsplit('/').next().unwrap_or_default().to_owned(),
            r#type: kind.into(),
            path: path.to_owned(),
            size: i64::try_from(metadata.len()).expect("size"),
            mode: metadata.permissions().mode() & 0o7777,
            ..Default::default()
        })
    }
}

impl fs::Filesystem for Files {
    async fn stat<'a>(
        &'a self,
        _: RequestContext,
        request: ServiceRequest<'_, fs::StatRequest>,
    ) -> ServiceResult<impl Encodable<fs::StatResponse> + Send + use<'a>> {
        let entry = self.entry(&request.to_owned_message().path)?;
        Response::ok(fs::StatResponse { entry: entry.into(), ..Default::default() })
    }

    async fn make_dir<'a>(
        &'a self,
        _: RequestContext,
        request: ServiceRequest<'_, fs::MakeDirRequest>,
    ) -> ServiceResult<impl Encodable<fs::MakeDirResponse> + Send + use<'a>> {
        let path = request.to_owned_message().path;
        let real = self.0.disk.join(path.trim_start_matches('/'));
        if real.is_dir() {
            return Err(ConnectError::already_exists("it is there"));
        }
        std::fs::create_dir_all(real).expect("make");
        Response::ok(fs::MakeDirResponse { entry: self.entry(&path)?.into(), ..Default::default() })
    }

    async fn list_dir<'a>(
        &'a self,
        _: RequestContext,
        request: ServiceRequest<'_, fs::ListDirRequest>,
    ) -> ServiceResult<impl Encodable<fs::ListDirResponse> + Send + use<'a>> {
        let path = request.to_owned_message().path;
        let real = self.0.disk.join(path.trim_start_matches('/'));
        let mut entries = Vec::new();
        for entry in std::fs::read_dir(real).expect("list") {
            let name = entry.expect("entry").file_name().into_string().expect("name");
            entries.push(self.entry(&format!("{}/{name}", path.trim_end_matches('/')))?);
        }
        // A hostile guest may return any name.
        if path.ends_with("evil") {
            entries.push(fs::EntryInfo {
                name: "../escaped".to_owned(),
                r#type: fs::FileType::FILE_TYPE_FILE.into(),
                ..Default::default()
            });
        }
        Response::ok(fs::ListDirResponse { entries, ..Default::default() })
    }

    async fn remove<'a>(
        &'a self,
        _: RequestContext,
        _: ServiceRequest<'_, fs::RemoveRequest>,
    ) -> ServiceResult<impl Encodable<fs::RemoveResponse> + Send + use<'a>> {
        Response::ok(fs::RemoveResponse::default())
    }

    async fn r#move<'a>(
        &'a self,
        _: RequestContext,
        _: ServiceRequest<'_, fs::MoveRequest>,
    ) -> ServiceResult<impl Encodable<fs::MoveResponse> + Send + use<'a>> {
        Response::ok(fs::MoveResponse::default())
    }

    async fn watch_dir(
        &self,
        _: RequestContext,
        _: ServiceRequest<'_, fs::WatchDirRequest>,
    ) -> ServiceResult<ServiceStream<impl Encodable<fs::WatchDirResponse> + Send + use<>>> {
        Err::<Response<ServiceStream<fs::WatchDirResponse>>, _>(ConnectError::unimplemented("watch"))
    }

    async fn create_watcher<'a>(
        &'a self,
        _: RequestContext,
        _: ServiceRequest<'_, fs::CreateWatcherRequest>,
    ) -> ServiceResult<impl Encodable<fs::CreateWatcherResponse> + Send + use<'a>> {
        Response::ok(fs::CreateWatcherResponse::default())
    }

    async fn get_watcher_events<'a>(
        &'a self,
        _: RequestContext,
        _: ServiceRequest<'_, fs::GetWatcherEventsRequest>,
    ) -> ServiceResult<impl Encodable<fs::GetWatcherEventsResponse> + Send + use<'a>> {
        Response::ok(fs::GetWatcherEventsResponse::default())
    }

    async fn remove_watcher<'a>(
        &'a self,
        _: RequestContext,
        _: ServiceRequest<'_, fs::RemoveWatcherRequest>,
    ) -> ServiceResult<impl Encodable<fs::RemoveWatcherResponse> + Send + use<'a>> {
        Response::ok(fs::RemoveWatcherResponse::default())
    }
}
