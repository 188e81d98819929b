//! All printing. Data goes to standard output, everything else to standard error. Terminals get tables, colours and
//! relative times; pipes get stable columns.

use std::borrow::Cow;
use std::io::{self, IsTerminal, Write};
use std::sync::{Mutex, PoisonError};

use comfy_table::{Attribute, Cell, ContentArrangement, Table, presets};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use owo_colors::{OwoColorize, Style};
use serde::Serialize;

use crate::failure::Failure;

/// Whether the outputs are terminals.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Output {
    stdout_terminal: bool,
    stderr_terminal: bool,
    colours: bool,
}

impl Output {
    pub(crate) fn detect() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty());
        // See no-color.org.
        let colours = set("NO_COLOR").is_none() && set("TERM").is_none_or(|t| t != "dumb");
        Self { stdout_terminal: io::stdout().is_terminal(), stderr_terminal: io::stderr().is_terminal(), colours }
    }

    /// Whether standard output is a terminal.
    pub(crate) fn is_terminal(&self) -> bool {
        self.stdout_terminal
    }

    /// Whether standard error is a terminal.
    pub(crate) fn is_stderr_terminal(&self) -> bool {
        self.stderr_terminal
    }

    /// Whether colours are wanted where there is a terminal.
    pub(crate) fn has_colours(&self) -> bool {
        self.colours
    }

    /// Prints to standard error as it is: untrusted text must be neutralised before. Errors are ignored.
    pub(crate) fn raw_stderr(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = err.write_all(text.as_bytes()).and_then(|()| err.flush());
    }

    /// Prints one line of data.
    pub(crate) fn line(&self, text: &str) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(clean(text).as_bytes())?;
        out.write_all(b"\n")?;
        Ok(out.flush()?)
    }

    /// Prints raw data.
    pub(crate) fn raw(&self, bytes: &[u8]) -> Result<(), Failure> {
        let mut out = io::stdout().lock();
        out.write_all(bytes)?;
        Ok(out.flush()?)
    }

    /// Prints indented JSON.
    pub(crate) fn json(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec_pretty(value)?;
        text.push(b'\n');
        self.raw(&text)
    }

    /// Prints JSON on one line, for streams.
    pub(crate) fn json_line(&self, value: &impl Serialize) -> Result<(), Failure> {
        let mut text = serde_json::to_vec(value)?;
        text.push(b'\n');
        self.raw(&text)
    }

    /// Prints rows: a table with headings on a terminal, tab-separated values without headings otherwise.
    pub(crate) fn rows(&self, headings: &[&str], rows: &[Vec<String>]) -> Result<(), Failure> {
        if !self.stdout_terminal {
            let mut text = String::new();
            for row in rows {
                let cells: Vec<_> = row.iter().map(|cell| clean(cell).replace(['\t', '\n'], " ")).collect();
                text.push_str(&cells.join("\t"));
                text.push('\n');
            }
            return self.raw(text.as_bytes());
        }
        if rows.is_empty() {
            return Ok(());
        }
        let mut table = Table::new();
        // Wide rows are wrapped by the terminal: splitting an id would make it impossible to copy.
        table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
        if !self.colours {
            table.force_no_tty();
        }
        table.set_header(headings.iter().map(|h| Cell::new(h).add_attribute(Attribute::Bold)));
        for row in rows {
            table.add_row(row.iter().map(|cell| clean(cell).into_owned()));
        }
        for column in table.column_iter_mut() {
            column.set_padding((0, 2));
        }
        self.raw(format!("{}\n", table.trim_fmt()).as_bytes())
    }

    /// Prints information on a terminal only.
    pub(crate) fn note(&self, text: &str) {
        if self.stderr_terminal {
            self.print_stderr(text);
        }
    }

    /// Prints a message to standard error.
    pub(crate) fn say(&self, text: &str) {
        self.print_stderr(text);
    }

    /// Prints the start of a step.
    pub(crate) fn step(&self, text: &str) {
        self.print_stderr(&self.paint(text, Style::new().bold()));
    }

    /// Prints a warning.
    pub(crate) fn warn(&self, text: &str) {
        self.print_stderr(&format!("{} {text}", self.paint("warning:", Style::new().yellow().bold())));
    }

    /// Prints the error that ends the command.
    pub(crate) fn failure(&self, failure: &Failure) {
        if failure.is_silent() {
            return;
        }
        for (depth, text) in failure.chain().enumerate() {
            match depth {
                0 => self.print_stderr(&format!("{} {text}", self.paint("error:", Style::new().red().bold()))),
                _ => self.print_stderr(&format!("  caused by: {text}")),
            }
        }
        if let Some(hint) = failure.hint_text() {
            self.print_stderr(&format!("\n{} {hint}", self.paint("hint:", Style::new().cyan().bold())));
        }
    }

    /// Asks a yes-or-no question; anything but yes is no.
    pub(crate) fn confirm(&self, question: &str) -> io::Result<bool> {
        let mut err = io::stderr().lock();
        write!(err, "{question} [y/N] ")?;
        err.flush()?;
        let mut answer = String::new();
        io::stdin().read_line(&mut answer)?;
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }

    /// Whether questions can be asked.
    pub(crate) fn can_ask(&self) -> bool {
        self.stderr_terminal && io::stdin().is_terminal()
    }

    /// Styles text on standard output.
    pub(crate) fn mark(&self, text: &str, style: Style) -> String {
        if self.stdout_terminal && self.colours { text.style(style).to_string() } else { text.to_owned() }
    }

    /// A progress bar for transferred bytes; hidden without a terminal.
    pub(crate) fn byte_bar(&self, total: Option<u64>) -> ProgressBar {
        if !self.stderr_terminal {
            return ProgressBar::hidden();
        }
        let bar = ProgressBar::with_draw_target(total, ProgressDrawTarget::stderr());
        let template = if total.is_some() {
            "{bar:30} {bytes}/{total_bytes} {bytes_per_sec} {wide_msg}"
        } else {
            "{spinner} {bytes} {bytes_per_sec} {wide_msg}"
        };
        match ProgressStyle::with_template(template) {
            Ok(style) => bar.with_style(style),
            Err(_) => bar,
        }
    }

    /// A progress bar for a fraction; prints lines without a terminal.
    pub(crate) fn share_bar(&self, title: &'static str) -> ShareBar {
        let bar = self.stderr_terminal.then(|| {
            let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr());
            match ProgressStyle::with_template("{prefix} {bar:30} {percent}% {wide_msg}") {
                Ok(style) => bar.with_style(style).with_prefix(title),
                Err(_) => bar,
            }
        });
        ShareBar { out: *self, title, bar, reported: Mutex::new(None) }
    }

    /// Sends the server's log to standard error.
    pub(crate) fn start_log(&self, filter: &str) -> Result<(), Failure> {
        // This library writes several lines for each request, below `info` all that a request contains, and an error for each client that
        // goes away.
        let quiet = if filter.contains("rmcp") { "" } else { ",rmcp=error,rmcp::service=off" };
        let filter = tracing_subscriber::EnvFilter::try_new(format!("{filter}{quiet}"))?;
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_writer(io::stderr);
        log.with_ansi(self.stderr_terminal && self.colours).init();
        Ok(())
    }

    fn paint(&self, text: &str, style: Style) -> String {
        if self.stderr_terminal && self.colours { text.style(style).to_string() } else { text.to_owned() }
    }

    /// Prints to standard error; errors are ignored. Untrusted text must be passed through [`clean`] first.
    fn print_stderr(&self, text: &str) {
        let mut err = io::stderr().lock();
        let _ = writeln!(err, "{}", clean_keeping_style(text));
    }
}

