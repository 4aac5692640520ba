//! Work in turn: a seat for the whole work, which is given up while the work waits for somebody else, or a seat for its costly
//! parts only. How much work waits for others is bounded as well, because it is held in memory.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use super::account::Account;
use super::fair_queue::{FairQueue, Seat, Size};

/// The fewest works that may wait for somebody else at a time.
const FEWEST_OUTSIDE: usize = 16;
/// How many times as many may wait as can be done at a time, and which part of them may be of one account.
const OUTSIDE: usize = 4;

tokio::task_local! {
    /// The turn of the work that runs now, if it runs in turn.
    static TURN: Arc<Turn>;
    /// Where the work that runs now gets a seat for its costly parts, if it has none for the whole.
    static PARTS: (Arc<Turns>, Account);
}

/// Seats for work, and places for work that waits for somebody else.
pub(crate) struct Turns {
    seats: Arc<FairQueue>,
    outside: Arc<FairQueue>,
}

impl Turns {
    /// So many seats. Any number may wait for one: what waits must be bounded by something else.
    pub(crate) fn new(seats: usize) -> Self {
        let waiting_of_account = usize::MAX;
        let outside = seats.saturating_mul(OUTSIDE).max(FEWEST_OUTSIDE);
        Self {
            seats: FairQueue::new(Size { seats, seats_of_account: seats, waiting_of_account }),
            outside: FairQueue::new(Size {
                seats: outside,
                seats_of_account: outside / OUTSIDE,
                waiting_of_account: 0,
            }),
        }
    }

    /// Waits for a seat.
    pub(crate) async fn enter(self: &Arc<Self>, account: Account) -> Arc<Turn> {
        let turn = Turn { turns: Arc::clone(self), account, seat: Mutex::default() };
        turn.sit().await;
        Arc::new(turn)
    }
}

/// The turn of some work.
pub(crate) struct Turn {
    turns: Arc<Turns>,
    account: Account,
    seat: Mutex<Option<Seat>>,
}

impl Turn {
    /// Does work in this turn, which ends with it.
    pub(crate) async fn run<T>(self: Arc<Self>, work: impl Future<Output = T>) -> T {
        TURN.scope(self, work).await
    }

    async fn sit(&self) {
        // Nobody is refused.
        let seat = self.turns.seats.enter(self.account).await.ok();
        self.set(seat);
    }

    fn set(&self, seat: Option<Seat>) {
        *self.seat.lock().unwrap_or_else(PoisonError::into_inner) = seat;
    }
}

/// Too much waits for somebody else.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyOutside;

/// Waits for somebody else, such as another server. Work in turn gives up its seat meanwhile, and waits for another one
/// afterwards: who answers slowly must not hold up the work of others. Not for several waits of one work at a time.
///
/// # Errors
/// Too much work in turn waits like that, of this account or of all. It has not begun to wait.
pub(crate) async fn outside<T>(waiting: impl Future<Output = T>) -> Result<T, TooManyOutside> {
    let Ok(turn) = TURN.try_with(Arc::clone) else { return Ok(waiting.await) };
    let _place = turn.turns.outside.try_enter(turn.account).ok_or(TooManyOutside)?;
    turn.set(None);
    let done = waiting.await;
    turn.sit().await;
    Ok(done)
}

/// Does work that is done in turn only in its costly parts: see [`costly`].
pub(crate) async fn in_parts<T>(turns: &Arc<Turns>, account: Account, work: impl Future<Output = T>) -> T {
    PARTS.scope((Arc::clone(turns), account), work).await
}

/// Does a costly part of some work: one that can take long although its object is small. Work that has a seat, or whose parts
/// are not costly, just does it.
pub(crate) async fn costly<T>(part: impl FnOnce() -> T) -> T {
    let Ok((turns, account)) = PARTS.try_with(Clone::clone) else { return part() };
    let _turn = turns.enter(account).await;
    match Handle::current().runtime_flavor() {
        RuntimeFlavor::CurrentThread => part(),
        // The other requests of this thread move to another one.
        _ => block_in_place(part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_that_waits_for_others_has_no_seat_and_not_any_number_waits() {
        let (turns, account) = (Arc::new(Turns::new(1)), Account::of_address(None));
        let is_free = || turns.seats.try_enter(account).is_some();
        let turn = turns.enter(account).await;
        assert!(!is_free());
        let work = async {
            let met = outside(async { is_free() }).await;
            (met, is_free())
        };
        assert_eq!(turn.run(work).await, (Ok(true), false));
        assert!(is_free());

        let places: Vec<_> = std::iter::from_fn(|| turns.outside.try_enter(account)).collect();
        assert_eq!(places.len(), FEWEST_OUTSIDE / OUTSIDE);
        let turn = turns.enter(account).await;
        assert_eq!(turn.run(outside(async {})).await, Err(TooManyOutside));
        drop(places);
        let turn = turns.enter(account).await;
        assert_eq!(turn.run(outside(async {})).await, Ok(()));
    }

    #[tokio::test]
    async fn work_has_a_seat_for_its_costly_parts_only() {
        let (turns, account) = (Arc::new(Turns::new(1)), Account::of_address(None));
        let is_free = || turns.seats.try_enter(account).is_some();
        let work = async { (is_free(), costly(is_free).await, is_free()) };
        assert_eq!(in_parts(&turns, account, work).await, (true, false, true));
        assert!(costly(is_free).await);
    }

    #[tokio::test]
    async fn work_without_a_turn_just_waits() {
        assert_eq!(outside(async { 7 }).await, Ok(7));
    }
}
