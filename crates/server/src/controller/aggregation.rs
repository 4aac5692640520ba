//! Keeps the rules of aggregated ClusterRoles written (RB-79).

use std::sync::Arc;

use portcullis_store::Event;

use super::runner::{Controller, Next};
use crate::http::status::Status;
use crate::registry::backend::Backend;
use crate::registry::cluster::aggregation::settle;

/// All roles are reconciled together.
const ALL: &str = "clusterroles";

/// See the module.
pub(super) struct Aggregation {
    backend: Arc<Backend>,
}

impl Aggregation {
    pub(super) fn new(backend: Arc<Backend>) -> Self {
        Self { backend }
    }
}

impl Controller for Aggregation {
    const NAME: &'static str = "clusterrole-aggregation-controller";
    const LISTED: &'static str = "/rbac.authorization.k8s.io/clusterroles/";
    const WATCHED: &'static str = "/rbac.authorization.k8s.io/clusterroles/";

    type Keys = Option<String>;

    fn concerns(&self, _event: &Event) -> Option<String> {
        Some(ALL.to_owned())
    }

    async fn reconcile(&self, _all: &str) -> Result<Next, Status> {
        settle(&self.backend).await.map(|()| Next::OnChange)
    }
}