/// See [`Output::share_bar`].
pub(crate) struct ShareBar {
    out: Output,
    title: &'static str,
    bar: Option<ProgressBar>,
    /// The tenth that was printed last.
    reported: Mutex<Option<u64>>,
}

impl ShareBar {
    /// Shows the progress in thousandths.
    pub(crate) fn show(&self, thousandths: u64, step: &str) {
        if let Some(bar) = &self.bar {
            bar.set_position(thousandths);
            bar.set_message(step.to_owned());
            return;
        }
        let now = Some(thousandths / 100);
        let mut reported = self.reported.lock().unwrap_or_else(PoisonError::into_inner);
        if *reported != now {
            self.out.say(&format!("{}: {step}, {} %", self.title, thousandths / 10));
            *reported = now;
        }
    }

    /// Removes the bar.
    pub(crate) fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Removes terminal control characters: names, labels and messages may come from a sandbox.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| !is_control(c)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(text.chars().map(|c| if is_control(c) { '\u{fffd}' } else { c }).collect())
}

/// Whether a character can change what a terminal shows of others: control characters, and those that turn text around.
pub(crate) fn is_control(c: char) -> bool {
    (c.is_control() && c != '\n' && c != '\t')
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Like [`clean`], but keeps colour sequences (`ESC [ … m`), which this file writes itself.
fn clean_keeping_style(text: &str) -> String {
    let mut cleaned = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find('\u{1b}') {
        cleaned.push_str(&clean(&rest[..start]));
        let sequence = &rest[start + 1..];
        let end = sequence.strip_prefix('[').and_then(|s| s.find(|c: char| !c.is_ascii_digit() && c != ';'));
        match end {
            Some(end) if sequence[1 + end..].starts_with('m') => {
                cleaned.push_str(&rest[start..start + 1 + 1 + end + 1]);
                rest = &sequence[1 + end + 1..];
            }
            _ => {
                cleaned.push('\u{fffd}');
                rest = sequence;
            }
        }
    }
    cleaned.push_str(&clean(rest));
    cleaned
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        assert_eq!(clean("plain ü\n\ttext"), "plain ü\n\ttext");
        assert_eq!(clean("a\u{1b}]0;title\u{7}b"), "a\u{fffd}]0;title\u{fffd}b");
        assert_eq!(clean_keeping_style("\u{1b}[1;31merror\u{1b}[0m x"), "\u{1b}[1;31merror\u{1b}[0m x");
        assert_eq!(clean_keeping_style("\u{1b}[2J\u{1b}]0;t\u{7}"), "\u{fffd}[2J\u{fffd}]0;t\u{fffd}");
        assert_eq!(clean_keeping_style("\u{1b}"), "\u{fffd}");
        assert_eq!(clean_keeping_style("\u{1b}["), "\u{fffd}[");
    }
}
