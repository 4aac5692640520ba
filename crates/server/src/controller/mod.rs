//! What goes on without being asked for: emptying namespaces, service accounts and their tokens in secrets, the serving
//! authority in every namespace, aggregated roles, bootstrap tokens that are over.
//!
//! Each controller follows the store's changes and looks again at what they concern; what fails is tried again, later
//! each time. None asks at intervals whether something has happened.

mod account_tokens;
pub(crate) mod aggregation;
mod bootstrap_account;
mod bootstrap_bundles;
mod namespaces;
mod queue;
mod root_ca;
mod runner;
mod service_accounts;
mod token_cleaner;

use std::sync::Arc;

use kinds::resource::Resource;
use portcullis_kinds as kinds;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use self::bootstrap_account::BootstrapAccount;
use self::bootstrap_bundles::BootstrapBundles;
use crate::api::rest::delete::{Step, step};
use crate::api::rest::options::DeleteOptions;
use crate::api::rest::storage::Stored;
use crate::authn::service_account::ServiceAccounts;
use crate::backend::Backend;
use crate::bootstrap_authorities::Settings;
use crate::cluster::write;
use crate::status::Status;

/// The controllers of a server, until they are told to stop.
pub struct Controllers {
    tasks: JoinSet<()>,
    stopping: watch::Sender<bool>,
}

impl Controllers {
    /// Starts all of them, and returns when what every namespace has was looked at once. `authority` vouches for the
    /// server, in PEM; `issuer` makes the tokens that are kept in secrets.
    pub async fn start(
        backend: &Arc<Backend>,
        authority: &str,
        issuer: Option<Arc<ServiceAccounts>>,
    ) -> Self {
        let mut controllers = Self { tasks: JoinSet::new(), stopping: watch::Sender::new(false) };
        let backend = || Arc::clone(backend);
        let accounts = controllers.spawn(backend(), service_accounts::ServiceAccounts::new(backend()));
        let authorities = controllers.spawn(backend(), root_ca::RootCa::new(backend(), authority.to_owned()));
        drop(controllers.spawn(backend(), aggregation::Aggregation::new(backend())));
        drop(controllers.spawn(backend(), namespaces::Namespaces::new(backend())));
        drop(controllers.spawn(backend(), token_cleaner::TokenCleaner::new(backend())));
        if let Some(issuer) = issuer {
            let tokens = account_tokens::AccountTokens::new(backend(), issuer, authority.to_owned());
            drop(controllers.spawn(backend(), tokens));
        }
        for first_look in [accounts, authorities] {
            // One that came to grief has said so itself.
            let _ = first_look.await;
        }
        controllers
    }

    /// Looks after bootstrap credentials: keeps a token of the account that is marked for that (NB-34), and says what of
    /// the authorities is not trusted (NB-16).
    pub fn follow_bootstrap_credentials(&mut self, backend: &Arc<Backend>, settings: &Settings) {
        let account = BootstrapAccount::new(Arc::clone(backend), settings.account.clone());
        drop(self.spawn(Arc::clone(backend), account));
        let bundles = BootstrapBundles::new(Arc::clone(backend), settings);
        drop(self.spawn(Arc::clone(backend), bundles));
    }

    /// Tells all of them to stop, and waits until they have.
    pub async fn stop(mut self) {
        self.stopping.send_replace(true);
        while let Some(ended) = self.tasks.join_next().await {
            if let Err(error) = ended {
                tracing::error!(%error, "a controller had failed");
            }
        }
    }

    fn spawn(&mut self, backend: Arc<Backend>, controller: impl runner::Controller) -> oneshot::Receiver<()> {
        let (looked, first_look) = oneshot::channel();
        let mut stopping = self.stopping.subscribe();
        self.tasks.spawn(async move {
            tokio::select! {
                () = runner::run(&controller, &backend, looked) => {}
                // Whatever is under way can be left: every commit is whole, and the next start looks again.
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        });
        first_look
    }
}

/// Deletes the object that was read, as a client would. False: there was nothing to do, or somebody else was faster.
///
/// # Errors
/// The store failed.
async fn delete(backend: &Backend, resource: &'static Resource, stored: &Stored) -> Result<bool, Status> {
    let write = match step(resource, &stored.object, &DeleteOptions::default()) {
        Step::Nothing => return Ok(false),
        Step::Mark(marked) if marked == stored.object => return Ok(false),
        Step::Mark(marked) => write::replace(resource, &stored.entry, marked)?,
        Step::MarkAndRemove(_) | Step::Remove => write::remove(&stored.entry),
    };
    write::commit(backend, vec![write]).await
}
