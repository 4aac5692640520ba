//! Work in turn: a seat of a [`FairQueue`] that is given up while the work waits for somebody else.

use std::sync::{Arc, Mutex, PoisonError};

use super::account::Account;
use super::fair_queue::{FairQueue, Seat};

tokio::task_local! {
    /// The turn of the work that runs now, if it runs in turn.
    static TURN: Arc<Turn>;
}

/// The turn of some work.
pub(crate) struct Turn {
    queue: Arc<FairQueue>,
    account: Account,
    seat: Mutex<Option<Seat>>,
}

impl Turn {
    /// Waits for a seat.
    pub(crate) async fn begin(queue: &Arc<FairQueue>, account: Account) -> Arc<Self> {
        let turn = Self { queue: Arc::clone(queue), account, seat: Mutex::default() };
        turn.sit().await;
        Arc::new(turn)
    }

    /// Does work in this turn, which ends with it.
    pub(crate) async fn run<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        TURN.scope(self, work).await
    }

    async fn sit(&self) {
        // A queue for work refuses nobody.
        let seat = self.queue.enter(self.account).await.ok();
        self.set(seat);
    }

    fn set(&self, seat: Option<Seat>) {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = seat;
    }
}

/// Waits for somebody else, such as another server. Work in turn gives up its seat meanwhile, and waits for another one
/// afterwards: who answers slowly must not hold up the work of others.
pub(crate) async fn outside<T>(waiting: impl Future<Output = T>) -> T {
    let Ok(turn) = TURN.try_with(Arc::clone) else { return waiting.await };
    turn.set(None);
    let done = waiting.await;
    turn.sit().await;
    done
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::fair_queue::Size;

    fn queue() -> Arc<FairQueue> {
        FairQueue::new(Size { seats: 1, seats_of_account: 1, waiting_of_account: usize::MAX })
    }

    #[tokio::test]
    async fn work_that_waits_for_others_has_no_seat() {
        let (queue, account) = (queue(), Account::of_address(None));
        let turn = Turn::begin(&queue, account).await;
        assert!(queue.try_enter(account).is_none());
        let work = async {
            let met = outside(async { queue.try_enter(account).is_some() }).await;
            (met, queue.try_enter(account).is_none())
        };
        assert_eq!(turn.run(work).await, (true, true));
        assert!(queue.try_enter(account).is_some());
    }

    #[tokio::test]
    async fn work_without_a_turn_just_waits() {
        assert_eq!(outside(async { 7 }).await, 7);
    }
}
