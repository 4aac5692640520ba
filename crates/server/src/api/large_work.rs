//! Work on large objects: a few at a time, taken in turn from each caller, and not on the threads that serve all other
//! requests.
//!
//! Decoding, defaulting, validating and encoding an object of a megabyte takes some ten milliseconds, and many times the
//! memory of its bytes.

use std::pin::pin;
use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::http::account::Account;
use crate::http::body::{Body, Parts};
use crate::http::budget::Charge;
use crate::http::turn::{self, Turns};

/// The size from which an object is large. In bytes.
pub(crate) const LARGE: usize = 64 * 1024;

/// See the module documentation.
pub(crate) struct LargeWork {
    turns: Arc<Turns>,
}

impl Default for LargeWork {
    /// Half of the processors work on large objects.
    fn default() -> Self {
        let seats = available_parallelism().map_or(1, |processors| processors.get().div_ceil(2));
        // Waiting requests are charged to their caller, and so bounded.
        Self { turns: Arc::new(Turns::new(seats)) }
    }
}

impl LargeWork {
    /// Returns whether work on objects of this size, in bytes, is done in turn.
    pub(crate) fn is_large(size: usize) -> bool {
        size >= LARGE
    }

    /// Does the work on objects of this size, in bytes. Large work must not call this again for more large work: there may
    /// be one turn only. It is not dropped before it ends, also when this is.
    pub(crate) async fn run<T>(&self, account: Account, size: usize, work: impl Future<Output = T>) -> T {
        if !Self::is_large(size) {
            return work.await;
        }
        let work = self.turns.enter(account).await.run(work);
        let runtime = Handle::current();
        match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => work.await,
            // The other requests of this thread move to another one.
            _ => block_in_place(|| runtime.block_on(work)),
        }
    }

    /// Does work on a small object, of which only the costly parts are done in turn.
    pub(crate) async fn run_in_parts<T>(&self, account: Account, work: impl Future<Output = T>) -> T {
        turn::in_parts(&self.turns, account, work).await
    }

    /// As [`Self::run`], when the account holds less than it may: for work that makes it hold more.
    pub(crate) async fn run_in_room<T>(
        &self,
        room: &Charge,
        account: Account,
        size: usize,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        loop {
            room.room().await;
            // Others of the account may have had their turn before.
            let doing = async { if room.has_room() { Some(work.as_mut().await) } else { None } };
            if let Some(done) = self.run(account, size, doing).await {
                return done;
            }
        }
    }

    /// Creates the chunks of a body, each when the client has received those before it and its account holds less than it
    /// may. Chunks that take long to create are created in turn.
    pub(crate) fn paced(self: &Arc<Self>, room: Charge, account: Account, parts: Parts) -> Body {
        let state = (Arc::clone(self), room, parts);
        Body::unfold(state, move |(this, room, mut parts)| async move {
            let size = if parts.is_costly() { LARGE } else { 0 };
            let piece = this.run_in_room(&room, account, size, async { parts.next() }).await?;
            Some((piece, (this, room, parts)))
        })
    }
}
