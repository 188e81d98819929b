//! `POST /grep`: searches the content of files with ripgrep's engine. Files with a NUL byte are skipped.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use cabana_types::guest::tools::{Case, Grep, GrepAnswer, GrepFile, GrepLine, GrepOutput};
use cabana_types::tool::ToolErrorCode as Code;
use grep_matcher::Matcher as _;
use grep_regex::{RegexMatcher, RegexMatcherBuilder};
use grep_searcher::{
    BinaryDetection, Searcher, SearcherBuilder, Sink, SinkContext, SinkContextKind, SinkFinish, SinkMatch,
};
use ignore::overrides::{Override, OverrideBuilder};
use rustix::fs::{FileType, Mode, OFlags};

use super::Cancel;
use super::place::{self, Place};
use super::refuse::{self, Refused, about, plain};
use super::walk::{Entry, Visitor, Walk};
use crate::guest::lock;
use crate::open;

const MAX_ENTRIES: u64 = 5_000_000;
const MAX_PATTERN: usize = 8 << 10;
const MAX_GLOBS: usize = 100;
const MAX_GLOB: usize = 1024;
const MAX_LIMIT: usize = 10_000;
const MAX_PER_FILE: usize = 1_000;
const MAX_LINE: usize = 10_000;
const MAX_CONTEXT: u32 = 50;
/// Memory for the compiled expression, and for the automaton that each thread derives from it.
const REGEX_SIZE: usize = 4 << 20;
const DFA_SIZE: usize = 8 << 20;
const MAX_NESTING: u32 = 100;
/// Memory of a thread for one line. A file with a longer one is left out.
const MAX_LINE_BYTES: usize = 16 << 20;

/// Searches a directory or a file.
pub(crate) fn grep(request: &Grep, place: &Place, cancel: &Cancel) -> Result<GrepAnswer, Refused> {
    let path = place.resolve(&request.path)?;
    let matcher = matcher(request)?;
    let results = Mutex::new(Results::new(request));
    let make = || Grepper::new(request, &matcher, &results, cancel);
    let found = open::open(&path, OFlags::PATH, Mode::empty()).map_err(|e| refuse::io("search", &path, &e))?;
    let is_dir = rustix::fs::fstat(&found).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_dir());
    let complete = if is_dir {
        let mut walk = Walk::open(&path, request.ignored, MAX_ENTRIES, cancel)?;
        walk.globs = globs(request, &walk.root)?;
        let (_, complete) = walk.run(|| Searching { grepper: make(), root: &walk.root });
        complete
    } else {
        let file = open::readable(&path).map_err(|e| refuse::not_readable(&path, &e))?;
        if make().search(file.file, PathBuf::from(crate::path::name(&path))) == Searched::Binary {
            return Err(about(Code::BinaryFile, &path, "is not a text"));
        }
        true
    };
    cancel.check()?;
    Ok(results.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner).answer(complete))
}

fn matcher(request: &Grep) -> Result<RegexMatcher, Refused> {
    if request.pattern.is_empty() || request.pattern.len() > MAX_PATTERN {
        return Err(plain(Code::InvalidArguments, format!("the pattern must have 1 to {MAX_PATTERN} bytes")));
    }
    let mut builder = RegexMatcherBuilder::new();
    builder
        .line_terminator(Some(b'\n'))
        .fixed_strings(request.literal)
        .case_smart(request.case == Case::Smart)
        .case_insensitive(request.case == Case::Insensitive)
        .size_limit(REGEX_SIZE)
        .dfa_size_limit(DFA_SIZE)
        .nest_limit(MAX_NESTING);
    builder.build(&request.pattern).map_err(|cause| {
        let message: String = cause.to_string().chars().take(1000).collect();
        plain(Code::InvalidArguments, format!("the pattern cannot be used: {message}"))
    })
}

fn globs(request: &Grep, root: &Path) -> Result<Override, Refused> {
    let invalid = |message: String| plain(Code::InvalidArguments, message);
    let all = || request.include.iter().map(|g| ("", g)).chain(request.exclude.iter().map(|g| ("!", g)));
    if all().count() > MAX_GLOBS || all().any(|(_, glob)| glob.len() > MAX_GLOB) {
        return Err(invalid(format!("at most {MAX_GLOBS} globs of {MAX_GLOB} bytes can be given")));
    }
    let mut builder = OverrideBuilder::new(root);
    for (sign, glob) in all() {
        builder.add(&format!("{sign}{glob}")).map_err(|e| invalid(format!("'{glob}' is not a glob: {e}")))?;
    }
    builder.build().map_err(|e| invalid(format!("the globs cannot be used: {e}")))
}

