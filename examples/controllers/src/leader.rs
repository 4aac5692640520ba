//! Leader election with a Lease, as client-go does it: whoever holds the lease renews it; when it was not renewed for its
//! duration, another takes it.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease as Object, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{ObjectMeta, PostParams};
use kube::{Api, Client};

/// How long a lease lasts without being renewed.
const DURATION: Duration = Duration::from_secs(3);
/// How often it is renewed, or tried for.
const PERIOD: Duration = Duration::from_millis(500);

/// A lease, and who wants it.
pub(crate) struct Lease {
    api: Api<Object>,
    name: String,
    identity: String,
}

impl Lease {
    /// The lease of this name, for this process.
    pub(crate) fn new(client: Client, namespace: &str, name: &str, identity: &str) -> Self {
        let api = Api::namespaced(client, namespace);
        Self { api, name: name.to_owned(), identity: identity.to_owned() }
    }

    /// Waits until the lease is this process's.
    pub(crate) async fn acquire(&self) -> Result<(), kube::Error> {
        // Clocks differ, so what counts is how long the lease has not changed here.
        let mut seen: Option<(Option<String>, Instant)> = None;
        loop {
            let Some(lease) = self.api.get_opt(&self.name).await? else {
                if self.create().await? {
                    return Ok(());
                }
                continue;
            };
            let version = lease.metadata.resource_version.clone();
            if seen.as_ref().is_none_or(|(before, _)| *before != version) {
                seen = Some((version, Instant::now()));
            }
            let is_old = seen.as_ref().is_some_and(|(_, since)| since.elapsed() > DURATION);
            if (is_old || self.holds(&lease)) && self.take(lease).await? {
                return Ok(());
            }
            tokio::time::sleep(PERIOD).await;
        }
    }

    /// Renews the lease until it is lost.
    pub(crate) async fn renew(&self) -> Result<(), kube::Error> {
        loop {
            tokio::time::sleep(PERIOD).await;
            let lease = self.api.get(&self.name).await?;
            if !self.holds(&lease) || !self.take(lease).await? {
                return Ok(());
            }
        }
    }

    fn holds(&self, lease: &Object) -> bool {
        let holder = lease.spec.as_ref().and_then(|spec| spec.holder_identity.as_deref());
        holder == Some(self.identity.as_str())
    }

    fn spec(&self) -> LeaseSpec {
        LeaseSpec {
            holder_identity: Some(self.identity.clone()),
            lease_duration_seconds: Some(3),
            renew_time: Some(MicroTime(Timestamp::now())),
            ..LeaseSpec::default()
        }
    }

    /// Whether this process was the one that made it.
    async fn create(&self) -> Result<bool, kube::Error> {
        let metadata = ObjectMeta { name: Some(self.name.clone()), ..ObjectMeta::default() };
        let lease = Object { metadata, spec: Some(self.spec()) };
        won(self.api.create(&PostParams::default(), &lease).await)
    }

    /// Whether nobody else changed it meanwhile.
    async fn take(&self, mut lease: Object) -> Result<bool, kube::Error> {
        lease.spec = Some(self.spec());
        won(self.api.replace(&self.name, &PostParams::default(), &lease).await)
    }
}

fn won(written: Result<Object, kube::Error>) -> Result<bool, kube::Error> {
    match written {
        Ok(_) => Ok(true),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(false),
        Err(error) => Err(error),
    }
}
