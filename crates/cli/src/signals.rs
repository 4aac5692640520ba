//! Stop signals.

use tokio::signal::unix::{SignalKind, signal};

/// Completes when the process receives a stop signal. If handlers cannot be installed it never completes: signals then
/// end the process at once, which callers must tolerate.
pub(crate) async fn told() {
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        return std::future::pending().await;
    };
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}