/// Results of all threads. What is kept does not depend on the order in which files were searched.
struct Results {
    output: GrepOutput,
    limit: usize,
    files: BTreeMap<PathBuf, GrepFile>,
    /// Kept matching lines, or kept files.
    kept: usize,
    total_matches: u64,
    total_files: u64,
    /// Whether a file could not be searched to its end.
    incomplete: bool,
}

impl Results {
    fn new(request: &Grep) -> Self {
        let limit = request.limit.clamp(1, MAX_LIMIT);
        let (files, kept, incomplete) = (BTreeMap::new(), 0, false);
        Self { output: request.output, limit, files, kept, total_matches: 0, total_files: 0, incomplete }
    }

    fn weight(&self, file: &GrepFile) -> usize {
        match self.output {
            GrepOutput::Lines => matched(file),
            GrepOutput::Files | GrepOutput::Count => 1,
        }
    }

    /// Whether a file at this path would be dropped at once.
    fn is_beyond(&self, path: &Path) -> bool {
        self.kept >= self.limit && self.files.last_key_value().is_some_and(|(last, _)| last.as_path() < path)
    }

    fn add(&mut self, path: PathBuf, file: GrepFile) {
        self.total_matches += file.count;
        self.total_files += 1;
        if self.is_beyond(&path) {
            return;
        }
        self.kept += self.weight(&file);
        self.files.insert(path, file);
        while let Some((_, last)) = self.files.last_key_value() {
            let weight = self.weight(last);
            if self.kept - weight < self.limit {
                break;
            }
            self.kept -= weight;
            self.files.pop_last();
        }
    }

    fn answer(mut self, complete: bool) -> GrepAnswer {
        if let (GrepOutput::Lines, Some(mut last)) = (self.output, self.files.last_entry()) {
            // The last file may have more lines than there is room for.
            let over = self.kept.saturating_sub(self.limit);
            let keep = matched(last.get()) - over;
            let lines = &mut last.get_mut().lines;
            let end = lines.iter().enumerate().filter(|(_, line)| line.matched).nth(keep).map(|(at, _)| at);
            lines.truncate(end.unwrap_or(lines.len()));
            self.kept -= over;
        }
        let whole = match self.output {
            GrepOutput::Lines => self.total_matches,
            GrepOutput::Files | GrepOutput::Count => self.total_files,
        };
        GrepAnswer {
            files: self.files.into_values().collect(),
            total_matches: self.total_matches,
            total_files: self.total_files,
            truncated: !complete || self.incomplete || (self.kept as u64) < whole,
        }
    }
}

fn matched(file: &GrepFile) -> usize {
    file.lines.iter().filter(|line| line.matched).count()
}

/// Searches files of a tree.
struct Searching<'a> {
    grepper: Grepper<'a>,
    root: &'a Path,
}

impl Visitor for Searching<'_> {
    fn visit(&mut self, entry: &Entry<'_>) {
        if !entry.kind.is_file() {
            return;
        }
        // It may have been replaced by a link, FIFO or device since its directory was read.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY | OFlags::CLOEXEC;
        let Ok(fd) = rustix::fs::openat(entry.directory, entry.name, flags, Mode::empty()) else { return };
        if rustix::fs::fstat(&fd).is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode).is_file()) {
            self.grepper.search(File::from(fd), PathBuf::from(place::relative(entry.path, self.root)));
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Searched {
    Text,
    Binary,
}

/// One thread's tools.
struct Grepper<'a> {
    request: &'a Grep,
    matcher: RegexMatcher,
    searcher: Searcher,
    results: &'a Mutex<Results>,
    cancel: &'a Cancel,
}

impl<'a> Grepper<'a> {
    fn new(request: &'a Grep, matcher: &RegexMatcher, results: &'a Mutex<Results>, cancel: &'a Cancel) -> Self {
        let context = usize::try_from(request.context.min(MAX_CONTEXT)).unwrap_or(0);
        let context = if request.output == GrepOutput::Lines { context } else { 0 };
        // Never by memory mapping: a file that is cut meanwhile would end the daemon.
        let searcher = SearcherBuilder::new()
            .binary_detection(BinaryDetection::quit(0))
            .line_number(request.output == GrepOutput::Lines)
            .before_context(context)
            .after_context(context)
            .heap_limit(Some(MAX_LINE_BYTES))
            .build();
        Self { request, matcher: matcher.clone(), searcher, results, cancel }
    }

