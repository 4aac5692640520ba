//! What goes on without being asked for: emptying namespaces, service accounts and their tokens in secrets, the serving
//! authority in every namespace, aggregated roles, bootstrap tokens that are over, certificate requests.
//!
//! Each controller follows the store's changes and looks again at what they concern; what fails is tried again, later
//! each time. None asks at intervals whether something has happened.

mod account_tokens;
pub(crate) mod aggregation;
mod bootstrap_account;
mod bootstrap_bundles;
mod certificates;
mod namespaces;
mod queue;
mod root_ca;
mod runner;
pub mod selection;
mod service_accounts;
mod token_cleaner;

use std::sync::Arc;

use kinds::resource::Resource;
use portcullis_kinds as kinds;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;

use self::bootstrap_account::BootstrapAccount;
use self::bootstrap_bundles::BootstrapBundles;
use self::selection::Selection;
use crate::api::rest::delete::{Step, step};
use crate::api::rest::options::DeleteOptions;
use crate::api::rest::storage::Stored;
use crate::authn::service_account::ServiceAccounts;
use crate::authz::Authorization;
use crate::backend::Backend;
use crate::bootstrap_authorities::Settings;
use crate::clock::Clock;
use crate::cluster::write;
use crate::signing::Signing;
use crate::status::Status;

/// The controllers of a server, until they are told to stop.
pub struct Controllers {
    tasks: JoinSet<()>,
    stopping: watch::Sender<bool>,
}

/// What controllers need, and which of them are to run.
#[derive(Default)]
pub struct ControllerSettings {
    /// Vouches for the server, in PEM.
    pub authority: String,
    /// Makes the tokens that are kept in secrets.
    pub accounts: Option<Arc<ServiceAccounts>>,
    /// Says who may have which certificate without being asked.
    pub authorization: Option<Arc<Authorization>>,
    /// Whether only nodes that renew their own certificate are approved without being asked: somebody else sees to the
    /// others (NB-130).
    pub approves_renewals_only: bool,
    /// Signs certificates.
    pub signing: Option<Arc<Signing>>,
    /// What time it is for certificate requests.
    pub clock: Clock,
    /// Where bootstrap credentials are.
    pub bootstrap: Settings,
    /// Which of them run (`--controllers`).
    pub selection: Selection,
}

impl Controllers {
    /// Starts those that are selected, and returns when what every namespace has was looked at once.
    pub async fn start(backend: &Arc<Backend>, settings: ControllerSettings) -> Self {
        let ControllerSettings {
            authority,
            accounts,
            authorization,
            signing,
            clock,
            bootstrap,
            selection,
            ..
        } = settings;
        let approves_renewals_only = settings.approves_renewals_only;
        let mut controllers = Self { tasks: JoinSet::new(), stopping: watch::Sender::new(false) };
        let backend = || Arc::clone(backend);
        let mut spawn = Spawn { controllers: &mut controllers, backend: backend(), selection: &selection };
        let first_looks = [
            spawn.one(service_accounts::ServiceAccounts::new(backend())),
            spawn.one(root_ca::RootCa::new(backend(), authority.clone())),
        ];
        spawn.one(aggregation::Aggregation::new(backend()));
        spawn.one(namespaces::Namespaces::new(backend()));
        spawn.one(token_cleaner::TokenCleaner::new(backend()));
        if let Some(issuer) = accounts {
            spawn.one(account_tokens::AccountTokens::new(backend(), issuer, authority));
        }
        spawn.one(BootstrapBundles::new(backend(), &bootstrap));
        spawn.one(BootstrapAccount::new(backend(), bootstrap.account));
        if let Some(authorization) = authorization {
            spawn.one(certificates::Approving::new(
                backend(),
                authorization,
                clock.clone(),
                approves_renewals_only,
            ));
        }
        if let Some(signing) = signing {
            spawn.one(certificates::Signing::new(backend(), Arc::clone(&signing), clock.clone()));
            let mut stopping = spawn.controllers.stopping.subscribe();
            spawn.controllers.tasks.spawn(async move {
                tokio::select! {
                    () = signing.follow() => {}
                    _ = stopping.wait_for(|stopping| *stopping) => {}
                }
            });
        }
        spawn.one(certificates::Cleaning::new(backend(), clock));
        for first_look in first_looks.into_iter().flatten() {
            // One that came to grief has said so itself.
            let _ = first_look.await;
        }
        controllers
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
}

/// Starts controllers.
struct Spawn<'a> {
    controllers: &'a mut Controllers,
    backend: Arc<Backend>,
    selection: &'a Selection,
}

impl Spawn<'_> {
    /// Starts one, if it is selected. What comes back is told when all that was there was looked at.
    fn one<C: runner::Controller>(&mut self, controller: C) -> Option<oneshot::Receiver<()>> {
        if !self.selection.has(C::NAME) {
            return None;
        }
        let (looked, first_look) = oneshot::channel();
        let mut stopping = self.controllers.stopping.subscribe();
        let backend = Arc::clone(&self.backend);
        self.controllers.tasks.spawn(async move {
            tokio::select! {
                () = runner::run(Arc::new(controller), &backend, looked) => {}
                // Whatever is under way can be left: every commit is whole, and the next start looks again.
                _ = stopping.wait_for(|stopping| *stopping) => {}
            }
        });
        Some(first_look)
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
