//! Runs the `nft` program.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use crate::Error;

const PATIENCE: Duration = Duration::from_secs(20);

/// Path of the `nft` program; services often run without the directories of system programs in `PATH`.
pub(crate) fn program() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/sbin", "/usr/local/sbin"].map(PathBuf::from);
    let mut candidates = std::env::split_paths(&path).chain(system).map(|dir| dir.join("nft"));
    candidates.find(|file| Path::is_file(file))
}

/// Runs a script as one transaction.
pub(crate) async fn run(script: &str) -> Result<(), Error> {
    let program = program()
        .ok_or_else(|| Error::Nft("the program is not installed; try: apt-get install nftables".to_owned()))?;
    let mut child = Command::new(program)
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .map_err(Error::io("start nft"))?;
    let mut stdin = child.stdin.take().expect("stdin is piped");
    let run = async {
        // If it stops reading, its exit status says why.
        let _ = stdin.write_all(script.as_bytes()).await;
        drop(stdin);
        child.wait_with_output().await.map_err(Error::io("wait for nft"))
    };
    let output =
        tokio::time::timeout(PATIENCE, run).await.map_err(|_| Error::Nft("no answer in 20 s".to_owned()))??;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    Err(Error::Nft(said.lines().take(6).collect::<Vec<_>>().join("\n")))
}
