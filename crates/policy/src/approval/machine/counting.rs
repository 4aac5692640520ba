//! Counts requests by the results of their own checks (NB-74, NB-75): only a request that passes them affects others.

use portcullis_apimachinery::time::Instant;

use super::check::soundness;
use super::config::Config;
use super::intake::{Intake, intake};
use super::limits::{Known, Limits};
use super::request::Request;

impl Limits {
    /// Counts the requests. `nodes` are the names of all Nodes, `api_server_names` as in
    /// [`Cluster`](super::Cluster).
    pub fn of<'a>(
        requests: impl IntoIterator<Item = &'a Request>,
        known: Known<'_>,
        nodes: impl IntoIterator<Item = &'a str>,
        api_server_names: &[String],
        config: &Config,
        now: Instant,
    ) -> Self {
        let mut limits = Self::default();
        limits.know(known, nodes, config);
        for request in requests {
            limits.put(request, api_server_names, config, now);
        }
        limits
    }

    /// Counts a request as it is now; one that is not evaluated (NB-50 to NB-52) is no longer counted.
    pub fn put(&mut self, request: &Request, api_server_names: &[String], config: &Config, now: Instant) {
        self.remove(&request.name);
        if let Intake::Evaluate(path) = intake(request, config) {
            self.count(request, soundness(request, path, api_server_names, config), now);
        }
    }
}