    fn search(&mut self, file: File, path: PathBuf) -> Searched {
        let wants_lines = self.request.output == GrepOutput::Lines;
        let mut found = Found {
            matcher: &self.matcher,
            cancel: self.cancel,
            per_file: if wants_lines { self.request.per_file.clamp(1, MAX_PER_FILE) } else { 0 },
            context: u64::from(self.request.context.min(MAX_CONTEXT)),
            max_line: self.request.max_line.clamp(1, MAX_LINE),
            count: 0,
            lines: Vec::new(),
            last: 0,
            is_binary: false,
        };
        let reader = Cancellable { file, cancel: self.cancel };
        let searched = self.searcher.search_reader(&self.matcher, reader, &mut found);
        if found.is_binary {
            return Searched::Binary;
        }
        let Found { count, lines, .. } = found;
        let mut results = lock(self.results);
        results.incomplete |= searched.is_err();
        if count > 0 {
            let shown = path.to_string_lossy().into_owned();
            results.add(path, GrepFile { path: shown, count, lines });
        }
        Searched::Text
    }
}

struct Cancellable<'a> {
    file: File,
    cancel: &'a Cancel,
}

impl Read for Cancellable<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.cancel.is_set() { Err(io::Error::other("cancelled")) } else { self.file.read(buffer) }
    }
}

/// Collects the lines of one file.
struct Found<'a> {
    matcher: &'a RegexMatcher,
    cancel: &'a Cancel,
    per_file: usize,
    context: u64,
    max_line: usize,
    count: u64,
    lines: Vec<GrepLine>,
    /// Number of the last matching line that is kept.
    last: u64,
    is_binary: bool,
}

impl Found<'_> {
    fn has_room(&self) -> bool {
        self.count < self.per_file as u64
    }
}

impl Sink for Found<'_> {
    type Error = io::Error;

    fn matched(&mut self, _searcher: &Searcher, found: &SinkMatch<'_>) -> io::Result<bool> {
        if self.has_room() {
            self.last = found.line_number().unwrap_or(0);
            let text = cut(found.bytes(), self.matcher, self.max_line);
            self.lines.push(GrepLine { number: self.last, text, matched: true });
        }
        self.count += 1;
        Ok(!self.cancel.is_set())
    }

    fn context(&mut self, _searcher: &Searcher, line: &SinkContext<'_>) -> io::Result<bool> {
        let number = line.line_number().unwrap_or(0);
        let wanted = match line.kind() {
            SinkContextKind::Before => self.has_room(),
            _ => number <= self.last + self.context,
        };
        if wanted && self.per_file > 0 {
            let text = cut(line.bytes(), self.matcher, self.max_line);
            self.lines.push(GrepLine { number, text, matched: false });
        }
        Ok(true)
    }

    fn binary_data(&mut self, _searcher: &Searcher, _offset: u64) -> io::Result<bool> {
        self.is_binary = true;
        Ok(false)
    }

    fn finish(&mut self, _searcher: &Searcher, finish: &SinkFinish) -> io::Result<()> {
        self.is_binary |= finish.binary_byte_offset().is_some();
        Ok(())
    }
}

/// The text of a line; of a long one, what surrounds the match.
fn cut(line: &[u8], matcher: &RegexMatcher, max: usize) -> String {
    let line = line.strip_suffix(b"\n").unwrap_or(line);
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    if line.len() <= max {
        return String::from_utf8_lossy(line).into_owned();
    }
    let start = matcher.find(line).ok().flatten().map_or(0, |found| found.start());
    // A character has at most four bytes; a window that begins within one would show a replacement.
    let mut from = start.saturating_sub(max * 4);
    while from > 0 && from < start && line.get(from).is_some_and(|byte| byte & 0xc0 == 0x80) {
        from += 1;
    }
    let before: Vec<char> = String::from_utf8_lossy(line.get(from..start).unwrap_or_default()).chars().collect();
    let end = line.len().min(start + max * 4);
    let after: Vec<char> = String::from_utf8_lossy(line.get(start..end).unwrap_or_default()).chars().collect();
    if from == 0 && end == line.len() && before.len() + after.len() <= max {
        return before.into_iter().chain(after).collect();
    }
    // A third before the match, unless what follows is shorter.
    let lead = before.len().min((max / 3).max(max.saturating_sub(after.len())));
    let begins = from == 0 && lead == before.len();
    let mut text: String = before.iter().skip(before.len() - lead).chain(&after).take(max).collect();
    let ends = end == line.len() && lead + after.len() <= max;
    if !begins && text.chars().count() > 2 {
        text = std::iter::once('…').chain(text.chars().skip(1)).collect();
    }
    if !ends && text.chars().count() > 2 {
        text.pop();
        text.push('…');
    }
    text
}

#[cfg(test)]
#[path = "grep_tests.rs"]
mod tests;
