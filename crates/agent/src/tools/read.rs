//! `sandbox_read_file`.

use async_trait::async_trait;
use cabana_types::guest::tools::{Content, Read, ReadWhat};
use cabana_types::tool::{ToolErrorCode, ToolImage};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Spec, Tool, counted, parse, size, specs};
use crate::call::{Context, Failure, Success};

const MAX_LINES: u64 = 2000;
const MAX_BYTES: u64 = 64 << 10;
/// Characters of a line.
const MAX_LINE: u64 = 2000;
const MAX_IMAGE: u64 = 5 << 20;

pub(super) struct ReadFile;

#[derive(Deserialize)]
struct Arguments {
    path: String,
    start_line: Option<u64>,
    end_line: Option<u64>,
}

#[async_trait]
impl Tool for ReadFile {
    fn spec(&self) -> &'static Spec {
        &specs::READ_FILE
    }

    async fn run(&self, arguments: Value, context: &Context<'_>) -> Result<Success, Failure> {
        let Arguments { path, start_line, end_line } = parse(arguments)?;
        let start = start_line.unwrap_or(1);
        if let Some(end) = end_line.filter(|end| *end < start) {
            let text = format!("end_line is {end}, before start_line, which is {start}");
            return Err(Failure::new(ToolErrorCode::InvalidArguments, text));
        }
        let (max_lines, max_bytes, max_line, max_image) = (MAX_LINES, MAX_BYTES, MAX_LINE, MAX_IMAGE);
        let what = ReadWhat::Lines { start, end: end_line, max_lines, max_bytes, max_line, max_image };
        let read = context.computer()?.read(Read { user: None, path, what }).await?;
        let file_size = read.size;
        match read.content {
            Content::Image { media_type, data } => Ok(Success {
                output: format!("image {} ({media_type}, {})", read.path, size(file_size)),
                data: json!({"size": file_size, "mediaType": media_type}),
                images: vec![ToolImage { media_type, data }],
                truncated: false,
            }),
            Content::Lines { lines, total, truncated } => {
                if start > total && start > 1 {
                    let text = format!("{} has only {}", read.path, counted(total, "line"));
                    return Err(Failure::new(ToolErrorCode::InvalidArguments, text)
                        .hint(format!("choose a start_line from 1 to {}", total.max(1))));
                }
                let end = start + (lines.len() as u64).max(1) - 1;
                let mut output = String::new();
                for (number, line) in (start..).zip(&lines) {
                    let cut = match line.cut {
                        0 => String::new(),
                        cut => format!(" [… {cut} more characters …]"),
                    };
                    output.push_str(&format!("{number}\t{}{cut}\n", line.text));
                }
                if lines.is_empty() {
                    output = "[the file is empty]".into();
                } else if truncated {
                    output
                        .push_str(&format!("[lines {start} to {end} of {total}; go on with start_line: {}]", end + 1));
                } else if end < total {
                    output.push_str(&format!("[lines {start} to {end} of {total}]"));
                }
                let (start, end) = if lines.is_empty() { (0, 0) } else { (start, end) };
                let data = json!({"totalLines": total, "startLine": start, "endLine": end, "size": file_size});
                Ok(Success { output, data, images: Vec::new(), truncated })
            }
            Content::Bytes { .. } => Err(unexpected()),
        }
    }
}

/// The guest answered something that was not asked for.
pub(super) fn unexpected() -> Failure {
    Failure::new(ToolErrorCode::SandboxUnavailable, "the sandbox gave an answer that does not fit the request")
}
