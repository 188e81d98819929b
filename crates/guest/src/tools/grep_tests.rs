//! Tests of parts of the search.

use proptest::prelude::*;

use super::*;

fn build(pattern: &str) -> Result<RegexMatcher, Refused> {
    matcher(&Grep { pattern: pattern.to_owned(), ..Grep::default() })
}

#[test]
fn exploding_patterns_are_refused_quickly() {
    let started = std::time::Instant::now();
    let bombs = [
        "(a{1000}){1000}".to_owned(),
        "((((a{100}){100}){100}){100}){100}".to_owned(),
        r"\w{5000}".to_owned(),
        "(".repeat(500) + &")".repeat(500),
        "(?i)".to_owned() + &"[^x]{100}".repeat(100),
        "a\nb".to_owned(),
        "(".to_owned(),
        String::new(),
        "x".repeat(MAX_PATTERN + 1),
    ];
    for bomb in bombs {
        let refused = build(&bomb).expect_err(&bomb);
        assert_eq!(refused.code, Code::InvalidArguments);
        assert!(refused.message.len() < 5000);
    }
    assert!(started.elapsed() < std::time::Duration::from_secs(10), "{:?}", started.elapsed());
    // What would be exponential elsewhere is linear here.
    let matcher = build("(a*)*(a|aa)*b").unwrap();
    assert!(matcher.find("a".repeat(100_000).as_bytes()).unwrap().is_none());
}

#[test]
fn long_lines_show_the_match() {
    let matcher = build("needle").unwrap();
    let line = format!("{}needle{}\r\n", "ä".repeat(5000), "ö".repeat(5000));
    let shown = cut(line.as_bytes(), &matcher, 60);
    assert_eq!(shown.chars().count(), 60);
    assert!(shown.starts_with("…ä") && shown.ends_with("ö…") && shown.contains("äneedleö"), "{shown}");
    assert_eq!(cut(b"a needle\r\n", &matcher, 60), "a needle");
    let at_end = cut(format!("{}needle", "x".repeat(500)).as_bytes(), &matcher, 20);
    assert_eq!(at_end, format!("…{}needle", "x".repeat(13)));
    let at_start = cut(format!("needle{}", "x".repeat(500)).as_bytes(), &matcher, 20);
    assert_eq!(at_start, format!("needle{}…", "x".repeat(13)));
    assert_eq!(cut("ääää".as_bytes(), &matcher, 4), "ääää");
}

proptest! {
    #[test]
    fn a_cut_line_fits(line in prop::collection::vec(any::<u8>(), 0..300), max in 1usize..50) {
        let shown = cut(&line, &build("[a-m]+").unwrap(), max);
        prop_assert!(shown.chars().count() <= max.max(1), "{}", shown);
    }

    #[test]
    fn what_is_kept_does_not_depend_on_the_order(
        counts in prop::collection::vec(1usize..6, 1..20), limit in 1usize..30, seed in any::<u64>(),
        output in prop::sample::select(vec![GrepOutput::Lines, GrepOutput::Count]),
    ) {
        let request = Grep { limit, output, ..Grep::default() };
        let file = |number: usize, count: usize| GrepFile {
            path: format!("{number:03}"),
            count: count as u64 + 1,
            lines: (0..count as u64).map(|n| GrepLine { number: n, text: String::new(), matched: true }).collect(),
        };
        let mut order: Vec<usize> = (0..counts.len()).collect();
        let in_order = order.clone();
        order.sort_by_key(|n| (*n as u64 + 1).wrapping_mul(seed | 1));
        let answers = [in_order, order].map(|order| {
            let mut results = Results::new(&request);
            for number in order {
                results.add(PathBuf::from(format!("{number:03}")), file(number, counts[number]));
            }
            results.answer(true)
        });
        prop_assert_eq!(&answers[0], &answers[1]);
        let kept: usize = answers[0].files.iter().map(|f| f.lines.len()).sum();
        let all: usize = counts.iter().sum();
        prop_assert_eq!(answers[0].total_matches, (all + counts.len()) as u64);
        match output {
            GrepOutput::Lines => prop_assert_eq!(kept, all.min(limit)),
            _ => prop_assert_eq!(answers[0].files.len(), counts.len().min(limit)),
        }
    }
}
