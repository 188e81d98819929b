//! Services, one method for each call.

use std::time::Duration;

use cabana_types::wire::{
    NewService, NewServiceLink, OpenService, OpenedService, Service, ServiceLink, ServiceLogEnd, ServiceLogLines,
};
use cabana_types::{GrantId, SandboxId, ServiceId};
use http::{HeaderValue, Method, header};

use crate::api::{Client, to_json};
use crate::error::Result;
use crate::query;
use crate::sse::Events;

/// Largest event of a log that is read.
const MAX_EVENT_BYTES: usize = 8 * 1024 * 1024;
const LOG: &str = "read the service's log";

/// What happens in a log.
#[derive(Debug)]
pub enum ServiceLogEvent {
    Lines(ServiceLogLines),
    /// Nothing more comes.
    End(ServiceLogEnd),
}

/// A log that is being followed.
pub struct ServiceLog(Events);

impl std::fmt::Debug for ServiceLog {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServiceLog").finish_non_exhaustive()
    }
}

impl Client {
    /// The services of a sandbox.
    pub async fn services(&self, sandbox: &SandboxId) -> Result<Vec<Service>> {
        self.fetch("list the services", &format!("/sandboxes/{sandbox}/services")).await
    }

    /// Starts a service, and waits up to `wait` seconds until it runs or has failed.
    pub async fn create_service(&self, sandbox: &SandboxId, new: &NewService, wait: u64) -> Result<Service> {
        let action = "start the service";
        let path = format!("/sandboxes/{sandbox}/services{}", waiting(wait));
        let request = self.request(Method::POST, &path, Some(to_json(action, new)?))?;
        self.call_waiting(action, request, Duration::from_secs(wait)).await
    }

    /// A service.
    pub async fn service(&self, id: &ServiceId) -> Result<Service> {
        self.fetch("get the service", &format!("/services/{id}")).await
    }

    /// Starts a service again, and waits up to `wait` seconds until it runs or has failed.
    pub async fn restart_service(&self, id: &ServiceId, wait: u64) -> Result<Service> {
        let request = self.request(Method::POST, &format!("/services/{id}/restart{}", waiting(wait)), None)?;
        self.call_waiting("restart the service", request, Duration::from_secs(wait)).await
    }

    /// Ends the processes of a service.
    pub async fn stop_service(&self, id: &ServiceId) -> Result<Service> {
        self.call("stop the service", self.request(Method::POST, &format!("/services/{id}/stop"), None)?).await
    }

    /// Stops a service and forgets it.
    pub async fn delete_service(&self, id: &ServiceId) -> Result<()> {
        self.call_empty("remove the service", self.request(Method::DELETE, &format!("/services/{id}"), None)?).await
    }

    /// The last lines that a service has printed.
    pub async fn service_log(&self, id: &ServiceId, tail: u32) -> Result<ServiceLogLines> {
        let query = query::encode(&[("tail", tail.to_string())]);
        self.fetch(LOG, &format!("/services/{id}/logs{query}")).await
    }

    /// The last lines, and then those that it prints.
    pub async fn follow_service_log(&self, id: &ServiceId, tail: u32) -> Result<ServiceLog> {
        let query = query::encode(&[("tail", tail.to_string()), ("follow", "true".to_owned())]);
        let mut request = self.request(Method::GET, &format!("/services/{id}/logs{query}"), None)?;
        request.headers_mut().insert(header::ACCEPT, HeaderValue::from_static("text/event-stream"));
        let response = self.http().send(LOG, request).await?;
        Ok(ServiceLog(Events::new(LOG, response, MAX_EVENT_BYTES)))
    }

    /// Where to see a service.
    pub async fn open_service(&self, id: &ServiceId, open: &OpenService) -> Result<OpenedService> {
        let action = "open the service";
        let request = self.request(Method::POST, &format!("/services/{id}/open"), Some(to_json(action, open)?))?;
        self.call(action, request).await
    }

    /// Makes a link by which anyone can see a service. Only this response contains it.
    pub async fn create_service_link(&self, id: &ServiceId, new: &NewServiceLink) -> Result<ServiceLink> {
        let action = "make a link";
        let request = self.request(Method::POST, &format!("/services/{id}/links"), Some(to_json(action, new)?))?;
        self.call(action, request).await
    }

    /// The links to a service, without their addresses.
    pub async fn service_links(&self, id: &ServiceId) -> Result<Vec<ServiceLink>> {
        self.fetch("list the links", &format!("/services/{id}/links")).await
    }

    /// Revokes a link.
    pub async fn delete_service_link(&self, id: &ServiceId, link: &GrantId) -> Result<()> {
        let request = self.request(Method::DELETE, &format!("/services/{id}/links/{link}"), None)?;
        self.call_empty("revoke the link", request).await
    }
}

impl ServiceLog {
    /// The next event; `None` if the connection has ended without one that says so.
    pub async fn next(&mut self) -> Result<Option<ServiceLogEvent>> {
        while let Some((name, data)) = self.0.next().await? {
            let event = match name.as_str() {
                "lines" => serde_json::from_str(&data).map(ServiceLogEvent::Lines),
                "end" => serde_json::from_str(&data).map(ServiceLogEvent::End),
                // Newer events, and comments that keep the connection alive.
                _ => continue,
            };
            return event.map(Some).map_err(|e| self.0.malformed(e));
        }
        Ok(None)
    }
}

fn waiting(seconds: u64) -> String {
    query::encode(&[("waitSeconds", seconds.to_string())])
}
