//! The certificate authority of this sandbox, which signs for hosts whose requests the egress proxy changes. Its
//! certificate is added to those that programs trust; its key never comes here.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// All certificates that most programs trust.
const BUNDLE: &str = "etc/ssl/certs/ca-certificates.crt";
/// The certificate alone: the first for programs that take further ones, the second where E2B has it. Both are found by
/// `update-ca-certificates`.
const ALONE: [&str; 2] =
    ["usr/local/share/ca-certificates/cabana-ca.crt", "usr/local/share/ca-certificates/e2b-ca.crt"];
const BEGIN: &str = "# begin: certificate authority of this sandbox\n";
const END: &str = "# end: certificate authority of this sandbox\n";
/// Bundles are about 200 KiB.
const MAX_BUNDLE: u64 = 8 << 20;
/// Certificates of the host are smaller.
const MAX_CERTIFICATE: usize = 64 << 10;
/// Variables that name a bundle. A program would not trust anything else, so they are only set if it has more.
const BUNDLE_VARIABLES: [&str; 4] = ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "GIT_SSL_CAINFO"];
/// The variable that names further certificates.
const FURTHER_VARIABLE: &str = "NODE_EXTRA_CA_CERTS";

/// Makes the programs below a root trust a certificate in PEM, instead of an earlier one; `None` for no one. Returns the
/// environment that programs with their own certificates need.
pub(crate) fn install(root: &Path, certificate: Option<&str>) -> io::Result<Vec<(String, String)>> {
    let [first, second] = ALONE.map(|path| root.join(path));
    let earlier = read(&first, MAX_CERTIFICATE as u64)?.unwrap_or_default();
    let Some(certificate) = certificate.map(str::trim) else {
        // Most sandboxes never had one: nothing is read or written then.
        if !earlier.is_empty() {
            let bundle = root.join(BUNDLE);
            if let Some(text) = read(&bundle, MAX_BUNDLE)? {
                write(&bundle, &without(&text, &earlier))?;
            }
            for path in [first, second] {
                fs::remove_file(path).or_else(|e| if e.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(e) })?;
            }
        }
        return Ok(Vec::new());
    };
    if certificate.len() > MAX_CERTIFICATE || !is_certificate(certificate) {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a certificate in PEM"));
    }
    let bundle = root.join(BUNDLE);
    let before = read(&bundle, MAX_BUNDLE)?.unwrap_or_default();
    let mut text = without(&before, &earlier);
    let has_others = text.contains("BEGIN CERTIFICATE");
    if !text.is_empty() && !text.ends_with('\n') {
        text.push('\n');
    }
    text.push_str(&format!("{BEGIN}{certificate}\n{END}"));
    if text != before {
        write(&bundle, &text)?;
    }
    for path in [&first, &second] {
        let alone = format!("{certificate}\n");
        if read(path, MAX_CERTIFICATE as u64)?.as_ref() != Some(&alone) {
            write(path, &alone)?;
        }
    }
    let bundles = BUNDLE_VARIABLES.iter().filter(|_| has_others).map(|name| ((*name).to_owned(), format!("/{BUNDLE}")));
    Ok(bundles.chain([(FURTHER_VARIABLE.to_owned(), format!("/{}", ALONE[0]))]).collect())
}

/// A bundle without our part, and without a certificate that `update-ca-certificates` copied.
fn without(bundle: &str, certificate: &str) -> String {
    let mut text = bundle.to_owned();
    while let Some(start) = text.find(BEGIN) {
        let end = text[start..].find(END).map_or(start + BEGIN.len(), |length| start + length + END.len());
        text.replace_range(start..end, "");
    }
    match certificate.trim() {
        "" => text,
        certificate => text.replace(&format!("{certificate}\n"), ""),
    }
}

/// One certificate and nothing else, above all no key.
fn is_certificate(text: &str) -> bool {
    text.starts_with("-----BEGIN CERTIFICATE-----")
        && text.ends_with("-----END CERTIFICATE-----")
        && text.matches("-----BEGIN").count() == 1
        && text.is_ascii()
}

/// A regular file's text; `None` if there is no file.
fn read(path: &Path, most: u64) -> io::Result<Option<String>> {
    // A pipe in its place must not block the daemon.
    let file = match OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        opened => opened?,
    };
    let facts = file.metadata()?;
    if !facts.is_file() || facts.len() > most {
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("{} is not a file of certificates", path.display()),
        ));
    }
    let mut bytes = Vec::new();
    file.take(most).read_to_end(&mut bytes)?;
    // Comments in other encodings occur.
    Ok(Some(String::from_utf8_lossy(&bytes).into_owned()))
}

