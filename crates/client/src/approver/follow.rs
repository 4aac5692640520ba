//! The watches of the approver: requests, Machines and the names of Nodes.
//!
//! Watches only trigger evaluations and count requests. The data for a decision is read from the API server (NB-55).

use std::sync::Arc;
use std::time::Duration;

use portcullis_policy::approval::machine::{Machine, MachineApi, MachinePool, Request};
use serde_json::Value;
use tokio::sync::mpsc::Sender;
use tokio::task::JoinSet;

use super::facts;
use super::lookup::{NODES, REQUESTS, machine_kind, machines_of};
use super::shared::Shared;
use crate::rbac::name_of;
use crate::watched::{Event, Watched};

/// The interval at which a missing Machine API is looked for again.
const ABSENT: Duration = Duration::from_secs(30);

/// A watch event.
#[derive(Debug)]
pub(super) enum News {
    /// About requests.
    Request(Change<Box<Request>>),
    /// About Machines of the API with this index in the configuration.
    Machine(usize, Change<Box<Machine>>),
    /// About Nodes.
    Node(Change<String>),
}

/// What happened.
#[derive(Debug)]
pub(super) enum Change<T> {
    /// A new list starts.
    Restarted,
    /// The object exists.
    There(T),
    /// The object is gone.
    Gone(T),
    /// The list is complete, or is not available.
    Known,
}

/// Starts all watches, in tasks that end with the set.
pub(super) fn all(shared: &Arc<Shared>, news: &Sender<News>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    let (requests, nodes) = (news.clone(), news.clone());
    let watched = Watched::new(&shared.workload, REQUESTS, None);
    tasks.spawn(follow(watched, requests, News::Request, |object| {
        Request::from_json(&object.to_string(), facts::pkcs10).map(Box::new).map_err(|e| e.to_string())
    }));
    let watched = Watched::new(&shared.workload, NODES, None);
    tasks.spawn(follow(watched, nodes, News::Node, |node| Ok(name_of(&node).to_owned())));
    for (place, api) in shared.config.load().machine_apis.iter().enumerate() {
        tasks.spawn(follow_machines(Arc::clone(shared), place, api.clone(), news.clone()));
    }
    tasks
}

/// Watches the Machines of an API, which may be installed later (NB-120).
async fn follow_machines(shared: Arc<Shared>, place: usize, api: MachineApi, news: Sender<News>) {
    let kind = loop {
        match machine_kind(&shared.management, &api).await {
            Ok(Some(kind)) => break kind,
            Ok(None) => tracing::debug!(group = api.group, "the server does not have this Machine API"),
            Err(error) => tracing::warn!(group = api.group, %error, "cannot ask for Machines"),
        }
        if news.send(News::Machine(place, Change::Known)).await.is_err() {
            return;
        }
        shared.clock.sleep(ABSENT).await;
    };
    let namespace = shared.config.load().machine_namespace.clone();
    let machines = machines_of(kind, namespace.as_deref());
    let watched = Watched::new(&shared.management, machines, None);
    follow(
        watched,
        news,
        move |change| News::Machine(place, change),
        move |object| {
            Machine::from_json(kind, &object.to_string()).map(Box::new).map_err(|error| error.to_string())
        },
    )
    .await;
}

async fn follow<T>(
    mut watched: Watched<Value>,
    news: Sender<News>,
    of: impl Fn(Change<T>) -> News,
    read: impl Fn(Value) -> Result<T, String>,
) {
    loop {
        let change = match watched.next().await {
            Event::Restarted => Change::Restarted,
            Event::Listed(object) | Event::Applied(object) => match read(object) {
                Ok(object) => Change::There(object),
                Err(why) => {
                    tracing::warn!(?watched, why, "an object cannot be read");
                    continue;
                }
            },
            Event::Deleted(object) => match read(object) {
                Ok(object) => Change::Gone(object),
                Err(_) => continue,
            },
            Event::Synced => Change::Known,
            Event::Unreadable { name, why, .. } => {
                tracing::warn!(?watched, name, why, "an object cannot be read");
                continue;
            }
            Event::Failed { why, retry_in } => {
                tracing::warn!(?watched, why, ?retry_in, "the watch failed; will retry");
                // Decisions read the Machines themselves, and need not wait for a watch that only counts.
                Change::Known
            }
        };
        if news.send(of(change)).await.is_err() {
            return;
        }
    }
}

/// Pools do not matter here: their members are counted as Nodes.
pub(super) const NO_POOLS: &[MachinePool] = &[];
