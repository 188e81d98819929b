//! What a model should try after an error, where the tool itself has no better idea.

use cabana_types::tool::ToolErrorCode as Code;

/// The usual hint of a code.
pub(crate) fn hint(code: Code) -> &'static str {
    match code {
        Code::InvalidArguments => "correct the arguments; the tool's schema lists them",
        Code::Timeout => "narrow the operation: a smaller directory, fewer files, a shorter range",
        Code::FileNotFound => "check the path with sandbox_find_files or sandbox_list_directory",
        Code::NotAFile => "use sandbox_list_directory for directories; devices and pipes cannot be read or written",
        Code::NotADirectory => "name a directory, or read the file with sandbox_read_file",
        Code::AlreadyExists => "choose another path, or write without create_only to replace the file",
        Code::PermissionDenied => "the sandbox's user may not do this; sandbox_run_command with sudo may",
        Code::BinaryFile => {
            "inspect it with sandbox_run_command (file, xxd, strings), or give it to the user with sandbox_download_url"
        }
        Code::TooLarge => "read or change it in parts, for example with sandbox_run_command (sed, awk, split)",
        Code::NoMatch => "read the file again with sandbox_read_file and copy the text exactly, including indentation",
        Code::NotUnique => "add lines before or after so that the text occurs once, or set all",
        Code::PatchFailed => "nothing was changed; read the files again and make the patch from what is there",
        Code::CommandFailed => "read the output: the error usually stands at its end",
        Code::CommandTimeout => "set a larger timeout_seconds, or run it with background: true",
        Code::Cancelled => "nothing more is done; call the tool again if it is still wanted",
        Code::Interrupted => "check the present state before you repeat the call",
        Code::UserInControl => "a person uses the sandbox; wait until they give it back",
        Code::SandboxUnavailable => "check the sandbox with sandbox_list, or create a new one with sandbox_create",
        Code::NoRoom => "wait for running calls to end, then try again",
        Code::DiskFull => "delete files that are not needed; `df -h` and `du -sh *` show where the space is",
        Code::QuotaExceeded => "end sandboxes that are not needed, or ask for a higher limit",
        Code::InsufficientFunds => "ask the user to top up the wallet",
    }
}

/// Whether the same call may succeed later without a change of its arguments.
pub(crate) fn retryable(code: Code) -> bool {
    matches!(
        code,
        Code::Timeout
            | Code::Interrupted
            | Code::UserInControl
            | Code::SandboxUnavailable
            | Code::NoRoom
            | Code::QuotaExceeded
            | Code::InsufficientFunds
    )
}
