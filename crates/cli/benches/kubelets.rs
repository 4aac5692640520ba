//! Thousands of kubelets on one API server: each renews its lease, tells its state, and watches its Node, its pods and
//! the secret of its pods, over one connection with a certificate of its own, while pods are put on the nodes at a fixed
//! rate. As kubelets do, they send and ask for protobuf. Whatever is refused that should not be, and each event that is
//! missed, comes twice or out of turn, ends the run.
//!
//! `cargo bench -p portcullis --bench kubelets -- --nodes 5000 --pods-per-second 500 --seconds 60`
//!
//! With `--etcd --servers 2` the kubelets are spread over two servers that share an etcd (Debian package etcd-server). What
//! a kubelet needs, its pods and their secrets, is then always written through another server than the one that it asks.
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

use std::collections::HashMap;
use std::fs::DirBuilder;
use std::net::SocketAddr;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use clap::Parser;
use http_body_util::BodyExt as _;
use portcullis_cli::bench::histogram::Histogram;
use portcullis_testkit::etcd::Etcd;
use portcullis_testkit::process::{loopback_bytes, most_resident_bytes, processor_time, resident_bytes};
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::{program, protobuf};
use serde_json::{Value, json};
use support::{ACCEPT, AT_ONCE, Client, Issuer};

mod support;

/// How often a kubelet renews its lease and tells its state.
const HEARTBEAT: Duration = Duration::from_secs(10);

#[derive(Parser)]
struct Arguments {
    /// Kubelets.
    #[arg(long, default_value_t = 5000)]
    nodes: u32,
    /// Pods that are put on nodes each second.
    #[arg(long, default_value_t = 500)]
    pods_per_second: u32,
    /// How long pods are put on nodes.
    #[arg(long, default_value_t = 60)]
    seconds: u32,
    /// Servers, over which the kubelets are spread; more than one need --etcd.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    servers: u32,
    /// Keep objects in an etcd that is started for the run, instead of in the embedded store.
    #[arg(long)]
    etcd: bool,
    /// What `cargo bench` adds.
    #[arg(long, hide = true)]
    bench: bool,
}

/// The files that all servers of a cluster share.
const SHARED: [&str; 3] = ["ca.crt", "ca.key", "sa.key"];

/// A server, as a process of its own.
struct Server {
    process: Running,
    address: SocketAddr,
    data: Scratch,
}

impl Server {
    /// Starts a server, with the keys of another one if there is any.
    fn start(etcd: Option<&Etcd>, other: Option<&Self>) -> Self {
        let data = Scratch::new();
        let folder = data.path().join("data");
        if let Some(other) = other {
            DirBuilder::new().mode(0o700).create(&folder).unwrap();
            for name in SHARED {
                std::fs::copy(other.data().join(name), folder.join(name)).unwrap();
            }
        }
        let mut command = program!().serve_command(&folder);
        if let Some(etcd) = etcd {
            command.arg("--etcd-servers").arg(etcd.endpoint());
        }
        command.env("RUST_LOG", "error");
        let process = Running::start(command);
        Self { address: process.address(), process, data }
    }

    fn data(&self) -> PathBuf {
        self.data.path().join("data")
    }
}

/// A process whose memory and processor time are told.
struct Measured {
    name: String,
    id: u32,
    /// The processor time that it had used when counting began.
    before: Duration,
}

impl Measured {
    /// The servers, and etcd if there is one.
    fn all(servers: &[Server], etcd: Option<&Etcd>) -> Vec<Self> {
        let of_servers =
            servers.iter().enumerate().map(|(at, server)| (format!("server {at}"), server.process.id()));
        let of_etcd = etcd.map(|etcd| ("etcd".to_owned(), etcd.id()));
        of_servers.chain(of_etcd).map(|(name, id)| Self { name, id, before: Duration::ZERO }).collect()
    }
}

/// Prints how much memory each process has.
fn print_memory(when: &str, processes: &[Measured]) {
    let each: Vec<String> = processes
        .iter()
        .map(|process| format!("{} {} MiB", process.name, resident_bytes(process.id) >> 20))
        .collect();
    println!("{when}: {}", each.join(", "));
}

