//! Tables of folding and cutting.

use super::*;

#[test]
fn text_is_what_a_terminal_shows() {
    let cases = [
        ("plain\ttext\n", "plain\ttext\n"),
        ("\x1b[31;1mred\x1b[0m\n", "red\n"),
        ("\x1b]0;title\x07a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\\n", "alink\n"),
        ("\x1b(Ba\x1b=b\x1bMc\n", "abc\n"),
        ("\x1bPq secret\x1b\\a\u{9b}31mb\u{9d}0;t\u{9c}c\n", "abc\n"),
        ("\x1b]0;never ends\nnext\n", "\nnext\n"),
        ("a\r\nb\r\n", "a\nb\n"),
        ("10%\r50%\r100%\ndone\n", "100%\ndone\n"),
        ("downloading\rdone\n", "doneloading\n"),
        ("downloading\r\x1b[Kdone\n", "done\n"),
        ("downloading\x1b[2K\x1b[1Gdone\n", "done\n"),
        ("abc\x08\x08X\n", "aXc\n"),
        ("b\x08b_\x08u\n", "bu\n"),
        ("bell\x07 zero\0 delete\x7f\n", "bell zero delete\n"),
        ("cut \x1b[3", "cut "),
        ("cut \x1b", "cut "),
        ("a\na\na\nb\n", "a\na\na\nb\n"),
        ("a\na\na\na\nb\n", "a\n[… repeated 3 more times …]\nb\n"),
        ("\n\n\n\n\n\nb", "\n[… repeated 5 more times …]\nb"),
        ("x\nx\nx\nx\nx", "x\n[… repeated 3 more times …]\nx"),
        ("", ""),
        ("é\r\u{1f600}\n", "\u{1f600}\n"),
    ];
    for (text, shown) in cases {
        assert_eq!(fold(text), shown, "{text:?}");
    }
}

#[test]
fn the_beginning_and_the_end_are_shown() {
    let lines: String = (0..100).map(|n| format!("line {n:02}\n")).collect();
    let shown = cut(&lines, 80, Some("/tmp/all.txt"));
    let expected = "line 00\nline 01\n[… 90 lines, 720 bytes left out; all of it: /tmp/all.txt …]\n\
                    line 92\nline 93\nline 94\nline 95\nline 96\nline 97\nline 98\nline 99\n";
    assert_eq!(shown.text, expected);
    assert_eq!((shown.truncated, shown.lines, shown.bytes), (true, 90, 720));
    assert_eq!(cut(&lines, lines.len(), None), Cut { text: lines.clone(), truncated: false, lines: 0, bytes: 0 });
    let long = "é".repeat(1000);
    let shown = cut(&long, 101, None);
    let expected = format!("{}\n[… 1 lines, 1900 bytes left out …]\n{}", "é".repeat(10), "é".repeat(40));
    assert_eq!(shown.text, expected);
    assert!(cut("abc", 0, None).text.contains("1 lines, 3 bytes"));
}

#[test]
fn a_stream_of_any_length_is_shown_in_bounds() {
    let mut tail = Tail::new(32, 64);
    for n in 0..1000 {
        tail.push(format!("line {n:03}\n").as_bytes());
    }
    assert_eq!(tail.bytes(), 9000);
    let shown = tail.finish(60, Some("all"));
    let expected = "line 000\n[… 994 lines, 8946 bytes left out; all of it: all …]\n\
                    line 995\nline 996\nline 997\nline 998\nline 999\n";
    assert_eq!(shown.text, expected);
    let mut bar = Tail::new(32, 64);
    (0..=1000).for_each(|n| bar.push(format!("\r{n} of 1000").as_bytes()));
    assert!(bar.finish(1000, None).text.ends_with("left out …]\n1000 of 1000"), "{:?}", bar.finish(1000, None));
}
