//! A soak: simulated kubelets beside all attacks on `portcullis serve`, one after the other and two at once, and a
//! server that is killed and started again in between.
//!
//! `SOAK_SECONDS` says how long it is attacked, `SOAK_NODES` how many kubelets there are.

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use portcullis_apimachinery::time::Instant as Moment;
use portcullis_testkit::http2::request;
use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::process::{raise_open_files, resident_bytes};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use portcullis_testkit::wait::DEADLINE;
use serde_json::{Value, json};

use super::serve;
use crate::alone;
use crate::connections::{self, Attack};
use crate::honest::{Ask, Target};
use crate::served::client_certificate;

const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
/// How often a kubelet renews its lease and writes its status.
const PERIOD: Duration = Duration::from_secs(10);
/// The threads of all kubelets.
const THREADS: usize = 8;
/// The replaced values that the server keeps for watches that resume, and some more. In megabytes.
const HISTORY: usize = 45;
/// How long a long soak waits before it measures. The page cache of the store grows by some kilobytes with every write,
/// up to 64 MiB; in a short soak there are few writes.
const FILLING: Duration = Duration::from_secs(180);
/// A little less than a ConfigMap may have. In bytes.
const VALUE: usize = 1_000_000;
/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(100);
/// Writes of nodes are logged, and nothing else. In mode `blocking`, a write that was acknowledged is in the file, so
/// that it survives the end of the process.
const POLICY: &str = r#"{"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:nodes"], "verbs": ["create", "update", "patch", "delete"]}]}"#;

fn setting(name: &str, usual: u64) -> u64 {
    std::env::var(name)
        .map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}: {text:?} is not a number")))
}

/// A server that is started again.
struct World {
    scratch: Scratch,
    running: Mutex<Option<Running>>,
    address: SocketAddr,
    /// How often it was killed.
    kills: AtomicUsize,
}

fn start(scratch: &Scratch, port: u16) -> Running {
    let file = |name: &str| scratch.path().join(name);
    let mut command = program!().serve_command_at(&file("data"), port);
    command
        .arg("--audit-policy-file")
        .arg(file("policy.json"))
        .arg("--audit-log-path")
        .arg(file("audit.log"));
    command.args(["--audit-log-mode", "blocking", "--audit-log-maxsize", "0"]);
    // In debug builds the library of HTTP/2 asserts that no stream is open when a connection ends, which is wrong
    // (hyperium/h2, issue 907). A backtrace of it would load all debug information into the server.
    command.env("RUST_BACKTRACE", "0");
    Running::start(command)
}

impl World {
    fn start() -> Self {
        let scratch = Scratch::new();
        fs::write(scratch.path().join("policy.json"), POLICY).unwrap();
        let running = start(&scratch, 0);
        let address = running.address();
        Self { scratch, running: Mutex::new(Some(running)), address, kills: AtomicUsize::new(0) }
    }

    fn data(&self) -> PathBuf {
        self.scratch.path().join("data")
    }

    fn admin(&self) -> Client {
        Client::new(self.address, &Identity::admin(&self.data()))
    }

    fn identity(&self, name: &str, groups: &[&str]) -> Identity {
        let (certificate, key) = client_certificate(&self.data(), name, groups);
        Identity::read(&self.data().join("ca.crt"), &certificate, &key)
    }

    fn kill_and_start(&self) {
        self.kills.fetch_add(1, Ordering::SeqCst);
        let mut running = self.running.lock().unwrap();
        running.take().unwrap().kill();
        *running = Some(start(&self.scratch, self.address.port()));
    }

    /// Fills what the server keeps of replaced values, so that it does not grow by these while it is attacked.
    fn fill_history(&self) {
        let mut admin = self.admin();
        let map = |number: usize| json!({"metadata": {"name": "history"}, "data": {"text": number.to_string(), "filling": "x".repeat(VALUE)}});
        let known = admin.ask("POST", MAPS, Some(&map(0))).unwrap().code;
        assert!(matches!(known, 201 | 409), "{known}");
        for number in 1..HISTORY {
            admin.must(200, "PUT", &format!("{MAPS}/history"), Some(&map(number)));
        }
    }

    /// Attacks of all kinds.
    fn attacks(&self) -> Vec<Attack> {
        let (stranger, node) = (self.anonymous(), self.known());
        let nobody = self.identity("nobody", &[]);
        let list = request("GET", "/api/v1/nodes");
        let mut attacks = connections::growing_headers(self, "/api/v1/nodes", "a stranger", &stranger);
        attacks.extend(connections::floods_of_frames(self, "/version", &node));
        attacks.push(connections::unread_answers(self, "400 lists that are not read", &list, &node));
        attacks.extend(connections::unfinished_bodies(self, serve::REVIEW, &nobody));
        attacks.push(connections::unfinished_heads(self, "/livez"));
        attacks.push(connections::slow_readers(self, "/openapi/v2", &node));
        attacks.extend(connections::growing_headers(self, "/api/v1/nodes", "a node", &node));
        attacks.extend(connections::silent_connections(self));
        attacks
    }
}

