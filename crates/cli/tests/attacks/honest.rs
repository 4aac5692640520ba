//! Honest clients beside an attack: what they see, and how long they wait.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use portcullis_testkit::https::{Client, Identity};
use portcullis_testkit::program;
use portcullis_testkit::program::Running;
use portcullis_testkit::scratch::Scratch;
use serde_json::{Value, json};

/// The lease of the honest node.
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/honest";
/// The pause between two requests of an honest client.
const PAUSE: Duration = Duration::from_millis(20);
/// The bound of the 99th percentile. The goal is 100 ms on a machine that does nothing else, in a release build; test
/// machines are slower, and what is printed says by how much. Without the limits it is many seconds.
const P99: Duration = Duration::from_secs(1);
/// The bound of the slowest request. The goal is 500 ms.
const SLOWEST: Duration = Duration::from_secs(5);
/// How much more memory the server may take. In bytes.
pub(crate) const GROWTH: usize = 64 << 20;
/// The same beside a node that opens connections without end: they are bounded in number, and each has its streams.
pub(crate) const GROWTH_OF_NODE: usize = 768 << 20;
/// The same while it works on bodies of megabytes: decoded, they are many times larger.
pub(crate) const GROWTH_OF_OBJECTS: usize = 768 << 20;

/// `portcullis serve` with an honest node and its administrator.
pub(crate) struct Served {
    pub(crate) running: Running,
    pub(crate) data: PathBuf,
    _scratch: Scratch,
}

impl Served {
    pub(crate) fn start(flags: &[&str]) -> Self {
        let scratch = Scratch::new();
        let data = scratch.path().join("data");
        let mut command = program!().serve_command(&data);
        command.args(flags);
        let served = Self { running: Running::start(command), data, _scratch: scratch };
        let lease = json!({"metadata": {"name": "honest", "namespace": "kube-node-lease"},
            "spec": {"holderIdentity": "honest", "leaseDurationSeconds": 40}});
        let mut admin = served.admin();
        admin.must(201, "POST", "/api/v1/nodes", Some(&json!({"metadata": {"name": "honest"}})));
        admin.must(201, "POST", LEASE.trim_end_matches("/honest"), Some(&lease));
        served
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.running.address()
    }

    pub(crate) fn admin(&self) -> Client {
        Client::new(self.address(), &Identity::admin(&self.data))
    }

    pub(crate) fn anonymous(&self) -> Identity {
        Identity::anonymous(&self.data.join("ca.crt"))
    }

    /// A client certificate, by openssl and the authority of the server.
    pub(crate) fn identity(&self, name: &str, groups: &[&str]) -> Identity {
        let file = |suffix: &str| self.data.join(format!("{}.{suffix}", name.replace(':', "-")));
        let (key, request, certificate) = (file("key"), file("csr"), file("crt"));
        let organizations: String = groups.iter().map(|group| format!("/O={group}")).collect();
        let run = |words: Vec<&std::ffi::OsStr>| portcullis_testkit::tool::run("openssl", words);
        let words = |text: &'static str| text.split(' ').map(std::ffi::OsStr::new).collect::<Vec<_>>();
        let subject = format!("/CN={name}{organizations}");
        let mut arguments = words("req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout");
        arguments.extend([
            key.as_os_str(),
            "-out".as_ref(),
            request.as_os_str(),
            "-subj".as_ref(),
            subject.as_ref(),
        ]);
        run(arguments);
        let (ca, ca_key) = (self.data.join("ca.crt"), self.data.join("ca.key"));
        let extensions = self.data.join("client.ext");
        fs::write(&extensions, "extendedKeyUsage=clientAuth\n").unwrap();
        let mut arguments = words("x509 -req -days 1 -in");
        arguments.extend([
            request.as_os_str(),
            "-CA".as_ref(),
            ca.as_os_str(),
            "-CAkey".as_ref(),
            ca_key.as_os_str(),
        ]);
        arguments.extend([
            "-out".as_ref(),
            certificate.as_os_str(),
            "-extfile".as_ref(),
            extensions.as_os_str(),
        ]);
        run(arguments);
        Identity::read(&ca, &certificate, &key)
    }

    pub(crate) fn node(&self, name: &str) -> Identity {
        self.identity(&format!("system:node:{name}"), &["system:nodes"])
    }

    /// A user who may do this with these resources of the core group in namespace `default`.
    pub(crate) fn user(&self, name: &str, verbs: &[&str], resources: &[&str]) -> Identity {
        let roles = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";
        let role = json!({"metadata": {"name": name},
            "rules": [{"verbs": verbs, "apiGroups": [""], "resources": resources}]});
        let binding = json!({"metadata": {"name": name},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": name},
            "subjects": [{"kind": "User", "apiGroup": "rbac.authorization.k8s.io", "name": name}]});
        let mut admin = self.admin();
        admin.must(201, "POST", &format!("{roles}/roles"), Some(&role));
        admin.must(201, "POST", &format!("{roles}/rolebindings"), Some(&binding));
        self.identity(name, &[])
    }

