//! Starting the command of a service, through the guest's process service on the control port.

use std::time::Duration;

use cabana_edge::Route;
use cabana_guest_link::Port;
use cabana_proto::process as pb;
use cabana_store::Service;
use cabana_types::ServiceId;
use cabana_types::guest::SERVICE_TAG;
use cabana_types::guest::services::MARK;
use connectrpc::ErrorCode;
use pb::__buffa::oneof::process_event::Event;
use tokio::time::timeout;

use super::lines::shown;
use crate::guest_process;

/// A healthy guest starts a command within this time.
const START_TIME: Duration = Duration::from_secs(10);

/// Why a command was not started.
#[derive(Debug)]
pub(super) enum NotStarted {
    /// It cannot be, for this reason.
    Refused(String),
    /// The guest did not answer; trying again may help.
    Unresponsive(String),
}

/// The tag of a start of a service.
pub(super) fn tag(id: &ServiceId, run: u32) -> String {
    format!("{SERVICE_TAG}{id}/{run}")
}

/// Starts the command of a service as the sandbox's user. It goes on without us.
pub(super) async fn start(route: &Route, service: &Service) -> Result<(), NotStarted> {
    let client = guest_process::client(route.link.clone(), Port::Control);
    let tag = tag(&service.id, service.run);
    let mut env = service.env.clone();
    if let Some(port) = service.port {
        // Many development servers look for it.
        env.entry("PORT".to_owned()).or_insert_with(|| port.to_string());
    }
    env.insert(MARK.to_owned(), tag.clone());
    let request = pb::StartRequest {
        process: pb::ProcessConfig {
            cmd: "/bin/bash".to_owned(),
            args: vec!["-l".to_owned(), "-c".to_owned(), service.command.clone()],
            envs: env.into_iter().collect(),
            cwd: service.cwd.clone(),
            ..Default::default()
        }
        .into(),
        stdin: Some(false),
        tag: Some(tag),
        ..Default::default()
    };
    let starting = async {
        let mut events = client.start(request).await?;
        let first = events.message().await?.map(|message| message.to_owned_message().event.into_option());
        Ok::<_, connectrpc::ConnectError>(first.flatten().and_then(|event| event.event))
    };
    match timeout(START_TIME, starting).await {
        Ok(Ok(Some(Event::Start(_)))) => Ok(()),
        Ok(Ok(_)) => Err(NotStarted::Unresponsive("the guest did not say that the command was started".to_owned())),
        Ok(Err(error)) => {
            let words = shown(error.message.as_deref().unwrap_or_default());
            match error.code {
                ErrorCode::InvalidArgument
                | ErrorCode::NotFound
                | ErrorCode::PermissionDenied
                | ErrorCode::ResourceExhausted
                | ErrorCode::FailedPrecondition => Err(NotStarted::Refused(words)),
                _ => Err(NotStarted::Unresponsive(words)),
            }
        }
        Err(_) => Err(NotStarted::Unresponsive("the guest did not answer in time".to_owned())),
    }
}
