//! Pods in tables (AP-91, AP-92).

use std::collections::{BTreeSet, HashMap};

use portcullis_apimachinery::duration;
use portcullis_apimachinery::time::Instant;
use serde_json::Value;

use crate::Map;
use crate::fields::Members;
use crate::resources::cells::{text_column, wide_column};
use crate::table::{self, Column, NONE, Row};

pub(super) const COLUMNS: &[Column] = &[
    Column { format: "name", ..text_column("Name", "The name, unique among the pods of a namespace.") },
    text_column("Ready", "How many of the containers that keep running are ready."),
    text_column("Status", "The phase, or what is going on in it."),
    text_column("Restarts", "How often the containers were restarted, and how long ago last."),
    text_column("Age", "How long ago the pod was created."),
    wide_column("IP", "The first address of the pod."),
    wide_column("Node", "The node that the pod is bound to."),
    wide_column("Nominated Node", "The node that others make room on for the pod."),
    wide_column("Readiness Gates", "How many of the conditions that the pod waits for are met."),
];

/// The row of a pod at a time in seconds since 1970.
pub(super) fn row(pod: &Map, now: i64) -> Row {
    let (metadata, spec, status) = (pod.metadata(), pod.object("spec"), pod.object("status"));
    let progress = Progress::of(spec, status);
    let shown = |text: &str| if text.is_empty() { NONE.into() } else { Value::from(text) };
    let created = metadata.get("creationTimestamp").and_then(Value::as_str);
    let first_ip = status.objects("podIPs").next().map_or("", |ip| ip.text("ip"));
    Row {
        cells: vec![
            metadata.text("name").into(),
            format!("{}/{}", progress.ready, progress.containers).into(),
            reason(metadata, status, &progress).into(),
            restarts(&progress, now).into(),
            table::age(created, now).into(),
            shown(first_ip),
            shown(spec.text("nodeName")),
            shown(status.text("nominatedNodeName")),
            gates(spec, status),
        ],
        completed: match status.text("phase") {
            "Failed" => Some("Failed"),
            "Succeeded" => Some("Succeeded"),
            _ => None,
        },
    }
}

fn reason(metadata: &Map, status: &Map, progress: &Progress) -> String {
    if metadata.has("deletionTimestamp") {
        if status.text("reason") == "NodeLost" {
            return "Unknown".to_owned();
        }
        if !matches!(status.text("phase"), "Failed" | "Succeeded") {
            return "Terminating".to_owned();
        }
    }
    progress.reason.clone()
}

fn restarts(progress: &Progress, now: i64) -> String {
    match progress.restarted {
        Some(time) if progress.restarts != 0 => {
            format!("{} ({} ago)", progress.restarts, duration::human(now.saturating_sub(time.seconds)))
        }
        _ => progress.restarts.to_string(),
    }
}

fn gates(spec: &Map, status: &Map) -> Value {
    let gates = spec.objects("readinessGates");
    if gates.len() == 0 {
        return NONE.into();
    }
    // The first condition of a type counts.
    let mut conditions = HashMap::new();
    for condition in status.objects("conditions") {
        conditions.entry(condition.text("type")).or_insert_with(|| condition.text("status"));
    }
    let met = gates.clone().filter(|gate| conditions.get(gate.text("conditionType")) == Some(&"True"));
    format!("{}/{}", met.count(), gates.len()).into()
}

fn is_met(status: &Map, kind: &str) -> bool {
    let condition = status.objects("conditions").find(|condition| condition.text("type") == kind);
    condition.is_some_and(|condition| condition.text("status") == "True")
}

/// The progress of a pod's containers.
struct Progress {
    containers: usize,
    ready: usize,
    restarts: i64,
    restarted: Option<Instant>,
    reason: String,
}

impl Progress {
    fn of(spec: &Map, status: &Map) -> Self {
        let sidecars: BTreeSet<&str> = spec
            .objects("initContainers")
            .filter(|container| container.text("restartPolicy") == "Always")
            .map(|container| container.text("name"))
            .collect();
        let mut progress = Self {
            containers: spec.list("containers").len() + sidecars.len(),
            ready: 0,
            restarts: 0,
            restarted: None,
            reason: first_reason(status),
        };
        let is_initializing = progress.initialize(spec, status, &sidecars);
        if !is_initializing || is_met(status, "Initialized") {
            progress.run(status, &sidecars);
        }
        progress
    }

    /// Processes the init containers up to the first unfinished one. True if there is one.
    fn initialize(&mut self, spec: &Map, status: &Map, sidecars: &BTreeSet<&str>) -> bool {
        let total = spec.list("initContainers").len();
        for (i, container) in status.objects("initContainerStatuses").enumerate() {
            self.count_restarts(container);
            let terminated = state(container, "terminated");
            if terminated.is_some_and(|end| end.number("exitCode") == 0) {
                continue;
            }
            if sidecars.contains(container.text("name")) && container.is_true("started") {
                self.ready += usize::from(container.is_true("ready"));
                continue;
            }
            let waiting = container.object("state").object("waiting").text("reason");
            self.reason = match terminated {
                Some(end) => format!("Init:{}", end_reason(end)),
                None if !waiting.is_empty() && waiting != "PodInitializing" => format!("Init:{waiting}"),
                None => format!("Init:{i}/{total}"),
            };
            return true;
        }
        false
    }

    /// Processes the containers; the first one with a reason determines it.
    fn run(&mut self, status: &Map, sidecars: &BTreeSet<&str>) {
        // From here on, restarts of finished init containers do not count.
        (self.restarts, self.restarted) = (0, None);
        for container in status.objects("initContainerStatuses") {
            if sidecars.contains(container.text("name")) {
                self.count_restarts(container);
            }
        }
        let mut is_running = false;
        for container in status.objects("containerStatuses").rev() {
            self.count_restarts(container);
            let waiting = container.object("state").object("waiting").text("reason");
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(end) = state(container, "terminated") {
                self.reason = end_reason(end);
            } else if container.is_true("ready") && state(container, "running").is_some() {
                is_running = true;
                self.ready += 1;
            }
        }
        if self.reason == "Completed" && is_running {
            self.reason = if is_met(status, "Ready") { "Running" } else { "NotReady" }.to_owned();
        }
    }

    fn count_restarts(&mut self, container: &Map) {
        self.restarts = self.restarts.saturating_add(container.number("restartCount"));
        let end = container.object("lastState").object("terminated");
        let finished = Instant::parse(end.text("finishedAt")).ok();
        self.restarted = self.restarted.max(finished);
    }
}

/// The reason from the pod status itself.
fn first_reason(status: &Map) -> String {
    let is_gated = status.objects("conditions").any(|condition| {
        condition.text("type") == "PodScheduled" && condition.text("reason") == "SchedulingGated"
    });
    match (is_gated, status.text("reason")) {
        (true, _) => "SchedulingGated",
        (false, "") => status.text("phase"),
        (false, reason) => reason,
    }
    .to_owned()
}

fn state<'a>(container: &'a Map, name: &str) -> Option<&'a Map> {
    container.object("state").object_if_set(name)
}

fn end_reason(end: &Map) -> String {
    match (end.text("reason"), end.number("signal")) {
        ("", 0) => format!("ExitCode:{}", end.number("exitCode")),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}