    /// The memory that the server takes. In bytes.
    pub(crate) fn memory(&self) -> usize {
        let status = fs::read_to_string(format!("/proc/{}/status", self.running.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
        line.split_whitespace().next().unwrap().parse::<usize>().unwrap() * 1024
    }
}

/// What honest clients saw.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    /// How long requests took, in order of time.
    times: Vec<Duration>,
    /// What was not answered as it should be.
    faults: Vec<String>,
}

impl Seen {
    fn p99(&self) -> Duration {
        let mut sorted = self.times.clone();
        sorted.sort();
        sorted[sorted.len() * 99 / 100]
    }

    fn slowest(&self) -> Duration {
        *self.times.iter().max().unwrap()
    }
}

/// Honest clients that ask until they are told to stop.
struct Honest {
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Seen>>,
}

fn asking(
    stop: &Arc<AtomicBool>,
    mut ask: impl FnMut() -> Result<(), String> + Send + 'static,
) -> JoinHandle<Seen> {
    let stop = Arc::clone(stop);
    thread::spawn(move || {
        let mut seen = Seen::default();
        while !stop.load(Ordering::Relaxed) {
            let began = Instant::now();
            if let Err(fault) = ask() {
                seen.faults.push(fault);
            }
            seen.times.push(began.elapsed());
            thread::sleep(PAUSE);
        }
        seen
    })
}

fn expect(
    client: &mut Client,
    code: u16,
    method: &str,
    path: &str,
    body: Option<&Value>,
) -> Result<(), String> {
    let answer = client.ask(method, path, body).map_err(|error| format!("{method} {path}: {error}"))?;
    match answer.code == code {
        true => Ok(()),
        false => Err(format!("{method} {path}: {} {}", answer.code, answer.text())),
    }
}

impl Honest {
    fn start(served: &Served, node: &Identity) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let address = served.address();
        let anonymous = served.anonymous();
        // Somebody new each time, as a health check is.
        let livez =
            asking(&stop, move || expect(&mut Client::new(address, &anonymous), 200, "GET", "/livez", None));
        let mut kubelet = Client::new(address, node);
        let mut round = 0;
        let lease = asking(&stop, move || {
            round += 1;
            let renewal = json!({"metadata": {"annotations": {"round": round.to_string()}}});
            expect(&mut kubelet, 200, "PATCH", LEASE, Some(&renewal))
        });
        // Somebody who knows the server, and comes back.
        let returning = node.clone();
        let back =
            asking(&stop, move || expect(&mut Client::new(address, &returning), 200, "GET", LEASE, None));
        Self { stop, threads: vec![livez, lease, back] }
    }

    fn stop(self) -> Vec<Seen> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    }
}

/// Runs an attack beside honest clients, and asserts the bounds. A machine that is slow without an attack has more time
/// with it.
pub(crate) fn withstand(served: &Served, name: &str, attack: impl FnOnce()) {
    withstand_within(GROWTH, served, name, attack);
}

/// As [`withstand`], with another bound of memory.
pub(crate) fn withstand_within(most_growth: usize, served: &Served, name: &str, attack: impl FnOnce()) {
    let node = served.node("honest");
    let calm = Honest::start(served, &node);
    thread::sleep(Duration::from_secs(1));
    let calm = calm.stop();
    let before = served.memory();
    let honest = Honest::start(served, &node);
    let stop = Arc::<AtomicBool>::default();
    let watched = Arc::clone(&stop);
    let most = thread::scope(|scope| {
        let memory = scope.spawn(move || {
            let mut most = 0;
            while !watched.load(Ordering::Relaxed) {
                most = served.memory().max(most);
                thread::sleep(PAUSE);
            }
            most
        });
        attack();
        stop.store(true, Ordering::Relaxed);
        memory.join().unwrap()
    });
    let seen = honest.stop();
    let growth = most.saturating_sub(before);
    println!("{name}: memory +{} MiB", growth >> 20);
    for (who, calm, seen) in
        ["livez", "lease", "return"].iter().zip(&calm).zip(&seen).map(|((who, calm), seen)| (who, calm, seen))
    {
        let (p99, slowest) = (seen.p99(), seen.slowest());
        println!(
            "{name}: {who}: {} requests, p99 {p99:?}, slowest {slowest:?}; without the attack {:?}, {:?}",
            seen.times.len(),
            calm.p99(),
            calm.slowest()
        );
        assert!(calm.faults.is_empty(), "{name}: {who} before: {:?}", calm.faults);
        assert!(seen.faults.is_empty(), "{name}: {who}: {:?}", &seen.faults[..seen.faults.len().min(5)]);
        // A test machine is slow in bursts.
        let allowance = calm.slowest() * 10;
        assert!(p99 <= P99 + allowance, "{name}: {who}: p99 {p99:?}");
        assert!(slowest <= SLOWEST + allowance, "{name}: {who}: slowest {slowest:?}");
    }
    assert!(growth <= most_growth, "{name}: {} MiB more memory", growth >> 20);
}
