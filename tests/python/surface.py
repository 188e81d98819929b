"""Which test covers which method of E2B's Python SDK. `test_surface.py` compares these tables with the SDK itself, so that a method of a newer SDK
cannot go unnoticed."""

# Class → test file → methods that it calls. An asynchronous class has the same entry under its own name.
CALLED: dict[str, dict[str, str]] = {
    "Sandbox": {
        "test_lifecycle": "create connect get_info get_metrics is_running kill list set_timeout",
        "test_egress": "update_network",
        "test_links": "download_url upload_url",
        "test_pause": "pause",
        "test_snapshots": "create_snapshot delete_snapshot fork list_snapshots",
        "test_surface": "beta_pause",
        "test_tls": "get_host",
    },
    "AsyncSandbox": {
        "test_async": "create connect get_info is_running kill list set_timeout",
        "test_egress": "update_network",
        "test_snapshots": "beta_pause create_snapshot delete_snapshot fork list_snapshots pause",
        "test_surface": "download_url upload_url get_host get_metrics",
    },
    "Commands": {"test_commands": "connect kill list run send_stdin stream_input", "test_surface": "close_stdin"},
    "AsyncCommands": {"test_async": "connect run", "test_surface": "kill list send_stdin close_stdin stream_input"},
    "CommandHandle": {"test_commands": "close_stdin disconnect kill send_stdin wait"},
    "AsyncCommandHandle": {"test_async": "close_stdin disconnect send_stdin wait", "test_surface": "kill"},
    "AsyncCommandInputHandle": {"test_surface": "send close"},
    "Pty": {"test_commands": "connect create kill resize send_stdin stream_input"},
    "AsyncPty": {"test_async": "create kill resize send_stdin", "test_surface": "connect stream_input"},
    "Filesystem": {
        "test_files": "exists get_info list make_dir read remove rename watch_dir write write_files",
    },
    "AsyncFilesystem": {
        "test_async": "exists list make_dir read remove rename watch_dir write",
        "test_surface": "get_info write_files",
    },
    "WatchHandle": {"test_files": "get_new_events stop"},
    "AsyncWatchHandle": {"test_async": "stop"},
    "SandboxPaginator": {"test_lifecycle": "next_items"},
    "AsyncSandboxPaginator": {"test_async": "next_items"},
    "SnapshotPaginator": {"test_snapshots": "next_items"},
    "AsyncSnapshotPaginator": {"test_snapshots": "next_items"},
    "Git": {
        "test_git": "add branches checkout_branch clone commit configure_user create_branch dangerously_authenticate delete_branch"
        " get_config init pull push remote_add remote_get reset restore set_config status"
    },
    "Template": {
        "test_surface": "exists alias_exists to_json to_dockerfile",
        "test_templates": "assign_tags build build_in_background from_base_image from_dockerfile from_image from_template get_build_status"
        " get_tags remove_tags skip_cache",
    },
    "TemplateBuilder": {
        "test_surface": "add_mcp_server beta_dev_container_prebuild beta_set_dev_container_start bun_install",
        "test_templates": "apt_install copy copy_items git_clone make_dir make_symlink npm_install pip_install remove rename run_cmd set_envs"
        " set_ready_cmd set_start_cmd set_user set_workdir skip_cache",
    },
}
CALLED["Secret"] = CALLED["AsyncSecret"] = {"test_secrets": "create destroy exists get_info list update"}
CALLED["SecretPaginator"] = CALLED["AsyncSecretPaginator"] = {"test_secrets": "next_items"}
CALLED["AsyncGit"] = CALLED["Git"]
CALLED["AsyncTemplate"] = CALLED["Template"]

# Client-side only.
OTHER_IMAGES = (
    "from_alpine_image from_arch_image from_aws_registry from_bun_image from_debian_image from_fedora_image from_gcp_registry from_node_image"
    " from_python_image from_ubuntu_image"
)
LOCAL: dict[str, str] = {
    "ApiClient": "get_async_httpx_client get_httpx_client set_async_httpx_client set_httpx_client with_cookies with_headers with_timeout",
    "ConnectionConfig": "get_api_params get_host get_request_timeout get_sandbox_direct_url get_sandbox_url set_integration",
    "VolumeConnectionConfig": "get_api_params get_request_timeout",
    "EntryInfo": "from_dict",
    "WriteInfo": "from_dict",
    "ReadyCmd": "get_cmd",
    "Sandbox": "get_mcp_url",
    "Secret": "fill iam_token",
    "Template": OTHER_IMAGES,
    "TemplateBase": f"{OTHER_IMAGES} from_base_image from_dockerfile from_image from_template skip_cache to_dockerfile to_json",
}
for name in ("Sandbox", "Secret", "Template"):
    LOCAL[f"Async{name}"] = LOCAL[name]

# Class → method → how it is called, on an instance if there is one. Each must fail with the SDK's own exception and name what is missing.
LATER: dict[str, dict] = {
    "Volume": {
        # These three are called on the class, the others on a volume: `list` and `get_info` are both.
        "connect": lambda it: type(it).connect("id"),
        "create": lambda it: type(it).create("name"),
        "destroy": lambda it: type(it).destroy("id"),
        "get_info": lambda it: it.get_info("path"),
        "list": lambda it: it.list("path"),
        "exists": lambda it: it.exists("path"),
        "make_dir": lambda it: it.make_dir("path"),
        "read_file": lambda it: it.read_file("path"),
        "remove": lambda it: it.remove("path"),
        "update_metadata": lambda it: it.update_metadata("path", mode=0o600),
        "write_file": lambda it: it.write_file("path", "data"),
    },
}
for name in list(LATER):
    LATER[f"Async{name}"] = LATER[name]

# Reads a file that only sandboxes with an MCP gateway have; starting one is refused at creation.
WITHOUT_GATEWAY = {"Sandbox": "get_mcp_token", "AsyncSandbox": "get_mcp_token"}
