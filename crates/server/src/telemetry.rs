//! What Prometheus can scrape: what is counted while the server works, and what is read when it asks.

use std::fmt;
use std::sync::atomic::AtomicU64;
use std::time::Instant;

use http::Method;
use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, text};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use crate::lifecycle::CreationTimes;

/// Bounds of the times of requests, in seconds.
const BOUNDS: [f64; 8] = [0.001, 0.005, 0.02, 0.05, 0.2, 1.0, 5.0, 30.0];

/// What is measured.
pub struct Telemetry {
    registry: Registry,
    requests: Family<RequestLabels, Histogram, fn() -> Histogram>,
    /// What is read when it is asked for.
    pub(crate) gauges: Gauges,
}

/// Values that are set before each answer.
#[derive(Debug, Clone, Default)]
pub(crate) struct Gauges {
    sandboxes: Family<StateLabel, Gauge>,
    reserved: Family<KindLabel, Gauge>,
    limit: Family<KindLabel, Gauge>,
    pub(crate) max_sandboxes: Gauge,
    pub(crate) disk_free: Gauge,
    pub(crate) disk_reserve: Gauge,
    pub(crate) builds: Gauge,
    pub(crate) deliveries: Gauge,
    pub(crate) resident: Gauge,
    pub(crate) descriptors: Gauge,
    pub(crate) processor: Gauge<f64, AtomicU64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: String,
    status: Class,
}

/// The class of a status.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Class(u16);

