//! Small helpers for text that is shown to models.

/// The longest beginning of `text` that has at most `bytes` bytes and ends between characters.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    &text[..text.floor_char_boundary(bytes)]
}

/// The longest end of `text` that has at most `bytes` bytes and begins between characters.
pub(crate) fn tail(text: &str, bytes: usize) -> &str {
    &text[text.ceil_char_boundary(text.len().saturating_sub(bytes))..]
}

/// `text` without control characters, cut to `bytes` bytes with a `…` where something is missing.
pub(crate) fn shorten(text: &str, bytes: usize) -> String {
    let clean = |text: &str| text.chars().filter(|c| *c == '\t' || !c.is_control()).collect::<String>();
    if text.len() <= bytes { clean(text) } else { clean(head(text, bytes)) + "…" }
}

/// `text` as one line of at most `chars` characters, without control characters and those that change how others are shown.
pub(crate) fn one_line(text: &str, chars: usize) -> String {
    let (mut line, mut count) = (String::new(), 0);
    for word in text.split(|c: char| c.is_whitespace() || c.is_control()) {
        let mut between = !line.is_empty();
        for c in word.chars().filter(|c| !is_hidden(*c)) {
            if count + usize::from(between) >= chars {
                line.pop();
                return line.trim_end().to_owned() + "…";
            }
            if std::mem::take(&mut between) {
                line.push(' ');
                count += 1;
            }
            line.push(c);
            count += 1;
        }
    }
    line
}

/// Whether a character is not seen, or changes the direction of others.
fn is_hidden(c: char) -> bool {
    matches!(c, '\u{ad}' | '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}')
        || matches!(c, '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// The line of `lines` that is most similar to `wanted`, and its index. Blank lines are similar to nothing.
pub(crate) fn most_similar<'a>(lines: impl Iterator<Item = &'a [u8]>, wanted: &[u8]) -> Option<(usize, &'a [u8])> {
    let wanted = pairs(wanted);
    let total: u32 = wanted.iter().sum();
    if total == 0 {
        return None;
    }
    let mut best: Option<(usize, &[u8], f64)> = None;
    for (index, line) in lines.enumerate() {
        let found = pairs(line);
        let both: u32 = wanted.iter().zip(&found).map(|(a, b)| a.min(b)).sum();
        let score = f64::from(2 * both) / f64::from(total + found.iter().sum::<u32>());
        if score > best.map_or(0.3, |(_, _, score)| score) {
            best = Some((index, line, score));
        }
    }
    best.map(|(index, line, _)| (index, line))
}

/// How often each pair of neighbouring bytes occurs, by a hash of the pair. Blanks at the ends do not count.
fn pairs(line: &[u8]) -> [u32; 256] {
    let mut counts = [0; 256];
    let line = line.trim_ascii();
    for pair in line[..line.len().min(512)].windows(2) {
        counts[usize::from(pair[0].wrapping_mul(31).wrapping_add(pair[1]))] += 1;
    }
    counts
}
