//! Clients that read and write objects through both servers, and keep what they were told.

use std::collections::BTreeSet;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use portcullis_testkit::https::{Answer, Client};
use portcullis_testkit::linearizability::{Action, History, Outcome};
use portcullis_testkit::mutate::Random;
use portcullis_testkit::wait;
use serde_json::{Value, json};

use super::servers::Servers;

/// The namespace of the objects.
pub(crate) const NAMESPACE: &str = "/api/v1/namespaces/faults";
/// The objects.
pub(crate) const MAPS: &str = "/api/v1/namespaces/faults/configmaps";
/// How many objects there are.
const KEYS: usize = 6;
/// The longest pause of a client between two requests, in milliseconds.
const PAUSE: usize = 40;

/// The names of the objects.
pub(crate) fn names() -> impl Iterator<Item = String> {
    (0..KEYS).map(|key| format!("k{key}"))
}

/// The resourceVersion of an object or a list.
pub(crate) fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// The number that was written into an object.
pub(crate) fn value(object: &Value) -> u64 {
    object["data"]["value"].as_str().unwrap().parse().unwrap()
}

/// What an answer says about a request.
pub(crate) enum Said {
    /// It was done.
    Yes(Value),
    /// It was refused, with this code.
    No(u16),
    /// It was not done, because the server cannot do it now.
    NotNow,
    /// Nothing: it may have been done or not.
    Nothing,
}

impl Said {
    /// Reads an answer. Any that a client need not expect ends the test.
    pub(crate) fn of(answer: io::Result<Answer>) -> Self {
        let Ok(answer) = answer else { return Self::Nothing };
        match answer.code {
            200 | 201 => Self::Yes(answer.json()),
            403 | 404 | 409 => Self::No(answer.code),
            503 => Self::NotNow,
            // ET-4: the outcome is unknown.
            504 => Self::Nothing,
            // The write that fills etcd may be made although etcd says that there is no room.
            500 if answer.text().contains("no room") => Self::Nothing,
            code => panic!("{code}: {}", answer.text()),
        }
    }
}

/// Creates an object, and retries until an answer says that it exists: on a busy machine etcd may elect another leader at any
/// time.
pub(crate) fn create(admin: &mut Client, path: &str, object: &Value) {
    let mut is_unknown = false;
    wait::until("an object is created", || match Said::of(admin.ask("POST", path, Some(object))) {
        Said::Yes(_) => true,
        Said::No(409) if is_unknown => true,
        Said::No(code) => panic!("POST {path}: {code}"),
        Said::NotNow => false,
        Said::Nothing => {
            is_unknown = true;
            false
        }
    });
}

/// A write whose success was told.
pub(crate) enum Acknowledged {
    /// The object has this value at this revision.
    Written { name: String, revision: u64, value: u64 },
    /// The object with this unique id is gone.
    Deleted { name: String, uid: String },
}

/// The load, and what came of it.
#[derive(Default)]
pub(crate) struct Load {
    pub(crate) history: History,
    pub(crate) is_over: AtomicBool,
    next_value: AtomicU64,
    /// The newest revision that anybody was told of.
    newest: AtomicU64,
    pub(crate) reads: AtomicUsize,
    pub(crate) unknown: AtomicUsize,
    pub(crate) acknowledged: Mutex<Vec<Acknowledged>>,
    /// Values whose writing was answered with "not now": they must never be seen.
    pub(crate) not_written: Mutex<BTreeSet<u64>>,
    /// How long requests took that were answered with yes or no.
    pub(crate) latencies: Mutex<[Vec<Duration>; 2]>,
}

impl Load {
    fn lasted(&self, is_write: bool, began: Instant) {
        let mut latencies = self.latencies.lock().unwrap_or_else(PoisonError::into_inner);
        latencies[usize::from(is_write)].push(began.elapsed());
    }

    fn acknowledge(&self, acknowledged: Acknowledged) {
        self.acknowledged.lock().unwrap_or_else(PoisonError::into_inner).push(acknowledged);
    }

