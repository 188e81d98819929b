//! Markdown of strangers as HTML of ours: raw HTML is shown as text, and no link runs or loads anything.

use pulldown_cmark::{CowStr, Event, Options, Parser, Tag, TagEnd, html};

/// Beginnings of addresses that links may have.
const SCHEMES: [&str; 3] = ["https://", "http://", "mailto:"];

/// The HTML of a text.
pub(super) fn html(text: &str) -> String {
    let mut written = String::with_capacity(text.len() * 2);
    let options = Options::ENABLE_TABLES | Options::ENABLE_STRIKETHROUGH | Options::ENABLE_TASKLISTS;
    html::push_html(&mut written, Parser::new_ext(text, options).flat_map(harmless));
    written
}

/// An event without what a page of somebody else's must not get.
fn harmless(event: Event<'_>) -> Vec<Event<'_>> {
    match event {
        Event::Html(text) | Event::InlineHtml(text) => vec![Event::Text(text)],
        Event::Start(Tag::HtmlBlock) => vec![Event::Start(Tag::Paragraph)],
        Event::End(TagEnd::HtmlBlock) => vec![Event::End(TagEnd::Paragraph)],
        Event::Start(Tag::Link { dest_url, .. }) if is_allowed(&dest_url) => {
            let mut tag = String::from("<a rel=\"noopener noreferrer nofollow\" target=\"_blank\" href=\"");
            let _ = pulldown_cmark_escape::escape_href(&mut tag, &dest_url);
            tag.push_str("\">");
            vec![Event::InlineHtml(tag.into())]
        }
        Event::Start(Tag::Link { .. }) => vec![Event::InlineHtml("<a>".into())],
        Event::End(TagEnd::Link) => vec![Event::InlineHtml("</a>".into())],
        // A picture would tell its server who reads.
        Event::Start(Tag::Image { .. }) => vec![Event::Text(CowStr::Borrowed("[picture: "))],
        Event::End(TagEnd::Image) => vec![Event::Text(CowStr::Borrowed("]"))],
        other => vec![other],
    }
}

fn is_allowed(address: &str) -> bool {
    let lower = address.to_ascii_lowercase();
    SCHEMES.iter().any(|scheme| lower.starts_with(scheme))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_markdown_is_text() {
        for hostile in [
            "<script>alert(1)</script>",
            "a <img src=x onerror=alert(1)> b",
            "<div onclick=alert(1)>\n\ntext\n\n</div>",
            "<style>*{display:none}</style>",
            "<iframe src=//evil.test></iframe>",
            "<!-- comment --><svg/onload=alert(1)>",
        ] {
            let html = html(hostile);
            let tags: Vec<&str> =
                html.split('<').skip(1).map(|tag| tag.split(['>', ' ']).next().unwrap_or("")).collect();
            assert!(tags.iter().all(|tag| ["p", "/p"].contains(tag)), "{hostile}: {html}");
        }
        for link in
            ["javascript:alert(1)", "data:text/html,x", "//evil.test", "/relative", "vbscript:x", "JAVASCRIPT:x"]
        {
            let html = html(&format!("[x]({link}) <{link}>"));
            assert!(!html.contains("href"), "{link}: {html}");
        }
        assert!(!html("![x](https://evil.test/pixel.png)").contains("<img"));
        let html = html("[a](https://a.test/?q=\"><script>) `<b>` **bold**");
        assert!(
            html.contains("href=\"https://a.test/") && !html.contains("<script") && html.contains("<strong>bold"),
            "{html}"
        );
        assert!(html.contains("noreferrer") && html.contains("&lt;b&gt;"), "{html}");
    }

    #[test]
    fn usual_markdown_is_shown() {
        let html = html("# Title\n\n- one\n- two\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n```py\nprint('<')\n```\n");
        for tag in ["<h1>", "<li>one", "<table>", "<td>1</td>", "<pre><code class=\"language-py\">", "&lt;"] {
            assert!(html.contains(tag), "{tag}: {html}");
        }
    }
}