impl Target for World {
    fn process(&self) -> u32 {
        self.running.lock().unwrap().as_ref().unwrap().id()
    }

    fn address(&self) -> SocketAddr {
        self.address
    }

    fn anonymous(&self) -> Identity {
        Identity::anonymous(&self.data().join("ca.crt"))
    }

    fn known(&self) -> Identity {
        self.identity("system:node:thief", &["system:nodes"])
    }

    fn honest(&self) -> Vec<(&'static str, Ask)> {
        Vec::new()
    }
}

/// A simulated kubelet.
struct Kubelet {
    name: String,
    client: Client,
    /// How often the server had been killed at the last answer.
    kills: usize,
    beat: u64,
    seen: Seen,
}

/// What kubelets saw.
#[derive(Default)]
struct Seen {
    /// The audit ids of acknowledged writes.
    acknowledged: Vec<String>,
    times: Vec<Duration>,
    faults: Vec<String>,
}

impl Kubelet {
    fn register(world: &World, admin: &mut Client, number: usize) -> Self {
        let name = format!("n{number}");
        let lease =
            json!({"metadata": {"name": name}, "spec": {"holderIdentity": name, "leaseDurationSeconds": 40}});
        admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": name}})));
        admin.must(201, "POST", LEASES, Some(&lease));
        let identity = world.identity(&format!("system:node:{name}"), &["system:nodes"]);
        Self { name, client: Client::new(world.address, &identity), kills: 0, beat: 0, seen: Seen::default() }
    }

    /// Renews the lease and writes the status.
    fn beat(&mut self, world: &World) {
        self.beat += 1;
        let beat = self.beat.to_string();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let now = Moment::of_seconds(i64::try_from(now.as_secs()).unwrap());
        let lease =
            json!({"metadata": {"annotations": {"beat": beat}}, "spec": {"renewTime": now.to_micro()}});
        self.write(world, &format!("{LEASES}/{}", self.name), &lease);
        let status = json!({"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "KubeletReady",
            "message": beat, "lastHeartbeatTime": now.to_string()}]}});
        self.write(world, &format!("/api/v1/nodes/{}/status", self.name), &status);
    }

    /// Writes until it is acknowledged. Only a server that was killed may break a connection.
    fn write(&mut self, world: &World, path: &str, body: &Value) {
        loop {
            let began = Instant::now();
            let kills = world.kills.load(Ordering::SeqCst);
            match self.client.ask("PATCH", path, Some(body)) {
                Ok(answer) if answer.code == 200 => {
                    self.kills = kills;
                    self.seen.times.push(began.elapsed());
                    self.seen.acknowledged.push(answer.audit_id);
                    return;
                }
                Ok(answer) => return self.fault(path, &format!("{} {}", answer.code, answer.text())),
                Err(_) if world.kills.load(Ordering::SeqCst) != self.kills => thread::sleep(PAUSE),
                Err(error) => return self.fault(path, &error.to_string()),
            }
        }
    }

    fn fault(&mut self, path: &str, what: &str) {
        self.seen.faults.push(format!("{path}: {what}"));
    }
}

/// Lets these kubelets beat at even distances until they are told to stop.
fn run(world: &World, kubelets: &mut [Kubelet], stop: &AtomicBool) {
    let step = PERIOD / u32::try_from(kubelets.len().max(1)).unwrap();
    let mut next = Instant::now();
    loop {
        for kubelet in &mut *kubelets {
            while Instant::now() < next {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                thread::sleep(PAUSE.min(next.saturating_duration_since(Instant::now())));
            }
            kubelet.beat(world);
            next += step;
        }
        // After a restart it does not catch up.
        next = next.max(Instant::now() - PERIOD);
    }
}

/// What the memory may grow by in a short run, as with a single attack: its server is cold, and the first attacks leave
/// buffers that are kept.
const KEPT: usize = 64 << 20;
/// From this time on a run is not short.
const LONG: Duration = Duration::from_secs(15 * 60);

