//! Shares the processors between the TLS handshakes of all addresses, and leaves some for everything else.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use crate::http::account::Account;
use crate::http::fair_queue::FairQueue;

/// Runs a future that computes much: it gets a seat for each step, and gives it back while it waits for its peer.
pub(super) async fn paced<F: Future>(
    queue: &Arc<FairQueue>,
    account: Account,
    future: F,
) -> Option<F::Output> {
    let mut future = pin!(future);
    loop {
        let seat = queue.enter(account).await.ok()?;
        let step = poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await;
        drop(seat);
        if let Poll::Ready(output) = step {
            return Some(output);
        }
        woken().await;
    }
}

/// Waits until this task is woken.
async fn woken() {
    let mut is_woken = false;
    poll_fn(|_| match std::mem::replace(&mut is_woken, true) {
        true => Poll::Ready(()),
        false => Poll::Pending,
    })
    .await;
}
