//! Chooses package mirrors: the host's own if it runs the same release, because they are near and known to be reachable.
//! Third-party repositories are never used, even where they use the same suite names.

use std::io::Read;
use std::path::Path;

const MAX_FILE_BYTES: u64 = 1 << 20;

/// One repository: `deb uri suite main`.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Entry {
    uri: String,
    suite: String,
    components: Vec<String>,
    /// `signed-by`.
    keys: Option<String>,
}

/// The host's mirrors of a release as lines of a `sources.list`; empty if the host runs another release or has none.
pub(super) fn host_mirrors(codename: &str, keyring: Option<&Path>) -> Vec<String> {
    let release = read(Path::new("/etc/os-release"));
    if value(&release, "ID") != Some("debian") || value(&release, "VERSION_CODENAME") != Some(codename) {
        return Vec::new();
    }
    let mut entries = one_line_entries(&read(Path::new("/etc/apt/sources.list")));
    let parts = std::fs::read_dir("/etc/apt/sources.list.d").into_iter().flatten().flatten();
    let mut parts: Vec<_> = parts.map(|entry| entry.path()).collect();
    parts.sort();
    for part in parts {
        match part.extension().and_then(|e| e.to_str()) {
            Some("list") => entries.extend(one_line_entries(&read(&part))),
            Some("sources") => entries.extend(stanza_entries(&read(&part))),
            _ => {}
        }
    }
    let lists = Path::new("/var/lib/apt/lists");
    choose(&entries, codename, keyring, |entry| origin(lists, entry))
}

fn read(path: &Path) -> String {
    let mut text = Vec::new();
    let read = std::fs::File::open(path).and_then(|file| file.take(MAX_FILE_BYTES).read_to_end(&mut text));
    if read.is_err() {
        return String::new();
    }
    String::from_utf8_lossy(&text).into_owned()
}

/// A value of an `os-release` file.
fn value<'a>(text: &'a str, key: &str) -> Option<&'a str> {
    let found = text.lines().find_map(|l| l.strip_prefix(key)?.strip_prefix('='))?;
    Some(found.trim().trim_matches('"'))
}

/// `deb [options] uri suite component…` lines.
fn one_line_entries(text: &str) -> Vec<Entry> {
    let parse = |line: &str| {
        let line = line.split('#').next()?.trim();
        let rest = line.strip_prefix("deb")?.strip_prefix([' ', '\t'])?.trim_start();
        let (options, rest) = match rest.strip_prefix('[') {
            Some(inside) => inside.split_once(']')?,
            None => ("", rest),
        };
        let mut words = rest.split_whitespace();
        let keys = options.split_whitespace().find_map(|o| o.strip_prefix("signed-by="));
        Some(Entry {
            uri: words.next()?.to_owned(),
            suite: words.next()?.to_owned(),
            components: words.map(str::to_owned).collect(),
            keys: keys.map(str::to_owned),
        })
    };
    text.lines().filter_map(parse).collect()
}

