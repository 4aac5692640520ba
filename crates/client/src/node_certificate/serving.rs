//! The serving certificate of a node, for the addresses in its Node object. It is requested with the client
//! certificate, and again when the addresses change (NB-47, CS-103, CS-140). An approver must approve it; by default
//! none does.

use std::time::Duration;

use portcullis_pki::Request;
use serde::Deserialize;

use super::agent::{Agent, NAP, Wanted};
use super::error::CredentialError;
use super::manager::{Manager, Step, WAIT};
use super::request::{self, Address, Purpose};
use super::store::Store;
use crate::call::NODES;
use crate::random::fraction;

/// The relevant fields of a Node.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Node {
    status: NodeStatus,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeStatus {
    addresses: Vec<Address>,
}

impl Agent {
    /// Maintains a serving certificate for the node's addresses until `stop` completes. Waits for the client
    /// certificate, which other code maintains.
    ///
    /// # Errors
    /// The files cannot be used at startup.
    pub async fn serve(&self, stop: impl Future<Output = ()>) -> Result<(), CredentialError> {
        let store = Store::open(&self.settings.cert_dir, Purpose::Serving.prefix())?;
        let _lock = store.lock()?;
        store.check_links()?;
        tokio::select! {
            done = self.keep_serving(&store) => done,
            () = stop => Ok(()),
        }
    }

    /// Ensures that there is a serving certificate that is not due, and returns.
    ///
    /// # Errors
    /// See [`CredentialError`].
    pub async fn serve_once(&self, wait: Duration) -> Result<(), CredentialError> {
        let store = Store::open(&self.settings.cert_dir, Purpose::Serving.prefix())?;
        let _lock = store.lock()?;
        let missing = || CredentialError::Gone(format!("Node {}, or its addresses", self.settings.node_name));
        let template = self.fetch_template().await?.ok_or_else(missing)?;
        if self.manager(&store, &template)?.step(self.clock.now()) != Step::Request {
            return Ok(());
        }
        let wanted = Wanted { purpose: Purpose::Serving, template: &template, store: &store };
        self.obtain(&wanted, wait).await?;
        self.forget_key(&wanted)
    }

    async fn keep_serving(&self, store: &Store) -> Result<(), CredentialError> {
        let mut template = self.next_template(None).await?;
        let mut manager = self.manager(store, &template)?;
        loop {
            let now = self.clock.now();
            let changed = match manager.step(now) {
                Step::Wait(until) => {
                    let nap = until.duration_since(now).unwrap_or_default().min(NAP);
                    self.clock.sleep(nap).await;
                    self.fetch_template().await.ok().flatten().filter(|fetched| *fetched != template)
                }
                // The process continues without a serving certificate: CS-139 applies to the client certificate.
                Step::Request | Step::End(_) => {
                    let wanted = Wanted { purpose: Purpose::Serving, template: &template, store };
                    tokio::select! {
                        attempt = self.obtain(&wanted, WAIT) => {
                            match &attempt {
                                Ok(pair) => {
                                    self.metrics.serving_is_now(pair, self.clock.now());
                                    self.forget_key(&wanted)?;
                                }
                                Err(_) => self.metrics.serving.failed(),
                            }
                            self.note(attempt, &template, &mut manager, |_| false)?;
                            None
                        }
                        changed = self.next_template(Some(&template)) => Some(changed?),
                    }
                }
            };
            if let Some(changed) = changed {
                // A request for the old addresses is abandoned with its key, unless the current certificate is
                // sufficient (CS-103).
                template = changed;
                store.forget_pending_key()?;
                manager = self.manager(store, &template)?;
            }
        }
    }

    fn manager(&self, store: &Store, template: &Request) -> Result<Manager, CredentialError> {
        let current = store.current()?;
        if let Some(pair) = &current {
            store.forget_answered_key(pair)?;
            self.metrics.serving.is_now(pair);
        }
        Ok(Manager::begin(current.as_ref(), template, self.clock.now(), fraction()))
    }

    /// Waits until the node has addresses that differ from those of a template.
    async fn next_template(&self, old: Option<&Request>) -> Result<Request, CredentialError> {
        loop {
            if old.is_some() {
                self.clock.sleep(NAP).await;
            }
            // A read error is logged where the client certificate is maintained.
            if let Ok(Some(template)) = self.fetch_template().await
                && old != Some(&template)
            {
                return Ok(template);
            }
            if old.is_none() {
                self.clock.sleep(Duration::from_secs(10)).await;
            }
        }
    }

    /// Returns the current contents for the serving certificate. None while the Node does not exist or has no address.
    async fn fetch_template(&self) -> Result<Option<Request>, CredentialError> {
        if self.settings.serving.is_none() && self.current()?.is_none() {
            return Ok(None);
        }
        let connection = self.connect().await?;
        let found = connection.find(&NODES, &self.settings.node_name).await?;
        let Some(Node { status }) = found else { return Ok(None) };
        Ok(request::serving_template(&self.settings.node_name, &status.addresses)?)
    }
}
