//! A budget for each account: the bytes that the server holds of requests that are not answered yet, and of answers that
//! the client has not read; or the number of watches.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::{HeaderMap, Uri};
use tokio::sync::Notify;

use super::account::{Account, ByAccount};

/// The charge for a request without its headers and its body. In bytes.
const REQUEST_BYTES: usize = 16 * 1024;

/// The bytes that are held for each account.
pub(crate) struct Budget {
    /// The maximum for one account. In bytes.
    limit: usize,
    held: Mutex<ByAccount<Held>>,
}

/// The charges of one account.
#[derive(Default)]
struct Held {
    bytes: usize,
    /// Notified when bytes are given back, if somebody waits.
    freed: Option<Arc<Notify>>,
}

/// Bytes that are held for an account, until this is dropped.
pub struct Charge {
    budget: Arc<Budget>,
    account: Account,
    bytes: usize,
}

impl Budget {
    /// Creates a budget of `limit` bytes for each account.
    pub(crate) fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self { limit, held: Mutex::default() })
    }

    fn held(&self) -> MutexGuard<'_, ByAccount<Held>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a charge of nothing.
    pub(crate) fn nothing(self: &Arc<Self>, account: Account) -> Charge {
        Charge { budget: Arc::clone(self), account, bytes: 0 }
    }

    /// Charges an account; none if it would hold more than the limit.
    pub(crate) fn charge(self: &Arc<Self>, account: Account, bytes: usize) -> Option<Charge> {
        let mut charge = self.nothing(account);
        charge.grow(bytes).then_some(charge)
    }
}

impl Charge {
    /// Charges the same account for something else, whatever it holds.
    pub(crate) fn another(&self, bytes: usize) -> Self {
        let mut other = self.budget.nothing(self.account);
        other.set(bytes);
        other
    }

    /// Charges more bytes. Returns false, and changes nothing, if the account would hold more than the limit.
    pub(crate) fn grow(&mut self, bytes: usize) -> bool {
        let mut all = self.budget.held();
        let held = all.entry(self.account).or_default();
        let sum = held.bytes.saturating_add(bytes);
        let has_room = sum <= self.budget.limit;
        if has_room {
            held.bytes = sum;
            self.bytes = self.bytes.saturating_add(bytes);
        } else if held.bytes == 0 {
            all.remove(&self.account);
        }
        has_room
    }

    /// Charges another account instead. Returns false, and charges nothing, if that would hold more than the limit.
    pub(crate) fn transfer(&mut self, account: Account) -> bool {
        if account == self.account {
            return true;
        }
        let bytes = self.bytes;
        self.set(0);
        self.account = account;
        self.grow(bytes)
    }

    /// Returns whether the account holds less than the limit.
    pub(crate) fn has_room(&self) -> bool {
        self.budget.held().get(&self.account).is_none_or(|held| held.bytes < self.budget.limit)
    }

    /// Waits until the account holds less than the limit.
    pub(crate) async fn room(&self) {
        loop {
            let freed = {
                let mut all = self.budget.held();
                let Some(held) = all.get_mut(&self.account) else { return };
                if held.bytes < self.budget.limit {
                    return;
                }
                Arc::clone(held.freed.get_or_insert_default())
            };
            freed.notified().await;
        }
    }

    /// Charges this many bytes instead, whatever the account holds: for answers that exist already.
    pub(crate) fn set(&mut self, bytes: usize) {
        let mut all = self.budget.held();
        let held = all.entry(self.account).or_default();
        held.bytes = held.bytes.saturating_sub(self.bytes).saturating_add(bytes);
        if bytes < self.bytes
            && let Some(freed) = &held.freed
        {
            freed.notify_one();
        }
        self.bytes = bytes;
        if held.bytes == 0 {
            all.remove(&self.account);
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Returns the size of what is held of a request before its body. In bytes.
pub(crate) fn head_size(headers: &HeaderMap, uri: &Uri) -> usize {
    let headers = headers.iter().map(|(name, value)| name.as_str().len().saturating_add(value.len()));
    let uri = uri.path_and_query().map_or(0, |target| target.as_str().len());
    headers.fold(REQUEST_BYTES.saturating_add(uri), usize::saturating_add)
}

#[cfg(test)]
mod tests {
    use policy::User;

    use super::*;

    #[test]
    fn each_account_has_its_own_budget_and_gets_back_what_it_gives_back() {
        let budget = Budget::new(100);
        let [a, b] = ["a", "b"].map(|name| Account::of_user(&User::new(name, [""; 0])));
        let mut first = budget.charge(a, 60).unwrap();
        assert!(budget.charge(a, 41).is_none());
        assert!(!first.grow(41));
        assert!(first.grow(40));
        let second = budget.charge(b, 100).unwrap();
        drop(first);
        assert!(budget.charge(a, 100).is_some());
        let mut over = budget.charge(a, 0).unwrap();
        over.set(1000);
        assert!(budget.charge(a, 1).is_none(), "an overdraft counts");
        drop((over, second));
        assert!(budget.held().is_empty(), "accounts that hold nothing are forgotten");
    }
}
