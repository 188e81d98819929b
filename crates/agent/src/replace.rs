//! Replaces text in a file: once, or as often as the caller says.

use std::borrow::Cow;
use std::time::{Duration, Instant};

use memchr::memmem;
use regex::bytes::{Regex, RegexBuilder};

use crate::diff::{Diff, diff};
use crate::text::{most_similar, shorten};

#[cfg(test)]
mod tests;

/// Lines that an error lists at most.
const LISTED: usize = 20;
/// Memory of a compiled regular expression.
const REGEX_SIZE: usize = 2 << 20;
/// Longest regular expression, in bytes.
const REGEX_BYTES: usize = 4096;
/// Time for finding all matches of a regular expression.
const TIME: Duration = Duration::from_secs(5);
/// Bytes by which a file may grow.
const GROWTH: usize = 16 << 20;

/// What to replace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Request<'a> {
    /// For messages and the diff.
    pub path: &'a str,
    /// Text, or a regular expression in which `^` and `$` match at lines.
    pub find: &'a str,
    /// With `regex`, `$1` and `${name}` are groups and `$$` is a dollar sign.
    pub replace: &'a str,
    /// Replace every occurrence; otherwise there must be exactly one.
    pub all: bool,
    pub regex: bool,
    /// Replace every occurrence if there are as many.
    pub expected_count: Option<u64>,
}

/// A file after replacing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replaced {
    pub content: Vec<u8>,
    pub count: u64,
    pub diff: Diff,
}

/// Why nothing was replaced.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplaceError {
    #[error("the text to find is empty")]
    Empty,
    #[error("the text occurs {count} times in {path}, at lines {}", listed(.lines, *.count))]
    NotUnique {
        path: String,
        count: u64,
        /// At most 20, from 1.
        lines: Vec<usize>,
    },
    #[error("the text occurs {count} times in {path}, not {expected} times; it is at lines {}", listed(.lines, *.count))]
    WrongCount { path: String, expected: u64, count: u64, lines: Vec<usize> },
    #[error("the text does not occur in {path}{}", similar(.nearest.as_ref()))]
    NoMatch {
        path: String,
        /// The line most similar to the first line of the text, from 1.
        nearest: Option<(usize, String)>,
    },
    #[error("the regular expression is wrong: {reason}")]
    Regex { reason: String },
    #[error("the replacement refers to the group {group:?}, which the regular expression does not have")]
    NoGroup { group: String },
    #[error("finding all matches in {path} takes too long")]
    TooComplex { path: String },
    #[error("{path} would grow by more than {} bytes", GROWTH)]
    TooLarge { path: String },
}

impl ReplaceError {
    /// What to try next.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Empty => "give the text that is to be replaced",
            Self::NotUnique { .. } => {
                "add the lines around it to the text so that it occurs once, or set `all` to replace every occurrence"
            }
            Self::WrongCount { .. } => "look at the lines listed, then correct `expected_count` or the text",
            Self::NoMatch { nearest: Some(_), .. } => {
                "copy the text exactly from the file, with its blanks, and without line numbers"
            }
            Self::NoMatch { .. } => "read the file again, or search for the text in other files",
            Self::Regex { .. } => {
                "the syntax is that of ripgrep, without look-around and backreferences; for plain text leave `regex` off"
            }
            Self::NoGroup { .. } => "write ${1} where a letter or digit follows, and $$ for a dollar sign",
            Self::TooComplex { .. } => "use a simpler regular expression, or plain text",
            Self::TooLarge { .. } => "replace less at once",
        }
    }
}

/// Replaces text in the content of a file. Bytes around it stay as they are, also if they are not UTF-8. In a file whose lines end
/// with CRLF, line ends of the arguments count as CRLF.
///
/// # Errors
/// If the text does not occur exactly once, or as often as asked for.
pub fn find_replace(old: &[u8], request: &Request<'_>) -> Result<Replaced, ReplaceError> {
    if request.find.is_empty() {
        return Err(ReplaceError::Empty);
    }
    let (content, count) = if request.regex { by_regex(old, request)? } else { by_text(old, request)? };
    let diff = diff(old, &content, request.path);
    Ok(Replaced { content, count, diff })
}

