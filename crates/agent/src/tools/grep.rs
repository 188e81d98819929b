//! `sandbox_grep_files`.

use async_trait::async_trait;
use cabana_types::guest::tools::{Case, Grep, GrepAnswer, GrepFile, GrepOutput};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Spec, Tool, counted, parse, specs};
use crate::call::{Context, Failure, Success};
use crate::output;

/// Lines shown of one file.
const PER_FILE: usize = 10;
/// Characters of a shown line.
const MAX_LINE: usize = 400;

pub(super) struct GrepFiles;

#[derive(Deserialize)]
struct Arguments {
    pattern: String,
    path: String,
    #[serde(default)]
    include: Vec<String>,
    #[serde(default)]
    exclude: Vec<String>,
    literal: bool,
    case: Case,
    context: u32,
    output: GrepOutput,
    limit: usize,
    ignored: bool,
}

#[async_trait]
impl Tool for GrepFiles {
    fn spec(&self) -> &'static Spec {
        &specs::GREP_FILES
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let given: Arguments = parse(arguments)?;
        let (shown, limit) = (given.output, given.limit);
        let request = Grep {
            user: None,
            pattern: given.pattern,
            path: given.path,
            include: given.include,
            exclude: given.exclude,
            literal: given.literal,
            case: given.case,
            context: given.context,
            output: given.output,
            limit: given.limit,
            per_file: PER_FILE,
            max_line: MAX_LINE,
            ignored: given.ignored,
        };
        let found = context.computer()?.grep(request).await?;
        let text = describe(&found, shown, limit);
        let cut = output::cut(&text, context.call.limits.max_output, None);
        let data = json!({
            "matches": found.total_matches,
            "files": found.total_files,
            "truncated": found.truncated,
            "results": found.files.iter().map(|file| json!({"path": file.path, "count": file.count})).collect::<Vec<_>>(),
        });
        let truncated = found.truncated || cut.truncated;
        Ok(Success { output: cut.text, data, images: Vec::new(), truncated })
    }
}

fn describe(found: &GrepAnswer, shown: GrepOutput, limit: usize) -> String {
    if found.total_matches == 0 {
        return "[no matches]".into();
    }
    let mut output = String::new();
    for file in &found.files {
        match shown {
            GrepOutput::Files => output.push_str(&format!("{}\n", file.path)),
            GrepOutput::Count => output.push_str(&format!("{}:{}\n", file.path, file.count)),
            GrepOutput::Lines => lines(file, &mut output),
        }
    }
    let (matches, files) =
        (counted(found.total_matches, "match").replace("matchs", "matches"), counted(found.total_files, "file"));
    let rest =
        if found.truncated { format!("; not all are shown (limit {limit}, {PER_FILE} a file)") } else { String::new() };
    output.push_str(&format!("[{matches} in {files}{rest}]"));
    output
}

fn lines(file: &GrepFile, output: &mut String) {
    let mut last = None;
    for line in &file.lines {
        let gap = last.is_some_and(|last| line.number > last + 1) && file.lines.iter().any(|line| !line.matched);
        if gap {
            output.push_str("--\n");
        }
        let mark = if line.matched { ':' } else { '-' };
        output.push_str(&format!("{}{mark}{}{mark}{}\n", file.path, line.number, line.text));
        last = Some(line.number);
    }
    let shown = file.lines.iter().filter(|line| line.matched).count() as u64;
    if file.count > shown {
        output.push_str(&format!("[{}: {} more]\n", file.path, file.count - shown));
    }
}