impl EncodeLabelValue for Class {
    fn encode(&self, encoder: &mut prometheus_client::encoding::LabelValueEncoder<'_>) -> fmt::Result {
        fmt::Write::write_fmt(encoder, format_args!("{}xx", self.0))
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct StateLabel {
    state: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct KindLabel {
    kind: &'static str,
}

impl Telemetry {
    /// Registers what there is.
    pub fn new(creations: &CreationTimes) -> Self {
        let mut registry = Registry::with_prefix("cabana");
        let version = Info::new([("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The program", version);
        let gauges = Gauges::default();
        let g = gauges.clone();
        registry.register("sandboxes", "Sandboxes that have not ended, by state", g.sandboxes);
        registry.register("sandboxes_limit", "How many sandboxes may run", g.max_sandboxes);
        registry.register("reserved_mb", "Limits of running sandboxes together, MiB, by kind", g.reserved);
        registry.register("reserved_limit_mb", "What they may be together, MiB; 0 is no limit", g.limit);
        registry.register("disk_free_mb", "MiB that are free where it is tightest", g.disk_free);
        registry.register("disk_reserve_mb", "MiB that must be free for new sandboxes", g.disk_reserve);
        registry.register("builds", "Builds of templates that run or wait", g.builds);
        registry.register("webhook_deliveries_pending", "Deliveries that wait for webhooks", g.deliveries);
        registry.register_with_unit("process_resident_memory", "Memory of the server", Unit::Bytes, g.resident);
        registry.register("process_open_fds", "Open file descriptors of the server", g.descriptors);
        registry.register_with_unit("process_cpu", "Processor time of the server", Unit::Seconds, g.processor);
        let creation = "Durations of creations of sandboxes, by phase";
        registry.register_with_unit("creation", creation, Unit::Seconds, creations.phases.clone());
        registry.register("creation_failures", "Creations that failed", creations.failures.clone());
        let requests: Family<_, _, fn() -> Histogram> = Family::new_with_constructor(|| Histogram::new(BOUNDS));
        let request = "Durations of requests to the API until the head of the response, by route";
        registry.register_with_unit("request", request, Unit::Seconds, requests.clone());
        Self { registry, requests, gauges }
    }

    /// Adds a request. `route` is a pattern of the router, so there are few.
    pub(crate) fn request(&self, method: &Method, route: Option<&str>, status: u16, begin: Instant) {
        let labels = RequestLabels {
            method: known(method),
            route: route.unwrap_or("none").to_owned(),
            status: Class(status / 100),
        };
        self.requests.get_or_create(&labels).observe(begin.elapsed().as_secs_f64());
    }

    /// Everything in the text format of OpenMetrics.
    pub(crate) fn text(&self) -> Result<String, fmt::Error> {
        let mut out = String::new();
        text::encode(&mut out, &self.registry)?;
        Ok(out)
    }
}

impl Gauges {
    /// Sets how many sandboxes are in each state; there are none in the others.
    pub(crate) fn set_sandboxes(&self, counts: &[(String, i64)]) {
        self.sandboxes.clear();
        for (state, count) in counts {
            self.sandboxes.get_or_create(&StateLabel { state: state.clone() }).set(*count);
        }
    }

    /// Sets how much of a kind is reserved, and how much may be.
    pub(crate) fn set_reserved(&self, kind: &'static str, reserved: u64, limit: u64) {
        self.reserved.get_or_create(&KindLabel { kind }).set(signed(reserved));
        self.limit.get_or_create(&KindLabel { kind }).set(signed(limit));
    }

    /// Reads what the kernel says of this process.
    pub(crate) fn read_process(&self) {
        let read = |name: &str| std::fs::read_to_string(format!("/proc/self/{name}")).unwrap_or_default();
        self.resident.set(resident(&read("status")).unwrap_or_default());
        self.processor.set(processor_seconds(&read("stat")).unwrap_or_default());
        let open = std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count);
        self.descriptors.set(i64::try_from(open).unwrap_or(i64::MAX));
    }
}

/// Bytes of memory in use, from `/proc/self/status`.
fn resident(status: &str) -> Option<i64> {
    let kib = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?.trim().strip_suffix("kB")?;
    Some(kib.trim().parse::<i64>().ok()? << 10)
}

/// Seconds in user and system mode, from `/proc/self/stat`. Its unit is 10 ms on every machine.
fn processor_seconds(stat: &str) -> Option<f64> {
    let (_, after_name) = stat.rsplit_once(')')?;
    let mut fields = after_name.split_whitespace().skip(11);
    let (user, system): (u32, u32) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    Some((f64::from(user) + f64::from(system)) / 100.0)
}

/// A number as a gauge holds it.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Clients choose the method, so only those of HTTP are labels.
fn known(method: &Method) -> &'static str {
    const METHODS: [&str; 7] = ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"];
    METHODS.into_iter().find(|known| method == *known).unwrap_or("other")
}

impl fmt::Debug for Telemetry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lifecycle::Phase;

    #[test]
    fn the_text_names_what_is_measured() {
        let creations = CreationTimes::default();
        let telemetry = Telemetry::new(&creations);
        let begin = Instant::now();
        creations.observe(Phase::Launch, begin);
        telemetry.request(&Method::GET, Some("/sandboxes/{sandboxID}"), 404, begin);
        telemetry.request(&"BREW".parse().expect("method"), None, 405, begin);
        telemetry.gauges.set_sandboxes(&[("running".into(), 3), ("paused".into(), 1)]);
        telemetry.gauges.set_sandboxes(&[("running".into(), 2)]);
        telemetry.gauges.set_reserved("memory", 1024, u64::MAX);
        telemetry.gauges.read_process();
        let text = telemetry.text().expect("text");
        for line in [
            "cabana_creation_seconds_count{phase=\"launch\"} 1",
            "cabana_request_seconds_count{method=\"GET\",route=\"/sandboxes/{sandboxID}\",status=\"4xx\"} 1",
            "cabana_request_seconds_count{method=\"other\",route=\"none\",status=\"4xx\"} 1",
            "cabana_sandboxes{state=\"running\"} 2",
            "cabana_reserved_mb{kind=\"memory\"} 1024",
            "cabana_creation_failures_total 0",
        ] {
            assert!(text.contains(&format!("{line}\n")), "{line} is not in:\n{text}");
        }
        assert!(!text.contains("paused") && text.ends_with("# EOF\n"));
        assert!(telemetry.gauges.resident.get() > 1 << 20 && telemetry.gauges.descriptors.get() > 2);
        let stat = "7 (a) b) S 1 7 7 0 -1 4 1 0 0 0 150 25 0 0 20";
        assert_eq!((processor_seconds(stat), processor_seconds("7 (a")), (Some(1.75), None));
    }
}
