//! Kubelets with node certificates. A pod is bound to their node through one server, and they read its secret at once
//! through the other (ET-34); the pod is deleted, and they read until they are refused (ET-35).

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use jiff::Timestamp;
use portcullis_testkit::https::Client;
use serde_json::{Value, json};

use super::load::{Load, NAMESPACE, Said, create};
use super::servers::{Server, Servers};

/// ET-35: for so long a server may decide on memory that etcd has not confirmed.
const SILENCE: Duration = Duration::from_secs(5);

/// The answers that kubelets got.
#[derive(Default)]
pub(crate) struct Answers {
    /// How often a kubelet read what it may, and was answered yes.
    pub(crate) allowed: usize,
    /// Refusals of what is there, with the note in the log of the server that etcd did not answer (ET-34).
    pub(crate) possibly_stale: usize,
    /// For each deleted pod how long after the answer to the deletion the last yes came; zero if none did. Without faults
    /// meanwhile.
    pub(crate) last_yes: Vec<Duration>,
    /// The same with faults meanwhile, which may hold an answer for long: when the request was sent.
    pub(crate) last_yes_of_disturbed: Vec<Duration>,
}

/// How often something began or ceased to be wrong. Odd: something is.
#[derive(Default)]
pub(crate) struct Disturbances(AtomicU64);

impl Disturbances {
    /// Something has begun or ceased to be wrong.
    pub(crate) fn changed(&self) {
        self.0.fetch_add(1, Ordering::SeqCst);
    }

    fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

fn secret(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "data": {"key": "dmFsdWU="}})
}

fn pod(name: &str, node: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"nodeName": node,
        "automountServiceAccountToken": false,
        "containers": [{"name": "c", "image": "i", "envFrom": [{"secretRef": {"name": name}}]}]}})
}

/// Whether the server has logged since this time that a refusal is possibly stale.
fn has_warned(server: &Server, since: Timestamp) -> bool {
    server.log().lines().filter(|line| line.contains("a refusal is possibly stale")).any(|line| {
        let time = line.split_whitespace().next().and_then(|time| time.parse::<Timestamp>().ok());
        time.unwrap_or_else(|| panic!("a line of the log without a time: {line}")) >= since
    })
}

/// One kubelet, and the administrator who gives it pods.
pub(crate) struct Kubelet<'s> {
    servers: &'s Servers,
    node: String,
    admins: [Client; 2],
    clients: [Client; 2],
    answers: Answers,
}

impl<'s> Kubelet<'s> {
    pub(crate) fn new(servers: &'s Servers, number: usize) -> Self {
        let node = format!("n{number}");
        let mut admins = servers.admins();
        let object = json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": node}});
        create(&mut admins[0], "/api/v1/nodes", &object);
        let clients = servers.node(&node);
        Self { servers, node, admins, clients, answers: Answers::default() }
    }

    /// Gets and loses pods until the load is over.
    pub(crate) fn run(mut self, load: &Load, disturbances: &Disturbances) -> Answers {
        for round in 0_u64.. {
            if load.is_over.load(Ordering::Relaxed) {
                break;
            }
            // Names are never used again: nobody knows what becomes of a write without an answer.
            let name = format!("{}-{round}", self.node);
            let through = usize::from(round.is_multiple_of(2));
            if self.gets_pod(through, &name) {
                self.reads_secret(1 - through, &name);
                self.loses_pod(through, &name, disturbances);
            }
            sleep(Duration::from_millis(20));
        }
        self.answers
    }

    /// Creates a secret and a pod. False: nobody knows whether they are there.
    fn gets_pod(&mut self, through: usize, name: &str) -> bool {
        let admin = &mut self.admins[through];
        [("secrets", secret(name)), ("pods", pod(name, &self.node))].into_iter().all(|(kind, object)| {
            match Said::of(admin.ask("POST", &format!("{NAMESPACE}/{kind}"), Some(&object))) {
                Said::Yes(_) => true,
                Said::No(code) => panic!("{kind} {name} cannot be created: {code}"),
                Said::NotNow | Said::Nothing => false,
            }
        })
    }

    /// A pod that one server has acknowledged makes the other server grant its secret.
    fn reads_secret(&mut self, through: usize, name: &str) {
        let (kubelet, server) = (&mut self.clients[through], &self.servers.each[through]);
        let status = json!({"status": {"phase": "Running"}});
        for (method, path, body) in [
            ("GET", format!("{NAMESPACE}/secrets/{name}"), None),
            ("GET", format!("{NAMESPACE}/pods/{name}"), None),
            ("PATCH", format!("{NAMESPACE}/pods/{name}/status"), Some(&status)),
        ] {
            loop {
                let began = Timestamp::now();
                match Said::of(kubelet.ask(method, &path, body)) {
                    Said::Yes(_) => {
                        self.answers.allowed += 1;
                        break;
                    }
                    // ET-34: an outage of etcd turns into the refusal that memory gives, and the log says so.
                    Said::No(403) if has_warned(server, began) => self.answers.possibly_stale += 1,
                    Said::No(code) => panic!("a false no: {method} {path}: {code}"),
                    Said::NotNow if method == "PATCH" => break,
                    Said::NotNow | Said::Nothing => {}
                }
                sleep(Duration::from_millis(50));
            }
        }
    }

    /// What was taken away through one server is refused through the other.
    fn loses_pod(&mut self, through: usize, name: &str, disturbances: &Disturbances) {
        let path = format!("{NAMESPACE}/pods/{name}?gracePeriodSeconds=0");
        let mut was_answered = true;
        let before = disturbances.count();
        loop {
            match Said::of(self.admins[through].ask("DELETE", &path, None)) {
                Said::Yes(_) => break,
                // The request before had its effect.
                Said::No(404) if !was_answered => break,
                Said::No(code) => panic!("{name} cannot be deleted: {code}"),
                Said::NotNow => {}
                Said::Nothing => was_answered = false,
            }
            sleep(Duration::from_millis(50));
        }
        let gone = Instant::now();
        let (mut sent, mut came) = (Duration::ZERO, Duration::ZERO);
        loop {
            let asked = gone.elapsed();
            let kubelet = &mut self.clients[1 - through];
            match Said::of(kubelet.ask("GET", &format!("{NAMESPACE}/secrets/{name}"), None)) {
                Said::Yes(_) => {
                    assert!(asked <= SILENCE, "a stale yes about {name}, {asked:?} after the deletion");
                    (sent, came) = (asked, gone.elapsed());
                }
                Said::No(403) => break,
                Said::No(code) => panic!("the secret {name}: {code}"),
                Said::NotNow | Said::Nothing => sleep(Duration::from_millis(20)),
            }
        }
        match before % 2 == 1 || disturbances.count() != before {
            true => self.answers.last_yes_of_disturbed.push(sent),
            false => self.answers.last_yes.push(came),
        }
        // It is in nobody's way.
        let _ = self.admins[through].ask("DELETE", &format!("{NAMESPACE}/secrets/{name}"), None);
    }
}
