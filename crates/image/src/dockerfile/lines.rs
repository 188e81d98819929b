//! From text to instructions: comments, directives, continued lines and heredocs. What the words mean comes later.

use super::{DockerfileError, fail};

/// The longest Dockerfile that is read.
const MAX_TEXT: usize = 1 << 20;
/// Each may keep an environment of its own.
const MAX_INSTRUCTIONS: usize = 2_000;
const MAX_HEREDOCS: usize = 64;

/// One instruction as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    /// Where it begins, counted from 1.
    pub(super) number: usize,
    /// In capital letters.
    pub(super) keyword: String,
    /// What follows, with continued lines joined.
    pub(super) rest: String,
    pub(super) heredocs: Vec<Heredoc>,
}

/// Text that follows an instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Heredoc {
    pub(super) name: String,
    pub(super) content: String,
    /// Not quoted: variables mean their values.
    pub(super) expands: bool,
    /// As it must stand for a shell to read it.
    pub(super) raw: String,
}

/// All instructions, and the character that continues lines.
#[derive(Debug)]
pub(super) struct Lines {
    pub(super) lines: Vec<Line>,
    pub(super) escape: char,
}

pub(super) fn split(text: &str) -> Result<Lines, DockerfileError> {
    if text.len() > MAX_TEXT {
        return fail(1, format!("the Dockerfile is larger than {MAX_TEXT} bytes"));
    }
    if text.contains('\0') {
        return fail(1, "there is a NUL in the Dockerfile: it is not a text");
    }
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let all: Vec<&str> = text.lines().collect();
    let escape = directives(&all)?;
    let mut lines = Vec::new();
    let mut at = 0;
    while at < all.len() {
        let number = at + 1;
        let first = all[at].trim_start();
        at += 1;
        if first.is_empty() || first.starts_with('#') {
            continue;
        }
        let mut joined = String::new();
        let mut part = first;
        loop {
            match continued(part, escape) {
                Some(before) => joined.push_str(before),
                None => {
                    joined.push_str(part);
                    break;
                }
            }
            // Comments and empty lines in between do not count.
            while at < all.len() && (all[at].trim().is_empty() || all[at].trim_start().starts_with('#')) {
                at += 1;
            }
            let Some(next) = all.get(at) else { break };
            part = next;
            at += 1;
        }
        let joined = joined.trim_end();
        if joined.is_empty() {
            continue;
        }
        let (keyword, rest) = joined.split_once(char::is_whitespace).unwrap_or((joined, ""));
        let keyword = keyword.to_uppercase();
        let rest = rest.trim_start().to_owned();
        let mut heredocs = Vec::new();
        if matches!(&keyword[..], "RUN" | "COPY" | "ADD") && !rest.trim_start().starts_with('[') {
            for mark in marks(&rest, escape).into_iter().take(MAX_HEREDOCS) {
                heredocs.push(read_heredoc(&mark, &all, &mut at, number)?);
            }
        }
        lines.push(Line { number, keyword, rest, heredocs });
        if lines.len() > MAX_INSTRUCTIONS {
            return fail(number, format!("there are more than {MAX_INSTRUCTIONS} instructions"));
        }
    }
    Ok(Lines { lines, escape })
}

/// `# escape=` and others before anything else. `# syntax=` names a program that would read this file; ours does.
fn directives(all: &[&str]) -> Result<char, DockerfileError> {
    let mut escape = '\\';
    let mut seen = Vec::new();
    for (index, line) in all.iter().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix('#') else { break };
        let Some((key, value)) = comment.split_once('=') else { break };
        let key = key.trim().to_lowercase();
        if !matches!(&key[..], "escape" | "syntax" | "check") {
            break;
        }
        if seen.contains(&key) {
            return fail(index + 1, format!("the directive {key} comes twice"));
        }
        if key == "escape" {
            escape = match value.trim() {
                "\\" => '\\',
                "`" => '`',
                _ => return fail(index + 1, "the escape character can only be \\ or `"),
            };
        }
        seen.push(key);
    }
    Ok(escape)
}

/// What comes before the mark of continuation; two marks are a character.
fn continued(line: &str, escape: char) -> Option<&str> {
    let before = line.trim_end_matches([' ', '\t', '\r']).strip_suffix(escape)?;
    (!before.ends_with(escape)).then_some(before)
}

struct Mark {
    name: String,
    strips_tabs: bool,
    quoted: bool,
}

