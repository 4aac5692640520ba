//! Seats for work, shared fairly between accounts.
//!
//! Each account has a queue of its own, and the queues take turns. So an account with a thousand requests delays another
//! account's request by one request of its own, not by a thousand. Kubernetes shares a few queues between many users
//! (shuffle sharding), because its queues are configured in advance; here a queue exists while somebody waits in it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::oneshot;

use super::account::{Account, ByAccount};

/// See the module documentation.
pub(crate) struct FairQueue {
    size: Size,
    state: Mutex<State>,
}

/// The sizes of a [`FairQueue`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// The number of seats.
    pub(crate) seats: usize,
    /// The number of seats that one account can have.
    pub(crate) seats_of_account: usize,
    /// The number of requests of one account that can wait.
    pub(crate) waiting_of_account: usize,
}

/// Too many requests of the account are waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueFull;

#[derive(Default)]
struct State {
    taken: usize,
    accounts: ByAccount<Line>,
    /// The accounts that wait and may have another seat, in the order of their turns. Each is in it once.
    turns: VecDeque<Account>,
}

/// The seats of one account, and its waiting requests.
#[derive(Default)]
struct Line {
    taken: usize,
    waiting: VecDeque<oneshot::Sender<()>>,
    has_turn: bool,
}

/// A seat, until this is dropped.
pub(crate) struct Seat {
    queue: Arc<FairQueue>,
    account: Account,
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.queue.release(self.account);
    }
}

/// A place in the queue, which is given up when this is dropped.
struct Place {
    queue: Arc<FairQueue>,
    account: Account,
    called: oneshot::Receiver<()>,
}

impl Drop for Place {
    fn drop(&mut self) {
        self.called.close();
        // The seat may have been given in the meantime.
        if self.called.try_recv().is_ok() {
            self.queue.release(self.account);
        }
    }
}

impl FairQueue {
    /// Creates a queue with free seats.
    pub(crate) fn new(size: Size) -> Arc<Self> {
        Arc::new(Self { size, state: Mutex::default() })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns a seat, if one is free and nobody waits for it.
    pub(crate) fn try_enter(self: &Arc<Self>, account: Account) -> Option<Seat> {
        self.seat(&mut self.state(), account)
    }

    fn seat(self: &Arc<Self>, state: &mut State, account: Account) -> Option<Seat> {
        if state.taken >= self.size.seats || !state.turns.is_empty() {
            return None;
        }
        let line = state.accounts.entry(account).or_default();
        if line.taken >= self.size.seats_of_account {
            return None;
        }
        line.taken += 1;
        state.taken += 1;
        Some(Seat { queue: Arc::clone(self), account })
    }

    /// Waits for a seat.
    ///
    /// # Errors
    /// Too many requests of this account wait already.
    pub(crate) async fn enter(self: &Arc<Self>, account: Account) -> Result<Seat, QueueFull> {
        let called = {
            let mut state = self.state();
            if let Some(seat) = self.seat(&mut state, account) {
                return Ok(seat);
            }
            let line = state.accounts.entry(account).or_default();
            if line.waiting.len() >= self.size.waiting_of_account {
                // Those that gave up do not count.
                line.waiting.retain(|place| !place.is_closed());
            }
            if line.waiting.len() >= self.size.waiting_of_account {
                state.forget(account);
                return Err(QueueFull);
            }
            let (call, called) = oneshot::channel();
            line.waiting.push_back(call);
            state.take_turn(account, self.size);
            called
        };
        let mut place = Place { queue: Arc::clone(self), account, called };
        // The sender is dropped only with a call, or when this waits no longer.
        let is_called = (&mut place.called).await.is_ok();
        if is_called { Ok(Seat { queue: Arc::clone(self), account }) } else { Err(QueueFull) }
    }

    fn release(&self, account: Account) {
        let mut state = self.state();
        state.taken = state.taken.saturating_sub(1);
        let has_turns = !state.turns.is_empty();
        if let Some(line) = state.accounts.get_mut(&account) {
            line.taken = line.taken.saturating_sub(1);
            // Most of the time nobody waits.
            if !has_turns && line.waiting.is_empty() {
                if line.taken == 0 {
                    state.accounts.remove(&account);
                }
                return;
            }
        }
        state.take_turn(account, self.size);
        state.call(self.size);
        state.forget(account);
    }

    /// Returns the number of requests that wait.
    #[cfg(test)]
    fn waiting(&self) -> usize {
        let live = |line: &Line| line.waiting.iter().filter(|place| !place.is_closed()).count();
        self.state().accounts.values().map(live).sum()
    }
}

impl State {
    /// Puts an account at the end of the turns, if it waits and may have another seat.
    fn take_turn(&mut self, account: Account, size: Size) {
        let Some(line) = self.accounts.get_mut(&account) else { return };
        if !line.has_turn && !line.waiting.is_empty() && line.taken < size.seats_of_account {
            line.has_turn = true;
            self.turns.push_back(account);
        }
    }

