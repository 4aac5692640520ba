//! Measures the memory of watches, and how long a change takes to reach all of them.
//!
//! `cargo bench -p portcullis --bench watches -- --nodes 5000 --watches 3`
//!
//! Every node has a connection and a certificate of its own, over which it watches all Services, then its own Node, then its
//! pods. Then one Service is changed several times, one change after the other.
//!
//! The clients run on the same machine as the server, and take most of it. Each process has a descriptor for every
//! connection: `ulimit -n` says how many it may have.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    missing_docs,
    reason = "a measurement that cannot be set up must stop, and its figures are what it prints"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use http_body_util::BodyExt as _;
use portcullis_testkit::process::{anonymous_bytes, processor_time};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};
use support::{AT_ONCE, Client, Issuer};
use tokio::sync::Semaphore;

mod support;

/// The Services of the namespace, and the one that is changed.
const SERVICES: &str = "/api/v1/namespaces/default/services";
const CHANGED: &str = "/api/v1/namespaces/default/services/changed";
/// How long a change may take to reach all.
const PATIENCE: Duration = Duration::from_secs(60);

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Form {
    Json,
    Protobuf,
    Table,
}

impl Form {
    fn accept(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
            Self::Table => "application/json;as=Table;v=v1;g=meta.k8s.io",
        }
    }
}

#[derive(Parser)]
struct Arguments {
    /// Nodes.
    #[arg(long, default_value_t = 5000)]
    nodes: u32,
    /// Watches of each node: 1 is of all Services, 2 also of its Node, 3 also of its pods.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=3))]
    watches: u32,
    /// How often the Service is changed.
    #[arg(long, default_value_t = 20)]
    changes: u32,
    /// The form of the events.
    #[arg(long, value_enum, default_value_t = Form::Protobuf)]
    form: Form,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// How many events each node has of the Services, and when it got the last one.
struct Arrivals {
    begun: Instant,
    /// Nanoseconds since `begun`.
    last: Vec<AtomicU64>,
    count: AtomicU64,
}

/// Follows the Services. An event comes in one piece.
async fn follow(client: Client, node: usize, form: Form, arrivals: Arc<Arrivals>) {
    let path = "/api/v1/services?watch=true&allowWatchBookmarks=false&resourceVersion=0";
    let mut body = client.events(path, form.accept()).await;
    while let Some(Ok(frame)) = body.frame().await {
        if frame.is_data() {
            let now = u64::try_from(arrivals.begun.elapsed().as_nanos()).unwrap();
            arrivals.last[node].store(now, Ordering::Release);
            arrivals.count.fetch_add(1, Ordering::Release);
        }
    }
}

/// Keeps a watch open of which nothing is expected.
async fn keep(client: Client, path: String, form: Form) {
    let mut body = client.events(&path, form.accept()).await;
    while let Some(Ok(_)) = body.frame().await {}
}

async fn until(arrivals: &Arrivals, count: u64) {
    let limit = Instant::now() + PATIENCE;
    while arrivals.count.load(Ordering::Acquire) < count {
        assert!(Instant::now() < limit, "{} of {count} events came", arrivals.count.load(Ordering::Acquire));
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

fn milliseconds(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    let Arguments { nodes, watches, changes, form, .. } = arguments;
    let data = Scratch::new();
    let folder = data.path().join("data");
    let mut command = program!().serve_command(&folder);
    command.env("RUST_LOG", "error");
    let server = Running::start(command);
    let issuer = Arc::new(Issuer::read(&folder));
    let admin = Client::connect(server.address(), issuer.admin(&folder)).await;
    let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "changed"},
        "spec": {"clusterIP": "None", "ports": [{"port": 80}]}});
    admin.ask("POST", SERVICES, &service).await;

    let idle = anonymous_bytes(server.id());
    let turns = Arc::new(Semaphore::new(AT_ONCE));
    let mut connecting = Vec::new();
    for node in 0..nodes {
        let (turns, issuer, address) = (Arc::clone(&turns), Arc::clone(&issuer), server.address());
        connecting.push(tokio::spawn(async move {
            let _turn = turns.acquire().await.unwrap();
            let client = Client::connect(address, issuer.node(node)).await;
            client.ask("GET", SERVICES, &Value::Null).await;
            client
        }));
    }
    let mut clients: Vec<Client> = Vec::new();
    for client in connecting {
        clients.push(client.await.unwrap());
    }
    tokio::time::sleep(Duration::from_secs(2)).await;
    let connected = anonymous_bytes(server.id());

    let arrivals = Arc::new(Arrivals {
        begun: Instant::now(),
        last: clients.iter().map(|_| AtomicU64::new(0)).collect(),
        count: AtomicU64::new(0),
    });
    for (node, client) in clients.iter().enumerate() {
        tokio::spawn(follow(client.clone(), node, form, Arc::clone(&arrivals)));
        let others = [
            format!("/api/v1/nodes?fieldSelector=metadata.name%3Dnode-{node}&watch=true&resourceVersion=0"),
            format!("/api/v1/pods?fieldSelector=spec.nodeName%3Dnode-{node}&watch=true&resourceVersion=0"),
        ];
        for path in others.into_iter().take(watches as usize - 1) {
            tokio::spawn(keep(client.clone(), path, form));
        }
        if node % AT_ONCE == 0 {
            tokio::task::yield_now().await;
        }
    }
    // A watch from 0 begins with the Service.
    let mut expected = u64::from(nodes);
    until(&arrivals, expected).await;
    tokio::time::sleep(Duration::from_secs(2)).await;
    let watching = anonymous_bytes(server.id());
    let each = |more: usize, count: u32| more as f64 / f64::from(count) / 1024.0;
    println!(
        "{nodes} connections: {:.1} KiB each; {} watches: {:.1} KiB each; {} MiB in all",
        each(connected.saturating_sub(idle), nodes),
        nodes * watches,
        each(watching.saturating_sub(connected), nodes * watches),
        watching >> 20,
    );

    let (mut firsts, mut halves, mut lasts) = (Vec::new(), Vec::new(), Vec::new());
    let before = processor_time(server.id());
    for change in 0..changes {
        let started = arrivals.begun.elapsed();
        let labels = json!({"metadata": {"labels": {"change": change.to_string()}}});
        admin.ask("PATCH", CHANGED, &labels).await;
        expected += u64::from(nodes);
        until(&arrivals, expected).await;
        let mut times: Vec<Duration> = arrivals
            .last
            .iter()
            .map(|at| Duration::from_nanos(at.load(Ordering::Acquire)).saturating_sub(started))
            .collect();
        times.sort_unstable();
        firsts.push(times[0]);
        halves.push(times[times.len() / 2]);
        lasts.push(times[times.len() - 1]);
    }
    let used = processor_time(server.id()) - before;
    for (what, times) in [("the first", &mut firsts), ("half", &mut halves), ("the last", &mut lasts)] {
        times.sort_unstable();
        let (middle, most) = (milliseconds(times[times.len() / 2]), milliseconds(times[times.len() - 1]));
        println!(
            "a change has reached {what} of {nodes} watches: median {middle:.1} ms, longest {most:.1} ms after it was sent"
        );
    }
    let events = f64::from(nodes) * f64::from(changes);
    println!("the server takes {:.2} us of the processors for each event", used.as_secs_f64() * 1e6 / events);
}