/// How long things took, by what was done.
#[derive(Default)]
struct Times(Mutex<HashMap<&'static str, Histogram>>);

impl Times {
    fn note(&self, what: &'static str, took: Duration) {
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap();
        self.0.lock().unwrap().entry(what).or_default().record(nanoseconds);
    }

    fn print(&self) {
        let times = self.0.lock().unwrap();
        let mut names: Vec<_> = times.keys().collect();
        names.sort();
        let ms = |nanoseconds: u64| nanoseconds as f64 / 1e6;
        for name in names {
            let of = &times[*name];
            println!(
                "{name}: {} times, p50 {:.1} ms, p99 {:.1} ms, max {:.1} ms",
                of.total(),
                ms(of.quantile(0.5)),
                ms(of.quantile(0.99)),
                ms(of.max()),
            );
        }
    }
}

/// What all kubelets share.
struct World {
    times: Times,
    /// When a pod was asked for, by its number.
    asked: Vec<Mutex<Option<Instant>>>,
    /// Pods that a kubelet has been told of, and that it has told to run.
    told: AtomicU64,
    running: AtomicU64,
}

/// Now, as leases tell it.
fn now() -> String {
    format!("{:.6}", jiff::Timestamp::now())
}

async fn kubelet(number: u32, client: Client, world: Arc<World>) {
    let node = format!("node-{number}");
    client
        .ask(
            "POST",
            "/api/v1/nodes",
            &json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}}),
        )
        .await;
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    let spec = || json!({"holderIdentity": node, "leaseDurationSeconds": 40, "renewTime": now()});
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": node},
        "spec": spec()});
    let mut lease = client.ask("POST", leases, &lease).await;
    let from_now =
        "allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&watch=true";
    let watcher = client.clone();
    let of_node = format!("/api/v1/nodes?fieldSelector=metadata.name%3D{node}&{from_now}");
    tokio::spawn(async move { watch(&watcher, &of_node, |_| {}).await });
    tokio::spawn(pods(node.clone(), client.clone(), Arc::clone(&world), from_now));
    // Not all at the same time.
    tokio::time::sleep(HEARTBEAT * (number % 1_000) / 1_000).await;
    loop {
        let began = Instant::now();
        lease["spec"] = spec();
        lease = client.ask("PUT", &format!("{leases}/{node}"), &lease).await;
        world.times.note("lease renewal", began.elapsed());
        let ready = json!({"status": {"conditions": [{"type": "Ready", "status": "True",
            "lastHeartbeatTime": format!("{:.0}", jiff::Timestamp::now())}]}});
        let began = Instant::now();
        client.ask("PATCH", &format!("/api/v1/nodes/{node}/status"), &ready).await;
        world.times.note("node status", began.elapsed());
        tokio::time::sleep(HEARTBEAT).await;
    }
}

/// Gives each event of a watch to a function as it comes.
async fn watch(client: &Client, path: &str, mut each: impl FnMut(Value)) {
    let mut body = client.events(path, ACCEPT).await;
    let mut come = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let Ok(data) = frame.into_data() else { continue };
        come.extend_from_slice(&data);
        while let Some(event) = protobuf::take_event(&mut come) {
            each(event);
        }
    }
}

/// Follows the pods of a node: each is new once, and is told to run; its secret is fetched and watched.
async fn pods(node: String, client: Client, world: Arc<World>, from_now: &'static str) {
    let path = format!("/api/v1/pods?fieldSelector=spec.nodeName%3D{node}&{from_now}");
    let watcher = client.clone();
    let mut known: HashMap<String, u64> = HashMap::new();
    watch(&watcher, &path, |event| {
        let object = &event["object"];
        let kind = event["type"].as_str().unwrap();
        if kind == "BOOKMARK" {
            return;
        }
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let revision: u64 = object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert_eq!(object["spec"]["nodeName"], node.as_str(), "{name} is not of this node");
        match (kind, known.insert(name.clone(), revision)) {
            ("ADDED", None) => {}
            ("MODIFIED", Some(before)) => {
                assert!(before < revision, "{name}: out of turn");
                return;
            }
            (kind, before) => panic!("{name} on {node}: {kind} after {before:?}"),
        }
        let pod: usize = name.rsplit('-').next().unwrap().parse().unwrap();
        let asked = world.asked[pod].lock().unwrap().unwrap();
        world.times.note("a pod is known to its kubelet", asked.elapsed());
        world.told.fetch_add(1, Ordering::Relaxed);
        let (client, world, node, is_first) =
            (client.clone(), Arc::clone(&world), node.clone(), known.len() == 1);
        tokio::spawn(async move {
            let secret = format!("/api/v1/namespaces/default/secrets/of-{node}");
            let began = Instant::now();
            client.ask("GET", &secret, &Value::Null).await;
            world.times.note("secret", began.elapsed());
            if is_first {
                let path = format!(
                    "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Dof-{node}&{from_now}"
                );
                let watcher = client.clone();
                tokio::spawn(async move { watch(&watcher, &path, |_| {}).await });
            }
            let began = Instant::now();
            let status = json!({"status": {"phase": "Running"}});
            client.ask("PATCH", &format!("/api/v1/namespaces/default/pods/{name}/status"), &status).await;
            world.times.note("pod status", began.elapsed());
            world.running.fetch_add(1, Ordering::Relaxed);
        });
    })
    .await;
}

