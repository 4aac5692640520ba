//! The watches of the approver: requests, Machines and the names of Nodes.
//!
//! Watches only trigger evaluations and count requests. The data for a decision is read from the API server (NB-55). So this
//! is no [`crate::feed`], which keeps an engine up to date: none of these kinds is in an engine but the Node.

use std::sync::Arc;
use std::time::Duration;

use portcullis_policy::approval::machine::{Machine, MachineApi, MachinePool, Request, Unreadable};
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::facts;
use super::lookup::{illegible, machine_kind, machines_of};
use super::shared::Shared;
use crate::call::{NODES, REQUESTS};
use crate::watched::{Event, Watched, name_of};

/// The interval at which a missing Machine API is looked for again.
const ABSENT: Duration = Duration::from_secs(30);

/// A namespace, empty for cluster-scoped objects, and a name.
pub(super) type Key = (String, String);

/// The kinds of objects that are watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Request,
    /// The Machines of the API with this index in the configuration.
    Machine(usize),
    Node,
}

/// A watch event.
#[derive(Debug)]
pub(super) struct News {
    pub(super) kind: Kind,
    pub(super) change: Change,
}

/// The change.
#[derive(Debug)]
pub(super) enum Change {
    /// A new list starts.
    Restarted,
    /// The object exists.
    There(Object),
    /// The object is gone.
    Gone(Object),
    /// The object exists, and cannot be read.
    Illegible(Key, Unreadable),
    /// An object that cannot be read is gone.
    Forgotten(Key),
    /// The list is complete, or the watch goes on.
    Known,
    /// The list is not available.
    Failed,
}

fn key_of(object: &Value) -> Key {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
    (text("/metadata/namespace"), text("/metadata/name"))
}

/// A watched object.
#[derive(Debug)]
pub(super) enum Object {
    Request(Box<Request>),
    /// A Machine, with the index of its API.
    Machine(usize, Box<Machine>),
    /// The name of a Node.
    Node(String),
}

impl Object {
    pub(super) fn key(&self) -> Key {
        match self {
            Self::Request(request) => (String::new(), request.name.clone()),
            Self::Machine(_, machine) => (machine.namespace.clone(), machine.name.clone()),
            Self::Node(name) => (String::new(), name.clone()),
        }
    }
}

/// Starts all watches, in tasks that end with the set.
pub(super) fn all(shared: &Arc<Shared>, news: &Sender<News>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (requests, nodes) = (news.clone(), news.clone());
    let watched = Watched::new(&shared.workload, REQUESTS, None);
    tasks.spawn(follow(watched, requests, Kind::Request, |object| {
        let request = Request::from_json(&object.to_string(), facts::pkcs10);
        request.map(|request| Object::Request(Box::new(request))).map_err(|error| (object, error.to_string()))
    }));
    let watched = Watched::new(&shared.workload, NODES, None);
    tasks.spawn(follow(watched, nodes, Kind::Node, |node| Ok(Object::Node(name_of(&node).to_owned()))));
    for (place, api) in shared.config.load().machine_apis.iter().enumerate() {
        tasks.spawn(follow_machines(Arc::clone(shared), place, api.clone(), news.clone()));
    }
    tasks
}

/// Watches the Machines of an API, which may be installed later (NB-120).
async fn follow_machines(shared: Arc<Shared>, place: usize, api: MachineApi, news: Sender<News>) {
    let kind = loop {
        let change = match machine_kind(&shared.management, &api).await {
            Ok(Some(kind)) => break kind,
            Ok(None) => {
                tracing::debug!(group = api.group, "the server does not have this Machine API");
                Change::Known
            }
            Err(error) => {
                tracing::warn!(group = api.group, %error, "cannot ask for Machines");
                Change::Failed
            }
        };
        if news.send(News { kind: Kind::Machine(place), change }).await.is_err() {
            return;
        }
        shared.clock.sleep(ABSENT).await;
    };
    let namespace = shared.config.load().machine_namespace.clone();
    let machines = machines_of(kind, namespace.as_deref());
    let watched = Watched::new(&shared.management, machines, None);
    let read = move |object: Value| {
        let machine = Machine::from_json(kind, &object.to_string());
        let machine = machine.map(|machine| Object::Machine(place, Box::new(machine)));
        machine.map_err(|error| (object, error.to_string()))
    };
    follow(watched, news, Kind::Machine(place), read).await;
}

async fn follow(
    mut watched: Watched<Value>,
    news: Sender<News>,
    kind: Kind,
    read: impl Fn(Value) -> Result<Object, (Value, String)>,
) {
    loop {
        let change = match watched.next().await {
            Event::Restarted => Change::Restarted,
            Event::Listed(object) | Event::Applied(object) => match read(object) {
                Ok(object) => Change::There(object),
                Err((object, why)) => {
                    tracing::warn!(?watched, why, "an object cannot be read");
                    Change::Illegible(key_of(&object), illegible(&object))
                }
            },
            Event::Deleted(object) => match read(object) {
                Ok(object) => Change::Gone(object),
                Err((object, _)) => Change::Forgotten(key_of(&object)),
            },
            Event::Synced | Event::Current | Event::Resumed => Change::Known,
            Event::Unreadable { namespace, name, why } => {
                tracing::warn!(?watched, name, why, "an object cannot be read");
                let unreadable = Unreadable::new(format!("{namespace}/{name}"), Vec::new());
                Change::Illegible((namespace, name), unreadable)
            }
            Event::Failed { why, retry_in, .. } => {
                tracing::warn!(
                    ?watched,
                    why,
                    ?retry_in,
                    "the watch failed; will retry; check that the API server is reachable and grants list and watch"
                );
                // Decisions read the Machines themselves, and need not wait for a watch that only counts.
                Change::Failed
            }
        };
        if news.send(News { kind, change }).await.is_err() {
            return;
        }
    }
}

/// Pools do not matter here: their members are counted as Nodes.
pub(super) const NO_POOLS: &[MachinePool] = &[];
