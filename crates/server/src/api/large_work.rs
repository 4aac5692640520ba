//! Work on large objects: a few at a time, taken in turn from each caller, and not on the threads that serve all other
//! requests.
//!
//! Decoding, defaulting, validating and encoding an object of a megabyte takes some ten milliseconds, and many times the
//! memory of its bytes.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::runtime::{Handle, RuntimeFlavor};
use tokio::task::block_in_place;

use crate::http::account::Account;
use crate::http::fair_queue::{FairQueue, QueueFull, Size};

/// The size from which an object is large. In bytes.
const LARGE: usize = 64 * 1024;
/// The number of large objects of one account that can wait.
const WAITING: usize = 100;

/// See the module documentation.
pub(crate) struct LargeWork {
    turns: Arc<FairQueue>,
}

impl Default for LargeWork {
    /// Half of the processors work on large objects.
    fn default() -> Self {
        let seats = available_parallelism().map_or(1, |processors| processors.get().div_ceil(2));
        Self { turns: FairQueue::new(Size { seats, seats_of_account: seats, waiting_of_account: WAITING }) }
    }
}

impl LargeWork {
    /// Does the work on objects of this size, in bytes.
    ///
    /// # Errors
    /// Too much of this account waits already.
    pub(crate) async fn run<T>(
        &self,
        account: Account,
        size: usize,
        work: impl Future<Output = T>,
    ) -> Result<T, QueueFull> {
        let runtime = Handle::current();
        if size < LARGE {
            return Ok(work.await);
        }
        let _turn = self.turns.enter(account).await?;
        Ok(match runtime.runtime_flavor() {
            RuntimeFlavor::CurrentThread => work.await,
            // The other requests of this thread move to another one.
            _ => block_in_place(|| runtime.block_on(work)),
        })
    }
}