/// Replaces a file atomically, with the owner and permissions of the one before. A link is followed.
#[expect(clippy::disallowed_methods, reason = "a race can only lead elsewhere inside the same sandbox")]
fn write(path: &Path, text: &str) -> io::Result<()> {
    let path = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let directory = path.parent().unwrap_or_else(|| Path::new("/"));
    fs::create_dir_all(directory)?;
    let facts = fs::metadata(&path).ok();
    let mode = facts.as_ref().map_or(0o644, |facts| facts.permissions().mode() & 0o7777);
    let draft = draft(&path);
    let _ = fs::remove_file(&draft);
    let written = (|| {
        let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(text.as_bytes())?;
        if let Some(facts) = &facts {
            // Not permitted in an ordinary process, as in development.
            let _ = fchown(&file, Some(facts.uid()), Some(facts.gid()));
        }
        file.set_permissions(fs::Permissions::from_mode(mode))?;
        fs::rename(&draft, &path)
    })();
    if written.is_err() {
        let _ = fs::remove_file(&draft);
    }
    written
}

fn draft(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".cabana-new");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pem(name: &str) -> String {
        format!("-----BEGIN CERTIFICATE-----\n{name}\n-----END CERTIFICATE-----")
    }

    fn root(bundle: Option<&str>) -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("directory");
        if let Some(text) = bundle {
            let path = root.path().join(BUNDLE);
            fs::create_dir_all(path.parent().expect("parent")).expect("made");
            fs::write(&path, text).expect("written");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).expect("set");
        }
        root
    }

    fn bundle(root: &tempfile::TempDir) -> String {
        fs::read_to_string(root.path().join(BUNDLE)).expect("bundle")
    }

    #[test]
    fn a_certificate_is_added_replaced_and_removed() {
        let system = format!("{}\n{}\n", pem("a"), pem("b"));
        let root = root(Some(&system));
        let env = install(root.path(), Some(&pem("mine"))).expect("installed");
        assert_eq!(env.len(), 5);
        assert!(env.contains(&("SSL_CERT_FILE".into(), "/etc/ssl/certs/ca-certificates.crt".into())), "{env:?}");
        assert_eq!(bundle(&root), format!("{system}{BEGIN}{}\n{END}", pem("mine")));
        let mode = fs::metadata(root.path().join(BUNDLE)).expect("bundle").permissions().mode() & 0o777;
        assert_eq!(mode, 0o640, "permissions are kept");
        for path in ALONE {
            assert_eq!(fs::read_to_string(root.path().join(path)).expect("alone"), format!("{}\n", pem("mine")));
        }
        // Another sandbox from a copy of this disk.
        install(root.path(), Some(&pem("other"))).expect("replaced");
        assert_eq!(bundle(&root), format!("{system}{BEGIN}{}\n{END}", pem("other")));
        // `update-ca-certificates` writes the bundle anew.
        fs::write(root.path().join(BUNDLE), format!("{system}{}\n", pem("other"))).expect("written");
        assert_eq!(install(root.path(), None).expect("removed"), []);
        assert_eq!(bundle(&root), system);
        assert!(ALONE.iter().all(|path| !root.path().join(path).exists()));
    }

    #[test]
    fn a_system_without_certificates_keeps_its_own_ways() {
        let root = root(None);
        assert_eq!(install(root.path(), None).expect("nothing"), []);
        assert_eq!(fs::read_dir(root.path()).expect("listed").count(), 0, "nothing is written");
        let env = install(root.path(), Some(&pem("mine"))).expect("installed");
        assert_eq!(env.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["NODE_EXTRA_CA_CERTS"]);
        assert!(bundle(&root).contains("mine"));
    }

    #[test]
    fn links_are_followed_and_pipes_refused() {
        let root = root(Some(&pem("a")));
        let (path, target) = (root.path().join(BUNDLE), root.path().join("bundle.pem"));
        fs::rename(&path, &target).expect("moved");
        std::os::unix::fs::symlink(&target, &path).expect("linked");
        install(root.path(), Some(&pem("mine"))).expect("installed");
        assert!(fs::symlink_metadata(&path).expect("link").is_symlink());
        assert!(fs::read_to_string(&target).expect("target").contains("mine"));
        fs::remove_file(&path).expect("removed");
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR, 0)
            .expect("pipe");
        assert!(install(root.path(), Some(&pem("mine"))).is_err());
    }

    #[test]
    fn only_one_certificate_is_taken() {
        let root = root(None);
        let key = "-----BEGIN PRIVATE KEY-----\nx\n-----END PRIVATE KEY-----";
        for text in
            ["", "nonsense", key, &format!("{}\n{key}\n{}", pem("a"), pem("b")), &pem(&"x".repeat(MAX_CERTIFICATE))]
        {
            assert!(install(root.path(), Some(text)).is_err(), "{text:.40}");
        }
        assert_eq!(fs::read_dir(root.path()).expect("listed").count(), 0);
    }
}
