//! The output of a service, from the guest's ring. Nothing of it is kept here, and a slow reader never stalls the service.

use std::sync::Arc;
use std::time::Duration;

use cabana_edge::Route;
use cabana_guest_link::OutputQuery;
use cabana_types::ServiceId;
use cabana_types::guest::services::CommandEnd;
use cabana_types::service::{Run, ServiceState};
use cabana_types::wire::{ServiceLogEnd, ServiceLogLines};
use futures_util::stream::{Stream, unfold};

use super::entry::Entry;
use super::{Services, guest, lines, watch};

/// Longest wait for output.
const WAIT: Duration = Duration::from_secs(15);
/// Bytes of one part.
const MAX_PART: usize = 256 << 10;
/// Bytes of a line that has no end yet.
const MAX_OPEN_LINE: usize = 64 << 10;

/// A part of a followed log.
#[derive(Debug)]
pub(crate) enum LogPart {
    Lines(ServiceLogLines),
    /// Nothing was printed for a while.
    Silence,
    End(ServiceLogEnd),
}

impl Services {
    /// The newest lines.
    pub(crate) async fn log(&self, id: &ServiceId, most: usize) -> ServiceLogLines {
        let Some(entry) = self.entry(id) else { return ServiceLogLines { lines: vec![], dropped: 0 } };
        match self.read_log(&entry, most).await {
            Some((lines, _)) => lines,
            None => {
                let kept = entry.row().last_lines.clone();
                let skipped = kept.len().saturating_sub(most);
                ServiceLogLines { lines: kept[skipped..].to_vec(), dropped: 0 }
            }
        }
    }

    /// The newest lines that the guest has, and the cursor after them.
    async fn read_log(&self, entry: &Entry, most: usize) -> Option<(ServiceLogLines, u64)> {
        let (route, last) = (self.directory.get(&entry.sandbox)?, entry.row().last.clone()?);
        let output = route.link.output(&guest::tag(&entry.id, last.run), OutputQuery::default()).await.ok()?;
        let command = output.command?;
        let data = lines::decode(&command.data);
        let next = command.begin + data.len() as u64;
        Some((ServiceLogLines { lines: lines::last(&data, most), dropped: command.begin }, next))
    }

    fn log_end(&self, entry: &Entry) -> ServiceLogEnd {
        match entry.run() {
            Run::Ended { reason } => ServiceLogEnd { state: ServiceState::Error, reason: Some(reason) },
            _ if !entry.row().up => ServiceLogEnd { state: ServiceState::Stopped, reason: None },
            _ if self.directory.get(&entry.sandbox).is_none() => {
                ServiceLogEnd { state: ServiceState::Suspended, reason: None }
            }
            _ => ServiceLogEnd { state: ServiceState::Starting, reason: Some("it was started again".to_owned()) },
        }
    }
}

/// Where a reader is.
struct Reader {
    services: Arc<Services>,
    entry: Arc<Entry>,
    route: Arc<Route>,
    run: u32,
    cursor: u64,
    /// A line without its end.
    open: Vec<u8>,
    first: Option<ServiceLogLines>,
    is_over: bool,
}

/// The newest lines, and then every line as it is printed, until the service ends, is started again, or its sandbox is paused.
pub(crate) async fn follow(
    services: Arc<Services>,
    id: &ServiceId,
    most: usize,
) -> impl Stream<Item = LogPart> + Send + use<> {
    let reader = begin(services, id, most).await;
    unfold(reader, |reader| async move {
        match reader {
            Begin::Over(None) => None,
            Begin::Over(Some(mut parts)) => {
                let next = parts.pop()?;
                Some((next, Begin::Over(Some(parts))))
            }
            Begin::Reading(mut reader) => {
                let part = reader.next().await?;
                Some((part, Begin::Reading(reader)))
            }
        }
    })
}

enum Begin {
    Reading(Box<Reader>),
    /// What is left to say, last first.
    Over(Option<Vec<LogPart>>),
}

async fn begin(services: Arc<Services>, id: &ServiceId, most: usize) -> Begin {
    let Some(entry) = services.entry(id) else { return Begin::Over(None) };
    let (route, last) = (services.directory.get(&entry.sandbox), entry.row().last.clone());
    let (Some(route), Some(last)) = (route, last) else {
        let lines = services.log(id, most).await;
        return Begin::Over(Some(vec![LogPart::End(services.log_end(&entry)), LogPart::Lines(lines)]));
    };
    let (first, cursor) = match services.read_log(&entry, most).await {
        Some(read) => read,
        None => {
            let lines = services.log(id, most).await;
            return Begin::Over(Some(vec![LogPart::End(services.log_end(&entry)), LogPart::Lines(lines)]));
        }
    };
    let (run, first) = (last.run, Some(first));
    Begin::Reading(Box::new(Reader { services, entry, route, run, cursor, open: Vec::new(), first, is_over: false }))
}

impl Reader {
    async fn next(&mut self) -> Option<LogPart> {
        if let Some(first) = self.first.take() {
            return Some(LogPart::Lines(first));
        }
        if self.is_over {
            return None;
        }
        let query = OutputQuery { after: Some(self.cursor), max: MAX_PART, wait: WAIT, end_only: false };
        let tag = guest::tag(&self.entry.id, self.run);
        let output = tokio::select! {
            output = self.route.link.output(&tag, query) => output.ok().and_then(|output| output.command),
            () = self.route.gone.cancelled() => None,
            () = self.services.tasks.stop_token().cancelled() => None,
        };
        let Some(command) = output else { return Some(self.end(None)) };
        let data = lines::decode(&command.data);
        let dropped = command.begin.saturating_sub(self.cursor);
        self.cursor = command.begin + data.len() as u64;
        self.open.extend_from_slice(&data);
        let is_end = command.end.is_some() && data.is_empty();
        let complete = match self.open.iter().rposition(|byte| *byte == b'\n') {
            _ if is_end || data.is_empty() || self.open.len() > MAX_OPEN_LINE => self.open.len(),
            Some(last) => last + 1,
            None => 0,
        };
        let complete: Vec<u8> = self.open.drain(..complete).collect();
        let lines = lines::last(&complete, usize::MAX);
        match (lines.is_empty() && dropped == 0, is_end) {
            (true, true) => Some(self.end(command.end.as_ref())),
            (true, false) => Some(LogPart::Silence),
            (false, _) => Some(LogPart::Lines(ServiceLogLines { lines, dropped })),
        }
    }

    fn end(&mut self, end: Option<&CommandEnd>) -> LogPart {
        self.is_over = true;
        if let Some(end) = end
            && self.entry.row().up
        {
            // That it has ended may not be written yet.
            return LogPart::End(ServiceLogEnd {
                state: ServiceState::Error,
                reason: watch::described(Some(end)).reason,
            });
        }
        LogPart::End(self.services.log_end(&self.entry))
    }
}