/// The words that begin heredocs, outside of quotes: `<<EOF`, `<<-EOF`, `3<<"EOF"`.
fn marks(rest: &str, escape: char) -> Vec<Mark> {
    let mut found = Vec::new();
    for word in raw_words(rest, escape) {
        let Some(after) = word.trim_start_matches(|c: char| c.is_ascii_digit()).strip_prefix("<<") else { continue };
        let (strips_tabs, name) = after.strip_prefix('-').map_or((false, after), |name| (true, name));
        let plain: String = name.chars().filter(|c| !matches!(c, '"' | '\'')).collect();
        let quoted = plain.len() != name.len();
        // `<<<` is another thing of shells.
        let is_name = !plain.is_empty() && plain.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'));
        if is_name {
            found.push(Mark { name: plain, strips_tabs, quoted });
        }
    }
    found
}

/// Words at spaces outside of quotes, with the quotes kept.
pub(super) fn raw_words(text: &str, escape: char) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        let (word, after) = first_word(rest, escape);
        if word.is_empty() {
            return words;
        }
        words.push(word.to_owned());
        rest = after;
    }
}

/// The first of these words, and what follows it.
pub(super) fn first_word(text: &str, escape: char) -> (&str, &str) {
    let text = text.trim_start();
    let mut quote = None;
    let mut escaped = false;
    for (at, c) in text.char_indices() {
        if escaped {
            escaped = false;
            continue;
        }
        match (quote, c) {
            (None, c) if c.is_whitespace() => return text.split_at(at),
            (None | Some('"'), c) if c == escape => escaped = true,
            (None, '"' | '\'') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            _ => {}
        }
    }
    (text, "")
}

fn read_heredoc(mark: &Mark, all: &[&str], at: &mut usize, number: usize) -> Result<Heredoc, DockerfileError> {
    let mut content = String::new();
    let mut raw = String::new();
    while let Some(line) = all.get(*at) {
        *at += 1;
        raw.push_str(line);
        raw.push('\n');
        let stripped = if mark.strips_tabs { line.trim_start_matches('\t') } else { line };
        if stripped.trim_end_matches('\r') == mark.name {
            return Ok(Heredoc { name: mark.name.clone(), content, expands: !mark.quoted, raw });
        }
        content.push_str(stripped);
        content.push('\n');
    }
    fail(number, format!("the heredoc {} does not end", mark.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brief(text: &str) -> Vec<(usize, String, String)> {
        split(text).unwrap().lines.into_iter().map(|line| (line.number, line.keyword, line.rest)).collect()
    }

    fn of(number: usize, keyword: &str, rest: &str) -> (usize, String, String) {
        (number, keyword.to_owned(), rest.to_owned())
    }

    #[test]
    fn lines_are_joined_and_comments_left_out() {
        let text = "# syntax=docker/dockerfile:1\n\n# about\nfrom a\r\n  RUN one \\\n  # why\n\n    two \\  \n three\nRUN x \\\\\nCMD";
        let run = of(5, "RUN", "one     two  three");
        assert_eq!(brief(text), [of(4, "FROM", "a"), run, of(10, "RUN", "x \\\\"), of(11, "CMD", "")]);
        assert_eq!(
            brief("# escape=`\nRUN a `\n b\nRUN c \\\nRUN d"),
            [of(2, "RUN", "a  b"), of(4, "RUN", "c \\"), of(5, "RUN", "d")]
        );
        assert_eq!(brief("RUN a \\"), [of(1, "RUN", "a")]);
        assert!(split("# escape=x\n").is_err() && split("# escape=`\n# escape=`\n").is_err());
        assert_eq!(brief("#x\n# escape=`\nRUN a `\nRUN b").len(), 2, "a directive after a comment is a comment");
    }

    #[test]
    fn heredocs_belong_to_their_instruction() {
        let text = concat!(
            "RUN <<EOF\na\n# not a comment\n  b \\\nEOF\n",
            "COPY <<-'ONE' <<\"TWO\" /x/\n\tfirst\n\tONE\nsecond\nTWO\n",
            "RUN echo '<<no' <<<x"
        );
        let lines = split(text).unwrap().lines;
        assert_eq!(lines.len(), 3);
        assert_eq!(lines[0].heredocs[0].content, "a\n# not a comment\n  b \\\n");
        assert!(lines[0].heredocs[0].expands);
        let copy: Vec<(&str, &str)> = lines[1].heredocs.iter().map(|doc| (&doc.name[..], &doc.content[..])).collect();
        assert_eq!(copy, [("ONE", "first\n"), ("TWO", "second\n")]);
        assert!(!lines[1].heredocs[0].expands);
        assert!(lines[2].heredocs.is_empty());
        assert_eq!(split("\nRUN <<EOF\nx").unwrap_err().line, 2);
    }
}