    /// Gives free seats to those whose turn it is.
    fn call(&mut self, size: Size) {
        while self.taken < size.seats {
            let Some(account) = self.turns.pop_front() else { return };
            let Some(line) = self.accounts.get_mut(&account) else { continue };
            line.has_turn = false;
            // Those that gave up are passed over.
            while let Some(place) = line.waiting.pop_front() {
                if place.send(()).is_ok() {
                    line.taken += 1;
                    self.taken += 1;
                    break;
                }
            }
            self.take_turn(account, size);
            self.forget(account);
        }
    }

    /// Forgets an account that has nothing and waits for nothing.
    fn forget(&mut self, account: Account) {
        let is_idle = |line: &Line| line.taken == 0 && line.waiting.is_empty() && !line.has_turn;
        if self.accounts.get(&account).is_some_and(is_idle) {
            self.accounts.remove(&account);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use policy::User;
    use proptest::prelude::*;

    use super::*;

    type Entering = Pin<Box<dyn Future<Output = Result<Seat, QueueFull>>>>;

    /// A request of an account: waiting, or with a seat.
    enum Request {
        Waiting(Entering),
        Seated(#[expect(dead_code, reason = "held for its drop")] Seat),
    }

    fn poll(entering: &mut Entering) -> Poll<Result<Seat, QueueFull>> {
        entering.as_mut().poll(&mut Context::from_waker(Waker::noop()))
    }

    fn begin(queue: &Arc<FairQueue>, account: Account) -> Result<Request, QueueFull> {
        let queue = Arc::clone(queue);
        let mut entering: Entering = Box::pin(async move { queue.enter(account).await });
        match poll(&mut entering) {
            Poll::Ready(Ok(seat)) => Ok(Request::Seated(seat)),
            Poll::Ready(Err(full)) => Err(full),
            Poll::Pending => Ok(Request::Waiting(entering)),
        }
    }

    /// Lets everybody who was called sit down.
    fn settle(requests: &mut [(Account, Request)]) {
        for (_, request) in requests {
            if let Request::Waiting(entering) = request
                && let Poll::Ready(seat) = poll(entering)
            {
                *request = Request::Seated(seat.unwrap());
            }
        }
    }

    fn account(number: u8) -> Account {
        Account::of_user(&User::new(number.to_string(), [""; 0]))
    }

    proptest! {
        #[test]
        fn seats_are_never_too_many_and_never_free_while_somebody_could_have_them(
            steps in prop::collection::vec((any::<bool>(), 0_u8..5, any::<prop::sample::Index>()), 1..200),
            seats in 1_usize..5,
            seats_of_account in 1_usize..5,
        ) {
            let size = Size { seats, seats_of_account, waiting_of_account: 4 };
            let queue = FairQueue::new(size);
            let mut requests: Vec<(Account, Request)> = Vec::new();
            for (begins, number, index) in steps {
                if begins || requests.is_empty() {
                    let account = account(number);
                    let waiting = |requests: &[(Account, Request)]| {
                        let is_waiting = |of: &&(Account, Request)| of.0 == account && matches!(of.1, Request::Waiting(_));
                        requests.iter().filter(is_waiting).count()
                    };
                    match begin(&queue, account) {
                        Ok(request) => requests.push((account, request)),
                        Err(QueueFull) => prop_assert_eq!(waiting(&requests), size.waiting_of_account),
                    }
                } else {
                    // Ends a request, or gives up waiting.
                    drop(requests.swap_remove(index.index(requests.len())));
                }
                settle(&mut requests);
                let seated = requests.iter().filter(|(_, of)| matches!(of, Request::Seated(_))).count();
                prop_assert!(seated <= seats);
                prop_assert_eq!(queue.waiting(), requests.len() - seated);
                for number in 0..5 {
                    let of = |is: fn(&Request) -> bool| {
                        requests.iter().filter(|(of, request)| *of == account(number) && is(request)).count()
                    };
                    let has = of(|request| matches!(request, Request::Seated(_)));
                    let waits = of(|request| matches!(request, Request::Waiting(_)));
                    prop_assert!(has <= seats_of_account);
                    prop_assert!(waits == 0 || has == seats_of_account || seated == seats, "a seat is free");
                }
            }
            drop(requests);
            prop_assert!(queue.state().accounts.is_empty());
            prop_assert_eq!(queue.state().taken, 0);
        }
    }

    #[test]
    fn whoever_asks_once_is_next_but_one_beside_an_account_that_asks_a_hundred_times() {
        let queue = FairQueue::new(Size { seats: 1, seats_of_account: 1, waiting_of_account: 100 });
        let (greedy, modest) = (account(0), account(1));
        let mut requests: Vec<_> = (0..100).map(|_| (greedy, begin(&queue, greedy).ok().unwrap())).collect();
        requests.push((modest, begin(&queue, modest).ok().unwrap()));
        // At most the one that is seated, and one more of the greedy account, come first.
        let mut ended = 0;
        while !matches!(requests.last(), Some((_, Request::Seated(_)))) {
            let at = requests.iter().position(|(_, of)| matches!(of, Request::Seated(_))).unwrap();
            drop(requests.remove(at));
            settle(&mut requests);
            ended += 1;
        }
        assert!(ended <= 2, "{ended}");
    }
}
