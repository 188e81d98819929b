//! Runs build steps, each on a copy of the previous step's layer. A step that was run before is a cache hit: its layer
//! is reused.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use cabana_image::dockerfile::{Action, Copy, Owner, Step};
use cabana_runtime::Root;
use cabana_storage::Tree;
use cabana_store::Boot;
use futures_util::future::BoxFuture;

use super::base::Layer;
use super::build_task::BuildTask;
use super::command::{self, Program};
use super::copying::{Files, make_directory};
use super::failure::{Failure, of_command, short};
use super::log::Tail;
use super::{accounts, e2b_steps};
use crate::failpoint;
use crate::lifecycle::BuildSandboxSpec;

/// Path of a Dockerfile's script while it runs.
const SCRIPT: &str = "/tmp/.cabana-step";

impl BuildTask {
    /// Runs one step. `files` is what it copies from, if it copies; `position` is shown in the log.
    pub(super) fn run_step<'a>(
        &'a self,
        layer: Layer,
        step: &'a Step,
        files: Option<Arc<Files>>,
        force: bool,
        label: &'a str,
        position: &'a str,
    ) -> BoxFuture<'a, Result<Layer, Failure>> {
        Box::pin(async move {
            let title = format!("[{position}] {}", short(&step.text));
            match &step.action {
                Action::Copy(copy) => {
                    let files = files.ok_or_else(|| Failure::new(label, "there are no files to copy from"))?;
                    self.copy(layer, step, copy, files, force, label, &title).await
                }
                Action::MakeDirectory => self.make_directory(layer, step, label, &title).await,
                Action::Run(args) => self.run(layer, step, args.clone(), force, label, &title).await,
                Action::RunScript(text) => self.run(layer, step, script(text), force, label, &title).await,
            }
        })
    }

    /// Whether a step is a cache hit, which is logged.
    async fn is_cached(&self, after: &Layer, force: bool, label: &str, title: &str) -> bool {
        let kept = !force && self.pool.has_tree(&after.tree).await;
        self.log.info(label, format!("{}{title}", if kept { "CACHED " } else { "" }));
        if kept {
            self.used(after);
        }
        kept
    }

    async fn run(
        &self,
        layer: Layer,
        step: &Step,
        args: Vec<String>,
        force: bool,
        label: &str,
        title: &str,
    ) -> Result<Layer, Failure> {
        let after = Layer::of_key(step.key(layer.key, None));
        if self.is_cached(&after, force, label, title).await {
            return Ok(after);
        }
        let _place = self.builds.steps.acquire().await;
        let boot = Boot { default_user: "root".into(), env: BTreeMap::new(), ..Boot::default() };
        let spec = BuildSandboxSpec {
            template: self.spec.template.clone(),
            root: Root::Copy(layer.tree),
            resources: self.spec.resources,
            boot,
        };
        let sandbox = self.builds.lifecycle.build_sandbox(spec).await.map_err(|e| Failure::sandbox(label, &e))?;
        let program =
            Program { args: &args, environment: &step.environment, user: &step.user, directory: &step.directory };
        let mut tail = Tail::default();
        let ran = command::run(sandbox.link(), program, |is_error, line| {
            tail.push(line.clone());
            if is_error { self.log.warn(label, line) } else { self.log.info(label, line) }
        })
        .await;
        let shown = command_of(step);
        let failure = match ran {
            Ok(exit) if exit.code == 0 => {
                if force {
                    self.forget_layer(&after).await;
                }
                sandbox.keep(&self.pool, &after.key.hex()).await.map_err(|e| Failure::sandbox(label, &e))?;
                failpoint::hit("build.kept");
                self.used(&after);
                return Ok(after);
            }
            Ok(exit) => of_command(label, &shown, &exit.status, sandbox.ran_out_of_memory(), &tail.text()),
            Err(error) => {
                let reason =
                    format!("command failed: {}: {}", error.code.as_str(), error.message.as_deref().unwrap_or(""));
                of_command(label, &shown, &reason, sandbox.ran_out_of_memory(), &tail.text())
            }
        };
        sandbox.remove().await;
        Err(failure)
    }

    #[allow(clippy::too_many_arguments, reason = "a step has that many sides")]
    async fn copy(
        &self,
        layer: Layer,
        step: &Step,
        copy: &Copy,
        files: Arc<Files>,
        force: bool,
        label: &str,
        title: &str,
    ) -> Result<Layer, Failure> {
        let (selecting, stop) = (Arc::clone(&files), self.stop.clone());
        let wanted = copy.clone();
        let selection = self.blocking(label, move || selecting.select(&wanted, &stop)).await?;
        let after = Layer::of_key(step.key(layer.key, Some(copy.digest(&selection))));
        if self.is_cached(&after, force, label, title).await {
            return Ok(after);
        }
        let failed = |error: cabana_storage::Error| Failure::storage(label, &error);
        let begun = self.pool.begin_layer(&after.key.hex(), Some(&layer.tree), self.disk_bytes()).await;
        let new = begun.map_err(failed)?;
        let root = new.open().map_err(failed)?;
        let (root, owner) = self.owner(copy.owner.as_deref(), root, label).await?;
        let (copy, stop, limits) = (copy.clone(), self.stop.clone(), self.unpack_limits());
        self.blocking(label, move || files.place(&copy, selection, root.as_fd(), owner, &limits, &stop)).await?;
        if force {
            self.forget_layer(&after).await;
        }
        new.commit().await.map_err(failed)?;
        self.used(&after);
        Ok(after)
    }

    /// An existing directory is left as it is; the step succeeds anyway.
    async fn make_directory(&self, layer: Layer, step: &Step, label: &str, title: &str) -> Result<Layer, Failure> {
        let failed = |error: cabana_storage::Error| Failure::storage(label, &error);
        let after = Layer::of_key(step.key(layer.key, None));
        if self.is_cached(&after, false, label, title).await {
            return Ok(after);
        }
        let begun = self.pool.begin_layer(&after.key.hex(), Some(&layer.tree), self.disk_bytes()).await;
        let new = begun.map_err(failed)?;
        let root = new.open().map_err(failed)?;
        let (root, owner) = self.owner(Some(&step.user), root, label).await?;
        let (directory, stop) = (step.directory.clone(), self.stop.clone());
        self.blocking(label, move || make_directory(root.as_fd(), &directory, owner, &stop)).await?;
        new.commit().await.map_err(failed)?;
        self.used(&after);
        Ok(after)
    }

    /// The owner that a step names, looked up in the root filesystem.
    async fn owner(&self, text: Option<&str>, root: OwnedFd, label: &str) -> Result<(OwnedFd, Owner), Failure> {
        let Some(text) = text.filter(|text| !text.is_empty()).map(str::to_owned) else {
            return Ok((root, Owner::default()));
        };
        let found = tokio::task::spawn_blocking(move || accounts::owner(&root, &text).map(|owner| (root, owner)));
        let found = found.await.unwrap_or_else(|_| Err("the server failed".to_owned()));
        found.map_err(|message| Failure::new(label, message))
    }

    async fn forget_layer(&self, after: &Layer) {
        if let Tree::Layer(key) = &after.tree
            && let Err(error) = self.pool.delete_layer(key).await
        {
            tracing::warn!(error = cabana_types::error::chain(&error), key, "a layer could not be replaced");
        }
    }
}

/// Writes a script and runs it. It must be a file because its first line names the interpreter; the image's shell
/// writes it.
fn script(text: &str) -> Vec<String> {
    let end = format!("END-{}", cabana_image::Digest::of(text.as_bytes()).hex());
    let write = format!(
        "cat >{SCRIPT} <<'{end}'\n{text}\n{end}\nchmod 755 {SCRIPT}\n{SCRIPT}\nstatus=$?\nrm -f {SCRIPT}\nexit $status"
    );
    ["/bin/sh", "-c", &write].map(str::to_owned).to_vec()
}

/// The command as its author wrote it.
fn command_of(step: &Step) -> String {
    match &step.action {
        Action::Run(args) if args.len() == 4 && args[..3] == e2b_steps::shell("")[..3] => args[3].clone(),
        _ => step.text.strip_prefix("RUN ").unwrap_or(&step.text).to_owned(),
    }
}