fn by_text(old: &[u8], request: &Request<'_>) -> Result<(Vec<u8>, u64), ReplaceError> {
    let ends = LineEnds::of(old);
    let mut find = Cow::Borrowed(request.find);
    let mut replace = if ends == LineEnds::CrLf { to_crlf(request.replace) } else { Cow::Borrowed(request.replace) };
    if memmem::find(old, find.as_bytes()).is_none() {
        if find.contains("\r\n") && ends == LineEnds::Lf {
            (find, replace) = (to_lf(request.find), to_lf(request.replace));
        } else if find.contains('\n') && ends != LineEnds::Lf {
            (find, replace) = (to_crlf(request.find), to_crlf(request.replace));
        }
    }
    let finder = memmem::Finder::new(find.as_bytes());
    let mut new = Rebuilt::new(old, request);
    for start in finder.find_iter(old) {
        new.replace(start, start + find.len(), |content| content.extend_from_slice(replace.as_bytes()))?;
    }
    // A second place may overlap the first.
    let replaces_one = !request.all && request.expected_count.is_none();
    if let [first] = *new.starts
        && replaces_one
        && let Some(second) = finder.find(&old[first + 1..])
    {
        new.found(first + 1 + second);
    }
    new.finish()
}

fn by_regex(old: &[u8], request: &Request<'_>) -> Result<(Vec<u8>, u64), ReplaceError> {
    let wrong = |reason: String| ReplaceError::Regex { reason: shorten(&reason, 500) };
    if request.find.len() > REGEX_BYTES {
        return Err(wrong(format!("it has {} bytes; at most {REGEX_BYTES} are allowed", request.find.len())));
    }
    // Without CR, unless the expression speaks of it: every line end comes back with it.
    let converts = LineEnds::of(old) == LineEnds::CrLf && !request.find.contains("\\r") && !request.find.contains('\r');
    let text = if converts { Cow::Owned(without_returns(old)) } else { Cow::Borrowed(old) };
    let regex = RegexBuilder::new(request.find)
        .multi_line(true)
        .size_limit(REGEX_SIZE)
        .dfa_size_limit(REGEX_SIZE)
        .build()
        .map_err(|error| wrong(error.to_string()))?;
    let replace = to_lf(request.replace);
    let replace = if converts { replace.as_ref() } else { request.replace };
    check_groups(&regex, replace)?;
    let end = Instant::now() + TIME;
    let mut new = Rebuilt::new(&text, request);
    for captures in regex.captures_iter(&text) {
        if Instant::now() > end {
            return Err(ReplaceError::TooComplex { path: request.path.to_owned() });
        }
        let (from, to) = captures.get(0).map_or((0, 0), |whole| (whole.start(), whole.end()));
        new.replace(from, to, |content| captures.expand(replace.as_bytes(), content))?;
    }
    let (content, count) = new.finish()?;
    Ok((if converts { with_returns(&content) } else { content }, count))
}

/// Refuses a replacement with groups that do not exist: they would be replaced by nothing.
fn check_groups(regex: &Regex, replace: &str) -> Result<(), ReplaceError> {
    let mut rest = replace;
    while let Some((_, after)) = rest.split_once('$') {
        rest = after;
        let group = if let Some(after) = rest.strip_prefix('$') {
            rest = after;
            continue;
        } else if let Some((group, _)) = rest.strip_prefix('{').and_then(|text| text.split_once('}')) {
            group
        } else {
            let length = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            &rest[..length]
        };
        let known = group.parse().map_or_else(
            |_| regex.capture_names().flatten().any(|name| name == group),
            |index: usize| index < regex.captures_len(),
        );
        if !group.is_empty() && !known {
            return Err(ReplaceError::NoGroup { group: shorten(group, 100) });
        }
    }
    Ok(())
}

/// The new content, as far as matches were found.
struct Rebuilt<'a> {
    old: &'a [u8],
    request: &'a Request<'a>,
    content: Vec<u8>,
    /// What of `old` is done.
    at: usize,
    count: u64,
    /// Where the first matches begin.
    starts: Vec<usize>,
}

impl<'a> Rebuilt<'a> {
    fn new(old: &'a [u8], request: &'a Request<'a>) -> Self {
        Self { old, request, content: Vec::with_capacity(old.len()), at: 0, count: 0, starts: Vec::new() }
    }

