//! Limits the number of requests that are passed on to other servers at a time: logs, exec sessions, forwarded ports and
//! proxied requests.
//!
//! DIVERGES: kube-apiserver has no limit of them. Each takes two connections, and about 100 KiB.

use std::sync::Arc;

use policy::User;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::http::account::{Account, is_machine};
use crate::http::budget::{Budget, Charge};
use crate::http::limits::Limits;
use crate::http::status::Status;

/// One of a node or of a pod counts as so many, because it is the account of one machine or process.
const OF_MACHINE: usize = 5;

/// See the module.
pub(super) struct Connections {
    limits: Limits,
    of_accounts: Arc<Budget>,
    all: Arc<Semaphore>,
}

/// An open one, until this is dropped.
pub(super) struct Opened {
    /// Whose it is.
    pub(super) account: Account,
    _charge: Charge,
    _place: OwnedSemaphorePermit,
}

impl Connections {
    pub(super) fn new(limits: Limits) -> Self {
        let all = Arc::new(Semaphore::new(limits.opened_by_all));
        Self { limits, of_accounts: Budget::new(limits.opened), all }
    }

    /// Counts one more.
    ///
    /// # Errors
    /// 429 if the user, or all users together, have too many.
    pub(super) fn open(&self, account: Account, user: &User) -> Result<Opened, Status> {
        let weight = if is_machine(user) { OF_MACHINE } else { 1 };
        let charge = self.of_accounts.charge(account, weight).ok_or_else(|| {
            let most = self.limits.opened / weight;
            let name = &user.name;
            Status::too_many_requests(format!(
                "too many connections to kubelets, pods and services: {name} may have {most} open at a time"
            ))
        })?;
        let place = Arc::clone(&self.all).try_acquire_owned().map_err(|_| {
            Status::too_many_requests(
                "too many connections to kubelets, pods and services are open; try again later",
            )
        })?;
        Ok(Opened { account, _charge: charge, _place: place })
    }
}
