//! Runs a program of a step through the guest. Its output is untrusted: lines are limited in length here, and in number
//! by the log.

use std::collections::BTreeMap;

use base64::Engine;
use cabana_guest_link::{GuestLink, Port};
use cabana_proto::process as pb;
use connectrpc::client::CallOptions;
use pb::__buffa::oneof::process_event::Event;
use pb::__buffa::oneof::process_event::data_event::Output;

use crate::guest_process;

/// Maximum length of a line, bytes; longer lines are cut.
const MAX_LINE_BYTES: usize = 2048;

/// A program of a step.
#[derive(Debug)]
pub(super) struct Program<'a> {
    /// The program and its arguments.
    pub(super) args: &'a [String],
    /// Its environment.
    pub(super) environment: &'a BTreeMap<String, String>,
    /// Its user; empty for root.
    pub(super) user: &'a str,
    /// Its working directory.
    pub(super) directory: &'a str,
}

/// How it ended.
#[derive(Debug)]
pub(super) struct Exit {
    /// Its exit code; -1 when a signal ended it.
    pub(super) code: i32,
    /// For messages.
    pub(super) status: String,
}

/// Runs a program to its end and passes on each line of output, with whether it is from standard error.
pub(super) async fn run(
    link: &GuestLink,
    program: Program<'_>,
    mut line: impl FnMut(bool, String),
) -> Result<Exit, connectrpc::ConnectError> {
    let user = if program.user.is_empty() { "root" } else { program.user };
    let basic = base64::engine::general_purpose::STANDARD.encode(format!("{user}:"));
    let client = guest_process::client(link.clone(), Port::Traffic);
    let (cmd, args) = program.args.split_first().map_or(("", &[][..]), |(cmd, args)| (cmd.as_str(), args));
    let request = pb::StartRequest {
        process: pb::ProcessConfig {
            cmd: cmd.to_owned(),
            args: args.to_vec(),
            envs: program.environment.iter().map(|(k, v)| (k.clone(), v.clone())).collect(),
            cwd: Some(program.directory.to_owned()),
            ..Default::default()
        }
        .into(),
        stdin: Some(false),
        ..Default::default()
    };
    let options = CallOptions::default()
        .with_header("authorization", format!("Basic {basic}"))
        .with_header("keepalive-ping-interval", "30");
    let mut events = client.start_with_options(request, options).await?;
    let (mut out, mut err) = (Lines::default(), Lines::default());
    while let Some(message) = events.message().await? {
        match message.to_owned_message().event.into_option().and_then(|event| event.event) {
            Some(Event::Data(data)) => match data.output {
                Some(Output::Stdout(bytes)) => out.take(&bytes, |text| line(false, text)),
                Some(Output::Stderr(bytes) | Output::Pty(bytes)) => err.take(&bytes, |text| line(true, text)),
                None => {}
            },
            Some(Event::End(end)) => {
                out.finish(|text| line(false, text));
                err.finish(|text| line(true, text));
                return Ok(Exit { code: end.exit_code, status: end.status.chars().take(200).collect() });
            }
            Some(Event::Start(_) | Event::Keepalive(_)) | None => {}
        }
    }
    Err(connectrpc::ConnectError::new(connectrpc::ErrorCode::Unavailable, "the sandbox of the step has died"))
}

/// Splits a stream into lines. A line that is overwritten (`\r`) counts once, with its last content.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    fn take(&mut self, bytes: &[u8], mut line: impl FnMut(String)) {
        for &byte in bytes {
            if byte == b'\n' || self.rest.len() >= MAX_LINE_BYTES {
                self.finish(&mut line);
            }
            if byte != b'\n' {
                self.rest.push(byte);
            }
        }
    }

    fn finish(&mut self, mut line: impl FnMut(String)) {
        let text = String::from_utf8_lossy(&self.rest).into_owned();
        self.rest.clear();
        let text = text.trim_end_matches('\r');
        let text = text.rsplit('\r').next().unwrap_or(text);
        if !text.trim().is_empty() {
            line(text.chars().filter(|c| !c.is_control() || matches!(c, '\t' | '\u{1b}')).collect());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(chunks: &[&[u8]]) -> Vec<String> {
        let (mut lines, mut found) = (Lines::default(), Vec::new());
        for chunk in chunks {
            lines.take(chunk, |line| found.push(line));
        }
        lines.finish(|line| found.push(line));
        found
    }

    #[test]
    fn output_becomes_lines() {
        assert_eq!(lines(&[b"a\nb", b"c\r\n\n  \nlast"]), ["a", "bc", "last"]);
        assert_eq!(lines(&[b"10 %\r50 %\r100 %\n"]), ["100 %"]);
        assert_eq!(lines(&[b"\xff\x00x\n"]), ["\u{fffd}x"]);
        assert_eq!(lines(&[&vec![b'x'; 5000]]).iter().map(String::len).collect::<Vec<_>>(), [2048, 2048, 904]);
    }
}
