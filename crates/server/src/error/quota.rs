//! What a team that has used up a quota is told.

use cabana_types::QuotaKind;
use cabana_types::wire::QuotaExceeded;

/// Which limit is reached, by whom, and what to do next.
pub(super) fn explain(exceeded: &QuotaExceeded) -> String {
    let QuotaExceeded { kind, used, wanted, limit, project, users } = exceeded;
    let noun = kind.noun();
    if project.is_some() {
        return format!(
            "This project uses {used} of {limit} {noun}, and this request would add {wanted}; {}, or ask an owner or admin of the \
             team to raise the limit of the project",
            kind.remedy()
        );
    }
    let what = match kind {
        QuotaKind::LifetimeSeconds => {
            format!("This team's limit of {noun} is {limit}, and this request asks for {wanted}")
        }
        _ => format!("This team uses {used} of {limit} {noun}, and this request would add {wanted}"),
    };
    let most = users.iter().map(|user| format!("{}: {}", user.name.as_deref().unwrap_or(&user.id), user.used));
    let most = most.collect::<Vec<_>>().join(", ");
    let who = if most.is_empty() { String::new() } else { format!(" (most is used by {most})") };
    format!(
        "{what}{who}; {}, or ask an admin of this server to raise the limit: cabana quota set TEAM {kind}={}",
        kind.remedy(),
        used.saturating_add(*wanted)
    )
}

#[cfg(test)]
mod tests {
    use cabana_types::wire::QuotaUser;

    use super::*;

    #[test]
    fn it_says_who_uses_it_and_what_to_do() {
        let users = vec![
            QuotaUser { id: "a".into(), name: Some("ci".into()), used: 7 },
            QuotaUser { id: "b".into(), name: None, used: 3 },
        ];
        let mut exceeded =
            QuotaExceeded { kind: QuotaKind::Instances, used: 10, wanted: 1, limit: 10, project: None, users };
        assert_eq!(
            explain(&exceeded),
            "This team uses 10 of 10 sandboxes, and this request would add 1 (most is used by ci: 7, b: 3); kill sandboxes \
             that are not needed, or ask an admin of this server to raise the limit: cabana quota set TEAM instances=11"
        );
        exceeded = QuotaExceeded {
            kind: QuotaKind::LifetimeSeconds,
            used: 0,
            wanted: 60,
            limit: 30,
            project: None,
            users: vec![],
        };
        assert!(explain(&exceeded).contains("asks for 60; ask for a shorter timeout"));
    }
}
