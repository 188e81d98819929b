//! What the backend needs to start a sandbox: the same for creation, for booting from a disk and for build sandboxes.

use std::sync::Arc;

use cabana_runtime::{DiskSource, LaunchSpec, Root};
use cabana_store::{Boot, Sandbox};
use cabana_types::guest::GuestConfig;
use cabana_types::{EgressPolicy, Resources, SandboxId, Secret};

use super::build_sandbox::BuildSandboxSpec;

/// How to start a sandbox from its row.
/// `authority` is the certificate that programs inside have to trust.
pub(super) fn of_sandbox(sandbox: &Sandbox, disk: DiskSource, authority: Option<String>) -> LaunchSpec {
    let mut env = sandbox.boot.env.clone();
    env.extend(sandbox.env_vars.clone());
    let boot = Boot { env, ..sandbox.boot.clone() };
    let (id, resources) = (sandbox.id.clone(), sandbox.resources);
    LaunchSpec {
        root: Root::Build { build: sandbox.build.clone(), disk },
        resources,
        egress: Arc::clone(&sandbox.egress),
        mounts: Vec::new(),
        no_new_privileges: sandbox.boot.no_new_privileges,
        guest: GuestConfig {
            authority,
            ..guest_config(&id, sandbox.template.to_string(), boot, sandbox.access_token.clone(), resources)
        },
        id,
    }
}

/// How to start a build sandbox, which has no row.
pub(super) fn of_build_sandbox(id: SandboxId, spec: BuildSandboxSpec, egress: Arc<EgressPolicy>) -> LaunchSpec {
    LaunchSpec {
        root: spec.root,
        resources: spec.resources,
        egress,
        mounts: Vec::new(),
        // Build steps install packages, whose scripts may use `su` and `sudo`.
        no_new_privileges: false,
        guest: guest_config(&id, spec.template.to_string(), spec.boot, None, spec.resources),
        id,
    }
}

fn guest_config(
    id: &SandboxId,
    template_id: String,
    boot: Boot,
    access_token: Option<Secret>,
    resources: Resources,
) -> GuestConfig {
    let bytes = |mib: u32| u64::from(mib) << 20;
    GuestConfig {
        sandbox_id: id.clone(),
        template_id,
        access_token,
        env_vars: boot.env,
        default_user: boot.default_user,
        default_workdir: boot.default_workdir,
        start: boot.start,
        ready: boot.ready,
        authority: None,
        cpu_count: resources.cpu_count,
        memory_bytes: bytes(resources.memory_mb),
        disk_bytes: bytes(resources.disk_mb),
    }
}