/// Stanzas of a `.sources` file.
fn stanza_entries(text: &str) -> Vec<Entry> {
    let mut entries = Vec::new();
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in text.lines().chain([""]) {
        if line.starts_with('#') {
            continue;
        }
        if line.trim().is_empty() {
            entries.extend(stanza(&fields));
            fields.clear();
        } else if line.starts_with([' ', '\t']) {
            if let Some((_, value)) = fields.last_mut() {
                value.push(' ');
                value.push_str(line.trim());
            }
        } else if let Some((name, value)) = line.split_once(':') {
            fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    entries
}

fn stanza(fields: &[(String, String)]) -> Vec<Entry> {
    let field = |name: &str| fields.iter().find(|(n, _)| n == name).map(|(_, v)| v.as_str());
    let words = |name: &str| field(name).unwrap_or_default().split_whitespace().map(str::to_owned);
    let disabled =
        field("enabled").is_some_and(|v| ["no", "false", "off", "0"].contains(&v.to_ascii_lowercase().as_str()));
    if disabled || !words("types").any(|t| t == "deb") {
        return Vec::new();
    }
    let components: Vec<String> = words("components").collect();
    let entry = |uri: String, suite: String| Entry {
        uri,
        suite,
        components: components.clone(),
        keys: field("signed-by").map(str::to_owned),
    };
    words("uris").flat_map(|uri| words("suites").map(|suite| entry(uri.clone(), suite)).collect::<Vec<_>>()).collect()
}

/// The `Origin` of a repository, if the host has its index.
fn origin(lists: &Path, entry: &Entry) -> Option<String> {
    let place = entry.uri.split_once("://")?.1.trim_end_matches('/');
    let name = format!("{}_dists_{}", place.replace('/', "_"), entry.suite.replace('/', "_"));
    let text = ["InRelease", "Release"].map(|kind| read(&lists.join(format!("{name}_{kind}")))).concat();
    text.lines().find_map(|l| l.strip_prefix("Origin:")).map(|o| o.trim().to_owned())
}

/// For each suite of the release, the repository that is most certainly Debian's.
fn choose(
    entries: &[Entry],
    codename: &str,
    keyring: Option<&Path>,
    origin: impl Fn(&Entry) -> Option<String>,
) -> Vec<String> {
    let suites = [codename.to_owned(), format!("{codename}-updates"), format!("{codename}-security")];
    let chosen: Vec<&Entry> = suites
        .iter()
        .filter_map(|suite| {
            let fitting = entries.iter().filter(|e| e.suite == *suite).filter_map(|e| Some((e, doubt(e, &origin)?)));
            fitting.min_by_key(|(_, doubt)| *doubt).map(|(e, _)| e)
        })
        .collect();
    // Updates alone are of no use.
    if chosen.first().is_none_or(|e| e.suite != codename) {
        return Vec::new();
    }
    let keys = keyring.map(|k| format!("[signed-by={}] ", k.display())).unwrap_or_default();
    chosen.iter().map(|e| format!("deb {keys}{} {} main", e.uri, e.suite)).collect()
}

/// How doubtful it is that this is a mirror of Debian: 0 is certain, `None` means it is not one.
fn doubt(entry: &Entry, origin: &impl Fn(&Entry) -> Option<String>) -> Option<u8> {
    let place = entry.uri.strip_prefix("http://").or_else(|| entry.uri.strip_prefix("https://"))?;
    let plain = |c: char| c.is_ascii_graphic() && !"[]\"'\\".contains(c);
    let last = place.trim_end_matches('/').rsplit_once('/')?.1;
    let fits = ["debian", "debian-security"].contains(&last)
        && entry.components.iter().any(|c| c == "main")
        && entry.uri.chars().all(plain);
    if !fits {
        return None;
    }
    // Inline keys belong to third parties; Debian's are a file with a known name.
    let keys = entry.keys.as_deref().map(|k| k.contains("/debian-archive-"));
    match (keys, origin(entry).as_deref()) {
        (Some(false), _) => None,
        (_, Some(other)) if other != "Debian" => None,
        (Some(true), _) | (_, Some(_)) => Some(0),
        (None, None) => Some(1),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const THEIRS: &str = "\
deb https://apt.vendor.example/ bookworm main
deb [arch=amd64 signed-by=/etc/apt/keyrings/vendor.gpg] https://repo.vendor.example/6.0/debian bookworm main
deb https://download.vendor.example/linux/debian bookworm stable
deb http://apt.vendor.example/pub bookworm-extra main
deb cdrom:[Debian]/ bookworm main
# deb http://old.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
";

    fn nothing_known(_: &Entry) -> Option<String> {
        None
    }

    fn stanza_text(uri: &str, suites: &str, keys: &str) -> String {
        format!(
            "Types: deb deb-src\n# a remark\nURIs: {uri}\nSuites: {suites}\nComponents: main contrib\nSigned-By: {keys}\n"
        )
    }

    #[test]
    fn debian_is_found_among_others_in_both_forms() {
        let ours = "deb http://mirror.example/debian/ bookworm main contrib\n\
                    deb\thttp://mirror.example/debian bookworm-updates main # fresh\n\
                    deb http://mirror.example/debian-security bookworm-security main\n";
        let lines = choose(&one_line_entries(&format!("{THEIRS}{ours}")), "bookworm", None, nothing_known);
        let expected = [
            "deb http://mirror.example/debian/ bookworm main",
            "deb http://mirror.example/debian bookworm-updates main",
            "deb http://mirror.example/debian-security bookworm-security main",
        ];
        assert_eq!(lines, expected);

        let keys = "/usr/share/keyrings/debian-archive-keyring.gpg";
        let mut text = stanza_text("https://repo.vendor.example/debian", "bookworm", "\n -----BEGIN PGP\n .\n abc");
        text.push('\n');
        text.push_str(&stanza_text("http://mirror.example/debian", "bookworm\n bookworm-updates", keys));
        text.push_str("\nEnabled: no\n");
        text.push_str(&stanza_text("http://other.example/debian", "bookworm", keys));
        text.push('\n');
        text.push_str(&stanza_text("http://mirror.example/debian-security", "bookworm-security", keys));
        let lines = choose(&stanza_entries(&text), "bookworm", Some(Path::new("/k.gpg")), nothing_known);
        assert_eq!(lines[0], "deb [signed-by=/k.gpg] http://mirror.example/debian bookworm main");
        assert_eq!(lines.len(), 3);
    }

    #[test]
    fn third_parties_alone_give_no_mirror() {
        assert_eq!(choose(&one_line_entries(THEIRS), "bookworm", None, nothing_known), Vec::<String>::new());
        let updates = one_line_entries("deb http://mirror.example/debian bookworm-updates main");
        assert_eq!(choose(&updates, "bookworm", None, nothing_known), Vec::<String>::new());
    }

    #[test]
    fn the_origin_of_the_index_decides() {
        let text = "deb http://a.example/debian bookworm main\ndeb http://b.example/debian bookworm main\n";
        let origin = |e: &Entry| Some(if e.uri.contains("b.ex") { "Debian" } else { "Vendor" }.to_owned());
        let lines = choose(&one_line_entries(text), "bookworm", None, origin);
        assert_eq!(lines, ["deb http://b.example/debian bookworm main"]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(100))]

        #[test]
        fn any_text_gives_clean_lines_or_none(
            text in concat!(
                "((deb|deb-src|Types:|URIs:|Suites:|Components:|Enabled:|#|\\[|\\]|",
                "http://m/debian|bookworm|main| |\t|\n|\\PC){0,6}\n?){0,10}"
            )
        ) {
            for entries in [one_line_entries(&text), stanza_entries(&text)] {
                for line in choose(&entries, "bookworm", None, nothing_known) {
                    let words: Vec<&str> = line.split(' ').collect();
                    prop_assert_eq!(words.len(), 4);
                    prop_assert!(words[0] == "deb" && words[3] == "main");
                    prop_assert!(words[1].starts_with("http") && words[1].contains("/debian"));
                    prop_assert!(words[2].starts_with("bookworm"));
                    prop_assert!(!line.chars().any(char::is_control));
                }
            }
        }

        #[test]
        fn both_forms_are_equivalent(
            host in "[a-z]{1,10}(\\.[a-z]{2,5}){1,2}", path in "(/[a-z]{1,5}){0,2}", security in any::<bool>(), spaces in "[ \t]{1,3}"
        ) {
            let uri = format!("http://{host}{path}/debian");
            let mut suites = vec!["bookworm", "bookworm-updates"];
            if security {
                suites.push("bookworm-security");
            }
            let lines: String = suites.iter().map(|s| format!("deb{spaces}{uri}{spaces}{s}{spaces}main\n")).collect();
            let stanza = format!("Types:{spaces}deb\nURIs: {uri}\nSuites: {}\nComponents: main\n", suites.join(&spaces));
            let chosen = choose(&one_line_entries(&format!("{THEIRS}{lines}")), "bookworm", None, nothing_known);
            prop_assert_eq!(chosen.len(), suites.len());
            prop_assert_eq!(chosen, choose(&stanza_entries(&stanza), "bookworm", None, nothing_known));
        }
    }
}
