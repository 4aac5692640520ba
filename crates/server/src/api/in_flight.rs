//! Limits of the requests that are worked on at a time (`--max-requests-inflight`, `--max-mutating-requests-inflight`).
//!
//! A request that finds no free seat waits for its turn; the accounts take turns, so that nobody waits for the many
//! requests of somebody else. A request has a seat while it is worked on, not while its client sends the body or reads
//! the response. Leases and statuses of nodes have seats of their own, so that no load makes nodes look dead.
//!
//! Watches and connections to kubelets are not counted, because they are long-running. Neither are health checks, which
//! matter most under load, nor requests of group `system:masters`, so that an administrator can always reach an overloaded
//! server.

use std::sync::Arc;
use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, StatusCode};
use policy::User;
use policy::chain::MASTERS_GROUP;
use policy::identity::NODES_GROUP;
use policy::node::NODE_LEASE_NAMESPACE;
use policy::request_info::RequestInfo;
use prometheus_client::metrics::gauge::Gauge;
use tokio::time::timeout;

use crate::api::route::Route;
use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, Seat, Size};
use crate::http::status::{Answer, text};
use crate::metrics::Counted;

/// How many requests one node can have in the lane of nodes.
const SEATS_OF_NODE: usize = 2;
/// How many requests of one node can wait in the lane of nodes.
const WAITING_OF_NODE: usize = 20;

/// The limits and counts of concurrent requests.
pub(crate) struct InFlight {
    read_only: Lane,
    mutating: Lane,
    nodes: Lane,
}

struct Lane {
    /// None for no limit.
    queue: Option<Arc<FairQueue>>,
    working: Gauge,
    waiting: Gauge,
}

/// A request that is worked on, until this is dropped.
pub(crate) struct Entered {
    _seat: Option<Seat>,
    _working: Counted,
}

/// The gauges of a kind of requests.
pub(crate) struct Gauges {
    /// Requests that are worked on.
    pub(crate) working: Gauge,
    /// Requests that wait for a seat.
    pub(crate) waiting: Gauge,
}

impl Lane {
    fn new(size: Option<Size>, gauges: &Gauges) -> Self {
        let Gauges { working, waiting } = gauges;
        Self { queue: size.map(FairQueue::new), working: working.clone(), waiting: waiting.clone() }
    }

    async fn enter(&self, account: Account, patience: Duration) -> Option<Entered> {
        let seat = match &self.queue {
            None => None,
            Some(queue) => match queue.try_enter(account) {
                Some(seat) => Some(seat),
                None => {
                    let _waiting = Counted::new(&self.waiting);
                    Some(timeout(patience, queue.enter(account)).await.ok()?.ok()?)
                }
            },
        };
        Some(Entered { _seat: seat, _working: Counted::new(&self.working) })
    }

    fn pass(&self) -> Entered {
        Entered { _seat: None, _working: Counted::new(&self.working) }
    }
}

/// Half of the seats are for one account at most; as many of its requests can wait as there are seats.
fn size(limit: usize) -> Option<Size> {
    let seats_of_account = limit.div_ceil(2);
    (limit > 0).then_some(Size { seats: limit, seats_of_account, waiting_of_account: limit })
}

impl InFlight {
    /// Creates limits of these sizes; 0 for no limit. The gauges show the current numbers.
    pub(crate) fn new((read_only, mutating): (usize, usize), [read, write]: [Gauges; 2]) -> Self {
        let nodes = (mutating > 0).then(|| Size {
            seats: mutating.div_ceil(4),
            seats_of_account: SEATS_OF_NODE,
            waiting_of_account: WAITING_OF_NODE,
        });
        Self {
            read_only: Lane::new(size(read_only), &read),
            mutating: Lane::new(size(mutating), &write),
            nodes: Lane::new(nodes, &write),
        }
    }

    /// Waits for a seat, which the request has until the guard is dropped; returns none for requests that need no seat.
    ///
    /// # Errors
    /// 429 if too many requests of this account wait already, or if this one has waited for `patience`.
    pub(crate) async fn enter(
        &self,
        route: Route,
        info: &RequestInfo,
        (user, account): (&User, Account),
        patience: Duration,
    ) -> Result<Option<Entered>, Box<Answer>> {
        if matches!(route, Route::Health(_)) || route.is_long_running() {
            return Ok(None);
        }
        let lane = match info.verb() {
            _ if is_node_upkeep(info, user) => &self.nodes,
            "get" | "list" | "watch" => &self.read_only,
            _ => &self.mutating,
        };
        if user.in_group(MASTERS_GROUP) {
            return Ok(Some(lane.pass()));
        }
        match lane.enter(account, patience).await {
            Some(entered) => Ok(Some(entered)),
            None => Err(Box::new(too_many())),
        }
    }
}

/// Whether a request keeps a node alive: its lease, or its status.
fn is_node_upkeep(info: &RequestInfo, user: &User) -> bool {
    let is_upkeep = match (info.group(), info.resource(), info.subresource()) {
        ("coordination.k8s.io", "leases", "") => info.namespace() == NODE_LEASE_NAMESPACE,
        ("", "nodes", "status") => true,
        _ => false,
    };
    is_upkeep && matches!(info.verb(), "get" | "create" | "update" | "patch") && user.in_group(NODES_GROUP)
}

/// Returns the 429 response of kube-apiserver.
pub(crate) fn too_many() -> Answer {
    let mut answer = text(StatusCode::TOO_MANY_REQUESTS, "Too many requests, please try again later.\n");
    answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from_static("1"));
    answer
}
