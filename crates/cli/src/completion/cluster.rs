//! Names from the cluster that the command would ask.

use std::path::PathBuf;
use std::sync::mpsc;
use std::time::Duration;

use portcullis_client::names::{self, Named, Subject};
use portcullis_client::{Connection, Resource};

use super::line::Line;
use crate::engine_flags::runtime;
use crate::resource_type::ResourceType;

/// How long all requests for one word may take.
const DEADLINE: Duration = Duration::from_secs(3);

const NODES: Resource = Resource::new("", "v1", "nodes");
const NAMESPACES: Resource = Resource::new("", "v1", "namespaces");
const ACCOUNTS: Resource = Resource::new("", "v1", "serviceaccounts");
const RBAC: &str = "rbac.authorization.k8s.io";
const BINDINGS: [Resource; 2] =
    [Resource::new(RBAC, "v1", "clusterrolebindings"), Resource::new(RBAC, "v1", "rolebindings")];

/// Which cluster the flags of a line name.
pub(super) struct Source {
    kubeconfig: Option<PathBuf>,
    context: Option<String>,
    /// Whether the command reads files or etcd: then the names in a cluster are not those that it knows.
    is_elsewhere: bool,
}

impl Source {
    pub(super) fn of(line: &Line<'_>) -> Self {
        Self {
            kubeconfig: line.value("kubeconfig").map(PathBuf::from),
            context: line.value("context").map(str::to_owned),
            is_elsewhere: ["state", "etcd-servers"].iter().any(|flag| line.value(flag).is_some()),
        }
    }

    /// The contexts of the kubeconfig.
    pub(super) fn contexts(&self) -> Vec<String> {
        Connection::contexts(self.kubeconfig.as_deref()).unwrap_or_default()
    }

    /// Asks the cluster in a thread of its own, which is left behind if it takes too long: the process ends soon.
    pub(super) fn ask(
        &self,
        what: impl AsyncFnOnce(&Cluster) -> Vec<String> + Send + 'static,
    ) -> Vec<String> {
        if self.is_elsewhere {
            return Vec::new();
        }
        let (kubeconfig, context) = (self.kubeconfig.clone(), self.context.clone());
        let (sender, receiver) = mpsc::channel();
        let ask = move || {
            let Ok(runtime) = runtime() else { return };
            let found = runtime.block_on(async {
                let connection = Connection::infer(kubeconfig.as_deref(), context.as_deref()).await.ok()?;
                Some(what(&Cluster { connection }).await)
            });
            // Nobody may be waiting any more.
            let _ = sender.send(found.unwrap_or_default());
        };
        match std::thread::Builder::new().spawn(ask) {
            Ok(_) => receiver.recv_timeout(DEADLINE).unwrap_or_default(),
            Err(_) => Vec::new(),
        }
    }
}

/// A cluster. What it refuses has no names.
pub(super) struct Cluster {
    connection: Connection,
}

impl Cluster {
    async fn list(&self, resource: &Resource) -> Vec<Named> {
        names::of(&self.connection, resource).await.unwrap_or_default()
    }

    pub(super) async fn namespaces(&self) -> Vec<String> {
        plain(self.list(&NAMESPACES).await)
    }

    pub(super) async fn nodes(&self) -> Vec<String> {
        plain(self.list(&NODES).await)
    }

    /// Nodes, service accounts, and users that bindings name.
    pub(super) async fn users(&self, begun: &str) -> Vec<String> {
        let can_be = |stem: &str| stem.starts_with(begun) || begun.starts_with(stem);
        let (nodes, accounts) = ("system:node:", "system:serviceaccount:");
        let of_nodes = async {
            if !can_be(nodes) {
                return Vec::new();
            }
            let names = self.list(&NODES).await.into_iter();
            names.map(|node| format!("{nodes}{}", node.name)).collect()
        };
        let of_accounts = async {
            if !can_be(accounts) {
                return Vec::new();
            }
            let names = self.list(&ACCOUNTS).await.into_iter();
            names.map(|account| format!("{accounts}{}:{}", account.namespace, account.name)).collect()
        };
        let (of_nodes, of_accounts, bound) = tokio::join!(of_nodes, of_accounts, self.bound("User"));
        [of_nodes, of_accounts, bound].concat()
    }

    /// Groups that bindings name.
    pub(super) async fn groups(&self) -> Vec<String> {
        self.bound("Group").await
    }

    /// The subjects of a kind that bindings name.
    async fn bound(&self, kind: &str) -> Vec<String> {
        let [of_cluster, of_namespaces] = &BINDINGS;
        let (of_cluster, of_namespaces) = tokio::join!(
            names::subjects(&self.connection, of_cluster),
            names::subjects(&self.connection, of_namespaces)
        );
        let all = [of_cluster.unwrap_or_default(), of_namespaces.unwrap_or_default()].concat();
        all.into_iter().filter(|subject| subject.kind == kind).map(|Subject { name, .. }| name).collect()
    }

    /// The types that the cluster has, with their groups.
    pub(super) async fn types(&self) -> Vec<String> {
        let served = names::served(&self.connection).await.unwrap_or_default();
        let kind = |served: names::Served| ResourceType {
            resource: served.plural,
            group: served.group,
            namespaced: None,
        };
        served.into_iter().map(|served| kind(served).to_string()).collect()
    }

    /// The objects of a type, in this namespace or in that of the context.
    pub(super) async fn objects(&self, kind: &ResourceType, namespace: Option<&str>) -> Vec<String> {
        let served = names::served(&self.connection).await.unwrap_or_default();
        let is_kind = |served: &&names::Served| served.plural == kind.resource && served.group == kind.group;
        let Some(served) = served.iter().find(is_kind) else { return Vec::new() };
        let namespace = namespace.map_or_else(|| self.connection.namespace(), str::to_owned);
        plain(names::of_served(&self.connection, served, &namespace).await.unwrap_or_default())
    }
}

fn plain(names: Vec<Named>) -> Vec<String> {
    names.into_iter().map(|named| named.name).collect()
}
