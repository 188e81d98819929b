//! How a service is shown, and what its state means for the exit code.

use cabana_types::service::ServiceState;
use cabana_types::wire::Service;

use crate::commands::Context;
use crate::failure::{Failure, Outcome};
use crate::output::clean;

/// Headings of [`row`].
pub(super) const HEADINGS: [&str; 5] = ["NAME", "STATE", "PORT", "ACCESS", "URL"];

/// A service as a row of a table.
pub(super) fn row(service: &Service) -> Vec<String> {
    vec![
        name(service),
        service.state.to_string(),
        service.port.map(|port| port.to_string()).unwrap_or_default(),
        service.access.to_string(),
        service.url.clone().unwrap_or_default(),
    ]
}

/// Prints a service that was started. A failure if it does not run, with what it printed last; without waiting for it, only if it has
/// failed already.
pub(super) fn report(service: &Service, waited: bool, json: bool, context: &Context) -> Outcome {
    let out = &context.out;
    if json {
        out.json(service)?;
    } else {
        out.rows(&HEADINGS, &[row(service)])?;
    }
    let is_fine = match service.state {
        ServiceState::Running => true,
        ServiceState::Starting => !waited,
        ServiceState::Suspended | ServiceState::Stopped | ServiceState::Error => false,
    };
    if is_fine {
        return Ok(0);
    }
    for line in &service.last_lines {
        out.say(&clean(line));
    }
    let name = name(service);
    let reason = service.reason.as_deref().map(|reason| format!(": {}", clean(reason))).unwrap_or_default();
    let message = match service.state {
        ServiceState::Error => format!("the service {name} has failed{reason}"),
        state => format!("the service {name} is {state}{reason}"),
    };
    Err(Failure::user_error(message).hint(format!("`cabana service logs {name}` shows what it prints")))
}

/// `SANDBOX/NAME`, by which other commands can name it.
fn name(service: &Service) -> String {
    format!("{}/{}", service.sandbox_id, service.name)
}