/// Attacks for a while, with so many attacks at once, beginning with the next of the list. Afterwards the memory must
/// be what it was, but for a fifth, or in a short run for what is kept.
fn attack(world: &World, attacks: &[Attack], at_once: usize, next: &mut usize, time: Duration) {
    world.fill_history();
    thread::sleep(PERIOD.max(FILLING.min(time / 3)));
    let before = resident_bytes(world.process());
    let end = Instant::now() + time;
    while Instant::now() < end {
        let chosen: Vec<&Attack> =
            (0..at_once).map(|number| &attacks[(*next + number) % attacks.len()]).collect();
        *next += at_once;
        thread::scope(|scope| {
            for attack in &chosen {
                scope.spawn(|| (attack.run)());
            }
        });
        let names: Vec<&str> = chosen.iter().map(|attack| &*attack.name).collect();
        println!("{}: {} MiB", names.join(", and "), resident_bytes(world.process()) >> 20);
    }
    let kept = if time < LONG { KEPT } else { 0 };
    let (ended, most) = (Instant::now(), before + (before / 5).max(kept));
    while resident_bytes(world.process()) > most && ended.elapsed() < DEADLINE {
        thread::sleep(PAUSE);
    }
    let after = resident_bytes(world.process());
    println!("memory: {} MiB before, {} MiB {:?} after", before >> 20, after >> 20, ended.elapsed());
    assert!(after <= most, "{} MiB before, {} MiB after", before >> 20, after >> 20);
}

#[test]
fn kubelets_are_served_beside_all_attacks_and_no_acknowledged_write_is_lost() {
    let _alone = alone();
    raise_open_files();
    let time = Duration::from_secs(setting("SOAK_SECONDS", 40));
    let nodes = usize::try_from(setting("SOAK_NODES", 200)).unwrap();
    let world = World::start();
    let attacks = world.attacks();
    let mut kubelets: Vec<Kubelet> = thread::scope(|scope| {
        let world = &world;
        let register = |thread: usize| {
            let mut admin = world.admin();
            (thread..nodes)
                .step_by(THREADS)
                .map(|number| Kubelet::register(world, &mut admin, number))
                .collect()
        };
        let threads: Vec<_> = (0..THREADS).map(|thread| scope.spawn(move || register(thread))).collect();
        threads.into_iter().flat_map(|thread| -> Vec<Kubelet> { thread.join().unwrap() }).collect()
    });
    let stop = AtomicBool::new(false);
    thread::scope(|scope| {
        let share = nodes.div_ceil(THREADS);
        for mine in kubelets.chunks_mut(share) {
            scope.spawn(|| run(&world, mine, &stop));
        }
        // If an assertion fails, the kubelets must stop as well.
        let _stop = StopAtEnd(&stop);
        let mut next = 0;
        attack(&world, &attacks, 1, &mut next, time / 2);
        world.kill_and_start();
        attack(&world, &attacks, 2, &mut next, time / 2);
    });
    report(&kubelets);
    for kubelet in &kubelets {
        let lease = world.admin().must(200, "GET", &format!("{LEASES}/{}", kubelet.name), None);
        assert_eq!(lease["metadata"]["annotations"]["beat"], kubelet.beat.to_string(), "{}", kubelet.name);
    }
    // A node that did not get through for a while would have been tainted.
    for kubelet in &kubelets {
        let node = world.admin().must(200, "GET", &format!("/api/v1/nodes/{}", kubelet.name), None);
        assert_eq!(node["spec"]["taints"], Value::Null, "{}", kubelet.name);
    }
    let log = fs::read_to_string(world.scratch.path().join("audit.log")).unwrap();
    let logged: HashSet<&str> =
        log.lines().filter_map(|line| line.split_once(r#""auditID":""#)?.1.split('"').next()).collect();
    let acknowledged = kubelets.iter().flat_map(|kubelet| &kubelet.seen.acknowledged);
    let missing: Vec<&String> = acknowledged.filter(|id| !logged.contains(id.as_str())).collect();
    assert!(missing.is_empty(), "{} acknowledged writes are not in the audit log", missing.len());
}

/// Tells the kubelets to stop when it is dropped.
struct StopAtEnd<'a>(&'a AtomicBool);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Prints what kubelets saw, and asserts that nothing was refused.
fn report(kubelets: &[Kubelet]) {
    let mut times: Vec<Duration> = kubelets.iter().flat_map(|kubelet| kubelet.seen.times.clone()).collect();
    times.sort();
    println!(
        "{} kubelets: {} acknowledged writes, p50 {:?}, p99 {:?}, slowest {:?}",
        kubelets.len(),
        times.len(),
        times[times.len() / 2],
        times[times.len() * 99 / 100],
        times[times.len() - 1],
    );
    let faults: Vec<&String> = kubelets.iter().flat_map(|kubelet| &kubelet.seen.faults).collect();
    assert!(faults.is_empty(), "{} faults: {:?}", faults.len(), &faults[..faults.len().min(5)]);
}