    /// Reads an object, and returns it if it is there. None: nothing was told.
    pub(crate) fn read(&self, client: usize, admin: &mut Client, name: &str) -> Option<Option<Value>> {
        let call = self.history.invoke(client, name, Action::Read);
        let began = Instant::now();
        let found = match Said::of(admin.ask("GET", &format!("{MAPS}/{name}"), None)) {
            Said::Yes(found) => Some(found),
            Said::No(404) => None,
            Said::No(code) => panic!("GET {name}: {code}"),
            Said::NotNow | Said::Nothing => return None,
        };
        self.history.respond(call, Outcome::Observed(found.as_ref().map(value)));
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.lasted(false, began);
        Some(found)
    }

    /// Lists all objects, which reads each of them. None: nothing was told.
    pub(crate) fn list(&self, client: usize, admin: &mut Client) -> Option<Value> {
        let calls: Vec<_> =
            names().map(|name| (self.history.invoke(client, &name, Action::Read), name)).collect();
        let known = self.newest.load(Ordering::SeqCst);
        let began = Instant::now();
        let Said::Yes(list) = Said::of(admin.ask("GET", MAPS, None)) else { return None };
        assert!(revision(&list) >= known, "a list at {} after a write at {known}", revision(&list));
        for (call, name) in calls {
            let found =
                list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == *name);
            self.history.respond(call, Outcome::Observed(found.map(value)));
        }
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.lasted(false, began);
        Some(list)
    }

    /// Makes one write.
    fn write(&self, client: usize, admin: &mut Client, name: &str, dice: usize) {
        let path = format!("{MAPS}/{name}");
        let new = self.next_value.fetch_add(1, Ordering::Relaxed) + 1;
        let data = json!({"value": new.to_string()});
        let made = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data});
        let (action, method, path, body) = match dice {
            0 => (Action::Create(new), "POST", MAPS, Some(made)),
            1 => (Action::Delete, "DELETE", path.as_str(), None),
            2 => (Action::Write(new), "PATCH", path.as_str(), Some(json!({"data": data}))),
            _ => match self.read(client, admin, name).flatten() {
                Some(mut seen) => {
                    let expected = value(&seen);
                    seen["data"] = data;
                    (Action::CompareAndSwap { expected, new }, "PUT", path.as_str(), Some(seen))
                }
                None => (Action::Create(new), "POST", MAPS, Some(made)),
            },
        };
        let is_removal = action == Action::Delete;
        let call = self.history.invoke(client, name, action);
        let known = self.newest.load(Ordering::SeqCst);
        let began = Instant::now();
        match Said::of(admin.ask(method, path, body.as_ref())) {
            Said::Yes(object) if is_removal => {
                self.history.respond(call, Outcome::Done);
                let uid = object["details"]["uid"].as_str().unwrap().to_owned();
                self.acknowledge(Acknowledged::Deleted { name: name.to_owned(), uid });
                self.lasted(true, began);
            }
            Said::Yes(object) => {
                self.history.respond(call, Outcome::Done);
                assert_eq!(value(&object), new, "{method} {name} returns what was written");
                let revision = revision(&object);
                assert!(revision > known, "{method} {name} is at {revision} after a write at {known}");
                self.newest.fetch_max(revision, Ordering::SeqCst);
                self.acknowledge(Acknowledged::Written { name: name.to_owned(), revision, value: new });
                self.lasted(true, began);
            }
            Said::No(404 | 409) => {
                self.history.respond(call, Outcome::Refused);
                self.lasted(true, began);
            }
            Said::No(code) => panic!("{method} {name}: {code}"),
            Said::NotNow => {
                if !is_removal {
                    self.not_written.lock().unwrap_or_else(PoisonError::into_inner).insert(new);
                }
            }
            Said::Nothing => {
                self.unknown.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Reads and writes through both servers until the load is over.
    pub(crate) fn run(&self, client: usize, servers: &Servers) {
        let mut admins = servers.admins();
        let mut random = Random::new(client as u64);
        let names: Vec<String> = names().collect();
        while !self.is_over.load(Ordering::Relaxed) {
            let admin = &mut admins[random.below(2)];
            let name = random.pick(&names);
            match random.below(8) {
                0 => drop(self.list(client, admin)),
                1..4 => drop(self.read(client, admin, name)),
                _ => self.write(client, admin, name, random.below(5)),
            }
            sleep(Duration::from_millis(random.below(PAUSE) as u64));
        }
    }
}
