//! Folding and cutting: bounds, counts, and independence of how output arrives.

use std::time::{Duration, Instant};

use cabana_agent::output::{Cut, Tail, cut, fold};
use proptest::collection::vec;
use proptest::prelude::*;

/// The line that says what is missing is not longer than this, without a path.
const MARKER: usize = 80;

fn text() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        6 => "[a-c]{0,3}\n",
        2 => "[a-cä\u{1f600}]{0,12}",
        1 => Just("\r".to_owned()),
        1 => Just("\x1b[31m".to_owned()),
        1 => Just("\x1b]0;t\x07".to_owned()),
        1 => Just("same\nsame\nsame\nsame\nsame\n".to_owned()),
        1 => "\\PC{0,4}",
        1 => any::<char>().prop_map(String::from),
    ];
    vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// Plain lines, of which nothing is folded.
fn lines() -> impl Strategy<Value = String> {
    vec("[a-zé]{0,20}", 0..200).prop_map(|lines| {
        lines.iter().enumerate().fold(String::new(), |all, (number, line)| all + &format!("{number} {line}\n"))
    })
}

fn pushed(data: &[u8], chunks: &[usize], head: usize, tail: usize) -> Tail {
    let mut collector = Tail::new(head, tail);
    let mut rest = data;
    for chunk in chunks.iter().cycle() {
        if rest.is_empty() || chunks.iter().all(|chunk| *chunk == 0) {
            break;
        }
        let (now, later) = rest.split_at((*chunk).min(rest.len()));
        collector.push(now);
        rest = later;
    }
    collector.push(rest);
    collector
}

/// How many bytes of the beginning are shown, and the end; checks that they are the text's and that the bytes add up.
fn parts<'a>(text: &str, shown: &'a Cut) -> Result<(usize, &'a str), TestCaseError> {
    let (first, rest) = shown.text.split_once("[… ").unwrap();
    let (_, last) = rest.split_once(" …]\n").unwrap();
    let kept = text.len() - last.len() - usize::try_from(shown.bytes).unwrap();
    prop_assert!(text.ends_with(last), "{:?}", shown);
    prop_assert!(text.starts_with(&first[..kept]) && ["", "\n"].contains(&&first[kept..]), "{:?}", shown);
    Ok((kept, last))
}

proptest! {
    #![proptest_config(crate::config(256))]

    #[test]
    fn folded_text_has_no_controls_and_stays(text in text()) {
        let folded = fold(&text);
        prop_assert!(!folded.contains(|c: char| c.is_control() && c != '\n' && c != '\t'), "{:?}", folded);
        prop_assert_eq!(fold(&folded), folded);
    }

    #[test]
    fn cut_text_is_within_the_limit_and_its_counts_are_right(text in lines(), limit in 0_usize..3000) {
        let shown = cut(&text, limit, None);
        prop_assert!(shown.text.len() <= limit + MARKER);
        prop_assert_eq!(shown.truncated, text.len() > limit);
        if !shown.truncated {
            prop_assert_eq!(shown.text, text);
            return Ok(());
        }
        let (kept, last) = parts(&text, &shown)?;
        prop_assert!(last.len() + 1 >= (limit - limit / 5) / 2, "the end is short: {}", last.len());
        let missing = &text[kept..text.len() - last.len()];
        prop_assert_eq!(shown.lines, missing.lines().count() as u64);
    }

    #[test]
    fn output_is_shown_alike_however_it_arrives(
        text in text(), junk in vec(any::<u8>(), 0..8), chunks in vec(0_usize..40, 1..6),
        head in 0_usize..200, tail in 1_usize..300, limit in 0_usize..400,
    ) {
        let data = [text.as_bytes(), &junk, text.as_bytes()].concat();
        let whole = pushed(&data, &[data.len()], head, tail).finish(limit, None);
        let pieces = pushed(&data, &chunks, head, tail).finish(limit, None);
        prop_assert_eq!(&whole, &pieces);
        prop_assert!(whole.text.len() <= limit + MARKER, "{}", whole.text.len());
        if data.len() <= head + tail {
            prop_assert_eq!(whole, cut(&fold(&String::from_utf8_lossy(&data)), limit, None));
        }
    }

    #[test]
    fn dropped_output_is_counted(
        text in lines(), chunks in vec(1_usize..40, 1..6), head in 0_usize..300, tail in 100_usize..500, limit in 0_usize..1000,
    ) {
        let shown = pushed(text.as_bytes(), &chunks, head, tail).finish(limit, None);
        if shown.truncated {
            let (kept, last) = parts(&text, &shown)?;
            let missing = &text[kept..text.len() - last.len()];
            prop_assert_eq!(shown.lines, missing.lines().count() as u64);
        } else {
            prop_assert_eq!(shown.text, text);
        }
    }
}

#[test]
fn a_hundred_megabytes_take_no_time_and_no_memory() {
    let line = "a line of a build log, of which there are very many indeed\n".repeat(1110);
    let chunk = &line.as_bytes()[..65_000];
    let mut tail = Tail::for_limit(32 << 10);
    let begin = Instant::now();
    (0..1600).for_each(|_| tail.push(chunk));
    let took = begin.elapsed();
    let shown = tail.finish(32 << 10, Some("/tmp/x"));
    eprintln!("{} bytes in {took:?}, shown after {:?}", tail.bytes(), begin.elapsed());
    assert_eq!(tail.bytes(), 104_000_000);
    assert!(shown.truncated && shown.text.len() < (32 << 10) + 200);
    // Far less on a quiet machine.
    assert!(took < Duration::from_secs(2), "{took:?}");
}
