//! Machine-readable error codes of the API (`error_code` beside the numeric `code`).

use crate::code_enum::code_enum;

code_enum! {
    /// Machine-readable cause of an error.
    ErrorCode, "Why a request was refused or failed.", {
        /// The API key is missing or invalid.
        Unauthorized => "unauthorized",
        /// The code of a sign-in link was used, has expired, or was never made.
        InvalidCode => "invalid_code",
        /// The session does not exist, has ended, or is another person's.
        SessionNotFound => "session_not_found",
        /// The caller is known, but not permitted to do this.
        Forbidden => "forbidden",
        /// The request is malformed, or a value is out of range.
        InvalidRequest => "invalid_request",
        /// The body is too large.
        BodyTooLarge => "body_too_large",
        /// The server or its isolation backend does not support this.
        NotSupported => "not_supported",
        /// There is no such route.
        RouteNotFound => "route_not_found",
        /// The route exists, but not with this method.
        MethodNotAllowed => "method_not_allowed",
        /// The sandbox does not exist or belongs to another team.
        SandboxNotFound => "sandbox_not_found",
        /// The template does not exist or belongs to another team.
        TemplateNotFound => "template_not_found",
        /// The template has no finished build yet.
        TemplateNotReady => "template_not_ready",
        /// A sandbox or snapshot uses the template.
        TemplateInUse => "template_in_use",
        /// The template has no such build.
        BuildNotFound => "build_not_found",
        /// The build's status does not allow this.
        BuildStateConflict => "build_state_conflict",
        /// The build failed; the message says why.
        BuildFailed => "build_failed",
        /// A limit of the team is reached.
        LimitReached => "limit_reached",
        /// A quota of the team is used up; `details` says which, and who uses it.
        QuotaExceeded => "quota_exceeded",
        /// There is no such team.
        TeamNotFound => "team_not_found",
        /// The project does not exist, or is not one of the caller's.
        ProjectNotFound => "project_not_found",
        /// There is no such plan.
        PlanNotFound => "plan_not_found",
        /// Teams have the plan, or it is built in.
        PlanConflict => "plan_conflict",
        /// Too many requests with one key or from one address; `Retry-After` says when to try again.
        RateLimited => "rate_limited",
        /// The API key does not exist or belongs to another team.
        KeyNotFound => "key_not_found",
        /// The team's last API key cannot be deleted.
        LastKey => "last_key",
        /// The webhook does not exist or belongs to another team.
        WebhookNotFound => "webhook_not_found",
        /// The secret does not exist or belongs to another team.
        SecretNotFound => "secret_not_found",
        /// A secret of this name exists, or the team has as many as it may have.
        SecretConflict => "secret_conflict",
        /// The call of a tool does not exist, belongs to another team, or its result is not kept any more.
        CallNotFound => "call_not_found",
        /// The service or link does not exist, or belongs to another team.
        ServiceNotFound => "service_not_found",
        /// Another service has the name or the port, or a program in the sandbox listens on the port.
        ServiceConflict => "service_conflict",
        /// The chat does not exist or belongs to another team.
        ChatNotFound => "chat_not_found",
        /// The state of the chat, or of what it has, does not allow this now.
        ChatConflict => "chat_conflict",
        /// The chat has no such message.
        MessageNotFound => "message_not_found",
        /// A turn of the chat runs.
        TurnRunning => "turn_running",
        /// No such turn of the chat runs or waits.
        TurnNotRunning => "turn_not_running",
        /// The call of a tool does not wait for a person or the client.
        CallNotWaiting => "call_not_waiting",
        /// The chat has no checkpoint of this turn.
        CheckpointNotFound => "checkpoint_not_found",
        /// The file does not exist or belongs to another team.
        AttachmentNotFound => "attachment_not_found",
        /// The agent does not exist or belongs to another team.
        AgentNotFound => "agent_not_found",
        /// Another agent of the team has the name.
        AgentConflict => "agent_conflict",
        /// There is no such model; the message lists the providers.
        ModelNotFound => "model_not_found",
        /// The team has no such model provider.
        ProviderNotFound => "provider_not_found",
        /// The sandbox has no such terminal.
        TerminalNotFound => "terminal_not_found",
        /// There is no such file in the sandbox, or its user may not read it.
        FileNotFound => "file_not_found",
        /// The sandbox's user may not do this, or the path is protected.
        PermissionDenied => "permission_denied",
        /// Something exists at the path.
        AlreadyExists => "already_exists",
        /// The path is a directory or a special file.
        NotAFile => "not_a_file",
        /// The path is not a directory.
        NotADirectory => "not_a_directory",
        /// The file is not the one that `If-Match` names; `ETag` names the present one.
        FileChanged => "file_changed",
        /// Somebody else changed the file at the same time, or it cannot be used now.
        FileConflict => "file_conflict",
        /// The sandbox's disk is full.
        SandboxDiskFull => "sandbox_disk_full",
        /// The sandbox has neither python3 nor sqlite3.
        SqliteUnavailable => "sqlite_unavailable",
        /// SQLite refused the file or the statement; the message says why.
        SqliteError => "sqlite_error",
        /// The sandbox's state does not allow this.
        SandboxStateConflict => "sandbox_state_conflict",
        /// The idempotency key was used with a different request.
        IdempotencyMismatch => "idempotency_mismatch",
        /// The sandbox of the idempotency key has ended or is still being created.
        IdempotencyConflict => "idempotency_conflict",
        /// The server or team limit of sandboxes, snapshots or paused memory is reached.
        SandboxCapacityUnavailable => "sandbox_capacity_unavailable",
        /// The sandbox could not be created and was removed.
        SandboxCreateFailed => "sandbox_create_failed",
        /// The sandbox's start command failed or its ready command did not succeed in time; the sandbox was removed.
        SandboxNotReady => "sandbox_not_ready",
        /// The guest of a sandbox that is to be paused does not respond.
        GuestUnresponsive => "sandbox_snapshot_guest_agent_unresponsive",
        /// The sandbox could not be paused, resumed, snapshotted or resized; it is unchanged.
        SandboxChangeFailed => "sandbox_change_failed",
        /// The guest daemon of a sandbox does not respond.
        SandboxUnresponsive => "sandbox_unresponsive",
        /// The server's disk is full.
        StorageFull => "storage_full",
        /// The server is starting or shutting down; retry.
        ServiceUnavailable => "service_unavailable",
        /// An internal error; the server's log has details under the request id.
        Internal => "internal_server_error",
    }
}