    fn found(&mut self, start: usize) {
        self.count += 1;
        if self.starts.len() < LISTED {
            self.starts.push(start);
        }
    }

    fn replace(&mut self, start: usize, end: usize, new: impl FnOnce(&mut Vec<u8>)) -> Result<(), ReplaceError> {
        self.found(start);
        if self.count > 1 && !self.request.all && self.request.expected_count.is_none() {
            return Ok(());
        }
        self.content.extend_from_slice(&self.old[self.at..start]);
        new(&mut self.content);
        self.at = end;
        if self.content.len() > self.old.len() + GROWTH {
            return Err(ReplaceError::TooLarge { path: self.request.path.to_owned() });
        }
        Ok(())
    }

    /// The whole content, if there are as many matches as there must be.
    fn finish(mut self) -> Result<(Vec<u8>, u64), ReplaceError> {
        let (path, count) = (self.request.path.to_owned(), self.count);
        let lines = || line_numbers(self.old, &self.starts);
        match self.request.expected_count {
            _ if count == 0 => {
                return Err(ReplaceError::NoMatch { path, nearest: nearest_line(self.old, self.request) });
            }
            Some(expected) if expected != count => {
                return Err(ReplaceError::WrongCount { path, expected, count, lines: lines() });
            }
            None if count > 1 && !self.request.all => {
                return Err(ReplaceError::NotUnique { path, count, lines: lines() });
            }
            _ => {}
        }
        self.content.extend_from_slice(&self.old[self.at..]);
        Ok((self.content, count))
    }
}

/// The lines of the first matches, from 1.
fn line_numbers(text: &[u8], starts: &[usize]) -> Vec<usize> {
    let (mut line, mut at) = (1, 0);
    let number = |start: &usize| {
        line += memchr::memchr_iter(b'\n', &text[at..*start]).count();
        at = *start;
        line
    };
    starts.iter().map(number).collect()
}

fn nearest_line(text: &[u8], request: &Request<'_>) -> Option<(usize, String)> {
    if request.regex {
        return None;
    }
    let wanted = request.find.lines().find(|line| !line.trim().is_empty())?;
    let (at, line) = most_similar(text.split(|byte| *byte == b'\n'), wanted.as_bytes())?;
    Some((at + 1, shorten(&String::from_utf8_lossy(line), 200)))
}

/// How the lines of a file end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum LineEnds {
    Lf,
    CrLf,
    Mixed,
}

impl LineEnds {
    fn of(content: &[u8]) -> Self {
        let (mut with, mut all) = (0_usize, 0_usize);
        for at in memchr::memchr_iter(b'\n', content) {
            all += 1;
            with += usize::from(at > 0 && content[at - 1] == b'\r');
        }
        match (with, all) {
            (0, _) => Self::Lf,
            (with, all) if with == all => Self::CrLf,
            _ => Self::Mixed,
        }
    }
}

fn to_lf(text: &str) -> Cow<'_, str> {
    if text.contains("\r\n") { Cow::Owned(text.replace("\r\n", "\n")) } else { Cow::Borrowed(text) }
}

fn to_crlf(text: &str) -> Cow<'_, str> {
    if text.contains('\n') { Cow::Owned(to_lf(text).replace('\n', "\r\n")) } else { Cow::Borrowed(text) }
}

fn without_returns(content: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(content.len());
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\r\n") {
            Some(text) => {
                all.extend_from_slice(text);
                all.push(b'\n');
            }
            None => all.extend_from_slice(line),
        }
    }
    all
}

fn with_returns(content: &[u8]) -> Vec<u8> {
    let mut all = Vec::with_capacity(content.len() + content.len() / 16);
    for line in content.split_inclusive(|byte| *byte == b'\n') {
        match line.strip_suffix(b"\n") {
            Some(text) => {
                all.extend_from_slice(text);
                all.extend_from_slice(b"\r\n");
            }
            None => all.extend_from_slice(line),
        }
    }
    all
}

fn listed(lines: &[usize], count: u64) -> String {
    let more = if count > lines.len() as u64 { ", …" } else { "" };
    lines.iter().map(usize::to_string).collect::<Vec<_>>().join(", ") + more
}

fn similar(line: Option<&(usize, String)>) -> String {
    line.map_or_else(String::new, |(number, text)| format!("; the most similar line is {number}: {text:?}"))
}