fn pod(number: u32, nodes: u32) -> Value {
    let node = format!("node-{}", number % nodes);
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": format!("pod-{number}"), "labels": {"app": "web"}}, "spec": {
        "nodeName": node,
        "containers": [{"name": "c", "image": "registry.example/app:1",
            "env": [{"name": "P", "valueFrom": {"secretKeyRef": {"name": format!("of-{node}"), "key": "p"}}}]}],
        "volumes": [{"name": "s", "secret": {"secretName": format!("of-{node}")}}],
    }})
}

#[tokio::main]
async fn main() {
    let arguments = Arguments::parse();
    assert!(arguments.etcd || arguments.servers == 1, "several servers share an etcd: add --etcd");
    let etcd = arguments.etcd.then(Etcd::start);
    let mut servers: Vec<Server> = Vec::new();
    for _ in 0..arguments.servers {
        servers.push(Server::start(etcd.as_ref(), servers.first()));
    }
    let mut processes = Measured::all(&servers, etcd.as_ref());
    let issuer = Arc::new(Issuer::read(&servers[0].data()));
    // For each server: its address, and an administrator who asks the next one.
    let mut places = Vec::new();
    for (at, server) in servers.iter().enumerate() {
        let next = &servers[(at + 1) % servers.len()];
        places.push((server.address, Client::connect(next.address, issuer.admin(&next.data())).await));
    }
    let place = |node: u32| places[node as usize % places.len()].clone();
    print_memory("idle", &processes);
    let pods = arguments.pods_per_second * arguments.seconds;
    let world = Arc::new(World {
        times: Times::default(),
        asked: (0..pods).map(|_| Mutex::new(None)).collect(),
        told: AtomicU64::new(0),
        running: AtomicU64::new(0),
    });

    let began = Instant::now();
    let turns = Arc::new(tokio::sync::Semaphore::new(AT_ONCE));
    let mut starting = Vec::new();
    for number in 0..arguments.nodes {
        let turn = Arc::clone(&turns).acquire_owned().await.unwrap();
        let (issuer, world, (address, admin)) = (Arc::clone(&issuer), Arc::clone(&world), place(number));
        starting.push(tokio::spawn(async move {
            let secret =
                json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": format!("of-node-{number}")},
                    "stringData": {"p": "example"}});
            admin.ask("POST", "/api/v1/namespaces/default/secrets", &secret).await;
            let client = Client::connect(address, issuer.node(number)).await;
            drop(turn);
            let kubelet = tokio::spawn(kubelet(number, client, world));
            kubelet.abort_handle()
        }));
    }
    let mut kubelets = Vec::new();
    for kubelet in starting {
        kubelets.push(kubelet.await.unwrap());
    }
    println!("{} kubelets are there after {:.1} s", kubelets.len(), began.elapsed().as_secs_f64());
    tokio::time::sleep(HEARTBEAT).await;
    print_memory("before pods come", &processes);

    // From here on it counts.
    world.times.0.lock().unwrap().clear();
    processes.iter_mut().for_each(|process| process.before = processor_time(process.id));
    let sent = loopback_bytes();
    let began = Instant::now();
    let mut making = Vec::new();
    for number in 0..pods {
        let due = began + Duration::from_secs(1) * number / arguments.pods_per_second;
        tokio::time::sleep_until(due.into()).await;
        let (world, nodes) = (Arc::clone(&world), arguments.nodes);
        let (_, admin) = place(number % nodes);
        making.push(tokio::spawn(async move {
            let began = Instant::now();
            *world.asked[number as usize].lock().unwrap() = Some(began);
            admin.ask("POST", "/api/v1/namespaces/default/pods", &pod(number, nodes)).await;
            world.times.note("pod made", began.elapsed());
        }));
    }
    for made in making {
        made.await.unwrap();
    }
    let took = began.elapsed();
    let limit = Instant::now() + Duration::from_secs(60);
    while world.running.load(Ordering::Relaxed) < u64::from(pods) {
        assert!(Instant::now() < limit, "{} of {pods} pods run", world.running.load(Ordering::Relaxed));
        assert!(kubelets.iter().all(|kubelet| !kubelet.is_finished()), "a kubelet was refused something");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(world.told.load(Ordering::Relaxed), u64::from(pods));
    let counted = began.elapsed().as_secs_f64();
    let sent = (loopback_bytes() - sent) as f64;
    println!(
        "{pods} pods in {:.1} s, all of them known once to their kubelets and running",
        took.as_secs_f64()
    );
    for process in &processes {
        println!(
            "{}: {:.3} processors, {} MiB, at most {} MiB",
            process.name,
            (processor_time(process.id) - process.before).as_secs_f64() / counted,
            resident_bytes(process.id) >> 20,
            most_resident_bytes(process.id) >> 20
        );
    }
    println!(
        "network: {:.1} KiB/s in both directions together, with TLS, TCP and IP",
        sent / counted / 1024.0
    );
    world.times.print();
    // What is still asked for when the server goes is of no interest.
    kubelets.iter().for_each(tokio::task::AbortHandle::abort);
    tokio::time::sleep(Duration::from_secs(1)).await;
}
