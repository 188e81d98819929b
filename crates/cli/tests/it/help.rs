//! Snapshots of all help texts, so that changes show up in review.

use crate::{cabana, report, stdout};

const COMMANDS: &[&[&str]] = &[
    &[],
    &["server"],
    &["run"],
    &["create"],
    &["ls"],
    &["exec"],
    &["shell"],
    &["cp"],
    &["service"],
    &["service", "start"],
    &["service", "ls"],
    &["service", "logs"],
    &["service", "restart"],
    &["service", "stop"],
    &["service", "rm"],
    &["service", "open"],
    &["service", "link"],
    &["service", "links"],
    &["service", "unlink"],
    &["tool"],
    &["kill"],
    &["timeout"],
    &["pause"],
    &["resume"],
    &["recover"],
    &["archive"],
    &["resize"],
    &["network"],
    &["network", "show"],
    &["network", "set"],
    &["fork"],
    &["commit"],
    &["quota"],
    &["quota", "ls"],
    &["quota", "set"],
    &["quota", "unset"],
    &["plan"],
    &["plan", "ls"],
    &["plan", "set"],
    &["plan", "rm"],
    &["plan", "assign"],
    &["team"],
    &["team", "ls"],
    &["team", "create"],
    &["team", "members"],
    &["team", "invite"],
    &["team", "invitations"],
    &["team", "revoke"],
    &["team", "role"],
    &["team", "rm"],
    &["project"],
    &["project", "ls"],
    &["project", "create"],
    &["project", "rm"],
    &["project", "add"],
    &["project", "remove"],
    &["user"],
    &["user", "ls"],
    &["user", "disable"],
    &["user", "enable"],
    &["audit"],
    &["audit", "ls"],
    &["audit", "export"],
    &["audit", "verify"],
    &["audit", "prune"],
    &["price"],
    &["price", "ls"],
    &["price", "set"],
    &["wallet"],
    &["wallet", "show"],
    &["wallet", "entries"],
    &["wallet", "grant"],
    &["usage"],
    &["snapshot"],
    &["snapshot", "create"],
    &["snapshot", "ls"],
    &["snapshot", "rm"],
    &["logs"],
    &["events"],
    &["webhooks"],
    &["webhooks", "ls"],
    &["webhooks", "add"],
    &["webhooks", "rm"],
    &["webhooks", "deliveries"],
    &["template"],
    &["template", "build"],
    &["template", "pull"],
    &["template", "import"],
    &["template", "ls"],
    &["template", "gallery"],
    &["template", "get"],
    &["template", "tag"],
    &["template", "untag"],
    &["template", "rm"],
    &["template", "network"],
    &["template", "sudo"],
    &["template", "logs"],
    &["template", "init"],
    &["key"],
    &["key", "create"],
    &["key", "ls"],
    &["key", "rm"],
    &["secret"],
    &["secret", "create"],
    &["secret", "ls"],
    &["secret", "update"],
    &["secret", "rm"],
    &["tls"],
    &["tls", "ca"],
    &["chat"],
    &["chat", "ls"],
    &["chat", "show"],
    &["chat", "rm"],
    &["chat", "stop"],
    &["chat", "share"],
    &["chat", "shares"],
    &["chat", "unshare"],
    &["agent"],
    &["agent", "ls"],
    &["agent", "create"],
    &["agent", "rm"],
    &["model"],
    &["model", "ls"],
    &["provider"],
    &["provider", "ls"],
    &["provider", "add"],
    &["provider", "rm"],
    &["login"],
    &["mcp"],
    &["doctor"],
    &["completions"],
    &["openapi"],
];

#[test]
fn help_of_every_command() {
    for command in COMMANDS {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        let output = cabana(&args).output().expect("run");
        let name = if command.is_empty() { "help".to_owned() } else { format!("help-{}", command.join("-")) };
        insta::assert_snapshot!(name, report(&output));
    }
}

#[test]
fn every_command_has_help_with_examples() {
    let parents: [&[&str]; 19] = [
        &["network"],
        &["service"],
        &["snapshot"],
        &["template"],
        &["key"],
        &["secret"],
        &["tls"],
        &["webhooks"],
        &["agent"],
        &["model"],
        &["provider"],
        &["quota"],
        &["plan"],
        &["team"],
        &["project"],
        &["user"],
        &["audit"],
        &["price"],
        &["wallet"],
    ];
    for command in COMMANDS.iter().filter(|c| !parents.contains(c)) {
        let args: Vec<&str> = command.iter().copied().chain(["--help"]).collect();
        assert!(stdout(&cabana(&args).output().expect("run")).contains("Examples:"), "{command:?}");
    }
}

#[test]
fn the_list_of_commands_is_complete() {
    let help = stdout(&cabana(&["--help"]).output().expect("run"));
    let listed = help.lines().skip_while(|l| *l != "Commands:").skip(1).take_while(|l| !l.is_empty());
    for line in listed {
        let name = line.split_whitespace().next().expect("name");
        assert!(COMMANDS.iter().any(|c| c.first() == Some(&name)), "{name} has no snapshot");
    }
}

#[test]
fn version_and_completions() {
    assert!(stdout(&cabana(&["--version"]).output().expect("run")).starts_with("cabana "));
    for shell in ["bash", "zsh", "fish"] {
        let output = cabana(&["completions", shell]).output().expect("run");
        assert!(output.status.success() && stdout(&output).contains("cabana"), "{shell}");
    }
}
